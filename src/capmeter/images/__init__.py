"""Analyses of a single image: its pixels, features and regions."""
