"""How good is a metric? Benchmarks, protocols, agreement with people, robustness."""
