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

What else models put around a caption (start tokens, padding, -100 in labels) is named by `bos`, `pad` and
`ignore_index`, or taken from a tokenizer or generation config (`generation=model.generation_config`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet, Indices, SentencePool
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, format_count, list_names
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, Metric, count_notes
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation
from capmeter.integrations.texts import entries_of
from capmeter.integrations.token_layout import IGNORED, TokenLayout
from capmeter.metrics.combined.combination import Combination
from capmeter.metrics.ngram.cider import Cider
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokenization.token_tables import TOKENIZERS, tokenise_sentences

Floats = npt.NDArray[np.float64]
ImageId = Hashable
_MAX_ID = 2**31


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
        eos: str | int | Sequence[int] | None,
        settings: Settings | None = None,
        *,
        layout: TokenLayout | None = None,
        images: Mapping[ImageId, str] = MappingProxyType({}),
    ) -> None:
        if not isinstance(references, Mapping) or not references:
            raise InputError(f"references: expected a dict image id → list of captions, got {describe(references)}")
        self._reads_ids = not isinstance(_reference_list(*next(iter(references.items())))[0], str)
        self._tokenizer = _common_tokenizer(metric)
        self._reads_words = self._tokenizer is not None
        self.layout = layout or TokenLayout()
        self.eos = eos if isinstance(eos, str) else next(iter(self.layout.ends), None)
        self._vocabulary: set[int] = set()
        self.metric: Metric = _of_tokens(metric) if self._reads_ids and self._reads_words else metric
        self._check()
        self._line = self._line_of_ids if self._reads_ids else self._line_of_text
        self._rows = {_image_key(image_id): row_index for row_index, image_id in enumerate(references)}
        if len(self._rows) < len(references):
            raise InputError("references: an image id is given as a number and as text; give each image once")
        self._image_ids = [str(image_key) for image_key in self._rows]  # by which metrics find objects and questions
        pictures = {_image_key(image_id): str(path) for image_id, path in images.items()}
        self._images = [pictures.get(image_key) for image_key in self._rows]
        frozen = CaptionSet.from_captions(
            Caption(str(row_index), self._image_ids[row_index], "", self._reference_lines(image_id, reference_texts))
            for row_index, (image_id, reference_texts) in enumerate(references.items())
        )
        self._pool, self._references = _RewardPool(frozen.pool.sentences, self._reads_words), frozen.references
        frozen = frozen.replace(pool=self._pool)
        self._evaluation = Evaluation((self.metric,), settings or Settings())
        corpora = [corpus for each in self._evaluation.ordered_metrics if (corpus := each.corpus_state()) is not None]
        if any(corpus.required_metrics() for corpus in corpora):
            raise InputError(
                f"{metric} needs the scores of a whole run first, which a reward does not have; choose another metric"
            )
        self._evaluation = self._evaluation.with_collected_states(frozen)
        self.state: Any = self._evaluation.context(self.metric).state
        if isinstance(self.metric, Cider):
            self.state = self.metric.frequencies(self.state)
        self.signature = f"{self._evaluation.signature(self.metric)}|eos:{'none' if self.eos is None else self.eos}"

    def _check(self) -> None:
        if self._reads_ids and not self._reads_words:
            raise InputError(
                f"{self.metric} reads text, not token ids; decode the captions, or choose a word-based metric"
            )
        if self.eos is None:
            return
        if not self._reads_words:
            raise InputError(f"{self.metric} is not word-based, so no end token can be added; leave eos out")
        if self._reads_ids != isinstance(self.eos, int):
            expected = (
                "an id, as the references are token ids" if self._reads_ids else "a word, as the references are text"
            )
            raise InputError(f"eos is {describe(self.eos)}, expected {expected}")
        if isinstance(self.eos, str) and len(self.eos.split()) != 1:
            raise InputError(f"eos={self.eos!r}: expected one word without white space")

    def _reference_lines(self, image_id: ImageId, texts: Any) -> tuple[str, ...]:
        texts = _reference_list(image_id, texts)
        reference_lines = tuple(self._line(text, _reference_location(image_id)) for text in texts)
        if self._reads_ids:
            self._vocabulary.update(int(token_id) for line in reference_lines for token_id in line.split())
        if self.eos is None:
            return reference_lines
        end = str(self.eos)
        return tuple(
            line if f" {line}".endswith(f" {end}") else f"{line} {end}".lstrip(" ") for line in reference_lines
        )

    def _line_of_ids(self, tokens: Any, where: str) -> str:
        """Token ids as a line of words, without what the layout puts around a caption."""
        token_ids = self.layout.caption(_token_ids(tokens, where, self.layout.ignored))
        return " ".join(map(str, token_ids))

    def _line_of_text(self, text: Any, where: str) -> str:
        """Text as a line of words (unchanged if the metric is not word-based), truncated after the first end."""
        if not isinstance(text, str):
            raise InputError(
                f"{where}: expected a caption as text like the others, got {describe(text)}; messages as trl has them "
                "are read by the function that for_trl() returns"
            )
        if isinstance(self.eos, str) and self.eos in (caption_words := text.split()):
            return f"{self._tokenised(' '.join(caption_words[: caption_words.index(self.eos)]))} {self.eos}".lstrip(" ")
        return self._tokenised(text)

    def _tokenised(self, text: str) -> str:
        return text if self._tokenizer is None else " ".join(tokenise_sentences(self._tokenizer, [text])[0])

    def __call__(self, candidates: Sequence[Any], image_ids: Sequence[ImageId]) -> Floats:
        """The score of each candidate against the references of its image, float64 in the given order.

        `candidates` are texts, or sequences or an array of token ids, like the references. Of metrics of which lower
        values are better (`fer`, `chair` …) the negative is returned, so that a higher reward is always better.
        """
        images, candidates = entries_of(image_ids, "image_ids"), entries_of(candidates, "candidates")
        if len(candidates) != len(images):
            raise InputError(f"expected one image id for each candidate, got {len(candidates)} and {len(images)}")
        if not images:
            return np.zeros(0)
        try:
            image_rows = np.array([self._rows[_image_key(image_id)] for image_id in images], np.int64)
        except (KeyError, TypeError):
            unknown = [
                describe(image_id)
                for image_id in images
                if not isinstance(image_id, Hashable) or _image_key(image_id) not in self._rows
            ]
            captions = format_count(len(unknown), "caption is", "captions are")
            raise InputError(f"{captions} of images without references (the first: {list_names(unknown)})") from None
        if self._reads_ids:
            ignored = self.layout.ignored
            token_batch = [_token_ids(token_ids, f"candidate {k}", ignored) for k, token_ids in enumerate(candidates)]
            self.layout.check_batch(token_batch, self._vocabulary)
            candidates = token_batch
        candidate_lines = [self._line(text, f"candidate {k}") for k, text in enumerate(candidates)]
        batch_captions = self._part(image_rows, candidate_lines)
        measured = self._evaluation.measure(batch_captions)[self.metric]
        metric_sums = measured.values
        self.metric.check_sums(metric_sums.sum(axis=0), len(metric_sums), count_notes(measured.notes))
        scores: Floats = self.metric.from_sums(metric_sums, np.ones(len(metric_sums)))["score"]
        if len(scores) > 1 and not scores.any() and not self.metric.lower_is_better:
            warnings.warn(
                f"all {len(scores)} rewards of a batch are 0: do the image ids belong to these captions, and do "
                "captions and references have the same tokens?",
                CapmeterWarning,
                stacklevel=2,
            )
        return 0.0 - scores if self.metric.lower_is_better else scores

    def for_trl(self, image_id: str = "image_id") -> Callable[..., list[float]]:
        """The reward as a function that trl's GRPOTrainer and RLOOTrainer call.

        Args:
            image_id: the column of the data set with the id of each prompt's image.

        Returns:
            a function of keywords (`prompts`, `completions` as text or as messages, the columns of the data set): a
            list of numbers, one for each completion.
        """

        def caption_reward(completions: Any = None, **columns: Any) -> list[float]:
            if image_id not in columns:
                raise InputError(
                    f"the data set has no column {image_id!a} with the id of each prompt's image; there are "
                    f"{list_names(columns)}: name another by for_trl(image_id=…), and keep it by "
                    "remove_unused_columns=False"
                )
            texts = [
                _message_text(completion, f"completions[{index}]")
                for index, completion in enumerate(entries_of(completions, "completions"))
            ]
            rewards: list[float] = self(texts, columns[image_id]).tolist()
            return rewards

        caption_reward.__name__ = str(self.metric)  # under which trl logs it
        return caption_reward

    def _part(self, frozen_rows: Indices, candidate_lines: list[str]) -> CaptionSet:
        """The captions `candidate_lines` with the references of the frozen captions `frozen_rows`."""
        references = self._references.take(frozen_rows)
        sentence_rows, reference_positions = np.unique(references.values, return_inverse=True)
        return CaptionSet(
            ids=[str(k) for k in range(len(candidate_lines))],
            image_ids=[self._image_ids[row] for row in frozen_rows.tolist()],
            images=[self._images[row] for row in frozen_rows.tolist()],
            pool=self._pool.with_new(sentence_rows.astype(np.int64), candidate_lines),
            candidates=np.arange(len(sentence_rows), len(sentence_rows) + len(candidate_lines)),
            references=Ragged(reference_positions, references.offsets),
        )


