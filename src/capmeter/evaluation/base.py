"""The base classes of metrics: a metric is an immutable value that measures captions.

A metric turns a part of a caption set into one row of numbers per caption (`measure`), and sums of rows into scores
(`from_sums`). Everything else (running over parts, corpus scores, intervals, files) is implemented once, elsewhere, and
relies on this: `from_sums` of one caption's row is that caption's score, and of the sum of all rows the corpus score.

There are three kinds. A `MeanMetric` gives one number per caption, and its corpus score is their mean (a
`SentenceMetric` from the words of each caption alone); an `AdditiveMetric` gives sufficient statistics per caption, and
its corpus score is a function of their sum; a `CompositeMetric` (`capmeter.evaluation.composite`) combines other
metrics. Whatever depends on the corpus (document frequencies …) is a `CorpusState`: a value that collects a state from
each part; states add up.

Everything that a metric receives besides the captions is in one `RunContext`: the corpus state, the results of required
metrics, and the settings of the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.text_checks import is_blank
from capmeter.core.errors import InputError
from capmeter.core.named import Named
from capmeter.core.settings import Settings
from capmeter.text.tokenization.token_tables import Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence

Floats = npt.NDArray[np.float64]
Answers = dict[str, dict[str, str]]
"""What a judge answered about captions: id → question → answer."""


EMPTY = "empty candidate"
"""The note on candidates without any text."""
UNUSED, ABSENT = "references_without_candidate", "without results, and counted 0"
"""The notes on images that have references but no candidate: of the captions, and of a metric that counts them."""


class CapmeterWarning(UserWarning):
    """A score was computed, but it may be misleading."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A metric's results on a part of the captions."""

    values: Floats  # (captions, columns): one row per caption, finite
    notes: dict[str, list[str]] = field(default_factory=dict)  # reason → ids of the captions
    answers: Answers = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class RunContext:
    """What a metric or a corpus state receives besides the captions of a part.

    state: the metric's corpus state, collected from the whole run (None without one).
    settings: device, precision, threads and cache of this run.
    scores: of each required metric its "score" and its parts, each with one number per caption of the part (captions).
    measurements: of each required metric its rows and notes. Without captions (in `signature_facts`) both are empty.
    required_contexts: of each required metric its own context, for calls to the members of a composite.
    """

    state: Any = None
    settings: Settings = field(default_factory=Settings)
    scores: Mapping[Metric, Mapping[str, Floats]] = field(default_factory=dict)
    measurements: Mapping[Metric, Measurement] = field(default_factory=dict)
    required_contexts: Mapping[Metric, RunContext] = field(default_factory=dict)


class CorpusState(ABC):
    """What a metric needs of all captions before it scores any (document frequencies …): a hashable value.

    Equal values are collected once for all metrics that need them. The states of parts add up to the state of the
    whole: `collect(a) + collect(b)` equals `collect(a and b)`.

    Class attributes:
        AFFECTS_SCORES: whether scores depend on it; else it only checks the captions, and no context has it.
    """

    AFFECTS_SCORES: ClassVar[bool] = True

    def required_metrics(self) -> tuple[Metric, ...]:
        """The metrics whose caption scores `collect` needs; they are measured first, on the same captions."""
        return ()

    @abstractmethod
    def collect(self, part: CaptionSet, context: RunContext) -> Any:
        """Collects the state of one part.

        Args:
            part: some of the captions.
            context: the settings of the run, and the scores of the required metrics.

        Returns:
            A value that can be added (`+`) to those of other parts, and pickled.
        """


