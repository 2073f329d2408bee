"""A Transformer encoder-decoder, and decoding of captions from it."""
