"""Captions made different in a named, seeded way: controlled degradations and negatives are one idea."""
