"""What is known of one sentence without a model: tokens, n-grams, stems, synonyms, word vectors."""

from capmeter.text import ptb as ptb
