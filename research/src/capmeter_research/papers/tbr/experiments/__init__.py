"""The ablation of TBR (Yi et al. 2020)."""
