"""Metrics on n-grams and aligned words."""
