"""The architecture of the CLIP of synthetic scenes, for the transformers library."""
