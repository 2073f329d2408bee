"""How UMIC is trained: examples, the network in training, the run, and its evaluation."""
