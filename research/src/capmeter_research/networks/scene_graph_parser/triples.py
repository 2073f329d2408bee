"""Triples of scene graphs as annotators write them, and as sequences of tokens for a decoder.

A triple is (subject, predicate, object), for example ("man", "sit on", "bench"); attributes and counts have the
predicate "is": ("bench", "is", "red"), ("dogs", "is", "2"). An object without attributes and relations is an entity
alone, (entity,). Nouns are as in the caption, verbs in their base form, and passives are turned around: (water,
surround, cliff) for "cliff surrounded by water". This is the form of FACTUAL (Li et al. 2023), which calls them facts.

In the linearised form, a predicate with one of the caption's verbs is the verb's base form and the rest; another
frequent predicate is one token, a rare one its words between two marks. Triples are in the order in which the caption
mentions the words that they relate.

>>> parse_triples(["bench", PREDICATE + "is", "red", NEXT, "man", VERB + "sit", PREDICATE + "on", "bench", NEXT, "dog"])
[('bench', 'is', 'red'), ('man', 'sit on', 'bench'), ('dog',)]

Z. Li et al. FACTUAL: A Benchmark for Faithful and Consistent Textual Scene Graph Parsing. Findings of ACL 2023.

`DecoderVocabulary` is that of the scene-graph decoder: closed-vocabulary tokens, and words copied from the sentence.

The vocabulary holds special tokens, frequent predicates, and words that annotators write although the caption does not
have them ("2" for "two", "wooden" for "wood"). Every other word is copied, as it is or as a verb in its base form. The
ids of words outside the vocabulary follow the vocabulary's last: they are the positions of their first occurrences in
the list of the sentence's n words and their n base forms.

>>> vocabulary = DecoderVocabulary([*SPECIAL_TOKENS, "dog"])
>>> source = vocabulary.source_tokens(["a", "dog", "ran"], ["a", "dog", "run"])
>>> source.ids, vocabulary.ids(["dog", "a", VERB + "run", "cat"], source)
([7, 6, 9, 10, 11, 12], [6, 7, 12, 2])
>>> vocabulary.texts([6, 9], source)
['dog', 'ran']

The scene-graph parser's word pieces: whole words, beginnings of words, and their continuations ("##ing").

A word is split from its beginning into the longest pieces, as in BERT (Devlin et al. 2019). Accents are removed; parts
between punctuation marks are split separately.

>>> pieces = WordPieceVocabulary([*SPECIAL_PIECES, "dog", "##s", "t", "-", "shirt"])
>>> [pieces.pieces[k] for k in pieces.ids("dogs")], pieces.ids("t-shirt"), pieces.ids("\u4e8c")
(['dog', '##s'], [6, 7, 8], [1])
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Triple = tuple[str, ...]

IS = "is"
NEXT, OPEN, CLOSE = "<fact>", "<predicate>", "</predicate>"
PREDICATE = "\u00b6"  # begins a token that is a predicate, or the rest of a predicate after its verb
VERB = "\u00a7"  # begins a token that is the base form of one of the caption's words: a predicate's verb
_PATTERNS = ((), (PREDICATE,), (VERB, PREDICATE), (OPEN, CLOSE))


def is_triple(parts: Sequence[str]) -> bool:
    """Whether this is a subject, a predicate and an object, or an entity alone, none of them empty."""
    return len(parts) in (1, 3) and all(part.strip() for part in parts)


def parse_triples(tokens: Iterable[str]) -> list[Triple]:
    """Reads distinct triples from tokens; malformed ones (a predicate without an object …) are dropped."""
    triples: dict[Triple, None] = {}
    triple_parts: list[list[str]] = [[]]
    marks: list[str] = []  # of this triple

    def finish() -> None:
        triple = tuple(" ".join(part) for part in triple_parts)
        if is_triple(triple) and tuple(marks) in _PATTERNS:
            triples.setdefault(triple)

    for token in tokens:
        if token == NEXT:
            finish()
            triple_parts, marks = [[]], []
        elif token in (OPEN, CLOSE):
            triple_parts.append([])
            marks.append(token)
        elif token.startswith(VERB):
            triple_parts.append([token[1:]])
            marks.append(VERB)
        elif token.startswith(PREDICATE):
            predicate_words = token[1:].split()
            if marks == [VERB] and len(triple_parts) == 2:
                triple_parts[1] += predicate_words
                triple_parts.append([])
            else:
                triple_parts += [predicate_words, []]
            marks.append(PREDICATE)
        else:
            triple_parts[-1].append(token)
    finish()
    return list(triples)


def drop_redundant_entities(triples: Iterable[Triple]) -> list[Triple]:
    """Returns distinct triples without entities that are in another triple, as annotators write them.

    >>> drop_redundant_entities([("bus",), ("bus", "is", "red"), ("sky",), ("sky",)])
    [('bus', 'is', 'red'), ('sky',)]
    """
    distinct = list(dict.fromkeys(triples))
    mentioned_entities = {
        part
        for triple in distinct
        if len(triple) == 3
        for part in (triple[:1] if triple[1] == IS else (triple[0], triple[2]))
    }
    return [triple for triple in distinct if len(triple) == 3 or triple[0] not in mentioned_entities]


SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAD_PIECE, UNKNOWN_PIECE, BEGIN_PIECE, END_PIECE = range(4)
MAX_PIECES = 8  # of a word; further ones are ignored
CONTINUATION = "##"
_PARTS = re.compile(r"[^\W_]+|[\W_]")
_MAX_LETTERS = 40  # of a word; further ones are ignored


class WordPieceVocabulary:
    """Ids of word pieces.

    Args:
        pieces: `SPECIAL_PIECES` first.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        if tuple(pieces[: len(SPECIAL_PIECES)]) != SPECIAL_PIECES:
            raise ValueError(f"expected pieces that begin with {SPECIAL_PIECES}")
        self.pieces = tuple(pieces)
        self._ids = {piece: piece_id for piece_id, piece in enumerate(self.pieces)}
        self._longest = max(map(len, self.pieces))
        self.row = lru_cache(maxsize=1 << 16)(self._look_up)

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, word: str) -> bool:
        """Whether this word is one piece."""
        return word in self._ids

    def ids(self, word: str) -> list[int]:
        """Returns the ids of a word's pieces, at least one."""
        piece_ids: list[int] = []
        for word_part in _PARTS.findall(_strip_accents(word[:_MAX_LETTERS])):
            piece_start = 0
            while piece_start < len(word_part) and len(piece_ids) < MAX_PIECES:
                prefix = CONTINUATION if piece_start else ""
                possible_ends = range(min(len(word_part), piece_start + self._longest), piece_start, -1)
                end = next((end for end in possible_ends if prefix + word_part[piece_start:end] in self._ids), 0)
                piece_ids.append(self._ids[prefix + word_part[piece_start:end]] if end else UNKNOWN_PIECE)
                piece_start = end or len(word_part)
        return piece_ids[:MAX_PIECES] or [UNKNOWN_PIECE]

    def _look_up(self, word: str) -> list[int]:
        """Returns the ids of a word's pieces, `MAX_PIECES` of them, padded with `PAD_PIECE`."""
        piece_ids = self.ids(word)
        return piece_ids + [PAD_PIECE] * (MAX_PIECES - len(piece_ids))

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the ids of words' pieces (words, MAX_PIECES)."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MAX_PIECES)


