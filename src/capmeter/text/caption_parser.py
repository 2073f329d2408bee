"""The parser that ships: words, tags, lemmas and dependency trees of captions, without Java and without torch.

It reproduces the parser that SPICE runs (Stanford CoreNLP 3.6.0: the English PCFG, Universal Dependencies version 1),
and was trained on that parser's output for captions of photos that are in no benchmark (`capmeter train parser`). Its
agreement with that parser is reported in `capmeter/weights/parser/README.md`.

Sentences are processed in groups of equal length, so that calls with many captions are fastest. Sentences longer than
`LONGEST` words are split into pieces that are parsed one by one, so that time stays linear in the number of words.

>>> parse = CaptionParser().parse(["Two dogs are running on the beach."])[0]
>>> list(zip(parse.sentences[0].lemmas, parse.sentences[0].heads, parse.sentences[0].labels))[1:4]
[('dog', 4, 'nsubj'), ('be', 4, 'aux'), ('run', 0, 'root')]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from capmeter.checkpoints import load_checkpoint
from capmeter.errors import AssetError
from capmeter.progress import task
from capmeter.text.equal_lengths import equal_lengths
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parser_network import Floats, Integers, NetworkShape, ParserNetwork
from capmeter.text.parser_vocabulary import FIRST_FEATURE, ParserVocabulary
from capmeter.text.parses import CaptionParse, Parse
from capmeter.text.ptb import split_as_written
from capmeter.text.sentence_splitting import split_sentences
from capmeter.text.threads import side_by_side
from capmeter.text.tree_decoding import best_trees

KIND = SHIPPED = "parser"
LONGEST = 80
_WORDS_AT_ONCE = 2048  # with two threads a twentieth faster than 4096
_TOO_FEW = 4  # words, too few to tell the language
_ENGLISH = 0.6  # of an English caption's words nearly all are known, of a German or French one's less than this
_DOUBT = 1.0  # a tag with smaller log odds to the next is in doubt
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "`"})


def _at_once(length: int) -> int:
    return _WORDS_AT_ONCE // length


class CaptionParser:
    """Parses captions.

    Args:
        checkpoint: the name of a shipped or installed checkpoint, or its folder (`capmeter.checkpoints`).

    Raises:
        AssetError: there is no such checkpoint, it is damaged, or it is not a parser's.
        MissingBackend: safetensors is not installed.
    """

    batch: int = 4096  # enough captions for large groups of one length

    def __init__(self, checkpoint: str | Path = SHIPPED) -> None:
        found = load_checkpoint(str(checkpoint), KIND)
        parameters = found.parameters
        try:
            features = {name: number for number, name in enumerate(found.vocabulary, start=FIRST_FEATURE)}
            self.vocabulary = ParserVocabulary(features, parameters["tags"], parameters["labels"])
            self.lemmas = LemmaRules(**parameters["lemmas"])
            self.network = ParserNetwork(found.weights, NetworkShape(**parameters["shape"]))
            self._root = self.vocabulary.labels.index("root")
        except (KeyError, TypeError, ValueError) as error:
            raise AssetError(
                f"parser {checkpoint}: its parameters are not those of a parser ({error!r}); train it again"
            ) from error
        self.version = f"caption-{found.label}"

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption; one without a token has no sentence. Never None: no caption takes too long."""
        sentences: list[list[str]] = []
        counts: list[int] = []
        for caption in captions:
            pieces = [piece for sentence in split_sentences(_tokens(caption)) for piece in _pieces(sentence)]
            sentences += pieces
            counts.append(len(pieces))
        parses = self.parse_sentences(sentences)
        found: list[CaptionParse | None] = []
        start = 0
        for count in counts:
            found.append(CaptionParse(tuple(parses[start : start + count])))
            start += count
        return found

    def parse_sentences(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The parse of each sentence, given as tokens with case; none may be empty."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        rows = [[numbers[word] for word in sentence] for sentence in sentences]
        vectors = self.network.vectors(self.vocabulary.rows(list(numbers)))

        def parsed(places: Sequence[int]) -> list[Parse]:
            words = np.array([rows[place] for place in places], np.int64)
            found = zip(places, *(table.tolist() for table in self._analyse(words, vectors)), strict=True)
            return [self._parse(sentences[place], tags, heads, labels) for place, tags, heads, labels in found]

        groups = equal_lengths(rows, _at_once)
        parses: list[Parse | None] = [None] * len(sentences)
        with task("caption parser", total=len(sentences)) as advance:
            for places, made in zip(groups, side_by_side(parsed, groups), strict=True):
                for place, parse in zip(places, made, strict=True):
                    parses[place] = parse
                advance(len(places))
        return [parse for parse in parses if parse is not None]

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        """The part-of-speech tags of each sentence, given as tokens; no trees are built, which is several times faster.

        Words whose tag is in doubt are not decided by the tree, so that a few tags differ from those of `parse`.
        """
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        rows = [[numbers[word] for word in sentence] for sentence in sentences]
        vectors = self.network.vectors(self.vocabulary.rows(list(numbers)))
        known = self.vocabulary.tags
        found: list[tuple[str, ...]] = [()] * len(rows)
        for places in equal_lengths(rows, _at_once):
            _, scores = self.network.read_words(np.array([rows[place] for place in places], np.int64), vectors)
            for place, tags in zip(places, scores.argmax(axis=2).tolist(), strict=True):
                found[place] = tuple([known[tag] for tag in tags])
        return found

    def _analyse(self, words: Integers, vectors: tuple[Floats, Floats]) -> tuple[Integers, Integers, Integers]:
        """Tags, heads and labels of sentences of one length, as numbers.

        If a tag is in doubt, the sentence is parsed once more with the second likeliest tag of its most doubtful word,
        and the likelier of the two analyses is kept: p(tags) p(heads | tags) p(labels | heads, tags).
        """
        states, scores = self.network.read_words(words, vectors)
        tags: Integers = scores.argmax(axis=2)
        best = np.take_along_axis(scores, tags[:, :, None], axis=2)
        others = scores.copy()
        np.put_along_axis(others, tags[:, :, None], -np.inf, axis=2)
        lead = best[:, :, 0] - others.max(axis=2)
        first = self._tree(states, tags)
        again = np.flatnonzero(lead.min(axis=1) < _DOUBT)
        if again.size:
            word = lead[again].argmin(axis=1)
            other_tags = tags[again]
            other_tags[np.arange(len(again)), word] = others[again, word].argmax(axis=1)
            second = self._tree(states[again], other_tags)
            gain = second.likelihood() - first.take(again).likelihood() - lead[again, word]
            better = gain > 0
            first.put(again[better], second.take(np.flatnonzero(better)))
        return first.tags, first.heads, first.labels

    def _tree(self, states: Floats, tags: Integers) -> _Trees:
        """The trees of sentences with known tags."""
        states = self.network.read_tagged(states, tags)
        governors = self.network.governors(states)
        heads = best_trees(governors)
        relations = self.network.relations(states, heads)
        relations[:, :, self._root] = -np.inf  # the root alone is the root
        labels: Integers = relations.argmax(axis=2)
        labels[heads == 0] = self._root
        return _Trees(tags, heads, labels, governors, relations)

    def _parse(self, words: Sequence[str], tags: list[int], heads: list[int], labels: list[int]) -> Parse:
        known_tags, known_labels, lemma = self.vocabulary.tags, self.vocabulary.labels, self.lemmas.lemma
        named = tuple([known_tags[tag] for tag in tags])
        return Parse(
            words=tuple(words),
            tags=named,
            lemmas=tuple(map(lemma, words, named)),
            heads=tuple(heads),
            labels=tuple([known_labels[label] for label in labels]),
        )

    def knows(self, words: Iterable[str]) -> bool:
        """Whether these look English: the parser knows most of the words, or there are too few to tell."""
        spelled = [word for word in words if any(map(str.isalpha, word))]
        return len(spelled) < _TOO_FEW or sum(map(self.vocabulary.knows, spelled)) >= _ENGLISH * len(spelled)


@lru_cache(maxsize=1)
def shipped_parser() -> CaptionParser:
    """The shipped parser, loaded once."""
    return CaptionParser()


@dataclass(frozen=True, eq=False)
class _Trees:
    """The analyses of sentences of one length, and the scores [sentences, n, …] of governors and of relations."""

    tags: Integers
    heads: Integers
    labels: Integers
    governors: Floats
    relations: Floats

    def take(self, rows: Integers) -> _Trees:
        return _Trees(self.tags[rows], self.heads[rows], self.labels[rows], self.governors[rows], self.relations[rows])

    def put(self, rows: Integers, others: _Trees) -> None:
        self.tags[rows], self.heads[rows], self.labels[rows] = others.tags, others.heads, others.labels

    def likelihood(self) -> Floats:
        """log p(heads | tags) + log p(labels | heads, tags) of each sentence."""
        heads = _log_softmax(self.governors)
        arcs = np.take_along_axis(heads, self.heads[:, :, None], axis=2)[:, :, 0]
        named = np.where(self.heads == 0, np.float32(0), _log_softmax(self.relations).max(axis=2))
        likelihood: Floats = (arcs + named).sum(axis=1)
        return likelihood


def _log_softmax(scores: Floats) -> Floats:
    shifted: Floats = scores - scores.max(axis=2, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=2, keepdims=True))
    return shifted


def _tokens(caption: str) -> list[str]:
    """The tokens; curly apostrophes inside words are straight, as CoreNLP 3.6 writes them."""
    tokens = split_as_written(caption)
    if "\u2019" in caption or "\u2018" in caption:
        return [token.translate(_APOSTROPHES) for token in tokens]
    return tokens


def _pieces(sentence: list[str]) -> list[list[str]]:
    """The sentence, split into pieces of nearly equal length if it is longer than `LONGEST`."""
    count = -(-len(sentence) // LONGEST)
    edges = [len(sentence) * k // count for k in range(count + 1)]
    return [sentence[start:end] for start, end in pairwise(edges)]
