"""The architecture of the made world's CLIP, for the transformers library."""
