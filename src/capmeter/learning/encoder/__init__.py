"""Training of an adaptation of a sentence encoder to captions."""
