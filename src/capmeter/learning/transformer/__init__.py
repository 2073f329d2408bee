"""Layers of Transformers that write captions, and how captions are decoded from them."""
