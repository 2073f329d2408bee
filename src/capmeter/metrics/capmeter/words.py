"""What a caption says that its references support, what they do not, what they deny, and what it leaves out.

A word of the candidate is doubted if the network gives it too low a probability, or if it is a number and all
references that count the same thing count it otherwise. A doubted word is *contradicted* if the references say another
word of the same slot (`capmeter.text.slots`) of the same thing; *unsupported* without such a word; all others are
*supported*. A concept is *missing* if at least half of the references name it, and the candidate neither names it nor
says anything near it.

>>> doubted = judge_words("two dogs run".split(), [0.2, 0.9, 0.8], ["One dog runs.".split(), "a dog runs".split()])
>>> doubted.contradicted, doubted.sentences()["contradicted"]
((Contradiction(word=0, said='two dogs', reference=0, place=0, stated='One dog'),), 'says "two dogs", references say \
"One dog"')
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from capmeter.encoders import Encoder
from capmeter.metrics.evidence import Link, Mark
from capmeter.text.concepts import concept
from capmeter.text.slots import contradicts, slot_of

_BEFORE_A_NOUN = ("number", "colour", "size", "years", "open or closed", "full or empty", "side")
DOUBT = 0.5
"""A word that is right with less than this (calibrated) probability is doubted."""


@dataclass(frozen=True)
class Contradiction:
    """A word of the candidate, what it says in its place, and the word of a reference that denies it, in its place."""

    word: int
    said: str
    reference: int
    place: int
    stated: str


@dataclass(frozen=True)
class WordsJudged:
    """The words of one caption and its references, and what is known of them.

    supported, unsupported: numbers of the candidate's words. missing: reference and place of a word for each missing
    concept.
    """

    candidate: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    supported: tuple[int, ...]
    unsupported: tuple[int, ...]
    contradicted: tuple[Contradiction, ...]
    missing: tuple[tuple[int, int], ...]

    def sentences(self) -> dict[str, float | str]:
        """The findings in words, by kind."""
        said: dict[str, float | str] = {}
        if self.contradicted:
            told = (f'says "{each.said}", references say "{each.stated}"' for each in self.contradicted)
            said["contradicted"] = "; ".join(told)
        if self.unsupported:
            said["unsupported"] = ", ".join(f'"{phrase}"' for phrase in self._runs(self.unsupported))
        if self.missing:
            said["missing"] = ", ".join(f'"{bare(self.references[k][at])}"' for k, at in self.missing)
        return said or {"unsupported": "nothing"}

    def _runs(self, words: Sequence[int]) -> list[str]:
        """Neighbouring words as phrases."""
        runs: list[list[int]] = []
        for word in words:
            if runs and runs[-1][-1] == word - 1:
                runs[-1].append(word)
            else:
                runs.append([word])
        return [" ".join(bare(self.candidate[word]) for word in run) for run in runs]

    def marks(self) -> tuple[Mark, ...]:
        """The findings as annotations of words."""
        found = [Mark("candidate", None, k, k + 1, "unsupported") for k in self.unsupported]
        for each in self.contradicted:
            found.append(Mark("candidate", None, each.word, each.word + 1, "contradicted"))
            found.append(Mark("reference", each.reference, each.place, each.place + 1, "contradicted"))
        return (*found, *(Mark("reference", k, at, at + 1, "missing") for k, at in self.missing))

    def links(self) -> tuple[Link, ...]:
        """Supported words with the same word in each reference that has it."""
        found = []
        for k in self.supported:
            named = _concept(self.candidate[k])
            for number, reference in enumerate(self.references):
                at = next((j for j, word in enumerate(reference) if named and _concept(word) == named), None)
                if at is not None:
                    found.append(Link((k, k + 1), number, (at, at + 1), "supported"))
        return tuple(found)


def judge_words(
    candidate: Sequence[str],
    right: Sequence[float],
    references: Sequence[Sequence[str]],
    near: frozenset[str] | set[str] = frozenset(),
) -> WordsJudged:
    """What is known of the words.

    right: of each word of the candidate, the probability that it is right. near: concepts of the references that the
    candidate says in other words.
    """
    doubted = [
        k
        for k, probability in enumerate(right)
        if bare(candidate[k]) and (probability < DOUBT or _miscounted(candidate, k, references))
    ]
    denied = {k: found for k in doubted if (found := _denied(candidate, k, references)) is not None}
    said = {name for word in candidate if (name := _concept(word)) is not None} | near
    named: dict[str, list[tuple[int, int]]] = {}
    for number, reference in enumerate(references):
        for at, word in enumerate(reference):
            name = _concept(word)
            if name is not None and (not named.get(name) or named[name][-1][0] != number):
                named.setdefault(name, []).append((number, at))
    needed = max(2, (len(references) + 1) // 2) if len(references) > 1 else 1
    return WordsJudged(
        candidate=tuple(candidate),
        references=tuple(map(tuple, references)),
        supported=tuple(k for k in range(len(candidate)) if k not in doubted),
        unsupported=tuple(k for k in doubted if k not in denied),
        contradicted=tuple(denied.values()),
        missing=tuple(places[0] for name, places in named.items() if len(places) >= needed and name not in said),
    )


def _denied(candidate: Sequence[str], k: int, references: Sequence[Sequence[str]]) -> Contradiction | None:
    """The word of a reference that denies the candidate's, best one that is said of the same thing."""
    word = bare(candidate[k])
    spoken = {bare(each) for reference in references for each in reference}
    if word in spoken:
        return None
    mine = phrase_of(candidate, k)
    best: tuple[int, Contradiction] | None = None
    for number, reference in enumerate(references):
        for at, other in enumerate(reference):
            if not contradicts(word, bare(other)):
                continue
            stated = phrase_of(reference, at)
            same = len({_concept(w) for w in stated.split()} & {_concept(w) for w in mine.split()} - {None})
            if best is None or same > best[0]:
                best = same, Contradiction(k, mine, number, at, stated)
    if best is None or (slot_of(word) in _BEFORE_A_NOUN and not best[0]):
        return None
    return best[1]


