"""MOWE and WEmbSim (Sharif et al. 2019, 2020): cosine of mean word vectors.

    v(C) = 1/n Σ_{w ∈ C} V_w          WEmbSim = pool over references of |v(C) · v(R)| / |v(C)| |v(R)|     (Eq. 8.1-8.3)

over the words of a caption that are not stop words (NLTK's list) and have a vector.

WEmbSim pools by the mean (the paper's choice), `max` or `min`; range 0 to 1, since Eq. 8.2 takes the absolute value. A
caption without any word that has a vector scores 0. There is no released code.

MOWE, a feature of LCEval, is the largest cosine over references, as in LCEval's code: range -1 to 1, and -1 if the
candidate or every reference has no word with a vector. Before looking words up, that code deletes `. , " '`.

WEmbSim's words can have contextual vectors instead (the paper's WEmbSim-E takes ELMo's): `wembsim(encoder=minilm)`
takes for V the states of the word pieces at `layer` of an encoder (the last by default; 0: its embeddings), without
begin and end tokens, stop words and punctuation.

In both, 1 means that the mean vectors agree, as for a candidate that equals a reference. `vectors` is `minilm`
(distilled from the default encoder; fastText's were best in the paper) or a GloVe, word2vec or fastText file.

>>> import capmeter
>>> chosen = ["wembsim(pooling=max)", "mowe"]
>>> results = capmeter.score(
...     candidates=["a dog runs"], references=[["the dog runs", "dogs sleep"]], metrics=chosen
... )  # doctest: +SKIP
>>> [round(results[name].score, 4) for name in chosen]  # doctest: +SKIP
[1.0, 1.0]

Sharif, White, Bennamoun, Liu, Shah: LCEval: Learned Composite Metric for Caption Evaluation. IJCV 127, 2019.
Sharif, White, Bennamoun, Liu, Shah: WEmbSim: A Simple yet Effective Metric for Image Captioning. DICTA 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.encoders import load_encoder
from capmeter.errors import InputError
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.pooling import Pooling, pool_over_references
from capmeter.metrics.word_pieces import encoder_facts, truncation_note
from capmeter.metrics.word_vectors import (
    ContentWords,
    ContextualWords,
    WordTable,
    cosines,
    find_vectors,
    without_vectors,
)
from capmeter.text.tokens import tokenizer_version

DELETED = ".,\"'"


@dataclass(frozen=True, kw_only=True)
class MeanVectors(MeanMetric):
    """The common base: vectors of content words, and the signature."""

    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 2048

    vectors: Annotated[str, "word vectors: minilm, or a file"] = "minilm"

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def facts(self, context: Context) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words."""
        found = find_vectors(self.vectors, context.settings).label
        return {"vectors": found, "tokenizer": tokenizer_version("ptb"), "stop-words": "nltk-179"}


@dataclass(frozen=True, kw_only=True)
class WEmbSim(MeanVectors):
    """Absolute cosine of mean word vectors.

    vectors: `minilm` or a file. encoder: alias, hub id or folder of a network whose `layer` gives contextual vectors
    instead. pooling over references: mean, max or min.
    """

    NAME: ClassVar[str] = "wembsim"
    SUMMARY: ClassVar[str] = "cosine of mean word vectors, mean over references"

    pooling: Annotated[Pooling, "how scores over several references are pooled"] = "mean"
    encoder: Annotated[str | None, "alias, hub id or folder: contextual vectors instead of word vectors"] = None
    layer: Annotated[int | None, "of the encoder; none: the last"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is not None and self.encoder is None:
            raise InputError(f"wembsim: layer={self.layer} needs an encoder; name one (encoder=minilm)")

    @property
    def fixed(self) -> frozenset[str]:
        """The parameters that are not used: those of the encoder without one, the word vectors with one."""
        return frozenset({"encoder", "layer"} if self.encoder is None else {"vectors"})

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        cut: dict[str, list[str]] = {}
        if self.encoder is None:
            table: WordTable = part.pool.analyse(ContentWords(self.vectors, settings=context.settings))
        else:
            layer = load_encoder(self.encoder, context.settings).layer(self.layer)
            table = part.pool.analyse(ContextualWords(self.encoder, layer, context.settings))
            cut = truncation_note(part, self.encoder, context.settings)
        cosine, there = cosines(part, table)
        similarity = np.where(there, np.abs(cosine), 0.0)
        pooled = pool_over_references(similarity, part, self.pooling)
        return Measurement(pooled[:, None], without_vectors(part, table) | cut)

    def facts(self, context: Context) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words; of an encoder its weights and layer."""
        if self.encoder is None:
            return super().facts(context)
        layer = load_encoder(self.encoder, context.settings).layer(self.layer)
        return encoder_facts(self.encoder, layer, context.settings) | {"stop-words": "nltk-179"}


@dataclass(frozen=True, kw_only=True)
class Mowe(MeanVectors):
    """Cosine of mean word vectors.

    vectors: `minilm` or a file. pooling over references: max, as in LCEval, mean or min (its appendix B.2).
    """

    NAME: ClassVar[str] = "mowe"
    SUMMARY: ClassVar[str] = "cosine of mean word vectors, best reference (LCEval's feature)"

    pooling: Annotated[Pooling, "how cosines with several references are pooled"] = "max"

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        table: WordTable = part.pool.analyse(ContentWords(self.vectors, DELETED, context.settings))
        cosine, there = cosines(part, table)
        pooled = pool_over_references(np.where(there, cosine, -1.0), part, self.pooling)
        return Measurement(pooled[:, None], without_vectors(part, table))
