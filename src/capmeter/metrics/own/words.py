"""Word labels: supported, unsupported and contradicted words of the candidate, and concepts that it is missing.

A word of the candidate is flagged if its probability of being right is below .5, or if it is a number and every
reference that counts the same thing gives another. A flagged word is *contradicted* if a reference has another word of
the same slot (`capmeter.text.concepts`) for the same thing, otherwise *unsupported*; all other words are
*supported*. A concept is *missing* if at least half of the references name it and the candidate neither names nor
paraphrases it.

>>> verdicts = label_words("two dogs run".split(), [0.2, 0.9, 0.8], ["One dog runs.".split(), "a dog runs".split()])
>>> verdicts.contradicted
(_Contradiction(word=0, phrase='two dogs', reference=0, position=0, reference_phrase='One dog'),)
>>> verdicts.summary()["contradicted"]
'says "two dogs", references say "One dog"'
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from capmeter.encoders import Encoder
from capmeter.evaluation.evidence import Link, Mark
from capmeter.text.concepts import contradicts, find_slot, token_concept
from capmeter.text.tokenization.token_tables import bare_word

_BEFORE_A_NOUN = ("number", "colour", "size", "years", "open or closed", "full or empty", "side")
MIN_PROBABILITY = 0.5
"""A word whose (calibrated) probability of being right is lower is flagged."""


@dataclass(frozen=True)
class _Contradiction:
    """A word of the candidate and one of a reference that contradicts it: their indices, and both in their phrases."""

    word: int
    phrase: str
    reference: int
    position: int
    reference_phrase: str


@dataclass(frozen=True)
class WordVerdicts:
    """Labels of the words of one candidate.

    Attributes:
        candidate, references: their words.
        supported, unsupported: indices of the candidate's words.
        contradicted: the others.
        missing: for each missing concept, a reference and the index of a word in it.
    """

    candidate: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    supported: tuple[int, ...]
    unsupported: tuple[int, ...]
    contradicted: tuple[_Contradiction, ...]
    missing: tuple[tuple[int, int], ...]

    def summary(self) -> dict[str, float | str]:
        """The findings in words, by label."""
        findings: dict[str, float | str] = {}
        if self.contradicted:
            pairs = (f'says "{each.phrase}", references say "{each.reference_phrase}"' for each in self.contradicted)
            findings["contradicted"] = "; ".join(pairs)
        if self.unsupported:
            findings["unsupported"] = ", ".join(f'"{phrase}"' for phrase in self._runs(self.unsupported))
        if self.missing:
            findings["missing"] = ", ".join(f'"{bare_word(self.references[k][at])}"' for k, at in self.missing)
        return findings or {"unsupported": "nothing"}

    def _runs(self, words: Sequence[int]) -> list[str]:
        """Adjacent words as phrases."""
        word_runs: list[list[int]] = []
        for word in words:
            if word_runs and word_runs[-1][-1] == word - 1:
                word_runs[-1].append(word)
            else:
                word_runs.append([word])
        return [" ".join(bare_word(self.candidate[word]) for word in run) for run in word_runs]

    def marks(self) -> tuple[Mark, ...]:
        """The findings as annotations of words."""
        marks = [Mark("candidate", None, k, k + 1, "unsupported") for k in self.unsupported]
        for each in self.contradicted:
            marks.append(Mark("candidate", None, each.word, each.word + 1, "contradicted"))
            marks.append(Mark("reference", each.reference, each.position, each.position + 1, "contradicted"))
        return (*marks, *(Mark("reference", k, at, at + 1, "missing") for k, at in self.missing))

    def links(self) -> tuple[Link, ...]:
        """Supported words, linked with the first word of the same concept in each reference."""
        links = []
        for k in self.supported:
            name = _concept(self.candidate[k])
            for reference_index, reference in enumerate(self.references):
                at = next((j for j, word in enumerate(reference) if name and _concept(word) == name), None)
                if at is not None:
                    links.append(Link((k, k + 1), reference_index, (at, at + 1), "supported"))
        return tuple(links)


def label_words(
    candidate: Sequence[str],
    probabilities: Sequence[float],
    references: Sequence[Sequence[str]],
    paraphrased: frozenset[str] | set[str] = frozenset(),
    contradicted: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> WordVerdicts:
    """Labels the words of a candidate.

    Args:
        candidate, references: their words.
        probabilities: of each word of the candidate, of being right.
        paraphrased: concepts of the references that the candidate expresses in other words.
        contradicted: words that are known to contradict a reference: word → reference and the word there.
    """
    flagged_words = [
        k
        for k, probability in enumerate(probabilities)
        if bare_word(candidate[k]) and (probability < MIN_PROBABILITY or _is_miscount(candidate, k, references))
    ]
    known_contradictions = {
        k: _Contradiction(k, _phrase_of(candidate, k), reference_index, at, _phrase_of(references[reference_index], at))
        for k, (reference_index, at) in contradicted.items()
    }
    flagged_words = sorted({*flagged_words, *known_contradictions})
    contradictions = known_contradictions | {
        k: contradiction
        for k in flagged_words
        if k not in known_contradictions and (contradiction := _contradiction(candidate, k, references))
    }
    covered_concepts = {name for word in candidate if (name := _concept(word)) is not None} | paraphrased
    concept_mentions: dict[str, list[tuple[int, int]]] = {}
    for reference_index, reference in enumerate(references):
        for at, word in enumerate(reference):
            name = _concept(word)
            if name is not None and (
                not concept_mentions.get(name) or concept_mentions[name][-1][0] != reference_index
            ):
                concept_mentions.setdefault(name, []).append((reference_index, at))
    majority = max(2, (len(references) + 1) // 2) if len(references) > 1 else 1
    return WordVerdicts(
        candidate=tuple(candidate),
        references=tuple(map(tuple, references)),
        supported=tuple(k for k in range(len(candidate)) if k not in flagged_words),
        unsupported=tuple(k for k in flagged_words if k not in contradictions),
        contradicted=tuple(contradictions.values()),
        missing=tuple(
            at[0] for name, at in concept_mentions.items() if len(at) >= majority and name not in covered_concepts
        ),
    )


def _contradiction(
    candidate: Sequence[str], word_index: int, references: Sequence[Sequence[str]]
) -> _Contradiction | None:
    """A reference's word that contradicts the candidate's, preferably in a phrase about the same thing."""
    word = bare_word(candidate[word_index])
    if word in {bare_word(reference_word) for reference in references for reference_word in reference}:
        return None
    phrase = _phrase_of(candidate, word_index)
    best_match: tuple[int, _Contradiction] | None = None
    for reference_index, reference in enumerate(references):
        for at, reference_word in enumerate(reference):
            if not contradicts(word, bare_word(reference_word)):
                continue
            reference_phrase = _phrase_of(reference, at)
            shared_concepts = len(
                {_concept(w) for w in reference_phrase.split()} & {_concept(w) for w in phrase.split()} - {None}
            )
            if best_match is None or shared_concepts > best_match[0]:
                best_match = shared_concepts, _Contradiction(word_index, phrase, reference_index, at, reference_phrase)
    if best_match is None or (find_slot(word) in _BEFORE_A_NOUN and not best_match[0]):
        return None
    return best_match[1]


def _is_miscount(candidate: Sequence[str], word_index: int, references: Sequence[Sequence[str]]) -> bool:
    """Whether the word is a number and each of the references that count the same thing, if any, has another.

    "a" and "an" count in references, not in the candidate.
    """
    word = bare_word(candidate[word_index])
    if word in ("a", "an") or find_slot(word) != "number":
        return False
    noun = _concept(_phrase_of(candidate, word_index).split()[-1])
    reference_numbers = [
        bare_word(reference[at])
        for reference in references
        for at in range(len(reference))
        if find_slot(bare_word(reference[at])) == "number" and _concept(_phrase_of(reference, at).split()[-1]) == noun
    ]
    return (
        noun is not None and bool(reference_numbers) and all(contradicts(word, number) for number in reference_numbers)
    )


def _phrase_of(words: Sequence[str], k: int) -> str:
    """The word; a number, colour or other modifier with the words after it, up to the first noun-like one."""
    phrase = [words[k].strip(string.punctuation)]
    if find_slot(bare_word(words[k])) in _BEFORE_A_NOUN:
        for word in words[k + 1 : k + 3]:
            phrase.append(word.strip(string.punctuation))
            if _concept(word) is not None and find_slot(bare_word(word)) not in _BEFORE_A_NOUN:
                break
    return " ".join(phrase)


def _concept(word: str) -> str | None:
    bare = bare_word(word)
    return token_concept(bare) if bare else None


def word_indices(encoder: Encoder, sentence: str, pieces: int) -> list[int] | None:
    """For each of the sentence's word pieces, the index of its word in `sentence.split()`.

    None where the words' own pieces differ from those of the sentence (a tokenizer that joins words).

    Args:
        encoder: whose word pieces they are.
        sentence: the sentence.
        pieces: their number.
    """
    words = [index for index, word in enumerate(sentence.split()) for _ in range(_piece_count(encoder, word))]
    if len(words) < pieces or (len(words) > pieces and pieces < encoder.max_length - 2):
        return None
    return words[:pieces]


@lru_cache(maxsize=65536)
def _piece_count(encoder: Encoder, word: str) -> int:
    return len(encoder.tokenizer.ids([word])[0]) - 2
