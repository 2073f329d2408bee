"""Training of the metric `capmeter`, on perturbed captions and captions of similar photos."""
