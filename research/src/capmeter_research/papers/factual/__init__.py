"""Soft-SPICE (Li et al. 2023)."""
