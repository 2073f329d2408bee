"""MIMA and SPURTS: the typicality of a caption's grammar and the distinctness of its words, from attention maps.

An attention map, divided by its sum, is a joint distribution of a query position X and a key position Y. The
information flow through a head is their redundancy, a normalised mutual information (Eq. 6):

    I = 2 (H(X) + H(Y) − H(X, Y)) / (H(X) + H(Y))

The typicality of a text, over the layers and heads of a pretrained encoder, is (Eq. 7):

    f_MIMA = 1 − median_layer(max_head I)

* `mima` is f_MIMA of the caption: high for grammar that is typical to the encoder. The paper's encoder is DistilBERT.
* `spurts` is 1 − f_MIMA of the caption's content words (Eq. 8), its style. The paper's encoder is DistilRoBERTa.

Both range from 0 to 1, need no references and are 0 for an empty caption; the corpus score is the mean. `encoder` is
any encoder with attention maps: `minilm` (included in the `neural` extra), a hub id or a folder. Scores of different
encoders are not comparable. Captions that are too long for the encoder are truncated and noted.

Each row of a map sums to 1, so X is uniform over the t positions, H(X) = log2 t and H(X, Y) = log2 t + the mean
entropy of the rows. This is computed layer by layer; maps are dropped with their batch.

Details that the paper leaves open follow the released code: docs/parity.md.

>>> import numpy as np
>>> uniform, diagonal = np.full((1, 1, 1, 4, 4), 0.25), np.eye(4)[None, None, None]
>>> information_flow(uniform).item(), information_flow(diagonal).item()
(0.0, 1.0)

J. Feinglass and Y. Yang. SMURF: SeMantic and linguistic UndeRstanding Fusion for Caption Evaluation via Typicality
Analysis. ACL 2021.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import AssetError
from capmeter.encoders.handle import find_encoder
from capmeter.encoders.text.encoder import Encoder, load_encoder
from capmeter.encoders.text.tokenizer import PieceTable, Tokenizer
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_truncated
from capmeter.evaluation.evidence import Evidence, Mark
from capmeter.text.concepts import STOP_WORDS
from capmeter_research.papers.smurf.concepts import normalise_caption


def information_flow(maps: npt.NDArray[Any]) -> Floats:
    """I of every head, (captions, layers, heads), for maps (captions, layers, heads, t, t) whose rows sum to 1."""
    flow = np.empty(maps.shape[:3])
    position_count = maps.shape[-1]
    for layer_index in range(maps.shape[1]):
        joint = maps[:, layer_index]
        row_entropy = _entropy(joint.reshape(*joint.shape[:2], -1)) / position_count  # the mean entropy of the rows
        key_entropy = _entropy(joint.mean(axis=-2, dtype=np.float64))
        flow[:, layer_index] = 2 * (key_entropy - row_entropy) / (key_entropy + np.log2(position_count))
    return flow


def _entropy(masses: npt.NDArray[Any]) -> Floats:
    """−Σ p log2 p over the last axis."""
    log_masses = np.log2(np.maximum(masses, np.finfo(np.float32).tiny))  # p = 0 gives 0
    log_masses *= masses
    entropy: Floats = -log_masses.sum(axis=-1, dtype=np.float64)
    return entropy


def layer_flow(sentences: Sequence[str], encoder: Encoder, *, content_only: bool) -> tuple[Floats, npt.NDArray[Any]]:
    """max_head I of each layer of sentences, (n, layers), and which of them were truncated, (n,).

    Args:
        sentences: texts.
        encoder: whose attention is read.
        content_only: whether to mask stop words and drop punctuation, as SPURTS does.
    """
    piece_table, masks = _encode_pieces(sentences, encoder, content_only=content_only)
    flow = np.zeros((len(sentences), encoder.layers))
    for batch in encoder.encode_ids(piece_table, masks=masks, attentions=True):
        if batch.attentions is not None:
            flow[batch.rows] = information_flow(batch.attentions).max(axis=2)
    return flow, piece_table.truncated


def _encode_pieces(
    sentences: Sequence[str], encoder: Encoder, *, content_only: bool
) -> tuple[PieceTable, list[list[bool]]]:
    """Word pieces between begin and end, and the attention mask of each sentence."""
    is_stop, is_punctuation = word_classes(encoder.tokenizer)
    max_pieces, pad_id = encoder.max_length - 2, encoder.tokenizer.pad_id
    if content_only and pad_id < 0:
        raise AssetError(
            f"encoder {encoder.handle.name!r}: its tokenizer has no padding token to replace stop words; "
            "choose another encoder"
        )
    piece_rows: list[list[int]] = []
    truncated: list[bool] = []
    for batch_start in range(0, len(sentences), 8192):
        batch_texts = [normalise_caption(sentence) for sentence in sentences[batch_start : batch_start + 8192]]
        for piece_ids in encoder.tokenizer.inner_ids(batch_texts):
            if content_only:
                piece_ids = [pad_id if is_stop[piece] else piece for piece in piece_ids if not is_punctuation[piece]]
            truncated.append(len(piece_ids) > max_pieces)
            piece_rows.append([encoder.begin_id, *piece_ids[:max_pieces], encoder.end_id])
    piece_table = PieceTable.from_rows(piece_rows, truncated)
    return piece_table, [[piece != pad_id for piece in row] for row in piece_rows]


@lru_cache(maxsize=4)
def word_classes(tokenizer: Tokenizer) -> tuple[list[bool], list[bool]]:
    """For every word piece, whether it is a stop word and whether it is a punctuation mark."""
    pieces = tokenizer.vocabulary()
    is_stop, is_punctuation = ([False] * (max(pieces.values()) + 1) for _ in range(2))
    for piece, piece_id in pieces.items():
        word = piece.replace("Ġ", "").replace("▁", "")  # the space before a word, as some vocabularies write it
        is_stop[piece_id] = word in STOP_WORDS
        is_punctuation[piece_id] = len(word) == 1 and word in string.punctuation
    return is_stop, is_punctuation


Encoding = Annotated[str, "alias, hub id or folder of the encoder whose attention maps are used"]


@dataclass(frozen=True, kw_only=True)
class _Typicality(MeanMetric):
    """The base of both metrics: a function of the redundancy."""

    EXTRA: ClassVar[str | None] = "neural"
    needs: ClassVar[frozenset[str]] = frozenset()
    can_explain: ClassVar[bool] = True
    content_only: ClassVar[bool]
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = "Sees neither image nor references: fluent nonsense scores high. It is a part of SMURF."
    EXAMPLE: ClassVar[str] = "encoder=minilm"

    encoder: Encoding

    def _score(self, redundancy: Floats) -> Floats:
        return redundancy

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """One number per caption; each distinct candidate goes through the encoder once."""
        distinct_candidates, inverse = np.unique(part.candidates, return_inverse=True)
        distinct_scores, truncated = self._scores(
            [part.pool[int(sentence_index)] for sentence_index in distinct_candidates], context
        )
        return Measurement(distinct_scores[inverse][:, None], note_truncated(part, truncated[inverse]))

    def _scores(self, sentences: Sequence[str], context: RunContext) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The score of every sentence, (n,), and which of them were truncated, (n,)."""
        encoder = load_encoder(find_encoder(self.encoder), context.settings)
        flow, truncated = layer_flow(sentences, encoder, content_only=self.content_only)
        nonempty = np.array([bool(normalise_caption(sentence)) for sentence in sentences], np.bool_)
        return np.where(nonempty, self._score(np.median(flow, axis=1)), 0.0), truncated

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The words that raise and those that lower the score: by how much it changes when the word is left out."""
        caption_words = [part.pool[int(sentence_index)].split() for sentence_index in part.candidates]
        shortened_texts = [" ".join(words[:k] + words[k + 1 :]) for words in caption_words for k in range(len(words))]
        scores, _ = self._scores([*map(" ".join, caption_words), *shortened_texts], context)
        shortened_scores, evidence = iter(scores[len(caption_words) :].tolist()), []
        for words, full_score in zip(caption_words, scores.tolist(), strict=False):
            word_effects = [full_score - next(shortened_scores) for _ in words]
            marks = (
                Mark("candidate", None, k, k + 1, "raises" if effect > 0 else "lowers", effect)
                for k, effect in enumerate(word_effects)
                if effect
            )
            evidence.append(Evidence(tuple(words), (), marks=tuple(marks)))
        return evidence

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The encoder's weights, precision and libraries."""
        encoder_handle = find_encoder(self.encoder)
        return {
            "weights": encoder_handle.sha256[:12],
            "software": encoder_handle.software(context.settings),
            "precision": context.settings.precision,
        }


