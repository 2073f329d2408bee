"""The detector of fluency errors: captions with errors made in them, and its training."""
