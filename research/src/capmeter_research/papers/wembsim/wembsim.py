"""WEmbSim (Sharif et al. 2020): cosine of mean word vectors.

    v(C) = 1/n Σ_{w ∈ C} V_w          WEmbSim = pool over references of |v(C) · v(R)| / |v(C)| |v(R)|     (Eq. 8.1-8.3)

over the words of a caption that are not stop words (NLTK's list) and have a vector. References are pooled by the mean
(the paper's choice), `max` or `min`; range 0 to 1, since Eq. 8.2 takes the absolute value: 1 means that the mean
vectors agree, as for a candidate that equals a reference. A caption without a word that has a vector scores 0. The
corpus score is the mean. No code was released.

Words can have contextual vectors instead (the paper's WEmbSim-E takes ELMo's): `wembsim(encoder=minilm)` takes for V
the states of the word pieces at `layer` of an encoder (the last by default; 0: its embeddings), without begin and end
tokens, stop words and punctuation. `vectors` is `minilm` (distilled from the default encoder; fastText's were best in
the paper) or a GloVe, word2vec or fastText file.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs"], references=[["the dog runs", "dogs sleep"]], metrics="wembsim(pooling=max)"
... )  # doctest: +SKIP
>>> round(results["wembsim(pooling=max)"].score, 4)  # doctest: +SKIP
1.0

Sharif, White, Bennamoun, Liu, Shah: WEmbSim: A Simple yet Effective Metric for Image Captioning. DICTA 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import Measurement, RunContext
from capmeter.metrics.embedding.word_pieces import encoder_facts, note_sentences
from capmeter_research.common.reference_pooling import Pooling, pool_over_references
from capmeter_research.common.word_tables import (
    ContentWords,
    ContextualWords,
    MeanVectors,
    WordTable,
    note_missing_vectors,
    reference_cosines,
)


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
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\bar{v}(x) = \frac{1}{n} \sum_{w \in x} V_w",
        r"\text{WEmbSim} = \frac{1}{|R|} \sum_{r \in R} |\cos(\bar{v}(c), \bar{v}(r))|",
    )

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