@dataclass(frozen=True, kw_only=True)
class Metric(Named, ABC):
    """The base class of all metrics. A subclass is a frozen dataclass whose fields are its parameters.

    Class attributes:
        NAME, SUMMARY: the metric's name, and what it measures in one line.
        EXTRA: the pip extra that it needs, or several ("neural,meteor").
        PART_SIZE: the preferred number of captions per part.
        MAX_WORDS: the number of words of a candidate up to which scores are meaningful; None: of any length. `score`
            notes longer ones.
        MICROSECONDS: the processor time of a caption with five references on one core; 0: unknown, or a network, which
            uses all cores.

    The documentation is made from these (Markdown; `docs/PAGE.md` becomes a link):
        FAMILY: the group of metrics that it belongs to.
        MISLEADS: when its score misleads, as sentences whose subject is the metric.
        FORMULA: its formula as LaTeX, a text for each equation, as the module's docstring gives it in plain text.
        EXAMPLE: the parameters with which it is shown, where its name alone cannot be run.
        GUIDE: the page that shows how it is run, where captions and references alone are not enough.
    """

    EXTRA: ClassVar[str | None] = None
    PART_SIZE: ClassVar[int] = 8192
    MAX_WORDS: ClassVar[int | None] = None
    MICROSECONDS: ClassVar[float] = 0.0
    FAMILY: ClassVar[str] = "Other metrics"
    MISLEADS: ClassVar[str] = ""
    FORMULA: ClassVar[tuple[str, ...]] = ()
    EXAMPLE: ClassVar[str] = ""
    GUIDE: ClassVar[str] = ""

    @property
    def needs(self) -> frozenset[str]:
        """What each caption must have: any of "references", "events" (in time), "image" (its picture), "regions"."""
        return frozenset({"references"})

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that `measure` returns."""

    def required_metrics(self) -> tuple[Metric, ...]:
        """The metrics whose caption-level scores this one needs."""
        return ()

    @property
    def extras(self) -> tuple[str, ...]:
        """The pip extras that it needs, with those of the metrics that it requires, sorted."""
        extras = self.EXTRA.split(",") if self.EXTRA else []
        return tuple(sorted({*extras, *(extra for metric in self.required_metrics() for extra in metric.extras)}))

    @property
    def lower_is_better(self) -> bool:
        """Whether better captions have lower scores, as of metrics that count errors."""
        return False

    @property
    def counts_absent(self) -> bool:
        """Whether images or videos with references but no candidate count, with a row of zeros, in the corpus score."""
        return False

    def corpus_state(self) -> CorpusState | None:
        """What must be collected from all captions first; None: nothing."""
        return None

    @abstractmethod
    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """Measures the captions of one part.

        Args:
            part: at most `PART_SIZE` captions.
            context: corpus state, settings, and the results of the required metrics on this part.

        Returns:
            Rows of shape (captions, columns), finite; notes on single captions.
        """

    @abstractmethod
    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """Computes scores from sums of rows.

        Args:
            sums: (..., columns), rows summed over captions.
            counts: (...), the number of captions in each sum.

        Returns:
            "score" first, then its parts; every value has the shape of `counts`.
        """

    def check_sums(self, sums: Floats, count: int, notes: Mapping[str, int]) -> None:
        """Refuses captions that together have no score at all, once all of them are measured.

        Args:
            sums: their rows, summed (columns).
            count: their number.
            notes: reason → number of captions.

        Raises:
            InputError: they have none, and why.
        """

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """What else affects the score and belongs in the signature: tokenizer version, model hash, idf source …"""
        return {}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The evidence for each caption of the part.

        Raises:
            InputError: the metric cannot explain its scores.
        """
        raise InputError(f"{self} cannot explain its scores; `capmeter list` marks the metrics that can")

    @property
    def is_mean(self) -> bool:
        """Whether a caption's row is its score and parts, and the corpus score is the mean of the caption scores."""
        return False

    @property
    def can_explain(self) -> bool:
        """Whether the metric can explain its scores."""
        return type(self).explain is not Metric.explain


class MeanMetric(Metric):
    """A metric with one score per caption; the corpus score is their mean.

    A subclass defines `measure`, whose rows have the columns `columns`: "score", and after it the names of parts, if
    there are any. The corpus value of every column is its mean.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Words(MeanMetric):
    ...     NAME, SUMMARY = "words", "number of words of a caption"
    ...
    ...     def measure(self, part, context):
    ...         return Measurement(np.array([[len(each.candidate.split())] for each in part], np.float64))
    >>> from capmeter.captions.caption_set import Caption
    >>> Words().measure(CaptionSet.from_captions([Caption("1", "1", "a dog runs")]), RunContext()).values.tolist()
    [[3.0]]
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, unless a subclass has parts."""
        return ("score",)

    @property
    def is_mean(self) -> bool:
        """Always."""
        return True

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean of every column."""
        return column_means(self.columns, sums, counts)


class SentenceMetric(MeanMetric):
    """A metric of one function: `score_tokens` compares the words of a caption with those of its references.

    Words are PTB tokens, in lower case and without punctuation, as those of BLEU or CIDEr. The function is called once
    per caption; the corpus score is the mean. A metric for millions of captions is a `MeanMetric` that works on arrays.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Overlap(SentenceMetric):
    ...     NAME, SUMMARY = "overlap", "share of the candidate's words that the best reference has"
    ...
    ...     def score_tokens(self, candidate, references):
    ...         return max(sum(word in reference for word in candidate) for reference in references) / len(candidate)
    >>> from capmeter.evaluation.runner import score
    >>> score(candidates=["A dog runs."], references=[["A dog sleeps.", "Cats!"]], metrics=[Overlap()])["overlap"].score
    0.6666666666666666
    """

    @abstractmethod
    def score_tokens(self, candidate: list[str], references: list[list[str]]) -> float:
        """Scores one caption.

        Args:
            candidate: its words; empty for a caption without any.
            references: the words of each reference.

        Returns:
            A finite number.
        """

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """`score_tokens` of each caption."""
        tokens: TokenTable = part.pool.analyse(Tokens())
        scores = [
            self.score_tokens(
                list(tokens.row(int(part.candidates[row]))),
                [list(tokens.row(reference)) for reference in part.references[row].tolist()],
            )
            for row in range(len(part))
        ]
        notes = note_empty_candidates(part, tokens.ids.lengths)
        return Measurement(np.array(scores, np.float64).reshape(-1, 1), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version("ptb")}


class AdditiveMetric(Metric):
    """A metric with sufficient statistics: the corpus score is `from_sums` of the sum of its captions' rows.

    A subclass defines `columns`, `measure`, whose rows are counts that can be summed over captions (matches, lengths
    …), and `from_sums`, the formula that turns such sums into scores. It is called with the sums of one caption, of all
    captions, and of every resample of an interval or test, many at once: it must work on arrays of any shape
    (..., columns).
    """


def column_means(columns: tuple[str, ...], sums: Floats, counts: Floats) -> dict[str, Floats]:
    """The mean of every column, from sums (..., columns) and numbers of captions (...).

    Args:
        columns: their names.
        sums: of rows (..., columns).
        counts: numbers of captions (...).
    """
    means = sums / counts[..., None]
    return {column: means[..., k] for k, column in enumerate(columns)}


def merge_notes(notes: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Merges notes: for each reason the ids, without duplicates."""
    merged_notes: dict[str, dict[str, None]] = {}
    for part_notes in notes:
        for reason, ids in part_notes.items():
            if ids:
                merged_notes.setdefault(reason, {}).update(dict.fromkeys(ids))
    return {reason: list(ids) for reason, ids in merged_notes.items()}


