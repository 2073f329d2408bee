"""One file per metric; the base that writes what they share once; the registry of their names."""
