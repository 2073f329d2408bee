"""The version of capmeter."""

__version__ = "0.1.0"
