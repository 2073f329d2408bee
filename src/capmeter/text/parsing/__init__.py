"""Dependency parses of captions, and lemmas."""