@dataclass(frozen=True, kw_only=True)
class Mima(_Typicality):
    """Typicality of the caption's grammar: f_MIMA."""

    NAME: ClassVar[str] = "mima"
    SUMMARY: ClassVar[str] = "how typical the caption's grammar is to an encoder; needs no references"
    content_only: ClassVar[bool] = False
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"I = \frac{2 \left( H(X) + H(Y) - H(X, Y) \right)}{H(X) + H(Y)}",
        r"f_{\text{MIMA}} = 1 - \underset{\text{layer}}{\text{median}} \, \max_{\text{head}} I",
    )

    encoder: Encoding = "distilbert"

    def _score(self, redundancy: Floats) -> Floats:
        return 1 - redundancy


@dataclass(frozen=True, kw_only=True)
class Spurts(_Typicality):
    """Distinctness of the caption's content words: 1 − f_MIMA without stop words."""

    NAME: ClassVar[str] = "spurts"
    SUMMARY: ClassVar[str] = "how distinct the caption's content words are to an encoder; needs no references"
    content_only: ClassVar[bool] = True
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"I = \frac{2 \left( H(X) + H(Y) - H(X, Y) \right)}{H(X) + H(Y)}",
        r"\text{SPURTS} = 1 - f_{\text{MIMA}}(\text{content words of } c)",
    )

    encoder: Encoding = "distilroberta"
