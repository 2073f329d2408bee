"""The bundled scene-graph parser: triples of captions, without torch and without dependency trees.

It was trained on human-written scene graphs of captions of image regions (FACTUAL, Li et al. 2023; `capmeter train
factual`). The model card, `weights/factual/README.md`, reports how often it writes the same graph.

Sentences are processed in batches of equal length, so that calls with many captions are fastest. Sentences with more
than `MAX_WORDS` words are split, so that time stays linear in the number of words. A document (`document_splitting`) is
parsed sentence by sentence, with pronouns replaced by what they refer to, by a network of its own: the same, with upper
layers that were trained on graphs of whole documents (DiscoSG, Lin et al. 2025), which leave out what is said about the
picture.

>>> sorted(FactualParser().parse(["two dogs chasing a red ball"])[0])
[('ball', 'is', 'red'), ('dogs', 'chase', 'ball'), ('dogs', 'is', '2')]

Spelling correction of captions: insertions, deletions, substitutions, transpositions, and words run together.

Annotators wrote graphs with the correct word ("frisbie": frisbee). A word is misspelt if neither it nor a word that it
may derive from is known. It becomes two words if one of them is small and the other frequent ("infront"), or else the
most probable of the frequent words that are one edit away, two for a long word. Frequent words are more probable; words
with another first letter and substitutions are less probable than deletions, doublings and transpositions.

>>> spelling = Spelling(["front", "skiing", "shirt", "walking", "refrigerator"], ["biker", "shark"])
>>> spelling.correct(["wlaking", "sking", "bikers", "sharks", "zorble", "refridgirator"])
['walking', 'skiing', 'bikers', 'sharks', 'zorble', 'refrigerator']
>>> spelling.correct(["infront", "of"])
['in', 'front', 'of']

Changes of a network's weights by further training, small enough to ship: whole numbers and a scale for each row.

    changed row = row + scale · integers,    integers in [-127, 127],    scale = largest absolute change / 127

Matrices are stored so, under their name and with `.scale`; vectors (biases, normalisations) are stored as they are.

>>> start = {"layer": np.zeros((1, 3), np.float16), "bias": np.zeros(2, np.float16)}
>>> changes = {"layer": np.array([[64, -127, 0]], np.int8), "layer.scale": np.array([1 / 127])}
>>> _apply_changes(start, changes)["layer"].round(2).tolist()
[[0.5, -1.0, 0.0]]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import OSA

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter.text.parsing.network import Floats, index_words, map_batches, split_long_sentence
from capmeter.text.tokenization.document_splitting import document_sentences
from capmeter.text.tokenization.ptb import split_as_written, split_sentences
from capmeter_research.networks.scene_graph_parser.forward import DecoderShape, SceneGraphNetwork, SentenceEncoderShape
from capmeter_research.networks.scene_graph_parser.pronouns import find_contexts, words_with_antecedents
from capmeter_research.networks.scene_graph_parser.triples import (
    DecoderVocabulary,
    Triple,
    WordPieceVocabulary,
    drop_redundant_entities,
    parse_triples,
)

_MIN_LETTERS, _MAX_LETTERS = 4, 24  # of a word that is corrected
_LONG_WORD = 8  # letters of a word in which two edits are possible
_ENDINGS = tuple("s es ed ing er ers or est y ly en ness ful less ish ion ions like".split())  # noqa: SIM905
_BEFORE = frozenset(["in", "on", "at", "of", "to", "the", "each", "with"])  # small words that run into the next one
_AFTER = frozenset(["the", "with", "is", "of", "on", "at"])  # small words that run into the previous one
_COMMON = 600  # number of the frequent words that may be run together with a small one
# Costs in natural logarithms, estimated on the training graphs.
_OTHER_FIRST_LETTER, _SUBSTITUTION, _SECOND_EDIT = 2.0, 1.0, 4.0
_RANK_OFFSET = 10  # frequencies follow Zipf's law, except for the first ranks


class Spelling:
    """Corrects words.

    Args:
        frequent: the words that others are corrected to, most frequent first.
        rare: other words that are correct.
    """

    def __init__(self, frequent: Sequence[str], rare: Iterable[str]) -> None:
        self.frequent, self.rare = tuple(frequent), frozenset(rare)
        self._lexicon = self.rare.union(self.frequent, _BEFORE, _AFTER)
        self._common = frozenset(self.frequent[:_COMMON])
        self._hyphenated = {word.replace("-", ""): word for word in reversed(self.frequent) if "-" in word}
        self._cached_correction = lru_cache(maxsize=1 << 16)(self._correct_word)

    def correct(self, words: Iterable[str]) -> list[str]:
        """Returns the words in lower case: unchanged, corrected, or each split into two."""
        return [corrected_word for word in words for corrected_word in self._cached_correction(word)]

    def is_correct(self, word: str) -> bool:
        """Whether a word stays as it is: known, derived from a known word, too short, too long, or not a word."""
        if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
            return True
        return any(base_form in self._lexicon for base_form in _base_forms(word))

    def _correct_word(self, word: str) -> tuple[str, ...]:
        return (word,) if self.is_correct(word) else self._split(word) or (self._find_nearest(word),)

    def _split(self, word: str) -> tuple[str, ...]:
        """Returns the two words that were run together, the hyphenated word that lost its hyphen, or nothing."""
        if word in self._hyphenated:
            return (self._hyphenated[word],)
        word_pairs = ((word[:split_position], word[split_position:]) for split_position in range(2, len(word) - 1))
        small_and_common = (
            (a, b) for a, b in word_pairs if (a in _BEFORE and b in self._common) or (b in _AFTER and a in self._common)
        )
        return next(small_and_common, ())

    def _find_nearest(self, word: str) -> str:
        """Returns the most probable word that is few edits away, or the word itself."""
        max_edits = 2 if len(word) >= _LONG_WORD else 1
        neighbours = process.extract(word, self.frequent, scorer=OSA.distance, score_cutoff=max_edits, limit=None)
        return min(neighbours, key=lambda neighbour: _edit_cost(word, *neighbour))[0] if neighbours else word


def _edit_cost(word: str, correction: str, edits: int, rank: int) -> float:
    """Returns the negative log probability of a misspelt word for the frequent word of this rank, up to a constant."""
    is_substitution = len(word) == len(correction) and sorted(word) != sorted(correction)
    first_letter_cost = _OTHER_FIRST_LETTER * (word[0] != correction[0])
    edit_cost = first_letter_cost + _SUBSTITUTION * is_substitution + _SECOND_EDIT * (edits - 1)
    return math.log(rank + _RANK_OFFSET) + edit_cost


def _base_forms(word: str) -> Iterator[str]:
    """Yields the word, and what it may derive from."""
    yield word
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) > 2:
            yield base
            yield base + "e"
            if base[-1] == base[-2]:
                yield base[:-1]
            if base[-1] == "i":
                yield base[:-1] + "y"


Arrays = Mapping[str, npt.NDArray[Any]]
SCALE = ".scale"


def _apply_changes(start: Arrays, changes: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The weights after training.

    Raises:
        ValueError: a change is of no weight, or of another shape.
    """
    weights = dict(start)
    for weight_name, change in changes.items():
        if weight_name.endswith(SCALE):
            continue
        if weight_name not in start or start[weight_name].shape != change.shape:
            raise ValueError(f"a change of {weight_name}, which has another shape or does not exist")
        scale = changes.get(weight_name + SCALE)
        if scale is None:
            weights[weight_name] = change
        elif scale.shape != change.shape[:1]:
            raise ValueError(f"the scale of {weight_name} has the shape {scale.shape}")
        else:
            weights[weight_name] = start[weight_name].astype(np.float32) + change * scale.astype(np.float32)[:, None]
    return weights


