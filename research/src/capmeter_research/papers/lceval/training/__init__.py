"""Training of LCEval and NNEval: examples, features, networks (`capmeter train lceval`)."""
