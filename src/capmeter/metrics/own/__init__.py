"""The metric `capmeter`: correctness, coverage and fluency of a caption, from word pieces matched with references."""
