"""AMBER's generative task (Wang et al. 2023): objects that descriptions of annotated images mention.

For every image the annotation lists the objects that it shows (truth) and those that models like to invent (hallu),
each with associated words. With M(c) the nouns of caption c that are in any of these lists, H(c) those of them that
neither the truth nor its associated words nor AMBER's safe words name:

    CHAIR = Σ|H| / Σ|M|        Hal = captions with H ≠ ∅ / captions
    Cover = Σ|truths that c names| / Σ|truths|        Cog = Σ|hallus that c names| / Σ|hallus|

Ranges 0 to 1; **lower is better** but for Cover. The score is CHAIR; all four are parts. Image ids are AMBER's numbers.

The program compares nouns by the vectors of a spaCy model (similarity above .8), which is replaced here by WordNet:
words with a common synset are similar. Nouns are those of the bundled parser. `as_released=true` counts as the program
does: a noun covers one truth, the first that it is equal to, or else similar to; a safe word covers none; a noun that
equals no truth counts for Cog although a truth is similar; a noun with a capital letter counts nowhere, since it is
compared as written; and an object that is listed twice counts twice. docs/hallucination.md says how much this changes.
`annotations` is AMBER's own file,
[{"id": …, "type": "generative", "truth": […], "hallu": […]}, …], with its relation.json and safe_words.txt in the same
folder; or all in one: {"generative": {id: {…}}, "associations": {word: [words]}, "safe_words": […]}.

J. Wang et al. AMBER: An LLM-free Multi-dimensional Benchmark for MLLMs Hallucination Evaluation. arXiv 2311.07397.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from operator import eq
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.rows import image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp, sha256
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe_failure, list_names, shorten
from capmeter.evaluation.base import AdditiveMetric, CapmeterWarning, Floats, Measurement, RunContext
from capmeter.stats.ratios import ratio
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.meteor.synonyms import base_form
from capmeter.text.parsing.parsers import Parses, ParseTable, find_parser

_BESIDE = ("relation.json", "safe_words.txt")
_EXPECTED = (
    "expected AMBER's annotations.json, a list of {id, type, truth, hallu}, with its relation.json ({word: [words]}) "
    "and safe_words.txt in the same folder"
)


@dataclass(frozen=True, eq=False)
class _Annotations:
    """images: truths and hallus of each; associations: of each object; safe: words that are never hallucinated."""

    images: Mapping[str, Sequence[Sequence[str]]]
    associations: Mapping[str, Sequence[str]]
    safe: frozenset[str]
    vocabulary: frozenset[str]

    def name(self, noun: str, objects: Iterable[str]) -> set[str]:
        """The objects that a noun names: by the object's own word, an associated one, or a synonym of either."""
        return {
            each
            for each in objects
            if any(_are_similar(noun, word) for word in (each, *self.associations.get(each, ())))
        }

    def count(self, nouns: Sequence[str], image_id: str) -> tuple[int, ...]:
        """`columns` of a caption with these nouns."""
        truths, hallus = (tuple(dict.fromkeys(each)) for each in self.images[image_id])
        named = [self.name(noun, truths) for noun in nouns]
        wrong = [noun for noun, each in zip(nouns, named, strict=True) if not each and noun not in self.safe]
        invented = {each for noun in wrong for each in self.name(noun, hallus)}
        covered = set().union(*named)
        return len(nouns), len(wrong), len(covered), len(truths), bool(wrong), len(invented), len(hallus)

    def count_as_released(self, nouns: Sequence[str], image_id: str) -> tuple[int, ...]:
        """`columns` of a caption with these nouns, as the program counts; objects are places in the image's lists."""
        truths, hallus = self.images[image_id]
        true_words, false_words = self._words_in_order(truths), self._words_in_order(hallus)
        covered, invented, wrong = set[int](), set[int](), 0
        for noun in nouns:
            if noun in self.safe:
                continue
            if exact := _first(true_words, noun, eq):
                covered |= exact
                continue
            similar = _first(true_words, noun, _are_similar)
            invented |= _first(false_words, noun, eq) | _first(false_words, noun, _are_similar)
            covered |= similar
            wrong += not similar
        return len(nouns), wrong, len(covered), len(truths), wrong > 0, len(invented), len(hallus)

    def _words_in_order(self, objects: Sequence[str]) -> list[tuple[str, int]]:
        """The associated words of all objects, then the objects, each with the place of its object."""
        associated = [(word, k) for k, each in enumerate(objects) for word in self.associations.get(each, ())]
        return [*associated, *((each, k) for k, each in enumerate(objects))]


