"""What the numbers mean, shown: tables, plots, explanations, one page."""