class _RewardPool(SentencePool):
    """The sentences of a reward: frozen ones, or some of these, whose n-grams are cached, followed by new ones.

    Args:
        sentences: the sentences.
        tokenised: whether they are words separated by spaces, which every tokenizer then returns.
        sources: the frozen pool, the rows that are used of it, and the pool of the new sentences.
    """

    def __init__(
        self, sentences: Sequence[str], tokenised: bool, sources: tuple[_RewardPool, Indices, _RewardPool] | None = None
    ) -> None:
        super().__init__(sentences)
        self.tokenised, self.sources = tokenised, sources

    def with_new(self, rows: Indices, new_sentences: list[str]) -> _RewardPool:
        """The pool of these frozen sentences, followed by new ones."""
        sources = self, rows, _RewardPool(new_sentences, self.tokenised)
        return _RewardPool([*map(self.items.__getitem__, rows.tolist()), *new_sentences], self.tokenised, sources)

    def analyse(self, analysis: Any) -> Any:
        """The analysis's table; of tokenised sentences every tokenizer returns the words."""
        reads_words = self.tokenised and getattr(analysis, "tokenizer", None) in TOKENIZERS
        return super().analyse(replace(analysis, tokenizer="whitespace") if reads_words else analysis)

    def compute(self, analysis: Any) -> Any:
        """The table of all sentences; that of n-grams is merged from the frozen sentences' and the new ones'."""
        if self.sources is None or not isinstance(analysis, NGrams):
            return super().compute(analysis)
        frozen, rows, new_pool = self.sources
        row_positions = np.split(np.arange(len(self)), [len(rows)])
        return NGramTable.join([frozen.analyse(analysis).take(rows), new_pool.analyse(analysis)], row_positions)


