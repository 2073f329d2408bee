"""Training of regression heads on any rows with human scores."""
