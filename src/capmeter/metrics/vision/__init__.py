"""Metrics on images or their regions."""
