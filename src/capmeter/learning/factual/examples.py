"""Captions with their facts: FACTUAL's, written by people, and those that SPICE's rules read from parses.

A row of `factual_scene_graphs.jsonl.gz` is `{"caption", "graph": [[subject, predicate, object] | [entity]], "split"}`,
`split` train or dev. One of `HELD_OUT` training captions, chosen by the hash of its text, is never trained on: a run
is selected by them, and not by dev.

Facts that SPICE's rules read from a parse are no such graphs, but they teach what belongs to what in a sentence.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.learning.parser.examples import Example
from capmeter.text.fact_maker import LONGEST, caption_words, verb_lemmas
from capmeter.text.fact_pieces import INSIDE, SPECIAL, WordPieces
from capmeter.text.fact_spelling import Spelling
from capmeter.text.fact_vocabulary import MARKS, NOTHING_NUMBER, STOP_NUMBER, FactVocabulary
from capmeter.text.facts import IS, PREDICATE, Fact, is_fact, without_mentions, written
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parses import CaptionParse
from capmeter.text.scene_tuples import scene_tuples
from capmeter.text.wordnet import Synonyms

HELD_OUT = 40
PARSED = 40_000  # captions whose facts are read from parses
_FORMS = ("as written", "lower")  # of captions that are whole
_LONGEST_PARSED = 30  # words
_NOUN = "N"  # tags that begin with it
# predicates of their own, though they stand in captions
NO_VERBS = frozenset(
    "a above across against along among around as at away back before behind below beneath beside between beyond by "  # noqa: SIM905
    "down for from in inside into is of off on onto out outside over past through to toward towards under up with near "
    "be have next top front side edge middle corner part bottom end".split()
)
_FEW = 2  # occurrences of a token of the vocabulary
_OFTEN = 10  # occurrences of a word that others become
_SHORT = 2  # letters


@dataclass(frozen=True)
class FactExample:
    """A caption with its facts. split: `train` or `dev`."""

    caption: str
    facts: tuple[Fact, ...]
    split: str = "train"

    @property
    def held_out(self) -> bool:
        """Whether a training caption is kept for selection."""
        digest = hashlib.sha256(" ".join(caption_words(self.caption)).encode()).hexdigest()
        return self.split == "train" and int(digest, 16) % HELD_OUT == 0


def read_factual(path: Path) -> list[FactExample]:
    """The captions of a file, in its order.

    Raises:
        InputError: the file cannot be read, or a line is no caption with a graph.
    """
    examples = []
    for number, row in _rows(path):
        try:
            facts = tuple(tuple(" ".join(part.lower().split()) for part in fact) for fact in row["graph"])
            if not facts or not all(map(is_fact, facts)):
                raise ValueError('"graph" is a list of [subject, predicate, object] and [entity]')
            if not isinstance(row["caption"], str):
                raise TypeError('"caption" is a text')
            examples.append(FactExample(row["caption"], facts, row["split"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}, line {number}: not a caption with a scene graph: {error!r}") from error
    return examples


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield number, json.loads(line)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected gzipped JSON lines of captions with graphs: {error}") from error


def parsed_examples(parses: Iterable[Example], number: int = PARSED) -> list[FactExample]:
    """So many captions with the facts of their parses, the same ones each time, without long and factless ones."""
    whole = [example for example in parses if example.form in _FORMS]
    random.Random(0).shuffle(whole)
    chosen = [each for each in whole[:number] if sum(map(len, each.parse.sentences)) <= _LONGEST_PARSED]
    found = [FactExample(each.caption, parsed_facts(each.parse), "parsed") for each in chosen]
    return [example for example in found if example.facts]


def parsed_facts(parse: CaptionParse) -> tuple[Fact, ...]:
    """What SPICE's rules read from a parse, as facts; nouns are as in the caption.

    >>> from capmeter.text.parses import Parse
    >>> words, tags, lemmas = ("Two", "red", "birds"), ("CD", "JJ", "NNS"), ("two", "red", "bird")
    >>> parsed_facts(CaptionParse((Parse(words, tags, lemmas, (3, 3, 0), ("nummod", "amod", "root")),)))
    (('birds', 'is', 'red'), ('birds', 'is', 'two'))
    """
    nouns: dict[str, str] = {}
    for sentence in parse.sentences:
        for word, tag, lemma in zip(sentence.words, sentence.tags, sentence.lemmas, strict=True):
            if tag.startswith(_NOUN):
                nouns.setdefault(lemma, word.lower())

    def written_out(lemmas: str) -> str:
        return " ".join(nouns.get(lemma, lemma) for lemma in lemmas.split())

    facts: list[Fact] = []
    for thing, *others in scene_tuples(parse):
        if len(others) == 2:
            facts.append((written_out(thing), others[1], written_out(others[0])))
        else:
            facts.append((written_out(thing), IS, others[0]) if others else (written_out(thing),))
    spaced = [tuple(part.replace("_", " ") for part in fact) for fact in facts if all(fact)]
    return tuple(without_mentions(spaced))


def named_as_in_caption(example: FactExample, spelling: Spelling, base: Callable[[str], str]) -> FactExample:
    """The caption with facts whose things are named as it names them: "boats next to boats" for "boat next to boat".

    Only words that the caption has can be copied. Where it has the plural alone and the fact the singular, nothing but
    things whose singular is in the vocabulary would be learned.

    Args:
        example: a caption with facts.
        spelling: corrects the caption's words.
        base: gives a noun's base form.
    """
    words = spelling.corrected(caption_words(example.caption))
    named: dict[str, str] = {}
    for word in words:
        named.setdefault(base(word), word)

    def name(thing: str) -> str:
        return " ".join(word if word in words else named.get(base(word), word) for word in thing.split())

    facts = tuple((name(fact[0]), *fact[1:-1], *map(name, fact[1:][-1:])) for fact in example.facts)
    return replace(example, facts=facts)


def words_of(examples: Iterable[FactExample]) -> Counter[str]:
    """How often each word is in the captions."""
    return Counter(word for example in examples for word in caption_words(example.caption))


def learn_spelling(examples: Iterable[FactExample], known: Iterable[str], dictionary: Synonyms) -> Spelling:
    """A spelling that corrects to frequent words of the captions.

    A frequent word that is in no dictionary is misspelt where a frequent one that is known is near ("refridgerator").

    Args:
        examples: captions.
        known: words that are right, though rare.
        dictionary: more such words; those are kept that would be corrected ("grout" to "group").
    """
    counts = words_of(examples)
    often = [word for word, count in counts.most_common() if count >= _OFTEN and len(word) > _SHORT]
    right = {*known, *filter(dictionary.synsets, counts)}
    first = Spelling((), right)
    first = Spelling([word for word in often if first.is_right(word)], right)
    frequent = [word for word in often if first.corrected([word]) == [word]]
    kept = Spelling(frequent, known)
    return Spelling(
        frequent, kept.known.union(each for each in right.union(dictionary.words) if kept.corrected([each]) != [each])
    )


def kept_pieces(vocabulary: Sequence[str], words: Iterable[str], more: Iterable[str], most: int) -> list[int]:
    """Which pieces of an encoder a graph maker keeps: `SPECIAL`, letters, those of words, then the most frequent.

    Args:
        vocabulary: the encoder's pieces, frequent ones first.
        words: whose pieces are all kept.
        more: whose pieces are kept up to `most`, frequent ones first.
        most: number of pieces.

    Returns:
        Their numbers in the encoder's vocabulary, those of `SPECIAL` first.
    """
    number = {piece: place for place, piece in enumerate(vocabulary)}
    whole = WordPieces([*SPECIAL, *(piece for piece in vocabulary if piece not in SPECIAL)])
    letters = {place for piece, place in number.items() if piece.isascii() and len(piece.removeprefix(INSIDE)) == 1}
    kept = letters | _numbers(whole, words, number)
    more_kept = sorted(_numbers(whole, more, number) - kept)
    first = [number[piece] for piece in SPECIAL]
    return [*first, *sorted((kept | set(more_kept[: max(0, most - len(kept) - len(first))])) - set(first))]


def _numbers(pieces: WordPieces, words: Iterable[str], number: dict[str, int]) -> set[int]:
    return {number[pieces.pieces[each]] for word in words for each in pieces.numbers(word)}


def learn_vocabulary(examples: Sequence[FactExample], lemmas: LemmaRules, spelling: Spelling) -> FactVocabulary:
    """The tokens that occur twice: predicates, what follows verbs, and words that are not in their caption."""
    known = Counter(fact[1] for example in examples for fact in example.facts if len(fact) == 3)
    predicates: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for example in examples:
        words = spelling.corrected(caption_words(example.caption))
        given, verbs = set(words), verbs_of(words, lemmas)
        for fact in example.facts:
            parts = [fact[0], fact[-1]]
            if len(fact) == 3:
                verb, _, rest = fact[1].partition(" ")
                predicates[rest if verb in verbs else fact[1]] += 1
                parts += [fact[1]] if known[fact[1]] < _FEW and verb not in verbs else []
            missing.update(word for part in parts for word in part.split() if word not in given)
    kept = [PREDICATE + each for each, count in predicates.items() if count >= _FEW]
    return FactVocabulary([*MARKS, *sorted(kept), *sorted(word for word, count in missing.items() if count >= _FEW)])


def verbs_of(words: Sequence[str], lemmas: LemmaRules) -> set[str]:
    """The base forms of a caption's words that look like verbs: those that differ from the word, or no preposition."""
    return {lemma for lemma in verb_lemmas(words, lemmas) if lemma not in NO_VERBS}


