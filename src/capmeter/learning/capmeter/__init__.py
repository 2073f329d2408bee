"""Training of the metric `capmeter`: captions made wrong in known ways, and captions of more and less similar photos."""
