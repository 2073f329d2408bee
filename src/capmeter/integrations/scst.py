"""A caption metric as the reward of self-critical sequence training (Rennie et al. 2017).

`reward` freezes the references of all images, and the metric's corpus statistics (CIDEr's idf), once. The `Reward` then
takes batches of sampled captions with the ids of their images and returns each caption's score: the same number as
`capmeter.score` with these references.

>>> references = {"7": ["a dog runs", "a dog is running"], "9": ["two cats sleep"]}
>>> scorer = reward("cider-d", references=references)
>>> scorer(["two cats sleep", "a dog sleeps", "two cats sleep"], ["9", "7", "7"]).round(4).tolist()
[7.5, 2.6733, 0.0]

Captions may also be sequences of token ids, as a model samples them. With `eos` the end of a caption is a word of its
own, which stops a model from learning to end captions in the middle of a phrase: it is appended to every reference,
a candidate is truncated after its first one, and a candidate without it gets none.

>>> ids = {"7": [[4, 8, 5], [4, 8, 6, 2]], "9": [[3, 9]]}
>>> reward("bleu-2", references=ids, eos=0)([[4, 8, 5, 0, 0], [4, 8]], ["7", "7"]).round(4).tolist()
[1.0, 0.3679]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Caption, CaptionSet, Life, SentencePool
from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.cider import Cider
from capmeter.metrics.combination import Combination
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.registry import parse
from capmeter.ragged import Ragged
from capmeter.settings import Settings
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokens import TOKENIZERS, token_lists

Floats = npt.NDArray[np.float64]
ImageId = Hashable


class Reward:
    """Scores sampled captions against frozen references; see `reward`.

    `signature` contains everything that affects the scores; `state` is the metric's corpus state over all references:
    for CIDEr and its variants the document frequencies, which can be saved (`state.save(path)`) and reused
    (`cider-d(idf="path")`).
    """

    def __init__(
        self,
        metric: Metric,
        references: Mapping[ImageId, Sequence[Any]],
        eos: str | int | None,
        settings: Settings | None = None,
    ) -> None:
        self._ids = _holds_ids(references)
        self._tokenizer = _common_tokenizer(metric)
        self._lexical = self._tokenizer is not None
        self.eos = eos
        self.metric: Metric = _of_tokens(metric) if self._ids and self._lexical else metric
        self._check()
        self._line = self._line_of_ids if self._ids else self._line_of_text
        self._rows = {image: row for row, image in enumerate(references)}
        frozen = CaptionSet.from_captions(
            Caption(str(row), str(row), "", self._reference_lines(image, texts))
            for row, (image, texts) in enumerate(references.items())
        )
        if self._lexical:
            frozen = _with_pool(frozen, _TokenPool(frozen.pool.sentences))
        self._frozen = frozen
        self._evaluation = Evaluation((self.metric,), settings or Settings())
        corpora = [corpus for each in self._evaluation.order if (corpus := each.corpus()) is not None]
        if any(corpus.requires() for corpus in corpora):
            raise InputError(
                f"{metric} needs the scores of a whole run first, which a reward does not have; choose another metric"
            )
        self._evaluation = self._evaluation.collected(frozen)
        self.state: Any = self._evaluation.context(self.metric).state
        if isinstance(self.metric, Cider):
            self.state = self.metric.frequencies(self.state)
        self.signature = f"{self._evaluation.signature(self.metric)}|eos:{'none' if eos is None else eos}"

    def _check(self) -> None:
        if self._ids and not self._lexical:
            raise InputError(
                f"{self.metric} reads text, not token ids; decode the captions, or choose a word-based metric"
            )
        if self.eos is None:
            return
        if not self._lexical:
            raise InputError(f"{self.metric} is not word-based, so no end token can be added; leave eos out")
        if self._ids != isinstance(self.eos, int) or isinstance(self.eos, bool):
            kind = "token ids" if self._ids else "text"
            raise InputError(
                f"eos={self.eos!r}: the references are {kind}; expected {'an id' if self._ids else 'a word'}"
            )
        if isinstance(self.eos, str) and len(self.eos.split()) != 1:
            raise InputError(f"eos={self.eos!r}: expected one word without white space")

    def _reference_lines(self, image: ImageId, texts: Any) -> tuple[str, ...]:
        texts = texts.tolist() if hasattr(texts, "tolist") else texts
        if isinstance(texts, str) or not isinstance(texts, Sequence) or not len(texts):
            raise InputError(f"references[{image!r}]: expected a list of at least one caption, got {texts!r:.80}")
        lines = tuple(self._line(text, f"references[{image!r}]") for text in texts)
        if self.eos is None:
            return lines
        end = str(self.eos)
        return tuple(line if _ends_with(line, end) else f"{line} {end}".lstrip(" ") for line in lines)

    def _line_of_ids(self, tokens: Any, where: str) -> str:
        """Token ids as a line of words, truncated after the first end token."""
        ids = tokens.tolist() if hasattr(tokens, "tolist") else tokens
        if isinstance(ids, str) or not isinstance(ids, Sequence) or not all(type(token) is int for token in ids):
            raise InputError(f"{where}: expected a sequence of token ids like the others, got {tokens!r:.80}")
        if self.eos is not None and self.eos in ids:
            ids = ids[: ids.index(self.eos) + 1]
        return " ".join(map(str, ids))

    def _line_of_text(self, text: Any, where: str) -> str:
        """Text as a line of words (unchanged if the metric is not word-based), truncated after the first end."""
        if not isinstance(text, str):
            raise InputError(f"{where}: expected a caption as text like the others, got {text!r:.80}")
        if isinstance(self.eos, str) and self.eos in (words := text.split()):
            return f"{self._tokenised(' '.join(words[: words.index(self.eos)]))} {self.eos}".lstrip(" ")
        return self._tokenised(text)

    def _tokenised(self, text: str) -> str:
        return text if self._tokenizer is None else " ".join(token_lists(self._tokenizer, [text])[0])

    def __call__(self, candidates: Sequence[Any], image_ids: Sequence[ImageId]) -> Floats:
        """The score of each candidate against the references of its image, float64 in the given order.

        `candidates` are texts, or sequences or an array of token ids, like the references.
        """
        images = image_ids.tolist() if hasattr(image_ids, "tolist") else list(image_ids)
        if isinstance(candidates, str) or len(candidates) != len(images):
            raise InputError(f"expected one image id for each candidate, got {len(candidates)} and {len(images)}")
        if not images:
            return np.zeros(0)
        try:
            rows = np.array([self._rows[image] for image in images], np.int64)
        except (KeyError, TypeError):
            unknown = [repr(image) for image in images if not _in(image, self._rows)]
            raise InputError(
                f"{len(unknown)} captions are of images without references (the first: {', '.join(unknown[:5])})"
            ) from None
        lines = [self._line(text, f"candidate {k}") for k, text in enumerate(candidates)]
        part = self._part(rows, lines)
        values = self._evaluation.measure(part)[self.metric].values
        scores: Floats = self.metric.finish(values, np.ones(len(values)))["score"]
        return scores

    def _part(self, rows: npt.NDArray[np.int64], lines: list[str]) -> CaptionSet:
        references = self._frozen.references.take(rows)
        used, where = np.unique(references.values, return_inverse=True)
        numbers = [str(k) for k in range(len(lines))]
        return CaptionSet(
            ids=numbers,
            image_ids=numbers,
            pool=_Pool(self._frozen.pool, used.astype(np.int64), lines),
            candidates=np.arange(len(used), len(used) + len(lines)),
            references=Ragged(where, references.offsets),
        )


class _TokenPool(SentencePool):
    """Sentences that are already tokenised: every tokenizer returns the given tokens."""

    def analyse(self, analysis: Any) -> Any:
        """The analysis's table."""
        return super().analyse(_read_as_tokens(analysis))


