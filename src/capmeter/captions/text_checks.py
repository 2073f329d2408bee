"""What makes scores misleading, seen in the texts: leftovers of machines, other languages, references of other images.

`check_texts` and `check_captions` give reasons with the ids of the captions, for `validate` and the notes of `score`. A
check of single texts is a pattern of `data/phrases.json` or an entry of `_TESTS`. `ReferenceFit` compares the words and
lengths of candidates and references: two mistakes give scores near 0 without any error, references of other images
(then a candidate shares no more words with its own references than with those of any other image), and references
joined into one text.

>>> find_artefacts("a dog runs<|im_end|>"), find_artefacts("a dog runs")
(['special tokens such as <eos>, which would be scored as words'], [])
>>> compare_texts("ein Hund auf der Straße", ["the dog is on the road"])
['in another language than its references']
>>> is_blank("\\u200b \\u202e"), is_blank("🐕")
(True, False)
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.clean_texts import MARKS, REASONING, TOKENS
from capmeter.captions.words import split_words
from capmeter.core.json_text import read_bundled_json

_PHRASES = read_bundled_json("phrases.json")
ARTEFACTS = {
    "reasoning such as <think>…</think>, which would be scored as part of the caption": REASONING,
    "special tokens such as <eos>, which would be scored as words": TOKENS,
    "marks of a tokenizer such as ▁, Ġ, ## or @@, which would be scored as words": MARKS,
    **_PHRASES["artefacts"],
}
_PLAIN = re.compile(rf"(?!\S*\s*\Z| *(?i:{_PHRASES['beginnings of artefacts']}))[A-Za-z ,.'\"!?()-]*")  # no artefact
_SHOWN = r"an? (?!\w* ?(?:error|exception|bytes))|(?:two|m[ae]n|people|the \w+ (?:features?|shows?|depicts?)) "
_ORDINARY = re.compile(rf"\W*\b(?:{_SHOWN})")  # neither an error nor a refusal begins so; the others are compiled late
_ERROR, _REFUSAL_FIRST = (rf"\W*\b(?:{'|'.join(_PHRASES[key])})" for key in ("errors", "beginnings of refusals"))
_CAPTION = re.compile(rf"\W*\b(?:{'|'.join(_PHRASES['beginnings of captions'])})\b")
_PROGRAM_WORDS, _COMMON_WORDS = (frozenset(words.split()) for words in _PHRASES["words of programs"].values())
_REFUSAL_WORDS = re.compile(rf"[\s\"“(*](?:{'|'.join(_PHRASES['words of refusals'])})")
_REFUSAL = "|".join(_PHRASES["refusals"])
_ENDS = re.compile("[.!?\u2026\u3002\uff01\uff1f\n]")
_EMOJI = re.compile("[\u2600-\u27bf\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff](?:\u200d.)*")
_FEWEST_WORDS, _MOST_WORDS, _GRAM = 20, 5000, 4
_SHARE_OF_BEGINNINGS, _BEGINNING, _FEWEST = 0.9, 4, 10
_NUMBER_FIRST, _FEWEST_NUMBERED = re.compile(r"(\d{1,15})[.:)]? +\w+ \w"), 3
_OTHER_LANGUAGE = "in another language than its references"
_ONE_SIDE = "on one side only, so that equal words count as different; see"
_LONG_WORDS, _LENGTH_RATIO = 60, 3
_FEWEST_IMAGES, _FEWEST_CAPTIONS = 20, 10  # fewer images, or fewer different captions, say nothing
_OWN_TO_OTHER = 1.1
_MIN_EXCESS = 3.0  # standard errors
_JOINED_LENGTH, _TOKEN_LENGTH = 3.0, 1.2
_SEPARATOR = re.compile(r"\|\|+|#{2,}|&&+|(?i:\[sep\]|</s>|<sep>|<br ?/?>)|\t|(?<!\n)\n(?!\n)")
_NUMBERED = re.compile(r"\s*\(?\d{1,2}[.):]\s")
_FEWEST_OF_PART = 2  # words
COPIED = "candidate is one of its own references"
_JOINED = "several references joined to one text by ||| or line breaks? they are scored as one: give a list"
_TOO_LONG = "more than three times as long as its references: read by these alone, the rest counts as wrong (see chair)"
_TOO_SHORT = "less than a third as long as its references: what it leaves out, not what it says, decides its score"
_FULL_WIDTH = re.compile("[\uff01-\uff5e]")
_ONE_SCRIPT = dict.fromkeys(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "BOPOMOFO"), "CJK")

# frequent function words; those of several languages count for each
_FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _PHRASES["function words"].items()}
_ALL_WORDS = frozenset[str]().union(*_FUNCTION_WORDS.values())
_LANGUAGES = {word: [name for name, words in _FUNCTION_WORDS.items() if word in words] for word in _ALL_WORDS}
"""Those of which a word is a function word."""


@dataclass(frozen=True)
class ReferenceFit:
    """Words and lengths of the candidates beside those of their references.

    Args:
        candidate_words, reference_words: mean number of words of a candidate, of a reference.
        vocabulary_share: share of the candidates' distinct words that occur in any reference; None without words.
        own_share: mean share of a candidate's distinct words that occur in its own references.
        other_share: likewise in the references of another image; None if there is only one image.
        other_count: number of candidates compared with another image.
        excess: mean difference of the two shares, in standard errors.
        distinct_count: number of different candidates.
        has_single_references: every image has one reference.
    """

    candidate_words: float
    reference_words: float
    vocabulary_share: float | None
    own_share: float
    other_share: float | None
    other_count: int
    excess: float
    distinct_count: int
    has_single_references: bool

    @classmethod
    def measure(cls, captions: CaptionSet) -> ReferenceFit:
        """Compares the candidates that have references; there must be at least one."""
        word_lists = [split_words(sentence) for sentence in captions.pool.sentences]
        word_counts, word_sets = list(map(len, word_lists)), list(map(frozenset, word_lists))
        reference_sets = captions.reference_sets
        sets = [reference_sets[k].tolist() for k in range(len(reference_sets))]  # the distinct lists of references
        words_of_sets = [frozenset[str]().union(*(word_sets[k] for k in members)) for members in sets]
        candidates, set_of = captions.candidates.tolist(), captions.reference_set_indices.tolist()

        def share(row: int, other_row: int) -> float:
            """The share of a candidate's words that occur in the references of a row."""
            words = word_sets[candidates[row]]
            return len(words & words_of_sets[set_of[other_row]]) / len(words)

        rows = [row for row, k in enumerate(set_of) if sets[k]]
        scored_candidates, used_sets = {candidates[row] for row in rows}, {set_of[row] for row in rows}
        vocabulary = frozenset[str]().union(*(word_sets[k] for k in scored_candidates))
        known_words = frozenset[str]().union(*(words_of_sets[k] for k in used_sets))
        own_shares = {row: share(row, row) for row in rows if word_counts[candidates[row]]}
        with_words, shift = list(own_shares), len(own_shares) // 2  # each is compared with a row half the set away
        other_pairs = [
            (row, other_row)
            for row, other_row in zip(with_words, with_words[shift:] + with_words[:shift], strict=True)
            if captions.image_ids[row] != captions.image_ids[other_row]
        ]
        other_shares = [share(row, other_row) for row, other_row in other_pairs]
        share_differences = [own_shares[row] - other for (row, _), other in zip(other_pairs, other_shares, strict=True)]
        return cls(
            candidate_words=float(np.mean([word_counts[candidates[row]] for row in rows])),
            reference_words=float(np.mean([word_counts[index] for row in rows for index in sets[set_of[row]]])),
            vocabulary_share=len(vocabulary & known_words) / len(vocabulary) if vocabulary else None,
            own_share=float(np.mean(list(own_shares.values()))) if own_shares else 0.0,
            other_share=float(np.mean(other_shares)) if other_pairs else None,
            other_count=len(other_pairs),
            excess=_standardise(share_differences),
            distinct_count=len(scored_candidates),
            has_single_references=all(len(sets[k]) == 1 for k in used_sets),
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether a candidate shares hardly more words with its own references than with another image's."""
        return (
            self.other_share is not None
            and self.other_count >= (_FEWEST_IMAGES if self.own_share else _FEWEST_CAPTIONS)
            and self.own_share <= _OWN_TO_OTHER * self.other_share
        )

    def describe_mismatch(self) -> str | None:
        """Why the references cannot be those of these candidates, in a sentence; None if they can."""
        if 0.9 < self.reference_words < _TOKEN_LENGTH and self.candidate_words > _JOINED_LENGTH:
            has = f"the references have one word on average, where a candidate has {self.candidate_words:.0f}"
            return f"{has}: each seems to be a list of its tokens; join these to one text"
        if self.distinct_count < _FEWEST_CAPTIONS:
            return None
        if self.is_doubtful and self.excess < _MIN_EXCESS:
            return (
                f"the candidates share no more words with their own references ({self.own_share:.0%}) than with those "
                f"of other images ({self.other_share:.0%}): the references belong to other images, or are in another "
                "order; check which field is the image id, and that both are of the same split"
            )
        if self.has_single_references and self.reference_words > _JOINED_LENGTH * self.candidate_words > 0:
            return (
                f"every image has one reference, of {self.reference_words:.0f} words on average where a candidate has "
                f"{self.candidate_words:.0f}: several references seem to be joined into one text, which leaves BLEU "
                "and CIDEr-D near 0; give a list with one text for each reference"
            )
        return None


def is_blank(text: str, *, or_punctuation: bool = False) -> bool:
    """Whether nothing of a text is visible: white space, controls, zero-width and combining characters.

    or_punctuation: or punctuation alone, so that nothing of it can be compared.
    """
    kinds = "CZMP" if or_punctuation else "CZM"
    return not text[:1].isalnum() and all(unicodedata.category(character)[0] in kinds for character in text)


def find_artefacts(text: str) -> list[str]:
    """What machines left in a text, or what they wrote instead of a caption."""
    marks = {} if _PLAIN.fullmatch(text) and "seq" not in text and "UNK" not in text else ARTEFACTS
    reasons = [reason for reason, mark in marks.items() if re.search(mark, text)]
    return reasons + [reason for reason, test in _TESTS.items() if test(text) and reason not in reasons]


def check_texts(ids: Sequence[str], texts: Sequence[str]) -> dict[str, list[str]]:
    """The artefacts in texts, each of which is checked once: reason → the ids of the texts, in their order."""
    reasons_of = {text: reasons for text in set(texts) if (reasons := find_artefacts(text))}
    ids_by_reason: dict[str, list[str]] = {}
    for id, text in zip(ids, texts, strict=True) if reasons_of else ():
        for reason in reasons_of.get(text, ()):
            ids_by_reason.setdefault(reason, []).append(id)
    return ids_by_reason


def _is_refusal(text: str) -> bool:
    start = f" {text[:1000].lower()}"
    is_first = not _ORDINARY.match(start) and re.match(_REFUSAL_FIRST, start)
    return bool(is_first or (_REFUSAL_WORDS.search(start) and re.search(_REFUSAL, start)))


def _is_error(text: str) -> bool:
    start = text[:1000].lower()
    if (is_error := not _ORDINARY.match(start) and re.match(_ERROR, start) is not None) or _CAPTION.match(start):
        return is_error
    words = set(re.findall(r"[a-z\d]+", start[:200]))
    return len(words & _PROGRAM_WORDS) >= max(2 + bool(_PLAIN.fullmatch(start)) - len(words & _COMMON_WORDS), 1)


_TESTS: dict[str, Callable[[str], bool]] = {
    "refusals, which say nothing of the image": _is_refusal,
    "error messages of a program or a server in place of a caption": _is_error,
    "more emoji than words, which are left out or taken for unknown words": lambda text: (
        not text.isascii() and len(_EMOJI.findall(text)) > len(re.findall(r"\w+", text))
    ),
    "60 words and more without the end of a sentence, which are read as one sentence": lambda text: (
        len(text) >= 2 * _LONG_WORDS and not _ENDS.search(text) and len(text.split()) >= _LONG_WORDS
    ),
    "more than 5,000 words: is it a caption?": lambda text: (
        len(text) > 2 * _MOST_WORDS and len(text.split()) > _MOST_WORDS
    ),
    "repeated phrases, as of a model that loops": lambda text: (
        text.count(" ") >= _FEWEST_WORDS and _repeats(text.lower().split())
    ),
}


def compare_texts(candidate: str, references: Sequence[str]) -> list[str]:
    """In what a caption differs from all of its references: language or script, Unicode form, full-width letters."""
    if not references or is_blank(candidate):
        return []
    joined_references = " ".join(references)
    scripts = {_script(candidate), _script(joined_references)}
    reasons = []
    if (len(scripts) > 1 and None not in scripts) or _other_language(candidate, joined_references):
        reasons.append(_OTHER_LANGUAGE)
    if unicodedata.is_normalized("NFC", candidate) != unicodedata.is_normalized("NFC", joined_references):
        reasons.append(f"accents as characters of their own (Unicode NFD) {_ONE_SIDE} --unicode nfc")
    if bool(_FULL_WIDTH.search(candidate)) != bool(_FULL_WIDTH.search(joined_references)):
        reasons.append(f"full-width letters {_ONE_SIDE} --unicode nfkc")
    return reasons


def compare_lengths(candidate: str, references: Sequence[str]) -> list[str]:
    """Whether a detailed caption is compared with short references, or a short one with detailed references.

    >>> compare_lengths("a dog " * 40, ["a dog runs on grass"]), compare_lengths("a dog runs", ["a dog runs on grass"])
    (['more than three times as long as its references: read by these alone, the rest counts as wrong (see chair)'], [])
    """
    if max(len(candidate), *map(len, references), 0) < 2 * _LONG_WORDS or not references or is_blank(candidate):
        return []
    candidate_length, *others = (len(text.split()) for text in (candidate, *references))
    if candidate_length >= _LONG_WORDS and candidate_length > _LENGTH_RATIO * max(others):
        return [_TOO_LONG]
    return [_TOO_SHORT] if min(others) >= _LONG_WORDS and _LENGTH_RATIO * candidate_length < min(others) else []


def has_joined_references(candidate: str, references: Sequence[str]) -> bool:
    """Whether the only reference seems to be several in one text, which its candidate is not.

    >>> has_joined_references("a dog", ["a dog runs ||| the dog is running"]), has_joined_references("a dog", ["a | b"])
    (True, False)
    """
    if len(references) != 1 or (separator := _SEPARATOR.search(references[0])) is None or _SEPARATOR.search(candidate):
        return False
    parts = [part for part in _SEPARATOR.split(references[0]) if part.strip()]
    part_lengths, candidate_length = [len(part.split()) for part in parts], len(candidate.split())
    if separator[0] == "\n" and not all(map(_NUMBERED.match, parts)):  # lines of one text are not as long as captions
        is_caption = [candidate_length / 2 <= length <= 2 * candidate_length for length in part_lengths]
        return len(parts) > 1 and all(is_caption) and min(part_lengths) >= _FEWEST_OF_PART
    return len(part_lengths) > 1 and min(part_lengths) >= _FEWEST_OF_PART and max(part_lengths) <= _LONG_WORDS


def check_captions(captions: CaptionSet) -> dict[str, list[str]]:
    """What may make the scores of these captions misleading, beside artefacts: reasons with the ids of the captions.

    Args:
        captions: candidates with or without references.

    Returns:
        Reasons in a fixed order, only those that apply.
    """
    sentences, reference_sets = captions.pool.sentences, captions.reference_sets
    wordless = {k for k, text in enumerate(sentences) if is_blank(text, or_punctuation=True)}

    def compare(candidate: int, members: list[int]) -> list[str]:
        text, references = sentences[candidate], [sentences[k] for k in members]
        reasons: list[str] = []
        if references:
            if not (_looks_english(text) and _looks_english(references[0])):
                reasons += compare_texts(text, references)
            reasons += compare_lengths(text, references)
            reasons += [_JOINED] * has_joined_references(text, references)
        reasons += ["empty reference"] * (not wordless.isdisjoint(members))
        return reasons + [COPIED] * (candidate in members)

    pairs = list(zip(captions.candidates.tolist(), captions.reference_set_indices.tolist(), strict=True))
    # equal captions with equal references are checked once
    reasons_of_pair = {pair: compare(pair[0], reference_sets[pair[1]].tolist()) for pair in dict.fromkeys(pairs)}
    notes: dict[str, list[str]] = {}
    for caption_id, pair in zip(captions.ids, pairs, strict=True):
        for reason in reasons_of_pair[pair]:
            notes.setdefault(reason, []).append(caption_id)
    copied_ids = notes.pop(COPIED, [])
    return notes | _check_beginnings(captions) | ({COPIED: copied_ids} if copied_ids else {})


def _check_beginnings(captions: CaptionSet) -> dict[str, list[str]]:
    """The captions that begin with the same words, if nearly all do: a prompt, or a phrase of a model; or are tokens.

    Tokens are one word each, several of an image; Chinese, say, has no spaces either.
    """
    candidates = [captions.pool[k] for k in set(captions.candidates.tolist())]
    numbers = {match[1] for text in candidates if (match := _NUMBER_FIRST.match(text))}
    if len(numbers) == len(candidates) >= _FEWEST_NUMBERED:
        reason = 'begins with a number of its own, as all do: the image? A tab after it, or "#0" and a tab, says so'
        return {reason: list(captions.ids)}
    are_words = len(candidates) > 1 and all(text.isascii() and " " not in text.strip() for text in candidates)
    if are_words and 2 * len(set(captions.image_ids)) <= len(captions):
        return {"of one word, and several of an image: tokens? Join them to one text": list(captions.ids)}
    if len(candidates) < _FEWEST:
        return {}
    beginning, beginning_count = Counter(map(_first_words, candidates)).most_common(1)[0]
    if beginning_count < _SHARE_OF_BEGINNINGS * len(candidates) or len(beginning.split()) < _BEGINNING:
        return {}
    ids = find_ids(captions, lambda text: _first_words(text) == beginning)
    return {f'begins with "{beginning[:40]}", as nearly all do: a prompt?': ids}


def _first_words(text: str) -> str:
    return " ".join(text.split(maxsplit=_BEGINNING)[:_BEGINNING])


def find_ids(captions: CaptionSet, test: Callable[[str], bool]) -> list[str]:
    """The ids of the captions whose candidates pass a test; equal candidates are tested once."""
    passed = {k for k in set(captions.candidates.tolist()) if test(captions.pool[k])}
    return [id for id, k in zip(captions.ids, captions.candidates.tolist(), strict=True) if k in passed]


def _repeats(caption_words: Sequence[str]) -> bool:
    """Whether more than half of a long text's runs of four words occur before in it.

    >>> _repeats(["a", "dog", "runs", "on", "grass"]), _repeats(["a", "dog", "and"] * 4)
    (False, True)
    """
    word_runs = set(zip(*(caption_words[start:] for start in range(_GRAM)), strict=False))
    return 2 * len(word_runs) < len(caption_words) - _GRAM + 1


def has_foreign_words(text: str) -> bool:
    """Whether a text has another script than Latin, or more function words of another language than English ones."""
    if _script(text) not in ("LATIN", None):
        return True
    language_hits = _count_function_words(_split(text))
    return max(language_hits.values(), default=0) > language_hits["en"]


def _looks_english(text: str) -> bool:
    return text.isascii() and not _FUNCTION_WORDS["en"].isdisjoint(text.lower().split())


def _other_language(candidate: str, references: str) -> bool:
    """Whether the references have a language whose function words the caption lacks, where it has another's."""
    reference_hits = _count_function_words(_split(references))
    if max(reference_hits.values(), default=0) < 2:
        return False
    language = max(_FUNCTION_WORDS, key=lambda language_name: reference_hits[language_name])
    candidate_hits = _count_function_words(_split(candidate))
    return not candidate_hits[language] and max(candidate_hits.values(), default=0) >= 2


def _count_function_words(words: Iterable[str]) -> Counter[str]:
    """The number of function words of each language that has any among these words."""
    return Counter(language for word in words for language in _LANGUAGES.get(word, ()))


def _split(text: str) -> Iterable[str]:
    return re.findall(r"[^\W\d_]+", unicodedata.normalize("NFC", text.lower()))


def _script(text: str) -> str | None:
    """The script of most letters, by the first word of their names; None without letters."""
    if text.isascii():
        return "LATIN" if any(character.isalpha() for character in text) else None
    letters = (character for character in unicodedata.normalize("NFKC", text[:500]) if character.isalpha())
    scripts = Counter(unicodedata.name(character, "?").split()[0] for character in letters)
    return _ONE_SCRIPT.get(script_name := scripts.most_common(1)[0][0], script_name) if scripts else None


def _standardise(share_differences: Sequence[float]) -> float:
    """The mean in standard errors."""
    if len(share_differences) < 2:
        return 0.0
    mean, standard_deviation = float(np.mean(share_differences)), float(np.std(share_differences, ddof=1))
    if not standard_deviation:
        return 0.0 if not mean else float("inf") if mean > 0 else float("-inf")
    return mean / standard_deviation * math.sqrt(len(share_differences))
