"""The error analysis of UMIC (Lee et al. 2021)."""