def _miscounted(candidate: Sequence[str], k: int, references: Sequence[Sequence[str]]) -> bool:
    """Whether the word is a number, and every reference that counts the same thing counts it otherwise; at least one.

    "a" and "an" count in references, not in the candidate.
    """
    word = bare(candidate[k])
    if word in ("a", "an") or slot_of(word) != "number":
        return False
    thing = _concept(phrase_of(candidate, k).split()[-1])
    stated = [
        bare(reference[at])
        for reference in references
        for at in range(len(reference))
        if slot_of(bare(reference[at])) == "number" and _concept(phrase_of(reference, at).split()[-1]) == thing
    ]
    return thing is not None and bool(stated) and all(contradicts(word, other) for other in stated)


def phrase_of(words: Sequence[str], k: int) -> str:
    """The word, with what it qualifies where it is a number, a colour or the like: up to the next noun-like word."""
    chosen = [words[k].strip(string.punctuation)]
    if slot_of(bare(words[k])) in _BEFORE_A_NOUN:
        for word in words[k + 1 : k + 3]:
            chosen.append(word.strip(string.punctuation))
            if _concept(word) is not None and slot_of(bare(word)) not in _BEFORE_A_NOUN:
                break
    return " ".join(chosen)


def bare(word: str) -> str:
    """The word in lower case, without surrounding punctuation."""
    return word.strip(string.punctuation + "“”‘’«»…").lower()


def _concept(word: str) -> str | None:
    plain = bare(word)
    return concept(plain) if plain else None


def words_of_pieces(encoder: Encoder, sentence: str, pieces: int) -> list[int] | None:
    """The number of the word, by its place in `sentence.split()`, of each of so many word pieces.

    None where the words' own pieces are not those of the sentence (a tokenizer that joins words).
    """
    words = [number for number, word in enumerate(sentence.split()) for _ in range(_pieces_of(encoder, word))]
    if len(words) < pieces or (len(words) > pieces and pieces < encoder.max_length - 2):
        return None
    return words[:pieces]


@lru_cache(maxsize=65536)
def _pieces_of(encoder: Encoder, word: str) -> int:
    return len(encoder.tokenizer.ids([word])[0]) - 2
