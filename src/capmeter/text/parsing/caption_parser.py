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


def _batch_size(sentence_length: int) -> int:
    return _BATCH_WORDS // sentence_length


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
        parser_checkpoint = load_checkpoint(str(checkpoint), KIND)
        parameters = parser_checkpoint.parameters
        with rebuilding("a caption parser", checkpoint):
            feature_ids = {
                feature_name: feature_id
                for feature_id, feature_name in enumerate(parser_checkpoint.vocabulary, start=FIRST_FEATURE_ID)
            }
            self.vocabulary = ParserVocabulary(feature_ids, parameters["tags"], parameters["labels"])
            self.lemmas = LemmaRules(**parameters["lemmas"])
            self.network = ParserNetwork(parser_checkpoint.weights, ParserShape(**parameters["shape"]))
            self._root = self.vocabulary.labels.index("root")
        self.version = f"caption-{parser_checkpoint.label}"

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """Parses captions.

        Returns:
            The parse of each caption, without sentences if it has no token; never None, since none takes too long.
        """
        sentences: list[list[str]] = []
        sentence_counts: list[int] = []
        for caption in captions:
            sentence_pieces = [
                piece
                for sentence in split_sentences(_tokenise(caption))
                for piece in split_long_sentence(sentence, MAX_WORDS)
            ]
            sentences += sentence_pieces
            sentence_counts.append(len(sentence_pieces))
        parses = iter(self.parse_sentences(sentences))
        return [CaptionParse(tuple(next(parses) for _ in range(sentence_count))) for sentence_count in sentence_counts]

    def parse_sentences(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """Parses sentences, given as tokens with case; none may be empty."""
        word_rows, distinct_words = index_words(sentences)
        embedded_words = self.network.embed_words(self.vocabulary.rows(distinct_words))

        def parse_batch(indices: list[int]) -> list[Parse]:
            analysis_tables = self._analyse(np.array([word_rows[k] for k in indices], np.int64), embedded_words)
            analyses = zip(indices, *(analysis_table.tolist() for analysis_table in analysis_tables), strict=True)
            return [self._build_parse(sentences[k], tag_ids, heads, labels) for k, tag_ids, heads, labels in analyses]

        return map_batches(parse_batch, word_rows, _batch_size, "caption parser")

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        """Tags sentences with parts of speech, without building trees, which is several times faster.

        Ambiguous tags are not decided by the tree, so that a few tags differ from those of `parse`.

        Args:
            sentences: given as tokens with case.

        Returns:
            The Penn Treebank tags of each sentence.
        """
        word_rows, distinct_words = index_words(sentences)
        embedded_words = self.network.embed_words(self.vocabulary.rows(distinct_words))
        tag_names = self.vocabulary.tags
        sentence_tags: list[tuple[str, ...]] = [()] * len(word_rows)
        for batch_indices in group_by_length(word_rows, _batch_size):
            _, tag_scores = self.network.read_words(
                np.array([word_rows[sentence_index] for sentence_index in batch_indices], np.int64), embedded_words
            )
            for sentence_index, tag_ids in zip(batch_indices, tag_scores.argmax(axis=2).tolist(), strict=True):
                sentence_tags[sentence_index] = tuple([tag_names[tag_id] for tag_id in tag_ids])
        return sentence_tags

    def _analyse(self, word_ids: Integers, embedded: tuple[Floats, Floats]) -> tuple[Integers, Integers, Integers]:
        """Predicts tags, heads and labels (sentences, n) of sentences of one length.

        If a tag is ambiguous, the sentence is parsed once more with the second best tag of its most ambiguous word; the
        more probable of the two analyses wins: p(tags) p(heads | tags) p(labels | heads, tags).
        """
        states, tag_scores = self.network.read_words(word_ids, embedded)
        tags: Integers = tag_scores.argmax(axis=2)
        best_scores = np.take_along_axis(tag_scores, tags[:, :, None], axis=2)
        other_scores = tag_scores.copy()
        np.put_along_axis(other_scores, tags[:, :, None], -np.inf, axis=2)
        score_margins = best_scores[:, :, 0] - other_scores.max(axis=2)
        first_trees = self._build_trees(states, tags)
        ambiguous = np.flatnonzero(score_margins.min(axis=1) < _AMBIGUOUS)
        if ambiguous.size:
            word = score_margins[ambiguous].argmin(axis=1)
            other_tags = tags[ambiguous]
            other_tags[np.arange(len(ambiguous)), word] = other_scores[ambiguous, word].argmax(axis=1)
            second = self._build_trees(states[ambiguous], other_tags)
            likelihood_gains = (
                second.log_likelihood() - first_trees.take(ambiguous).log_likelihood() - score_margins[ambiguous, word]
            )
            is_better = likelihood_gains > 0
            first_trees.put(ambiguous[is_better], second.take(np.flatnonzero(is_better)))
        return first_trees.tags, first_trees.heads, first_trees.labels

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
        tags = tuple([tag_names[tag_id] for tag_id in tag_ids])
        return Parse(
            words=tuple(words),
            tags=tags,
            lemmas=tuple(map(lemma, words, tags)),
            heads=tuple(heads),
            labels=tuple([label_names[label_id] for label_id in label_ids]),
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
        return _Trees(*(getattr(self, field_name)[rows] for field_name in self.__dataclass_fields__))

    def put(self, rows: Integers, others: _Trees) -> None:
        self.tags[rows], self.heads[rows], self.labels[rows] = others.tags, others.heads, others.labels

    def log_likelihood(self) -> Floats:
        """Computes log p(heads | tags) + log p(labels | heads, tags) of each sentence."""
        governor_log_probs = _log_softmax(self.governor_scores)
        arc_log_probs = np.take_along_axis(governor_log_probs, self.heads[:, :, None], axis=2)[:, :, 0]
        relation_log_probs = np.where(self.heads == 0, np.float32(0), _log_softmax(self.relation_scores).max(axis=2))
        likelihood: Floats = (arc_log_probs + relation_log_probs).sum(axis=1)
        return likelihood


def _log_softmax(scores: Floats) -> Floats:
    shifted_scores: Floats = scores - scores.max(axis=2, keepdims=True)
    shifted_scores -= np.log(np.exp(shifted_scores).sum(axis=2, keepdims=True))
    return shifted_scores


def _tokenise(caption: str) -> list[str]:
    """Tokenises a caption; curly apostrophes inside words become straight, as in CoreNLP 3.6."""
    tokens = split_as_written(caption)
    if "\u2019" in caption or "\u2018" in caption:
        return [token.translate(_APOSTROPHES) for token in tokens]
    return tokens
