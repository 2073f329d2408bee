"""The bundled parser: words, tags, lemmas and dependency trees of captions, without Java and without torch.

It imitates the parser that SPICE runs (Stanford CoreNLP 3.6.0: the English PCFG, Universal Dependencies version 1). It
was trained on that parser's output for captions of photos that are in no benchmark (`capmeter train parser`); the model
card, `capmeter/data/weights/parser/README.md`, reports its agreement with that parser.

Sentences are processed in batches of equal length, so that calls with many captions are fastest. Sentences longer than
`MAX_WORDS` words are split into pieces that are parsed one by one, so that time stays linear in the number of words.

>>> parse = CaptionParser().parse(["Two dogs are running on the beach."])[0]
>>> list(zip(parse.sentences[0].lemmas, parse.sentences[0].heads, parse.sentences[0].labels))[1:4]
[('dog', 4, 'nsubj'), ('be', 4, 'aux'), ('run', 0, 'root')]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter.text.parsing.network import ParserNetwork, ParserShape
from capmeter.text.parsing.numpy_layers import Floats, Integers
from capmeter.text.parsing.parallel_batches import group_by_length, index_words, map_batches, split_long_sentence
from capmeter.text.parsing.parser_vocabulary import FIRST_FEATURE_ID, ParserVocabulary
from capmeter.text.parsing.tree_decoding import best_trees
from capmeter.text.tokenization.ptb import split_as_written
from capmeter.text.tokenization.sentence_splitting import split_sentences

KIND = BUNDLED = "parser"
MAX_WORDS = 80
_BATCH_WORDS = 2048  # with two threads a twentieth faster than 4096
_MIN_WORDS = 4  # fewer words do not identify a language
_ENGLISH = 0.6  # nearly all words of an English caption are in the vocabulary, fewer of a German or French one
_AMBIGUOUS = 1.0  # a tag whose log odds to the next are smaller is ambiguous
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "`"})


def _batch_size(length: int) -> int:
    return _BATCH_WORDS // length


class CaptionParser:
    """Parses captions.

    Args:
        checkpoint: the name of a bundled or installed checkpoint, or its folder (`capmeter.core.checkpoints`).

    Raises:
        AssetError: there is no such checkpoint, it is damaged, or it is not a parser's.
        MissingBackend: safetensors is not installed.
    """

    batch: int = 4096  # enough captions for large batches of one length

    def __init__(self, checkpoint: str | Path = BUNDLED) -> None:
        loaded = load_checkpoint(str(checkpoint), KIND)
        parameters = loaded.parameters
        with rebuilding("a caption parser", checkpoint):
            feature_ids = {name: number for number, name in enumerate(loaded.vocabulary, start=FIRST_FEATURE_ID)}
            self.vocabulary = ParserVocabulary(feature_ids, parameters["tags"], parameters["labels"])
            self.lemmas = LemmaRules(**parameters["lemmas"])
            self.network = ParserNetwork(loaded.weights, ParserShape(**parameters["shape"]))
            self._root = self.vocabulary.labels.index("root")
        self.version = f"caption-{loaded.label}"

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """Parses captions.

        Returns:
            The parse of each caption, without sentences if it has no token; never None, since none takes too long.
        """
        sentences: list[list[str]] = []
        counts: list[int] = []
        for caption in captions:
            pieces = [
                piece
                for sentence in split_sentences(_tokenise(caption))
                for piece in split_long_sentence(sentence, MAX_WORDS)
            ]
            sentences += pieces
            counts.append(len(pieces))
        parses = iter(self.parse_sentences(sentences))
        return [CaptionParse(tuple(next(parses) for _ in range(count))) for count in counts]

    def parse_sentences(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """Parses sentences, given as tokens with case; none may be empty."""
        rows, words = index_words(sentences)
        embedded = self.network.embed_words(self.vocabulary.rows(words))

        def parse_batch(indices: list[int]) -> list[Parse]:
            tables = self._analyse(np.array([rows[k] for k in indices], np.int64), embedded)
            analyses = zip(indices, *(table.tolist() for table in tables), strict=True)
            return [self._build_parse(sentences[k], tags, heads, labels) for k, tags, heads, labels in analyses]

        return map_batches(parse_batch, rows, _batch_size, "caption parser")

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        """Tags sentences with parts of speech, without building trees, which is several times faster.

        Ambiguous tags are not decided by the tree, so that a few tags differ from those of `parse`.

        Args:
            sentences: given as tokens with case.

        Returns:
            The Penn Treebank tags of each sentence.
        """
        rows, words = index_words(sentences)
        embedded = self.network.embed_words(self.vocabulary.rows(words))
        tag_names = self.vocabulary.tags
        sentence_tags: list[tuple[str, ...]] = [()] * len(rows)
        for indices in group_by_length(rows, _batch_size):
            _, scores = self.network.read_words(np.array([rows[k] for k in indices], np.int64), embedded)
            for k, tags in zip(indices, scores.argmax(axis=2).tolist(), strict=True):
                sentence_tags[k] = tuple([tag_names[tag] for tag in tags])
        return sentence_tags

    def _analyse(self, words: Integers, embedded: tuple[Floats, Floats]) -> tuple[Integers, Integers, Integers]:
        """Predicts tags, heads and labels (sentences, n) of sentences of one length.

        If a tag is ambiguous, the sentence is parsed once more with the second best tag of its most ambiguous word; the
        more probable of the two analyses wins: p(tags) p(heads | tags) p(labels | heads, tags).
        """
        states, scores = self.network.read_words(words, embedded)
        tags: Integers = scores.argmax(axis=2)
        best = np.take_along_axis(scores, tags[:, :, None], axis=2)
        others = scores.copy()
        np.put_along_axis(others, tags[:, :, None], -np.inf, axis=2)
        margin = best[:, :, 0] - others.max(axis=2)
        first = self._build_trees(states, tags)
        ambiguous = np.flatnonzero(margin.min(axis=1) < _AMBIGUOUS)
        if ambiguous.size:
            word = margin[ambiguous].argmin(axis=1)
            other_tags = tags[ambiguous]
            other_tags[np.arange(len(ambiguous)), word] = others[ambiguous, word].argmax(axis=1)
            second = self._build_trees(states[ambiguous], other_tags)
            gain = second.log_likelihood() - first.take(ambiguous).log_likelihood() - margin[ambiguous, word]
            better = gain > 0
            first.put(ambiguous[better], second.take(np.flatnonzero(better)))
        return first.tags, first.heads, first.labels

    def _build_trees(self, states: Floats, tags: Integers) -> _Trees:
        states = self.network.read_tagged(states, tags)
        governor_scores = self.network.score_governors(states)
        heads = best_trees(governor_scores)
        relation_scores = self.network.score_relations(states, heads)
        relation_scores[:, :, self._root] = -np.inf  # the root alone is the root
        labels: Integers = relation_scores.argmax(axis=2)
        labels[heads == 0] = self._root
        return _Trees(tags, heads, labels, governor_scores, relation_scores)

    def _build_parse(self, words: Sequence[str], tag_ids: list[int], heads: list[int], label_ids: list[int]) -> Parse:
        tag_names, label_names, lemma = self.vocabulary.tags, self.vocabulary.labels, self.lemmas.lemma
        tags = tuple([tag_names[tag] for tag in tag_ids])
        return Parse(
            words=tuple(words),
            tags=tags,
            lemmas=tuple(map(lemma, words, tags)),
            heads=tuple(heads),
            labels=tuple([label_names[label] for label in label_ids]),
        )

    def looks_english(self, words: Iterable[str]) -> bool:
        """Whether most of the words are in the parser's vocabulary, or there are too few words to tell."""
        spelled = [word for word in words if any(map(str.isalpha, word))]
        return len(spelled) < _MIN_WORDS or sum(map(self.vocabulary.knows, spelled)) >= _ENGLISH * len(spelled)