class _Pool(SentencePool):
    """Some of the frozen sentences, whose n-grams are known, followed by new ones."""

    def __init__(self, frozen: SentencePool, used: npt.NDArray[np.int64], new: list[str]) -> None:
        super().__init__(_Lines(frozen, used, new))
        self._frozen, self._used, self._new = frozen, used, type(frozen)(new)

    def analyse(self, analysis: Any) -> Any:
        """The analysis's table; for n-grams, the known table joined with the new one."""
        if isinstance(self._frozen, _TokenPool):
            analysis = _read_as_tokens(analysis)
        if isinstance(analysis, NGrams) and analysis not in self._memory:
            known: _Known = self._frozen.analyse(_KnownNGrams(analysis))
            self._memory[analysis] = known.and_new(self._used, self._new.analyse(analysis))
        return super().analyse(analysis)


def _read_as_tokens(analysis: Any) -> Any:
    named = getattr(analysis, "tokenizer", None) in TOKENIZERS
    return replace(analysis, tokenizer="whitespace") if named else analysis


class _Lines(Sequence[str]):
    """Frozen sentences followed by new ones, looked up lazily."""

    def __init__(self, frozen: SentencePool, used: npt.NDArray[np.int64], new: list[str]) -> None:
        self.frozen, self.used, self.new = frozen, used, new

    def __len__(self) -> int:
        return len(self.used) + len(self.new)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.frozen[int(self.used[index])] if index < len(self.used) else self.new[index - len(self.used)]


@dataclass(frozen=True)
class _KnownNGrams:
    """Analysis: the n-grams of frozen sentences, prepared for joining with those of new ones."""

    analysis: NGrams
    life: ClassVar[Life] = "part"

    def run(self, pool: SentencePool) -> _Known:
        return _Known(pool.analyse(self.analysis))


