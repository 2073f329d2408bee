"""TBR (Yi, Deng, Hu 2020): recall of a combined reference, with cuT, comBine and Remove.

    S(r, c) = max_j cos(r, c_j) if that exceeds β, else 0                                      (Eq. 1-2: cut)
    R_comb  = Σ_{r ∈ Comb} idf(r) S(r, c) / Σ_{r ∈ Comb, S > 0} idf(r)                         (Eq. 3-4: combine)
    R_rm    = Σ_{r ∈ Comb'} S(r, c') / |Comb'|,    ' = without stop words                      (Eq. 5: remove)
    score   = R_comb · R_rm                                                                    (Eq. 6)

Comb is a base reference plus those word pieces of the others that match nothing in it: everything that the references
say about the image, without duplicates. idf(w) = -lg(df / N) over the N references of the run. Range 0 to 1, up to
rounding (1e-6: vectors are float32); 1 for a candidate that matches all of its only reference; an empty candidate
scores 0. The corpus score is the mean.

The paper picks a random reference as the base. Here every reference is the base once and the score is the mean, the
expectation of the paper's score over the base. The other references are added in the order of their word-piece ids,
which does not depend on the order in the file.

The steps can be disabled, which gives the paper's four ablations: T `tbr(combine=false,remove=false)`, TB
`tbr(remove=false)`, TBR `tbr`, T+cat+R `tbr(references=cat)`. `references`: `combine`; `cat`, all pieces of all
references; `mean` or `max`, each reference alone and the mean or maximum score. `combine=False` is `references=max`,
the pooling of BERTScore. `cut=False` sets β to 0 in Eq. 2, the paper's plain greedy matching.
β: `bert` .4 (layer 8), `roberta` .83 (layer 17), the paper's; `minilm` and others: `capmeter calibrate`.

`as_released=True` reproduces the released code, which departs from the paper in six points: docs/parity.md. Stop words
are removed by word piece, from the released list of 1,186 entries (by default in lower case too).

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs along the beach"], references=[["a dog runs along the beach"]], metrics="tbr"
... )
>>> round(results["tbr"].items["0"], 4)
1.0

Yi, Deng, Hu: Improving Image Captioning Evaluation by Considering Inter References Variance. ACL 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, PieceTable, WordPieces, find_encoder, load_encoder
from capmeter.evaluation.base import CorpusState, Floats, MeanMetric, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.embedding.word_pieces import (
    PieceFrequencies,
    PieceFrequencyState,
    Pieces,
    caption_blocks,
    encode_sentences,
    encoder_facts,
    note_sentences,
    vocabulary_size,
)
from capmeter_research.papers.tbr import combination
from capmeter_research.papers.tbr.combination import Flags, PieceComparison
from capmeter_research.papers.tbr.explanation import explain_combination
from capmeter_research.papers.tbr.tbr_stop_words import TBR_STOP_WORDS

LAYERS = {"bert": 8, "roberta": 17}
RELEASED_LAYER, RELEASED_BETA = 8, 0.4


@dataclass(frozen=True, kw_only=True)
class Tbr(MeanMetric):
    """Recall of the combined reference; parts: r-comb (Eq. 4) and r-rm (Eq. 5).

    Args:
        encoder: alias, hub id or folder.
        layer, beta: None for the encoder's default.
        idf: weight R_comb by rarity.
        cut, combine, remove: the three steps.
        references: how several are used.
        as_released: reproduce the released code.
    """

    NAME: ClassVar[str] = "tbr"
    SUMMARY: ClassVar[str] = "recall of the combined references by contextual word pieces"
    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    columns: ClassVar[tuple[str, ...]] = ("score", "r-comb", "r-rm")
    BETAS: ClassVar[Mapping[tuple[str, int], float]] = {("bert", 8): 0.4, ("roberta", 17): 0.83, ("minilm", 6): 0.19}
    FAMILY: ClassVar[str] = "Vectors of words and sentences"
    MISLEADS: ClassVar[str] = (
        "Depends on the encoder's threshold β: calibrate it for another encoder (`capmeter calibrate`)."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"S(r, c) = \max_j \cos(r, c_j) \text{ if above } \beta, \text{ else } 0",
        r"R_{\text{comb}} = \frac{\sum_{r \in \text{Comb}} \text{idf}(r) \, S(r, c)}{\sum_{r \in \text{Comb}, S > "
        r"0} \text{idf}(r)}, \quad R_{\text{rm}} = \frac{1}{|\text{Comb}'|} \sum_{r \in \text{Comb}'} S(r, c')",
        r"\text{TBR} = R_{\text{comb}} \cdot R_{\text{rm}}",
    )

    encoder: Annotated[str, "alias, hub id or folder of the encoder"] = "minilm"
    layer: Annotated[int | None, "hidden layer; none: the encoder's default layer"] = None
    beta: Annotated[float | None, "cosines up to this count as 0; none: the encoder's default"] = None
    idf: Annotated[bool, "weight R_comb by rarity in the run's references"] = True
    cut: Annotated[bool, "step 1: ignore weak matches (beta)"] = True
    combine: Annotated[bool, "step 2: combine the references; false is references=max"] = True
    remove: Annotated[bool, "step 3: multiply by the recall without stop words"] = True
    references: Annotated[Literal["combine", "cat", "mean", "max"], "how several references are used"] = "combine"
    as_released: Annotated[bool, "the released code's numbers"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta is not None and not 0 <= self.beta < 1:
            raise InputError(f"tbr: expected beta to be a cosine from 0 to below 1, but got {self.beta}")
        # `combine=False` and `references=max` mean the same: one identity for one number.
        if not self.combine and self.references == "combine":
            object.__setattr__(self, "references", "max")
        object.__setattr__(self, "combine", self.references == "combine")
        if self.as_released and not (self.idf and self.cut and self.combine and self.remove):
            raise InputError("tbr: as_released=true is a fixed formula; combine it only with encoder, layer and beta")

    def corpus_state(self) -> CorpusState | None:
        """Frequencies of word pieces in the references; as released, in the candidates too."""
        return PieceFrequencyState(self.encoder, candidates=self.as_released) if self.idf else None

    def depth(self, settings: Settings) -> int:
        """The layer in use."""
        default_layer = RELEASED_LAYER if self.as_released else LAYERS.get(self.encoder)
        return load_encoder(find_encoder(self.encoder), settings).layer(self.layer, default_layer)

    def threshold(self, settings: Settings) -> float:
        """β: the parameter, else the encoder's default at this layer."""
        if self.beta is not None:
            return self.beta
        if self.as_released:
            return RELEASED_BETA
        depth = self.depth(settings)
        beta = self.BETAS.get((self.encoder, depth))
        if beta is None:
            raise InputError(
                f"tbr: no beta is known for encoder {self.encoder!r} at layer {depth}; find it with `capmeter "
                f"calibrate CAPTIONS --encoder {self.encoder} --layer {depth}` and use tbr(beta=…)"
            )
        return beta

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """Score, R_comb and R_rm of each caption."""
        settings, encoder_handle = context.settings, find_encoder(self.encoder)
        beta = self.threshold(settings)
        state_table = encode_sentences(part, encoder_handle, self.depth(settings), settings)
        piece_weights, stop_mask = self._weights(context), stop_pieces(encoder_handle, not self.as_released, settings)
        caption_scores = np.zeros((len(part), 3))
        for rows, candidates, references in caption_blocks(part.candidates, state_table, self.ordered(part, settings)):
            comparison = combination.compare(candidates, references, piece_weights, stop_mask)
            combined_recall, content_recall, present = self.recalls(references, comparison, beta)
            # (rows, bases, 3)
            scores = np.stack([combined_recall * content_recall, combined_recall, content_recall], axis=-1)
            if self.references == "max":
                caption_scores[rows] = np.where(present[..., None], scores, 0).max(axis=1)
            else:
                caption_scores[rows] = (scores * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None]
        caption_scores = np.minimum(caption_scores, 1.0)  # cosines of float32 vectors exceed it by rounding
        return Measurement(caption_scores, note_sentences(part, encoder_handle, settings))

    def recalls(self, references: Pieces, comparison: PieceComparison, beta: float) -> tuple[Floats, Floats, Flags]:
        """R_comb and R_rm of each base (or single reference) of each row, and which of them exist, (n, bases) each.

        Args:
            references: states and ids of word pieces.
            comparison: with the candidates.
            beta: cosine that a match exceeds.
        """
        word_masks = combination.reference_words(references)
        present: Flags = np.asarray(references.sentence_masks(word_masks.shape[1]).any(axis=-1))
        if self.as_released:
            appended_masks = combination.combine_released(word_masks, combination.matching_words(references, beta))
            return *combination.released_recalls(references, word_masks, appended_masks, comparison, beta), present
        members = self.members(references, beta)
        threshold = beta if self.cut else 0.0
        combined_recall = combination.recall(members, comparison, threshold)
        if not self.remove:
            return combined_recall, np.ones_like(combined_recall), present[:, : members.shape[1]]
        content_recall = combination.recall_without_stop_words(members, comparison, threshold)
        return combined_recall, content_recall, present[:, : members.shape[1]]

    def members(self, references: Pieces, beta: float) -> Flags:
        """The pieces of the combined reference of each base, (n, bases, t)."""
        word_masks = combination.reference_words(references)
        if self.references == "combine":
            return combination.combine(word_masks, combination.matching_words(references, beta))
        if self.references == "cat":
            return np.asarray(word_masks.any(axis=1, keepdims=True))
        return word_masks

    def ordered(self, part: CaptionSet, settings: Settings) -> Ragged:
        """The references in the order in which they are added: by word-piece ids; as released, in file order."""
        if self.as_released:
            return part.references
        reference_order = self._order(part, settings)
        return Ragged(part.references.values[reference_order], part.references.offsets)

    def _order(self, part: CaptionSet, settings: Settings) -> NDArray[np.int64]:
        """The positions of all references in this order."""
        piece_table: PieceTable = part.pool.analyse(WordPieces(find_encoder(self.encoder), settings))
        used_sentences = np.unique(part.references.values)
        ranked_sentences = sorted(
            used_sentences.tolist(), key=lambda sentence_index: piece_table[sentence_index].tolist()
        )
        sentence_ranks = np.empty(len(part.pool), np.int64)
        sentence_ranks[ranked_sentences] = np.arange(len(ranked_sentences))
        return np.lexsort((sentence_ranks[part.references.values], part.references.rows))

    def _weights(self, context: RunContext) -> Floats:
        state: PieceFrequencies | None = context.state
        if state is None:
            return np.ones(vocabulary_size(find_encoder(self.encoder), context.settings))
        return state.smoothed_idf() if self.as_released else state.idf()

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """β, the weights, the layer, the libraries and the source of idf."""
        state, settings = context.state, context.settings
        counted_texts = "references and candidates" if self.as_released else "references"
        idf_source = {"idf": f"run/{state.documents} {counted_texts}"} if isinstance(state, PieceFrequencies) else {}
        encoder = encoder_facts(find_encoder(self.encoder), self.depth(settings), settings)
        return {"beta": f"{self.threshold(settings):g}"} | encoder | idf_source

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The combined reference on its best base: greedy matches, and pieces combined, cut or removed.

        `r-comb` and `r-rm` are those of this base; the score is the mean of their product over all bases.
        """
        if self.as_released:
            raise InputError("tbr(as_released=true) cannot explain its scores, since it mixes up vectors; use tbr")
        settings, encoder_handle = context.settings, find_encoder(self.encoder)
        beta, spell = self.threshold(settings), load_encoder(encoder_handle, settings).tokenizer.pieces
        state_table = encode_sentences(part, encoder_handle, self.depth(settings), settings)
        piece_weights, stop_mask = self._weights(context), stop_pieces(encoder_handle, True, settings)
        reference_order, offsets = self._order(part, settings), part.references.offsets
        evidence = []
        for caption_index in range(len(part)):
            reference_positions = reference_order[offsets[caption_index] : offsets[caption_index + 1]]
            rows = [int(part.candidates[caption_index])], part.references.values[reference_positions].tolist()
            candidate, references = (Pieces.lay_out(state_table, Ragged.from_rows([ids], np.int64)) for ids in rows)
            combined_recall, content_recall, present = self.recalls(
                references, combination.compare(candidate, references, piece_weights, stop_mask), beta
            )
            base_scores = combined_recall[0] * content_recall[0]
            best_base = int(np.argmax(base_scores))
            facts: dict[str, float | str] = {
                "r-comb": float(combined_recall[0, best_base]),
                "r-rm": float(content_recall[0, best_base]),
                "beta": beta,
            }
            reference_indices = (reference_positions - offsets[caption_index]).tolist()
            if self.references == "combine":
                facts["base"] = f"reference {reference_indices[best_base] + 1}"
                facts["mean over bases"] = float(base_scores[present[0]].mean())
            evidence.append(
                explain_combination(
                    candidate,
                    references,
                    self.members(references, beta)[0, best_base],
                    base=best_base if self.references == "combine" else None,
                    stop=stop_mask if self.remove else np.zeros_like(stop_mask),
                    threshold=beta if self.cut else 0.0,
                    order=reference_indices,
                    spell=spell,
                    facts=facts,
                )
            )
        return evidence


@cache
def stop_pieces(encoder: EncoderHandle, any_case: bool, settings: Settings) -> Flags:
    """Which word pieces are stop words, (vocabulary,); a piece inside a word ("##s") is not.

    Args:
        encoder: whose pieces they are.
        any_case: whether "The" is a stop word, too.
        settings: where the encoder runs.
    """
    tokenizer = load_encoder(encoder, settings).tokenizer
    piece_words = [tokenizer.word_of(piece) for piece in tokenizer.pieces(range(len(tokenizer)))]
    lowered_words = [word.lower() for word in piece_words] if any_case else piece_words
    return np.array(
        [low in TBR_STOP_WORDS or word in TBR_STOP_WORDS for low, word in zip(lowered_words, piece_words, strict=True)]
    )
