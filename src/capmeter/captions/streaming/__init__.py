"""Captions read as a stream, in bounded memory."""
