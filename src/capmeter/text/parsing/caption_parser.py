"""The bundled parser: words, tags, lemmas and dependency trees of captions, without Java and without torch.

It imitates the parser that SPICE runs (Stanford CoreNLP 3.6.0: the English PCFG, Universal Dependencies version 1). It
was trained on that parser's output for captions of photos that are in no benchmark (`capmeter train parser`); the model
card, `capmeter/data/weights/parser/README.md`, reports its agreement with that parser.

Sentences are processed in batches of equal length, so that calls with many captions are fastest. Sentences longer than
`MAX_WORDS` words are split into pieces that are parsed one by one, so that time stays linear in the number of words.

>>> parse = CaptionParser().parse(["Two dogs are running on the beach."])[0]
>>> list(zip(parse.sentences[0].lemmas, parse.sentences[0].heads, parse.sentences[0].labels))[1:4]
[('dog', 4, 'nsubj'), ('be', 4, 'aux'), ('run', 0, 'root')]

The parser's view of a word: the word itself, its shape, its beginning and its ending.

A word's features are texts such as "w:dogs" (lower case), "c:Dogs" (as written, if different), "h:Xx" (shape), "s3:ogs"
(ending), "p2:do" (beginning). Features that are frequent enough in training have an id; the embedding of a word is the
sum of its features' embeddings. Id 0 is padding, id 1 an unknown word.

>>> word_features("Dogs")[:3]
['w:dogs', 'h:Xx', 'c:Dogs']

The best projective dependency tree of a sentence: one root, no cycle, no crossing arcs.

score(tree) = Σ over words d of s(d, head(d)). If the best heads of all words form such a tree, it is the best tree;
else Eisner's algorithm (1996) finds it in O(n³), here for many sentences of one length at once.

>>> scores = np.array([[[1.0, -9.0, 5.0], [1.0, 4.0, -9.0]]])  # each word prefers the other as its head
>>> _best_trees(scores).tolist()
[[2, 0]]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter.text.parsing.network import (
    Floats,
    Integers,
    ParserNetwork,
    ParserShape,
    group_by_length,
    index_words,
    map_batches,
    split_long_sentence,
)
from capmeter.text.tokenization.ptb import split_as_written, split_sentences

PAD_ID, UNKNOWN_ID, FIRST_FEATURE_ID = 0, 1, 2
MAX_FEATURES = 11
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4, 5), (1, 2, 3)
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_MAX_LETTERS = 60  # anything longer is not a word; its middle is ignored


def _shape(letter_match: re.Match[str]) -> str:
    letter_run = letter_match[0]
    if letter_run.isupper():
        return "X"
    if letter_run.islower():
        return "x"
    return "Xx" if letter_run[0].isupper() else "xX"


def word_features(word: str) -> list[str]:
    """Returns the features of a word, at most `MAX_FEATURES`, the lower-cased word first."""
    if len(word) > _MAX_LETTERS:
        word = word[: _MAX_LETTERS // 2] + word[-_MAX_LETTERS // 2 :]
    lower_word = word.lower()
    features = [f"w:{lower_word}", f"h:{_DIGITS.sub('d', _LETTERS.sub(_shape, word))}"]
    if lower_word != word:
        features.append(f"c:{word}")
    features += [f"s{size}:{lower_word[-size:]}" for size in _ENDINGS if len(lower_word) >= size]
    features += [f"p{size}:{lower_word[:size]}" for size in _BEGINNINGS if len(lower_word) >= size]
    return features


class ParserVocabulary:
    """Feature ids of words, and the parser's tags and labels.

    Args:
        features: the id of each feature.
        tags: part-of-speech tags, in the order of their scores.
        labels: relations, in the order of their scores.
    """

    def __init__(self, features: Mapping[str, int], tags: Sequence[str], labels: Sequence[str]) -> None:
        self.features, self.tags, self.labels = features, tuple(tags), tuple(labels)
        self.row = lru_cache(maxsize=1 << 16)(self._look_up)

    def _look_up(self, word: str) -> list[int]:
        """Returns the feature ids of a word, `MAX_FEATURES` of them, padded with `PAD_ID`."""
        feature_ids = [self.features.get(word_feature, PAD_ID) for word_feature in word_features(word)]
        return [feature_ids[0] or UNKNOWN_ID, *feature_ids[1:], *[PAD_ID] * (MAX_FEATURES - len(feature_ids))]

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the feature ids of words (words, MAX_FEATURES)."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MAX_FEATURES)

    def knows(self, word: str) -> bool:
        """Whether this word occurred in training, in any case."""
        return self.row(word)[0] != UNKNOWN_ID


Heads = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating]


def _best_trees(scores: Scores) -> Heads:
    """Finds the best projective tree with one root of each sentence.

    Args:
        scores: of each governor of each word (sentences, n, n + 1): (d, h) is the score of word h (from 1; 0 is the
            root) as the governor of word d + 1.

    Returns:
        The heads (sentences, n), 0 for the root.
    """
    heads: Heads = scores.argmax(axis=2)
    malformed_rows = np.flatnonzero(~_is_well_formed(heads))
    if malformed_rows.size:
        heads[malformed_rows] = _run_eisner(scores[malformed_rows].astype(np.float64))
    return heads


def _is_well_formed(heads: Heads) -> npt.NDArray[np.bool_]:
    """Returns which rows of heads (sentences, n) are trees with one root and without crossing arcs."""
    sentence_count, word_count = heads.shape
    above = np.concatenate([np.zeros((sentence_count, 1), np.int64), heads], axis=1)
    for _ in range(max(1, int(word_count).bit_length())):
        above = np.take_along_axis(above, above, axis=1)
    has_one_root = ((heads == 0).sum(axis=1) == 1) & ~above.any(axis=1)
    word_positions = np.arange(1, word_count + 1)
    left, right = np.minimum(heads, word_positions), np.maximum(heads, word_positions)
    is_inside = (left[:, :, None] < left[:, None, :]) & (left[:, None, :] < right[:, :, None])
    is_crossing = (is_inside & (right[:, :, None] < right[:, None, :])).any(axis=(1, 2))
    return np.asarray(has_one_root & ~is_crossing)


def _run_eisner(scores: npt.NDArray[np.float64]) -> Heads:
    """Runs Eisner's algorithm over spans [first word, last word]; the head of a complete span is at one of its ends."""
    sentence_count, word_count, _ = scores.shape
    arc_scores = scores[:, :, 1:].transpose(0, 2, 1)  # [sentence, head, dependent]
    to_right = np.zeros((sentence_count, word_count, word_count))  # complete, headed by the first word
    to_left = np.zeros((sentence_count, word_count, word_count))  # complete, headed by the last word
    arc_right = np.zeros((sentence_count, word_count, word_count))  # the first word governs the last
    arc_left = np.zeros((sentence_count, word_count, word_count))  # the last word governs the first
    splits = np.zeros((4, sentence_count, word_count, word_count), np.int64)
    for span_width in range(1, word_count):
        first = np.arange(word_count - span_width)
        last = first + span_width
        split_points = first[:, None] + np.arange(span_width)  # [span, split]
        joined = to_right[:, first[:, None], split_points] + to_left[:, split_points + 1, last[:, None]]
        best_scores = joined.max(axis=2)
        splits[0][:, first, last] = splits[1][:, first, last] = joined.argmax(axis=2) + first
        arc_right[:, first, last] = best_scores + arc_scores[:, first, last]
        arc_left[:, first, last] = best_scores + arc_scores[:, last, first]
        joined = arc_right[:, first[:, None], split_points + 1] + to_right[:, split_points + 1, last[:, None]]
        to_right[:, first, last] = joined.max(axis=2)
        splits[2][:, first, last] = joined.argmax(axis=2) + first + 1
        joined = to_left[:, first[:, None], split_points] + arc_left[:, split_points, last[:, None]]
        to_left[:, first, last] = joined.max(axis=2)
        splits[3][:, first, last] = joined.argmax(axis=2) + first
    roots = (to_left[:, 0, :] + to_right[:, :, -1] + scores[:, :, 0]).argmax(axis=1)
    return np.array([_trace_back(splits[:, k], int(roots[k])) for k in range(sentence_count)], np.int64).reshape(
        sentence_count, word_count
    )


_ARC_RIGHT, _ARC_LEFT, _TO_RIGHT, _TO_LEFT = range(4)


def _trace_back(splits: npt.NDArray[np.int64], root: int) -> list[int]:
    """Reads the heads of one sentence's words from the best splits of its spans."""
    word_count = splits.shape[1]
    heads = [0] * word_count
    spans = [(_TO_LEFT, 0, root), (_TO_RIGHT, root, word_count - 1)]
    while spans:
        kind, first_word, last_word = spans.pop()
        if first_word == last_word:
            continue
        split_word = int(splits[kind, first_word, last_word])
        if kind == _TO_RIGHT:
            spans += [(_ARC_RIGHT, first_word, split_word), (_TO_RIGHT, split_word, last_word)]
        elif kind == _TO_LEFT:
            spans += [(_TO_LEFT, first_word, split_word), (_ARC_LEFT, split_word, last_word)]
        else:
            heads[last_word if kind == _ARC_RIGHT else first_word] = (
                first_word if kind == _ARC_RIGHT else last_word
            ) + 1
            spans += [(_TO_RIGHT, first_word, split_word), (_TO_LEFT, split_word + 1, last_word)]
    return heads


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
        heads = _best_trees(governor_scores)
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