@lru_cache(maxsize=1)
def bundled_caption_parser() -> CaptionParser:
    """Returns the bundled parser, loaded once per process."""
    return CaptionParser()


@dataclass(frozen=True, eq=False)
class _Trees:
    """The analyses of sentences of one length."""

    tags: Integers  # (sentences, n)
    heads: Integers  # (sentences, n)
    labels: Integers  # (sentences, n)
    governor_scores: Floats  # (sentences, n, n + 1)
    relation_scores: Floats  # (sentences, n, labels)

    def take(self, rows: Integers) -> _Trees:
        return _Trees(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def put(self, rows: Integers, others: _Trees) -> None:
        self.tags[rows], self.heads[rows], self.labels[rows] = others.tags, others.heads, others.labels

    def log_likelihood(self) -> Floats:
        """Computes log p(heads | tags) + log p(labels | heads, tags) of each sentence."""
        governors = _log_softmax(self.governor_scores)
        arcs = np.take_along_axis(governors, self.heads[:, :, None], axis=2)[:, :, 0]
        relations = np.where(self.heads == 0, np.float32(0), _log_softmax(self.relation_scores).max(axis=2))
        likelihood: Floats = (arcs + relations).sum(axis=1)
        return likelihood


def _log_softmax(scores: Floats) -> Floats:
    shifted: Floats = scores - scores.max(axis=2, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=2, keepdims=True))
    return shifted


def _tokenise(caption: str) -> list[str]:
    """Tokenises a caption; curly apostrophes inside words become straight, as in CoreNLP 3.6."""
    tokens = split_as_written(caption)
    if "\u2019" in caption or "\u2018" in caption:
        return [token.translate(_APOSTROPHES) for token in tokens]
    return tokens
