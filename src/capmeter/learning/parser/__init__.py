"""How the caption parser is trained: examples, network, loop, files, evaluation (`capmeter train parser`)."""
