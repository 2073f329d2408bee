"""Experiments of papers, each beside its published values."""
