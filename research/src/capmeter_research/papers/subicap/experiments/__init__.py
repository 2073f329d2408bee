"""The experiments of SubICap (Sharif et al. 2021)."""
