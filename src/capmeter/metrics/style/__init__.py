"""Metrics on concepts, typicality and grammar."""
