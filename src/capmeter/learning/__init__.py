"""How a learned metric is trained."""
