"""LCEval and NNEval: features, network, metrics."""
