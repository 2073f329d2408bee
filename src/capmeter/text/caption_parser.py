"""The parser that ships: words, tags, lemmas and dependency trees of captions, without Java and without torch.

It imitates the parser that SPICE runs (Stanford CoreNLP 3.6.0: the English PCFG, Universal Dependencies version 1), and
was trained on that parser's output for captions of photos that are in no benchmark (`capmeter train parser`). How near
it comes is said in its card, `capmeter/weights/parser/card.md`.

Sentences are read in groups of one length, so that a call with many captions is the fastest. What is longer than
`LONGEST` words is cut into pieces that are parsed one by one: time grows with the number of words, not faster.

>>> parse = CaptionParser().parse(["Two dogs are running on the beach."])[0]
>>> list(zip(parse.sentences[0].lemmas, parse.sentences[0].heads, parse.sentences[0].labels))[1:4]
[('dog', 4, 'nsubj'), ('be', 4, 'aux'), ('run', 0, 'root')]
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.errors import AssetError
from capmeter.progress import task
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parser_network import Floats, Integers, NetworkShape, ParserNetwork
from capmeter.text.parser_vocabulary import ParserVocabulary
from capmeter.text.parses import CaptionParse, Parse
from capmeter.text.ptb import split_as_written
from capmeter.text.sentence_splitting import split_sentences
from capmeter.text.tree_decoding import best_trees

LONGEST = 80
WEIGHTS, SETTINGS = "parser.safetensors", "parser.json"
_WORDS_AT_ONCE = 4096
_DOUBT = 1.0  # a tag whose log odds to the next are smaller is in doubt
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "`"})


class CaptionParser:
    """Parses captions.

    Args:
        folder: of `parser.safetensors` and `parser.json`; what ships with capmeter where None.

    Raises:
        AssetError: a file is missing or damaged, or the two do not belong together.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(str(resources.files("capmeter") / "weights" / "parser")) if folder is None else Path(folder)
        self._settings = _settings(self.folder / SETTINGS)
        self.vocabulary = ParserVocabulary(
            {name: number for number, name in enumerate(self._settings["features"], start=2)},
            self._settings["tags"],
            self._settings["labels"],
        )
        self.lemmas = LemmaRules(self._settings["lemmas"]["endings"], self._settings["lemmas"]["table"])
        self._root = self.vocabulary.labels.index("root")

    @property
    def version(self) -> str:
        """The parser's name and the beginning of its weights' SHA-256: what a signature says."""
        return f"caption-{self._settings['sha256'][:12]}"

    @cached_property
    def network(self) -> ParserNetwork:
        """The weights, read and checked at first use."""
        from safetensors.numpy import load

        path = self.folder / WEIGHTS
        try:
            blob = path.read_bytes()
        except OSError as error:
            raise AssetError(f"caption parser: cannot read {path}: {error}; install capmeter anew") from error
        found = hashlib.sha256(blob).hexdigest()
        if found != self._settings["sha256"]:
            raise AssetError(
                f"caption parser: {path} has the SHA-256 {found[:12]}…, expected {self._settings['sha256'][:12]}…; "
                "it is damaged or of another version: install capmeter anew"
            )
        return ParserNetwork(load(blob), NetworkShape(**self._settings["shape"]))

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption; one without a token has no sentence. Never None: nothing takes too long."""
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
        """The parse of each sentence, given as tokens, case kept; none may be empty."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for place, sentence in enumerate(sentences):
            by_length[len(sentence)].append(place)
        words = [
            np.array([[numbers[word] for word in sentences[k]] for k in by_length[n]], np.int64) for n in by_length
        ]
        vectors = self.network.vectors(self.vocabulary.rows(list(numbers)))
        parses: list[Parse | None] = [None] * len(sentences)
        with task("caption parser", total=len(sentences)) as advance:
            for places, table in zip(by_length.values(), words, strict=True):
                batch = max(1, _WORDS_AT_ONCE // table.shape[1])
                for start in range(0, len(places), batch):
                    chosen = places[start : start + batch]
                    tags, heads, labels = self._analyse(table[start : start + batch], vectors)
                    rows = zip(tags.tolist(), heads.tolist(), labels.tolist(), strict=True)
                    for place, (tag_row, head_row, label_row) in zip(chosen, rows, strict=True):
                        parses[place] = self._parse(sentences[place], tag_row, head_row, label_row)
                    advance(len(chosen))
        return [parse for parse in parses if parse is not None]

    def _analyse(self, words: Integers, vectors: tuple[Floats, Floats]) -> tuple[Integers, Integers, Integers]:
        """Tags, heads and labels of sentences of one length, as numbers.

        Where a tag is in doubt, the sentence is read once more with the second likeliest tag of its most doubtful word,
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
        """The trees of sentences whose tags are decided."""
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

    def knows(self, caption: str) -> bool:
        """Whether most words of a caption are English as the parser learned it; it parses the others as well it can."""
        words = [token for token in _tokens(caption) if any(map(str.isalpha, token))]
        return len(words) < 3 or 2 * sum(map(self.vocabulary.knows, words)) >= len(words)


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
    """The sentence, cut into pieces of nearly equal length where it is longer than `LONGEST`."""
    count = -(-len(sentence) // LONGEST)
    edges = [len(sentence) * k // count for k in range(count + 1)]
    return [sentence[start:end] for start, end in pairwise(edges)]


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssetError(f"caption parser: cannot read {path}: {error}; install capmeter anew") from error
    expected = {"sha256", "shape", "features", "tags", "labels", "lemmas"}
    if not isinstance(settings, dict) or not expected <= settings.keys():
        raise AssetError(f"caption parser: {path} does not hold {', '.join(sorted(expected))}; install capmeter anew")
    return settings
