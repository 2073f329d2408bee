"""Metrics on scene graphs."""