@dataclass(frozen=True, kw_only=True)
class Amber(AdditiveMetric):
    """CHAIR, Cover, Hal and Cog of AMBER's generative task.

    Args:
        annotations: AMBER's annotations.
        as_released: what the program counts where it departs from the paper.
    """

    NAME: ClassVar[str] = "amber"
    SUMMARY: ClassVar[str] = "AMBER's CHAIR, Cover, Hal and Cog of descriptions of its images (lower is better)"
    EXTRA: ClassVar[str | None] = "meteor"
    columns: ClassVar[tuple[str, ...]] = (
        *("mentions", "hallucinated", "covered", "truths"),
        *("hallucinated-captions", "invented", "hallus"),
    )
    FAMILY: ClassVar[str] = "Hallucination"
    MISLEADS: ClassVar[str] = "Is defined for its own 1,004 images, and depends on its lists of associated words."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CHAIR} = \frac{\sum_c |H(c)|}{\sum_c |M(c)|}, \quad \text{Hal} = \frac{|\{ c : H(c) \neq \emptyset "
        r"\}|}{|\{ c \}|}",
    )
    GUIDE: ClassVar[str] = "docs/hallucination.md"

    annotations: Annotated[str, "JSON file of AMBER's annotations"] = ""
    as_released: Annotated[bool, "count as the program does"] = False

    @property
    def needs(self) -> frozenset[str]:
        """Nothing but the annotations."""
        return frozenset()

    @property
    def lower_is_better(self) -> bool:
        """Always."""
        return True

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The counts of each caption."""
        annotations = self._load_annotations()
        missing_ids = [image_id for image_id in dict.fromkeys(part.image_ids) if image_id not in annotations.images]
        if missing_ids:
            raise InputError(
                f"{Path(self.annotations).name}: it has no description of image {list_names(missing_ids)}; use AMBER's "
                "numbers, and leave out the answers to its yes/no questions"
            )
        parse_table: ParseTable = part.pool.analyse(Parses("caption", context.settings))
        count_rows = []
        count_objects = annotations.count_as_released if self.as_released else annotations.count
        for sentence, image_id in zip(part.candidates.tolist(), part.image_ids, strict=True):
            nouns = _nouns(parse_table, sentence, lower=not self.as_released)
            count_rows.append(count_objects([noun for noun in nouns if noun in annotations.vocabulary], image_id))
        return Measurement(np.array(count_rows, np.float64).reshape(len(part), len(self.columns)))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """CHAIR, then the four parts."""
        mentions, hallucinated, covered, truths, hallucinated_captions, invented, hallus = np.moveaxis(sums, -1, 0)
        chair = ratio(hallucinated, mentions)
        parts = {"chair": chair, "cover": ratio(covered, truths), "hal": hallucinated_captions / counts}
        return {"score": chair, **parts, "cog": ratio(invented, hallus)}

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The annotations with their hash, the parser and the dictionary."""
        self._load_annotations()  # what is wrong with the file is an error of this metric
        hashes = "+".join(sha256(each)[:8] for each in self._files())
        annotations = f"{Path(self.annotations).name}/{hashes}"
        return {"annotations": annotations, "parser": find_parser("caption").version, "dictionary": "meteor-1.5"}

    def _files(self) -> list[Path]:
        """The annotations, and the files beside them that are there."""
        path = Path(self.annotations)
        return [path, *(each for each in map(path.with_name, _BESIDE) if each.exists())]

    def _load_annotations(self) -> _Annotations:
        """AMBER's annotations, read once per process as long as their files do not change."""
        if not self.annotations:
            raise InputError(f"amber: name the file of annotations: amber(annotations=FILE); {_EXPECTED}")
        stamps = tuple(file_stamp("annotations", str(each), _EXPECTED) for each in self._files())
        return _read(self.annotations, stamps, not self.as_released)


@lru_cache(maxsize=4)
def _read(path: str, stamps: tuple[tuple[int, int], ...], lower: bool) -> _Annotations:
    name = location = Path(path).name
    content: Any = decode_json(CaptionSource.resolve(path).read_text(), name)
    relation, safe = _BESIDE if isinstance(content, list) else (name, name)
    images: dict[str, tuple[tuple[str, ...], ...]] = {}
    associations: dict[str, tuple[str, ...]] = {}
    try:
        entries, relations, safe_list = _lists(content, Path(path))
        for key, entry in entries:
            location = f"{name}[{key!a}]"
            if "hallu" not in entry and entry.get("type", "generative") != "generative":
                continue
            image_id = image_key(entry["id"] if isinstance(content, list) else key, location, "id")
            location = f"{name}, image {shorten(image_id)}"
            words = tuple(_words(entry[each], lower) for each in ("truth", "hallu"))
            if images.setdefault(image_id, words) != words:
                raise ValueError("the image is listed twice, with different words")
        location = relation
        for given_word, associated in relations.items():
            location = f"{relation}, {shorten(given_word)}"
            for word in _words([given_word], lower):
                associations[word] = associations.get(word, ()) + _words(associated, lower)
        location = safe
        safe_words = frozenset(_words(safe_list, lower))
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise InputError(f"{location}: not AMBER's annotations ({describe_failure(problem)}); {_EXPECTED}") from None
    vocabulary = frozenset(associations).union(*associations.values(), *chain.from_iterable(images.values()))
    return _Annotations(images, associations, safe_words, vocabulary)


def _lists(content: Any, path: Path) -> tuple[Iterable[tuple[Any, Any]], Any, Any]:
    """Entries, associated words, and safe words: of one file, or of the list and the files beside it."""
    if not isinstance(content, list):
        return content["generative"].items(), content["associations"], content["safe_words"]
    relation, safe = map(path.with_name, _BESIDE)
    if missing := [each.name for each in (relation, safe) if not each.is_file()]:
        warnings.warn(
            f"{path.name}: no {' and no '.join(missing)} beside it: associated or safe words count as hallucinated",
            CapmeterWarning,
            stacklevel=4,
        )
    relations = decode_json(CaptionSource.resolve(relation).read_text(), relation.name) if relation.is_file() else {}
    safe_text = CaptionSource.resolve(safe).read_text() if safe.is_file() else ""
    is_json = safe_text.lstrip().startswith(("[", "{"))
    return enumerate(content), relations, decode_json(safe_text, safe.name) if is_json else safe_text.splitlines()


def _words(word_list: Any, lower: bool) -> tuple[str, ...]:
    """The words of a list."""
    if not isinstance(word_list, list) or not all(isinstance(word, str) for word in word_list):
        raise ValueError(f"{word_list!a:.60} is not a list of words")
    return tuple((word.lower() if lower else word).strip() for word in word_list if word.strip())


def _nouns(parses: ParseTable, sentence: int, lower: bool) -> list[str]:
    """The nouns of a sentence of the pool in their base form; unless in lower case, one with a capital as written."""
    parse, dictionary = parses.parses[sentence], load_english_synonyms()
    nouns = [
        word.lower() if lower else word
        for tagged_sentence in (parse.sentences if parse is not None else ())
        for word, tag in zip(tagged_sentence.words, tagged_sentence.tags, strict=True)
        if tag.startswith("NN")
    ]
    return [base_form(noun, "NN", dictionary) if noun == noun.lower() else noun for noun in nouns]


def _first(words: Iterable[tuple[str, int]], noun: str, matches: Callable[[str, str], bool]) -> set[int]:
    """The object of the first word that matches the noun; empty if no word does."""
    return set(islice((k for word, k in words if matches(word, noun)), 1))


def _are_similar(one: str, other: str) -> bool:
    """Whether two words are equal or have a common synset."""
    return one == other or bool(_synsets(one) & _synsets(other))


@lru_cache(maxsize=1 << 14)
def _synsets(word: str) -> frozenset[int]:
    return load_english_synonyms().synsets(word)
