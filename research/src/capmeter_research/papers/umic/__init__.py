"""UMIC (Lee et al. 2021), and metrics on the regions of pictures."""