def count_notes(notes: Mapping[str, list[str]]) -> dict[str, int]:
    """The number of captions of each note."""
    return {reason: len(ids) for reason, ids in notes.items()}


def note_empty_candidates(part: CaptionSet, lengths: npt.NDArray[Any]) -> dict[str, list[str]]:
    """Notes the captions that are visible but have no words; `lengths` (sentences): the words of each sentence."""
    empty_rows = np.flatnonzero(lengths[part.candidates] == 0).tolist()
    empty_ids = [part.ids[row] for row in empty_rows if not is_blank(part.pool[int(part.candidates[row])])]
    return {"no words in candidate": empty_ids} if empty_ids else {}


Flags = NDArray[np.bool_]


def note_captions(part: CaptionSet, reason: str, mask: Flags) -> dict[str, list[str]]:
    """The note of the captions where a mask (captions,) is true; empty if there are none.

    Args:
        part: the captions.
        reason: what is noted.
        mask: of which captions (captions).
    """
    caption_indices = np.flatnonzero(mask).tolist()
    return {reason: [part.ids[caption_index] for caption_index in caption_indices]} if caption_indices else {}


def note_truncated(
    part: CaptionSet, truncated: Flags, truncated_references: Flags | None = None
) -> dict[str, list[str]]:
    """The note of captions that were too long for an encoder.

    Args:
        part: the captions.
        truncated: which candidates were truncated, (captions,).
        truncated_references: which references were, flat as `part.references.values`.
    """
    truncated_captions = truncated.copy()
    if truncated_references is not None:
        np.logical_or.at(truncated_captions, part.references.rows, truncated_references)
    return note_captions(part, "truncated", truncated_captions)


def empty_candidates(part: CaptionSet) -> Flags:
    """Which candidates have nothing visible (white space, zero-width characters …), (captions,)."""
    return np.array([is_blank(part.pool[k]) for k in part.candidates.tolist()], np.bool_)


References = Annotated[Literal["each", "cat"], "compare with each reference, or with all joined into one text"]


@dataclass(frozen=True)
class _Concatenated:
    """Analysis: the captions, tokenised, each with the concatenation of its references as its only reference.

    Sentences of the result are tokens separated by single spaces, for the tokenizer `whitespace`.
    """

    tokenizer: str = "ptb"

    def compute(self, captions: CaptionSet) -> CaptionSet:
        """The concatenated set; a reference without tokens adds nothing."""
        token_table: TokenTable = captions.pool.analyse(Tokens(self.tokenizer))
        texts = [" ".join(token_table.row(sentence_index)) for sentence_index in range(len(captions.pool))]
        return CaptionSet.from_captions(
            Caption(
                id=captions.ids[caption_index],
                image_id=captions.image_ids[caption_index],
                candidate=texts[int(captions.candidates[caption_index])],
                references=(" ".join(texts[k] for k in captions.references[caption_index].tolist() if texts[k]),),
            )
            for caption_index in range(len(captions))
        )


def select_references(captions: CaptionSet, references: str, tokenizer: str) -> tuple[CaptionSet, str]:
    """The captions as a metric with this `references` parameter compares them, and their tokenizer.

    Args:
        captions: the captions.
        references: the metric's parameter: each, or cat for all of them joined.
        tokenizer: the metric's.
    """
    if references == "each":
        return captions, tokenizer
    joined: CaptionSet = captions.analyse(_Concatenated(tokenizer))
    return joined, "whitespace"
