"""How the critic of LEIC is trained: examples, negatives, the network, a run, and the judging of submissions."""