class _Known:
    """A table of n-grams, some rows of which are joined with new ones."""

    def __init__(self, table: NGramTable) -> None:
        self.table = table
        self.positions = Ragged(np.arange(len(table.entries.values)), table.entries.offsets)
        self.place = np.zeros(table.size, np.int64)  # index of an n-gram among those in use; other entries are invalid

    def and_new(self, rows: npt.NDArray[np.int64], new: NGramTable) -> NGramTable:
        """These rows followed by all new ones, with common n-gram numbers: the known first, then the unknown."""
        known = self.table
        positions = self.positions.take(rows)
        grams = known.entries.values[positions.values]
        count = np.arange(len(grams))
        self.place[grams] = count
        used = np.sort(grams[self.place[grams] == count])  # each n-gram once: its last occurrence
        self.place[used] = count[: len(used)]

        old_hashes = known.hashes[used]
        number = np.searchsorted(old_hashes, new.hashes)
        unknown = np.ones(len(number), bool)
        inside = number < len(used)
        unknown[inside] = old_hashes[number[inside]] != new.hashes[inside]
        number[unknown] = np.arange(len(used), len(used) + np.count_nonzero(unknown))
        size = len(used) + np.count_nonzero(unknown)
        keys = new.entries.rows * size + number[new.entries.values]
        ascending = np.argsort(keys)  # the n-grams of a sentence are ordered by their numbers
        return NGramTable(
            entries=Ragged.from_lengths(
                np.concatenate([self.place[grams], keys[ascending] % max(size, 1)]),
                np.concatenate([positions.lengths, new.entries.lengths]),
            ),
            counts=np.concatenate([known.counts[positions.values], new.counts[ascending]]),
            order=np.concatenate([known.order[used], new.order[unknown]]),
            hashes=np.concatenate([old_hashes, new.hashes[unknown]]),
            lengths=np.concatenate([known.lengths[rows], new.lengths]),
        )


def _elementary(metric: Metric) -> Iterator[Metric]:
    """The elementary metrics that a metric is composed of; the metric itself if it is not a composite."""
    members = metric.requires()
    if not members:
        yield metric
    for member in members:
        yield from _elementary(member)


def _common_tokenizer(metric: Metric) -> str | None:
    """The tokenizer shared by all parts of a metric; None if any of them reads text."""
    found: set[str | None] = set()
    for each in _elementary(metric):  # an `as_released` metric splits text in its own way
        found.add(None if getattr(each, "as_released", False) else getattr(each, "tokenizer", None))
    tokenizer = found.pop() if len(found) == 1 else None
    return tokenizer if tokenizer in TOKENIZERS else None


def _of_tokens(metric: Any) -> Any:
    """The metric, or its members, reading tokens unchanged."""
    if isinstance(metric, Combination):
        return replace(metric, members=tuple(map(_of_tokens, metric.members)))
    return replace(metric, tokenizer="whitespace")


def _with_pool(captions: CaptionSet, pool: SentencePool) -> CaptionSet:
    return CaptionSet(
        ids=captions.ids,
        image_ids=captions.image_ids,
        pool=pool,
        candidates=captions.candidates,
        references=captions.references,
    )


def _holds_ids(references: Any) -> bool:
    if not isinstance(references, Mapping) or not references:
        raise InputError(f"references: expected a dict image id → list of captions, got {references!r:.80}")
    first = next(iter(references.values()))
    return not isinstance(first, str) and len(first) > 0 and not isinstance(first[0], str)


def _ends_with(line: str, end: str) -> bool:
    return line == end or line.endswith(f" {end}")


def _in(image: Any, rows: Mapping[ImageId, int]) -> bool:
    return isinstance(image, Hashable) and image in rows


def word_based(metric: str | Metric) -> bool:
    """Whether a metric reads words alone, so that a reward may have an end token (`eos`) and token ids.

    >>> word_based("mean(cider-d,bleu-4)"), word_based("mean(cider-d,spice)")
    (True, False)
    """
    return _common_tokenizer(parse(metric)) is not None


def reward(
    metric: str | Metric = "cider-d",
    *,
    references: Mapping[ImageId, Sequence[Any]],
    eos: str | int | None = None,
    settings: Settings | None = None,
) -> Reward:
    """A metric as a reward: called with a batch of captions and their image ids, it returns an array of scores.

    Args:
        metric: the metric's name, such as "cider-d", "bleu-4" or 'cider-d(idf="train.npz")' for saved document
            frequencies; otherwise they are computed from these references, where each image is one document.
        references: image id → captions, as text, or as sequences or an array of token ids.
        eos: None, or the word (for token ids, the id) that ends a caption; see the module docstring.
        settings: for neural metrics: `capmeter.Settings(device="cuda")`.

    Raises:
        InputError: wrong shapes, an `eos` of the wrong type, or a metric that needs the scores of a whole run.
    """
    return Reward(parse(metric), references, eos, settings)
