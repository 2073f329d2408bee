"""The maker of faithful scene graphs that ships: facts of captions, without torch and without trees.

It was trained on the scene graphs that people wrote for captions of image regions (FACTUAL, Li et al. 2023;
`capmeter train factual`). How often it writes the same graph: `capmeter/weights/factual/README.md`.

Sentences are processed in groups of equal length, so that calls with many captions are fastest. Those
with more than `LONGEST` words are read in parts, so that time stays linear in the number of words.

>>> sorted(FactMaker().facts(["two dogs chasing a red ball"])[0])
[('ball', 'is', 'red'), ('dogs', 'chase', 'ball'), ('dogs', 'is', '2')]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from capmeter.checkpoints import load_checkpoint
from capmeter.errors import AssetError
from capmeter.progress import task
from capmeter.text.caption_parser import shipped_parser
from capmeter.text.equal_lengths import equal_lengths
from capmeter.text.fact_network import FactNetwork, WriterShape
from capmeter.text.fact_pieces import WordPieces
from capmeter.text.fact_reader import ReaderShape
from capmeter.text.fact_spelling import Spelling
from capmeter.text.fact_vocabulary import FactVocabulary
from capmeter.text.facts import Fact, read_facts, without_mentions
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parser_network import Floats
from capmeter.text.ptb import split_as_written
from capmeter.text.sentence_splitting import split_sentences
from capmeter.text.threads import side_by_side

KIND = SHIPPED = "factual"
LONGEST = 40
_TOKENS_PER_WORD, _MORE_TOKENS = 4, 12  # what is written at most
_SENTENCES_AT_ONCE = 192
_VERB_TAG = "VBG"
_SEVERAL = frozenset(  # words by which there may be more than one of what has one name
    "other others another together each both next side one ones two three four 2 3 4 "  # noqa: SIM905
    "himself herself itself themselves".split()
)


def caption_words(caption: str) -> list[str]:
    """The words of a caption as the graph maker reads them: Penn Treebank tokens in lower case."""
    return [token.lower() for token in split_as_written(caption)]


def verb_lemmas(words: Sequence[str], lemmas: LemmaRules) -> list[str]:
    """The base forms of words as if they were verbs."""
    return [lemmas.lemma(word, _VERB_TAG) for word in words]


def named_once(words: Sequence[str]) -> list[str]:
    """Words that name one thing, which no fact relates to itself: those that a sentence has once.

    >>> named_once("a cat on a mat".split()), named_once("two cats next to each other".split())
    (['cat', 'on', 'mat'], [])
    """
    return [] if _SEVERAL.intersection(words) else [word for word, count in Counter(words).items() if count == 1]


class FactMaker:
    """Writes the facts of captions.

    Args:
        checkpoint: the name of a shipped or installed checkpoint, or its folder (`capmeter.checkpoints`).

    Raises:
        AssetError: there is no such checkpoint, it is damaged, or of another kind.
        MissingBackend: safetensors is not installed.
    """

    batch: int = 2048  # enough captions for large groups of one length

    def __init__(self, checkpoint: str | Path = SHIPPED) -> None:
        found = load_checkpoint(str(checkpoint), KIND)
        try:
            self.pieces = WordPieces(found.vocabulary)
            self.spelling = Spelling(found.parameters["frequent"], found.parameters["known"])
            self.vocabulary = FactVocabulary(found.parameters["tokens"])
            self.lemmas = LemmaRules(**found.parameters["lemmas"])
            reader, writer = ReaderShape(**found.parameters["reader"]), WriterShape(**found.parameters["writer"])
            before = self.vocabulary.before_objects
            self.network = FactNetwork(found.weights, reader, writer, found.parameters["writers"], before)
        except (KeyError, TypeError, ValueError) as error:
            raise AssetError(
                f"graph maker {checkpoint}: its parameters are not those of a graph maker ({error!r}); train it again"
            ) from error
        self.version = found.label

    def facts(self, captions: Sequence[str]) -> list[list[Fact]]:
        """The facts of each caption, each once, sentence by sentence; none for a caption without words."""
        parts: list[list[str]] = []
        counts = []
        for caption in captions:
            words = self.spelling.corrected(caption_words(caption))
            made = [part for sentence in split_sentences(words) for part in _parts(sentence)]
            parts += made
            counts.append(len(made))
        found = self._facts_of(parts)
        ends = np.cumsum([0, *counts]).tolist()
        return [without_mentions(fact for each in found[a:b] for fact in each) for a, b in pairwise(ends)]

    def knows(self, caption: str) -> bool:
        """Whether a caption looks English, as the caption parser judges."""
        return shipped_parser().knows(caption_words(caption))

    def _facts_of(self, parts: Sequence[Sequence[str]]) -> list[list[Fact]]:
        """The facts of sentences, none of them empty or longer than `LONGEST`."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        words = [[numbers[word] for word in part] for part in parts]
        vectors = self.network.reader.vectors(self.pieces.rows(list(numbers)))

        def facts_of(places: list[int]) -> list[list[Fact]]:
            read = self.network.read(np.array([words[place] for place in places], np.int64), vectors)
            return self._written([parts[place] for place in places], read)

        groups = equal_lengths(parts, lambda _: _SENTENCES_AT_ONCE)
        found: list[list[Fact]] = [[] for _ in parts]
        with task("scene graphs", total=len(parts)) as advance:
            for places, made in zip(groups, side_by_side(facts_of, groups), strict=True):
                for place, facts in zip(places, made, strict=True):
                    found[place] = facts
                advance(len(places))
        return found

    def _written(self, sentences: Sequence[Sequence[str]], read: Floats) -> list[list[Fact]]:
        """The facts of sentences of one length, from what was read of them."""
        known = [self.vocabulary.sentence(words, verb_lemmas(words, self.lemmas)) for words in sentences]
        copied = np.array([sentence.numbers for sentence in known], np.int64)
        single = [
            set(self.vocabulary.numbers(named_once(words), each)) for words, each in zip(sentences, known, strict=True)
        ]
        made = self.network.write(read, copied, _TOKENS_PER_WORD * read.shape[1] + _MORE_TOKENS, single)
        return [
            read_facts(self.vocabulary.texts(tokens, sentence)) for tokens, sentence in zip(made, known, strict=True)
        ]


def _parts(words: list[str]) -> list[list[str]]:
    """The sentence, in parts of nearly equal length if it is longer than `LONGEST`."""
    count = -(-len(words) // LONGEST)
    return [words[start:end] for start, end in pairwise([len(words) * k // count for k in range(count + 1)])]


@lru_cache(maxsize=1)
def shipped_maker() -> FactMaker:
    """The shipped graph maker, loaded once."""
    return FactMaker()
