"""MOWE and WEmbSim (Sharif et al. 2019, 2020): cosine of mean word vectors.

    v(C) = 1/n Σ_{w ∈ C} V_w          WEmbSim = pool over references of |v(C) · v(R)| / |v(C)| |v(R)|     (Eq. 8.1-8.3)

over the words of a caption that are not stop words (NLTK's list) and have a vector. The corpus score is the mean.

WEmbSim pools by the mean (the paper's choice), `max` or `min`; range 0 to 1, since Eq. 8.2 takes the absolute value. A
caption without a word that has a vector scores 0. No code was released.

MOWE, a feature of LCEval, is the largest cosine over references, as in LCEval's code: range -1 to 1, and -1 if the
candidate or every reference has no word with a vector. Before looking words up, that code deletes `. , " '`, and it
leaves out stop words too, where the paper's text has "all the words in the caption".

WEmbSim's words can have contextual vectors instead (the paper's WEmbSim-E takes ELMo's): `wembsim(encoder=minilm)`
takes for V the states of the word pieces at `layer` of an encoder (the last by default; 0: its embeddings), without
begin and end tokens, stop words and punctuation.

In both, 1 means that the mean vectors agree, as for a candidate that equals a reference. `vectors` is `minilm`
(distilled from the default encoder; fastText's were best in the paper) or a GloVe, word2vec or fastText file.

>>> import capmeter
>>> metrics = ["wembsim(pooling=max)", "mowe"]
>>> results = capmeter.score(
...     candidates=["a dog runs"], references=[["the dog runs", "dogs sleep"]], metrics=metrics
... )  # doctest: +SKIP
>>> [round(results[name].score, 4) for name in metrics]  # doctest: +SKIP
[1.0, 1.0]

Sharif, White, Bennamoun, Liu, Shah: LCEval: Learned Composite Metric for Caption Evaluation. IJCV 127, 2019.
Sharif, White, Bennamoun, Liu, Shah: WEmbSim: A Simple yet Effective Metric for Image Captioning. DICTA 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.evaluation.reference_pooling import Pooling, pool_over_references
from capmeter.metrics.embedding.word_pieces import encoder_facts, note_sentences
from capmeter.metrics.embedding.word_vectors import (
    ContentWords,
    ContextualWords,
    WordTable,
    find_vectors,
    note_missing_vectors,
    reference_cosines,
)
from capmeter.text.tokenization.token_tables import tokenizer_version

DELETED = ".,\"'"


@dataclass(frozen=True, kw_only=True)
class MeanVectors(MeanMetric):
    """The base of metrics on vectors of content words."""

    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048

    vectors: Annotated[str, "word vectors: minilm, or a file"] = "minilm"

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words."""
        label = find_vectors(self.vectors, context.settings).label
        return {"vectors": label, "tokenizer": tokenizer_version("ptb"), "stop-words": "nltk-179"}


@dataclass(frozen=True, kw_only=True)
class WEmbSim(MeanVectors):
    """Absolute cosine of mean word vectors.

    Args:
        vectors: `minilm` or a file.
        pooling: over references.
        encoder: alias, hub id or folder of an encoder, whose `layer` gives contextual vectors instead.
        layer: of the encoder; None for its last.
    """

    NAME: ClassVar[str] = "wembsim"
    SUMMARY: ClassVar[str] = "cosine of mean word vectors, mean over references"

    pooling: Annotated[Pooling, "how scores over several references are pooled"] = "mean"
    encoder: Annotated[str | None, "alias, hub id or folder: contextual vectors instead of word vectors"] = None
    layer: Annotated[int | None, "layer of the encoder; none: the last"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is not None and self.encoder is None:
            raise InputError(f"wembsim: layer={self.layer} needs an encoder; name one (encoder=minilm)")

    @property
    def implied_parameters(self) -> frozenset[str]:
        """The unused parameters: those of the encoder, or the word vectors."""
        return frozenset({"encoder", "layer"} if self.encoder is None else {"vectors"})

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        sentence_notes: dict[str, list[str]] = {}
        if self.encoder is None:
            word_table: WordTable = part.pool.analyse(ContentWords(self.vectors, settings=context.settings))
        else:
            encoder_handle = find_encoder(self.encoder)
            layer = load_encoder(encoder_handle, context.settings).layer(self.layer)
            word_table = part.pool.analyse(ContextualWords(encoder_handle, layer, context.settings))
            sentence_notes = note_sentences(part, encoder_handle, context.settings)
        cosine, present = reference_cosines(part, word_table)
        similarity = np.where(present, np.abs(cosine), 0.0)
        pooled_scores = pool_over_references(similarity, part, self.pooling)
        return Measurement(pooled_scores[:, None], note_missing_vectors(part, word_table) | sentence_notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words; for an encoder its weights and layer."""
        if self.encoder is None:
            return super().signature_facts(context)
        encoder_handle = find_encoder(self.encoder)
        layer = load_encoder(encoder_handle, context.settings).layer(self.layer)
        return encoder_facts(encoder_handle, layer, context.settings) | {"stop-words": "nltk-179"}


@dataclass(frozen=True, kw_only=True)
class Mowe(MeanVectors):
    """Cosine of mean word vectors.

    Args:
        vectors: `minilm` or a file.
        pooling: over references: max, as in LCEval, mean or min (its appendix B.2).
    """

    NAME: ClassVar[str] = "mowe"
    SUMMARY: ClassVar[str] = "cosine of mean word vectors, best reference (LCEval's feature)"

    pooling: Annotated[Pooling, "how cosines with several references are pooled"] = "max"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        word_table: WordTable = part.pool.analyse(ContentWords(self.vectors, DELETED, context.settings))
        cosine, present = reference_cosines(part, word_table)
        pooled_scores = pool_over_references(np.where(present, cosine, -1.0), part, self.pooling)
        return Measurement(pooled_scores[:, None], note_missing_vectors(part, word_table))
