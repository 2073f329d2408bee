"""METEOR's alignment: normalisation, stems, synonyms, paraphrases, beam search."""