KIND = BUNDLED = "factual"
DOCUMENT_KIND = BUNDLED_DOCUMENTS = "factual-documents"
"""The kind of checkpoint with the changes of a parser's weights for sentences of documents."""
MAX_WORDS = 40
_TOKENS_PER_WORD, _EXTRA_TOKENS = 4, 12  # the largest number of tokens to write
_BATCH_SENTENCES = 192
_VERB_TAG = "VBG"
_PLURAL_MARKERS = frozenset(  # words in whose sentences one name may stand for several objects
    "other others another together each both next side one ones two three four 2 3 4 "  # noqa: SIM905
    "himself herself itself themselves".split()
)


def caption_words(caption: str) -> list[str]:
    """Tokenises a caption for the parser: Penn Treebank tokens in lower case."""
    return [token.lower() for token in split_as_written(caption)]


def _parser_pieces(sentence: str) -> list[list[str]]:
    """Tokenises a document's sentence, with case, in pieces that leave room for what pronouns are replaced by."""
    return [words for words in split_long_sentence(split_as_written(sentence), MAX_WORDS - 2) if words]


def verb_lemmas(words: Sequence[str], lemmas: LemmaRules) -> list[str]:
    """Returns the base forms of words as if they were verbs."""
    return [lemmas.lemma(word, _VERB_TAG) for word in words]


