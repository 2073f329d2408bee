"""Official programs, run for comparison."""
