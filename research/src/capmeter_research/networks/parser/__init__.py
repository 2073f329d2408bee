"""Training of the caption parser (`capmeter train parser`)."""
