"""Regression heads on the features of a joint encoder: trained on human scores, with references or without."""