def _elementary(metric: Metric) -> Iterator[Metric]:
    """The elementary metrics that a metric is composed of; the metric itself if it is not a composite."""
    member_metrics = metric.required_metrics()
    if not member_metrics:
        yield metric
    for member_metric in member_metrics:
        yield from _elementary(member_metric)


def _common_tokenizer(metric: Metric) -> str | None:
    """The tokenizer shared by all parts of a metric; None if any of them reads text."""
    tokenizer_names: set[str | None] = set()
    for each in _elementary(metric):  # an `as_released` metric has a tokenizer of its own
        tokenizer_names.add(None if getattr(each, "as_released", False) else getattr(each, "tokenizer", None))
    common_tokenizer = tokenizer_names.pop() if len(tokenizer_names) == 1 else None
    return common_tokenizer if common_tokenizer in TOKENIZERS else None


def _of_tokens(metric: Any) -> Any:
    """The metric, or its members, reading tokens unchanged."""
    if isinstance(metric, Combination):
        return replace(metric, members=tuple(map(_of_tokens, metric.members)))
    return replace(metric, tokenizer="whitespace")


def _reference_list(image_id: Any, texts: Any) -> Sequence[Any]:
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not len(texts):
        where = _reference_location(image_id)
        raise InputError(f"{where}: expected a list of at least one caption, got {describe(texts)}")
    return texts