def _strip_accents(word: str) -> str:
    """Lower-cases a word and removes its accents."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")


PAD, STOP, UNKNOWN = "<nothing>", "<stop>", "<other>"
SPECIAL_TOKENS = (PAD, STOP, UNKNOWN, NEXT, OPEN, CLOSE)  # the first tokens
PAD_ID, STOP_ID, UNKNOWN_ID, NEXT_ID, OPEN_ID, CLOSE_ID = range(len(SPECIAL_TOKENS))


@dataclass(frozen=True, eq=False)
class _SourceTokens:
    """The tokens that can be copied from a sentence of n words."""

    texts: list[str]  # (2n): its words in lower case, then their base forms as verbs, each after `VERB`
    ids: list[int]  # (2n)


class DecoderVocabulary:
    """Ids of tokens.

    Args:
        tokens: `SPECIAL_TOKENS` first; predicates begin with `PREDICATE`.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"expected tokens that begin with {SPECIAL_TOKENS}")
        self.tokens = tuple(tokens)
        self._ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        self.predicates = frozenset(token[1:] for token in self.tokens if token.startswith(PREDICATE))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def predicate_end_ids(self) -> list[int]:
        """The ids of the tokens that end a predicate, after which the object begins."""
        return [CLOSE_ID, *(token_id for token, token_id in self._ids.items() if token.startswith(PREDICATE))]

    def source_tokens(self, words: Sequence[str], lemmas: Sequence[str]) -> _SourceTokens:
        """Returns the tokens that can be copied from a sentence.

        Args:
            words: its words.
            lemmas: their base forms as if they were verbs.
        """
        token_texts = [*map(str.lower, words), *map(VERB.__add__, lemmas)]
        first_ids = {text: len(self) + token_index for token_index, text in reversed(list(enumerate(token_texts)))}
        known_ids = self._ids
        token_ids = [known_ids[text] if text in known_ids else first_ids[text] for text in token_texts]
        return _SourceTokens(token_texts, token_ids)

    def ids(self, tokens: Sequence[str], source: _SourceTokens) -> list[int]:
        """Returns the ids of tokens; `UNKNOWN_ID` for those outside the vocabulary and the sentence."""
        copied_ids = dict(zip(source.texts, source.ids, strict=True))
        return [self._ids.get(token, copied_ids.get(token, UNKNOWN_ID)) for token in tokens]

    def texts(self, ids: Sequence[int], source: _SourceTokens) -> list[str]:
        """Returns the tokens with these ids."""
        size = len(self)
        return [self.tokens[token_id] if token_id < size else source.texts[token_id - size] for token_id in ids]
