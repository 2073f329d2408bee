"""How metrics are run: base classes, runner, executors, scores, results files."""
