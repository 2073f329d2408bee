"""Soft pairwise accuracy: how WMT judges metrics by their rankings of systems."""
