"""The experiments of LCEval (Sharif et al. 2019)."""
