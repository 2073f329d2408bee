"""Training of the reader of the made world."""
