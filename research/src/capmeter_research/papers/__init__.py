"""The papers: of each its metrics, features, networks, training, experiments, published values and weights."""
