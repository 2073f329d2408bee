"""Training of the metric `capmeter`: captions made wrong in known ways, and captions of similar photos."""
