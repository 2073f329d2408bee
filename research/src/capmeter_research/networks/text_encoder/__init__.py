"""Training of a low-rank adapter of a sentence encoder on captions."""
