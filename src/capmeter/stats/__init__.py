"""Statistics on plain numbers: correlation, bootstrap, permutation. Nothing here knows about captions."""
