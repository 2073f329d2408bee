"""BLIP's image-text matching (Li et al. 2022)."""
