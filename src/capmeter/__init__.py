"""capmeter measures image captions."""

__version__ = "0.1.0"
