"""Synthetic scenes: rendered pictures with known content, and the networks trained on them."""
