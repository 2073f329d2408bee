"""The caption writer: a small Transformer that reads captions of a photo and writes another, as a machine would."""
