"""Analyses of a single sentence: tokens, n-grams, stems, synonyms, word vectors."""

from capmeter.text import ptb as ptb
