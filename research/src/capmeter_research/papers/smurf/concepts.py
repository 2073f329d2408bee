"""Concepts of captions: the stems of their content words.

>>> extract_concepts("Two dogs are riding on a motorcycle.")
['two', 'dog', 'ride', 'motorcycl']

As in the code that Feinglass and Yang released with SMURF (2021), a caption is lower-cased and all full stops are
removed; it is tokenised like NLTK's `word_tokenize`; stop words are removed, and so is every token that contains an
ASCII punctuation mark (`two-wheeled`, `'s`, `n't`); the rest are stemmed by Porter's algorithm in NLTK's mode. NLTK
itself is not needed. Differences: docs/parity.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capmeter.core.ragged import Ragged
from capmeter.text.concepts import token_concept
from capmeter.text.tokenization.token_tables import SentenceSource
from capmeter.text.tokenization.treebank import tokenise_words

# for signatures
CONCEPT_SETTINGS = {"tokenizer": "treebank-nltk3.5", "stemmer": "porter-nltk", "stopwords": "nltk-179"}


def normalise_caption(sentence: str) -> str:
    """Lower-cases a sentence and removes full stops and trailing white space, as in SMURF's code.

    >>> normalise_caption("A dog runs . ")
    'a dog runs'
    """
    return sentence.lower().rstrip().replace(" .", "").replace(".", "")


def extract_concepts(sentence: str) -> list[str]:
    """Extracts the concepts of a sentence.

    Args:
        sentence: any text.

    Returns:
        Its concepts in order, with repetitions.
    """
    concepts = map(token_concept, tokenise_words(normalise_caption(sentence)))
    return [concept for concept in concepts if concept is not None]


@dataclass(frozen=True, eq=False)
class ConceptTable:
    """The distinct concepts of each sentence: row i of `concepts` has ascending indices into `vocabulary`."""

    vocabulary: tuple[str, ...]
    concepts: Ragged

    def __len__(self) -> int:
        return len(self.concepts)


@dataclass(frozen=True)
class Concepts:
    """Analysis: the distinct concepts of each sentence."""

    def compute(self, pool: SentenceSource) -> ConceptTable:
        """Extracts the concepts of every sentence of the pool."""
        concept_ids: dict[str, int] = {}
        concept_rows = [
            sorted({concept_ids.setdefault(concept, len(concept_ids)) for concept in extract_concepts(sentence)})
            for sentence in pool.sentences
        ]
        return ConceptTable(tuple(concept_ids), Ragged.from_rows(concept_rows, np.int32))
