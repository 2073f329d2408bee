"""Training of the networks that the library ships."""