def _token_ids(tokens: Any, where: str, ignored_id: int) -> list[int]:
    """The ids of a sequence, as a list of whole numbers from 0 (or the ignored one)."""
    ids = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    is_text = isinstance(tokens, str | bytes | bytearray | memoryview)
    if is_text or not isinstance(ids, Sequence) or not all(type(token) is int for token in ids):
        raise InputError(f"{where}: expected a sequence of token ids like the others, got {describe(ids)}")
    invalid_id = next((token_id for token_id in ids if not 0 <= token_id < _MAX_ID and token_id != ignored_id), None)
    if invalid_id is not None:
        raise InputError(
            f"{where}: {describe(invalid_id)} is not a token id; positions that do not count are named by ignore_index"
        )
    return list(ids)


def _image_key(image_id: Any) -> Any:
    """The id of an image as text, so that 391895 and "391895" are the same; other hashable values stay."""
    is_number = isinstance(image_id, np.integer) or (type(image_id) is int and abs(image_id) < 10**40)
    return str(image_id) if is_number else image_id


def _reference_location(image_id: Any) -> str:
    return f"references[{ascii(image_id)[:40]}]"


def _message_text(completion: Any, where: str) -> Any:
    """The text of a completion: itself, or that of the last message of a conversation."""
    if isinstance(completion, str) or not isinstance(completion, Sequence):
        return completion
    last = completion[-1] if completion else None
    content = last.get("content") if isinstance(last, Mapping) else None
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text", "") for part in content if isinstance(part, Mapping)]
        content = "".join(text for text in parts if isinstance(text, str))
    if not isinstance(content, str):
        raise InputError(
            f'{where}: expected text or messages [{{"role": …, "content": text}}], got {describe(completion)}'
        )
    return content


def word_based(metric: str | Metric) -> bool:
    """Whether a metric reads words alone, so that a reward may have an end token (`eos`) and token ids.

    >>> word_based("mean(cider-d,bleu-4)"), word_based("mean(cider-d,spice)")
    (True, False)
    """
    return _common_tokenizer(parse(metric)) is not None


def reward(
    metric: str | Metric = "cider-d",
    references: Mapping[ImageId, Sequence[Any]] = MappingProxyType({}),
    *,
    eos: str | int | Sequence[int] | None = None,
    bos: int | Sequence[int] | None = None,
    pad: int | None = None,
    ignore_index: int = IGNORED,
    generation: Any = None,
    images: Mapping[ImageId, str] = MappingProxyType({}),
    settings: Settings | None = None,
) -> Reward:
    """A metric as a reward: called with a batch of captions and their image ids, it returns an array of scores.

    Args:
        metric: the metric's name, such as "cider-d", "bleu-4" or 'cider-d(idf="train.npz")' for saved document
            frequencies; otherwise they are computed from these references, where each image is one document.
        references: image id → captions, as text, or as sequences or an array of token ids.
        eos: None, or the word (for token ids, the id, or several) that ends a caption; see the module docstring.
        bos: for token ids: the id, or several in their order, that may stand before a caption, such as the start token
            of an encoder-decoder model.
        pad: for token ids: that of padding.
        ignore_index: for token ids: that of positions of labels that do not count.
        generation: for token ids: a tokenizer, generation config or model config that names those of `eos`, `bos` and
            `pad` that are not given.
        images: image id → the path of its picture, for metrics that see it.
        settings: for neural metrics: `capmeter.Settings(device="cuda")`.

    Raises:
        InputError: wrong shapes, an `eos` of the wrong type, or a metric that needs the scores of a whole run.

    Warns:
        CapmeterWarning: all rewards of a batch are 0.
    """
    if isinstance(eos, str):
        if bos is not None or pad is not None or generation is not None:
            raise InputError("bos, pad and generation are of token ids; decode texts without special tokens instead")
        return Reward(parse(metric), references, eos, settings, images=images)
    token_layout = TokenLayout.from_model(generation, eos=eos, bos=bos, pad=pad, ignored=ignore_index)
    return Reward(parse(metric), references, eos, settings, layout=token_layout, images=images)
