"""Tokenizers, stemmers, stop words and sentence splitting."""
