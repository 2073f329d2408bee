"""Diversity of several captions of one image."""
