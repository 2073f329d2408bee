"""The module that `evaluate.load("USER/caption_scores")` loads."""

from capmeter.integrations.evaluate import CaptionScores

__all__ = ["CaptionScores"]
