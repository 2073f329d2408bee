"""What the numbers mean: tables, plots, explanations, the page."""
