"""Metrics on embeddings of words and sentences."""
