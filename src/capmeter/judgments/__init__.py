"""Human judgments of captions: readers of benchmarks' files, and the protocols that turn rows into judgments."""
