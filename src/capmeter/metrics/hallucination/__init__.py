"""Metrics of hallucination: what a caption mentions that its image does not show. Lower is better."""
