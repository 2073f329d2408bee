"""Encoders of image regions and sentences (UNITER)."""
