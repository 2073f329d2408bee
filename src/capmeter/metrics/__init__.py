"""One file per metric, their common base classes, and the registry of their names."""
