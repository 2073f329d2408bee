"""Statistics on plain numbers: correlation, bootstrap, permutation. Independent of captions and metrics."""
