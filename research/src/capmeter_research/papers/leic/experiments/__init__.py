"""The experiments of LEIC (Cui et al. 2018)."""
