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
encoders are not comparable. Captions too long for the encoder are truncated and noted.

Each row of a map sums to 1, so X is uniform over the t positions, H(X) = log2 t and H(X, Y) = log2 t + the mean
entropy of the rows. This is computed layer by layer; maps are dropped with their batch.

Details that the paper leaves open follow the released code: docs/parity.md.

>>> import numpy as np
>>> same, own = np.full((1, 1, 1, 4, 4), 0.25), np.eye(4)[None, None, None]
>>> information_flow(same).item(), information_flow(own).item()  # every query attends to all keys; each to its own
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

from capmeter.captions.model import CaptionSet
from capmeter.encoders.encoder import Encoder, load_encoder
from capmeter.encoders.models import find_encoder, software
from capmeter.encoders.pieces import PieceTable
from capmeter.encoders.tokenizer import Tokenizer
from capmeter.errors import AssetError
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement
from capmeter.text.concepts import plain
from capmeter.text.stopwords import STOP_WORDS


def information_flow(maps: npt.NDArray[Any]) -> Floats:
    """The redundancy of every head, for maps [captions, layers, heads, t, t] whose rows sum to 1: float64[c, l, h]."""
    flow = np.empty(maps.shape[:3])
    positions = maps.shape[-1]
    for layer in range(maps.shape[1]):
        joint = maps[:, layer]
        rows = _entropy(joint.reshape(*joint.shape[:2], -1)) / positions  # the mean entropy of the rows
        keys = _entropy(joint.mean(axis=-2, dtype=np.float64))
        flow[:, layer] = 2 * (keys - rows) / (keys + np.log2(positions))
    return flow


def _entropy(masses: npt.NDArray[Any]) -> Floats:
    """−Σ p log2 p over the last axis."""
    logs = np.log2(np.maximum(masses, np.finfo(np.float32).tiny))  # p = 0 gives 0
    logs *= masses
    entropy: Floats = -logs.sum(axis=-1, dtype=np.float64)
    return entropy


def redundancy(sentences: Sequence[str], encoder: Encoder, *, content_only: bool) -> tuple[Floats, npt.NDArray[Any]]:
    """median_layer(max_head I) of every sentence, float64[n], and which of them were truncated, bool[n].

    `content_only` masks stop words and drops punctuation, as SPURTS does.
    """
    pieces, masks = _sequences(sentences, encoder, content_only=content_only)
    values = np.zeros(len(sentences))
    for batch in encoder.encode_ids(pieces, masks=masks, attentions=True):
        if batch.attentions is not None:
            values[batch.rows] = np.median(information_flow(batch.attentions).max(axis=2), axis=1)
    return values, pieces.truncated


def _sequences(
    sentences: Sequence[str], encoder: Encoder, *, content_only: bool
) -> tuple[PieceTable, list[list[bool]]]:
    """Word pieces between begin and end, and which of them may be attended to."""
    stop, punctuation = _vocabulary(encoder.tokenizer)
    room, pad = encoder.max_length - 2, encoder.tokenizer.pad_id
    if content_only and pad < 0:
        raise AssetError(
            f"encoder {encoder.files.name!r}: its tokenizer has no padding token to replace stop words; "
            "choose another encoder"
        )
    rows: list[list[int]] = []
    cut: list[bool] = []
    for start in range(0, len(sentences), 8192):
        texts = [plain(sentence) for sentence in sentences[start : start + 8192]]
        for ids in encoder.tokenizer.inner_ids(texts):
            if content_only:
                ids = [pad if stop[piece] else piece for piece in ids if not punctuation[piece]]
            cut.append(len(ids) > room)
            rows.append([encoder.begin_id, *ids[:room], encoder.end_id])
    pieces = PieceTable.of(rows, cut)
    return pieces, [[piece != pad for piece in row] for row in rows]


@lru_cache(maxsize=4)
def _vocabulary(tokenizer: Tokenizer) -> tuple[list[bool], list[bool]]:
    """For every word piece, whether it is a stop word and whether it is a punctuation mark."""
    pieces = tokenizer.vocabulary()
    stop, punctuation = ([False] * (max(pieces.values()) + 1) for _ in range(2))
    for piece, id in pieces.items():
        word = piece.replace("Ġ", "").replace("▁", "")  # the space before a word, as some vocabularies write it
        stop[id] = word in STOP_WORDS
        punctuation[id] = len(word) == 1 and word in string.punctuation
    return stop, punctuation


Encoding = Annotated[str, "alias, hub id or folder of the encoder whose attention maps are used"]


@dataclass(frozen=True, kw_only=True)
class _Typicality(MeanMetric):
    EXTRA: ClassVar[str | None] = "neural"
    needs: ClassVar[frozenset[str]] = frozenset()
    columns: ClassVar[tuple[str, ...]] = ("score",)
    content_only: ClassVar[bool]

    encoder: Encoding

    def _score(self, redundancy: Floats) -> Floats:
        return redundancy

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """One number per caption; each distinct candidate goes through the encoder once."""
        distinct, where = np.unique(part.candidates, return_inverse=True)
        sentences = [part.pool[int(index)] for index in distinct]
        values, cut = redundancy(
            sentences, load_encoder(self.encoder, context.settings), content_only=self.content_only
        )
        said = np.array([bool(plain(sentence)) for sentence in sentences], np.bool_)
        scores = np.where(said, self._score(values), 0.0)[where]
        too_long = [part.ids[row] for row in np.flatnonzero(cut[where]).tolist()]
        return Measurement(scores[:, None], {"cut": too_long} if too_long else {})

    def facts(self, context: Context) -> dict[str, str]:
        """The encoder's weights, precision and libraries."""
        return {
            "weights": find_encoder(self.encoder).sha256[:12],
            "software": software(self.encoder),
            "precision": context.settings.precision,
        }


@dataclass(frozen=True, kw_only=True)
class Mima(_Typicality):
    """Typicality of the caption as English text: f_MIMA."""

    NAME: ClassVar[str] = "mima"
    SUMMARY: ClassVar[str] = "how typical the caption's grammar is to an encoder; needs no references"
    content_only: ClassVar[bool] = False

    encoder: Encoding = "distilbert"

    def _score(self, redundancy: Floats) -> Floats:
        return 1 - redundancy


@dataclass(frozen=True, kw_only=True)
class Spurts(_Typicality):
    """Distinctness of the caption's content words: 1 − f_MIMA without stop words."""

    NAME: ClassVar[str] = "spurts"
    SUMMARY: ClassVar[str] = "how distinct the caption's content words are to an encoder; needs no references"
    content_only: ClassVar[bool] = True

    encoder: Encoding = "distilroberta"