@dataclass(frozen=True, eq=False)
class Packed:
    """Captions of one length as numbers.

    Args:
        rows: numbers of their words' pieces [N, n, pieces].
        copied: numbers of their words and of the base forms as tokens [N, 2n].
        tokens: what is to be written, `STOP_NUMBER` last, then `NOTHING_NUMBER` [N, S].
    """

    rows: npt.NDArray[np.int32]
    copied: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def pack(
    examples: Iterable[FactExample],
    vocabulary: FactVocabulary,
    pieces: WordPieces,
    spelling: Spelling,
    lemmas: LemmaRules,
    steps: int,
) -> dict[int, Packed]:
    """The captions by length, without the very long ones; facts beyond `steps` tokens are left out."""
    by_length: dict[int, list[tuple[list[list[int]], list[int], list[int]]]] = {}
    for example in examples:
        words = spelling.corrected(caption_words(example.caption)[:LONGEST])
        if words:
            sentence = vocabulary.sentence(words, verb_lemmas(words, lemmas))
            tokens = written(example.facts, words, vocabulary.predicates, verbs_of(words, lemmas))
            numbers = [*vocabulary.numbers(tokens, sentence), STOP_NUMBER][:steps]
            rows = [pieces.row(word) for word in words]
            by_length.setdefault(len(rows), []).append((rows, sentence.numbers, numbers))
    return {
        length: Packed(
            np.array([rows for rows, _, _ in group], np.int32),
            np.array([copied for _, copied, _ in group], np.int64),
            _padded([tokens for _, _, tokens in group]),
        )
        for length, group in sorted(by_length.items())
    }


def _padded(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    table = np.full((len(rows), max(map(len, rows))), NOTHING_NUMBER, np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