def _unique_words(words: Sequence[str]) -> list[str]:
    """Returns the words that name one object, which is not related to itself: those that occur once in a sentence.

    >>> _unique_words("a cat on a mat".split()), _unique_words("two cats next to each other".split())
    (['cat', 'on', 'mat'], [])
    """
    return [] if _PLURAL_MARKERS.intersection(words) else [word for word, n in Counter(words).items() if n == 1]


class FactualParser:
    """Parses captions into triples.

    Args:
        checkpoint: the name of a bundled or installed checkpoint, or its folder (`capmeter.core.checkpoints`).
        documents: that of the network for documents, trained from this checkpoint; None: the bundled one for the
            bundled parser, else documents are parsed by the network for captions.

    Raises:
        AssetError: there is no such checkpoint, it is damaged, of another kind, or for another parser.
        MissingBackend: safetensors is not installed.
    """

    batch: int = 2048  # enough captions for large batches of one length

    def __init__(self, checkpoint: str | Path = BUNDLED, documents: str | Path | None = None) -> None:
        loaded = load_checkpoint(str(checkpoint), KIND)
        if documents is None and checkpoint == BUNDLED:
            documents = BUNDLED_DOCUMENTS
        changes = None if documents is None else load_checkpoint(str(documents), DOCUMENT_KIND)
        if changes is not None and changes.parameters.get("parser") != loaded.label:
            raise AssetError(
                f"network for documents {documents}: it was trained from {changes.parameters.get('parser')}, not from "
                f"{loaded.label}; name the checkpoint that it was trained from, or train it again"
            )
        parameters = loaded.parameters
        with rebuilding("a scene-graph parser", checkpoint):
            self.pieces = WordPieceVocabulary(loaded.vocabulary)
            self.spelling = Spelling(parameters["frequent"], parameters["known"])
            self.vocabulary = DecoderVocabulary(parameters["tokens"])
            self.lemmas = LemmaRules(**parameters["lemmas"])
            self.encoder_shape = SentenceEncoderShape(**parameters["reader"])
            self.network, self.document_network = (
                SceneGraphNetwork(
                    weights,
                    self.encoder_shape,
                    DecoderShape(**parameters["writer"]),
                    parameters["writers"],
                    self.vocabulary.predicate_end_ids,
                )
                for weights in (loaded.weights, _apply_changes(loaded.weights, changes.weights if changes else {}))
            )
        self.version = f"{loaded.label}+{changes.label}" if changes else loaded.label

    def parse(self, captions: Sequence[str]) -> list[list[Triple]]:
        """Parses captions.

        Returns:
            The distinct triples of each caption or document; none for a text without words.
        """
        documents = [document_sentences(caption) for caption in captions]
        short = self._parse_captions([text for text, document in zip(captions, documents, strict=True) if not document])
        document_triples = self._parse_documents([document for document in documents if document])
        return [next(document_triples) if document else next(short) for document in documents]

    def looks_english(self, caption: str) -> bool:
        """Whether a caption looks English, by the vocabulary of the bundled caption parser."""
        return bundled_caption_parser().looks_english(caption_words(caption))

    def _parse_captions(self, captions: Sequence[str]) -> Iterator[list[Triple]]:
        sentences = [split_sentences(self.spelling.correct(caption_words(caption))) for caption in captions]
        return self._parse_texts(sentences, self.network)

    def _parse_documents(self, documents: Sequence[Sequence[str]]) -> Iterator[list[Triple]]:
        """The triples of documents, given as sentences; pronouns are replaced by what they refer to."""
        spelled = [[self.spelling.correct(words) for words in document] for document in self._resolve(documents)]
        return self._parse_texts(spelled, self.document_network)

    def read_documents(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """Returns the words of each document's sentences, with pronouns replaced by what they refer to."""
        return self._resolve([document_sentences(text) for text in texts])

    def _resolve(self, documents: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        document_tokens = [[piece for text in document for piece in _parser_pieces(text)] for document in documents]
        contexts = [find_contexts(sentences) for sentences in document_tokens]
        needed = (compress(*pair) for pair in zip(document_tokens, contexts, strict=True))
        parses = iter(
            bundled_caption_parser().parse_sentences([sentence for document in needed for sentence in document])
        )
        return [
            words_with_antecedents(sentences, [next(parses) if is_context else None for is_context in context])
            for sentences, context in zip(document_tokens, contexts, strict=True)
        ]

    def _parse_texts(self, texts: Sequence[Sequence[list[str]]], network: SceneGraphNetwork) -> Iterator[list[Triple]]:
        """Parses texts, given as sentences, and merges the triples of each."""
        pieces = [[piece for words in text for piece in split_long_sentence(words, MAX_WORDS)] for text in texts]
        triples = iter(self._parse_sentences([piece for pieces_of_text in pieces for piece in pieces_of_text], network))
        for pieces_of_text in pieces:
            yield drop_redundant_entities(triple for part in islice(triples, len(pieces_of_text)) for triple in part)

    def _parse_sentences(self, sentences: Sequence[list[str]], network: SceneGraphNetwork) -> list[list[Triple]]:
        """Parses sentences, none of them empty or longer than `MAX_WORDS`."""
        word_rows, distinct_words = index_words(sentences)
        embeddings = network.encoder.embed_words(self.pieces.rows(distinct_words))

        def parse_batch(indices: list[int]) -> list[list[Triple]]:
            encoded = network.encoder.encode(
                np.array([word_rows[sentence_index] for sentence_index in indices], np.int64), embeddings
            )
            return self._decode([sentences[sentence_index] for sentence_index in indices], encoded, network)

        return map_batches(parse_batch, word_rows, lambda _: _BATCH_SENTENCES, "scene graphs")

    def _decode(
        self, sentences: Sequence[Sequence[str]], encoded: Floats, network: SceneGraphNetwork
    ) -> list[list[Triple]]:
        """Decodes the triples of sentences of one length."""
        sources = [self.vocabulary.source_tokens(words, verb_lemmas(words, self.lemmas)) for words in sentences]
        source_ids = np.array([source.ids for source in sources], np.int64)
        unique_ids = [
            set(self.vocabulary.ids(_unique_words(words), source))
            for words, source in zip(sentences, sources, strict=True)
        ]
        max_tokens = _TOKENS_PER_WORD * encoded.shape[1] + _EXTRA_TOKENS
        token_ids = network.decode(encoded, source_ids, max_tokens, unique_ids)
        return [
            parse_triples(self.vocabulary.texts(ids, source)) for ids, source in zip(token_ids, sources, strict=True)
        ]


@lru_cache(maxsize=1)
def bundled_scene_graph_parser() -> FactualParser:
    """Returns the bundled scene-graph parser, loaded once per process."""
    return FactualParser()
