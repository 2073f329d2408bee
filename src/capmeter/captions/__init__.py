"""Captions and where they come from: the set, its sentence pool, readers and writers."""
