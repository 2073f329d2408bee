"""Static word vectors."""
