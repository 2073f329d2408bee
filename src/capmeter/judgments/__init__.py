"""What people said of captions: benchmarks' files and rows, and the protocols that make them judgments."""
