"""AMBER (Wang et al. 2023): objects that descriptions of its images invent."""
