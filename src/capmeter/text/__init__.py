"""Analyses of a single sentence: tokens, n-grams, stems, synonyms, word vectors."""

from capmeter.text.tokenization import ptb as ptb
