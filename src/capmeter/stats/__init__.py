"""Numbers in, numbers out: correlation, bootstrap, permutation. Knows no caption."""
