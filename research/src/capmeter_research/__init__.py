"""Training recipes of capmeter's learned metrics, synthetic scenes, and reproductions of papers."""
