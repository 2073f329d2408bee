"""Training of learned metrics."""
