"""The network of an InfoMetIC head: which words are right, which regions are mentioned, and the score.

The regions v_j of a frozen joint encoder and the projections s_i of its word pieces are in one space. What a piece
attends to in the image is

    u_i = Σ_j a_ij v_j                a_i = softmax_j(τ cos(s_i, v_j)), or the encoder's own grounding of piece i

Then v_j (with a position embedding e_j) and the pieces [state_i, s_i, u_i, s_i ⊙ u_i], mapped to one width, attend to
each other in a Transformer and become v_j and t_i. With V and T the encoder's features of the image and the sentence:

    z_i = q(V) · k(t_i) / √d          P(piece i is right) = σ(z_i)             precision = cos(T, Σ_i softmax(z)_i t_i)
    y_j = q'(T) · k'(v_j) / √d        P(region j is mentioned) = σ(y_j)        recall    = cos(V, Σ_j softmax(y)_j v_j)
    score = σ(a precision + b recall + c cos(V, T) + d)

As in the released code, the image queries the words and the sentence the regions, and precision and recall are cosines
with the result. There, a word's score is softmax(z) itself, which ranks the words of one caption but does not say
whether a word is wrong; the three cosines are added; each side has a Transformer of its own before they meet, and u_i
is left to the Transformer, which then needs many more examples.

Hu, Chen, Zhang, Jin: InfoMetIC: An Informative Metric for Reference-free Image Caption Evaluation. ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

_COSINE_SCALE = 10.0  # cosines are small: their weights are learned on this scale


@dataclass(frozen=True)
class HeadShape:
    """Sizes of a head.

    Attributes:
        regions: number of regions.
        region, piece, features: widths of a region, of a word piece's state and of the encoder's features.
        width, layers, heads: of the Transformer.
    """

    regions: int
    region: int
    piece: int
    features: int
    width: int = 64
    layers: int = 2
    heads: int = 4


@dataclass(frozen=True, eq=False)
class HeadInputs:
    """b captions with p regions and up to t word pieces; a caption may have no pieces."""

    image: Tensor  # V, (b, features)
    regions: Tensor  # v, (b, p, region)
    region_mask: Tensor  # (b, p), bool
    sentence: Tensor  # T, (b, features)
    pieces: Tensor  # (b, t, piece)
    projections: Tensor  # s, (b, t, region)
    grounding: Tensor  # (b, t, p), or (b, t, 0) if the encoder has none
    piece_mask: Tensor  # (b, t), bool


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """What the network predicts for b captions."""

    right: Tensor  # z, (b, t), logits
    mentioned: Tensor  # y, (b, p), logits
    attended: Tensor  # softmax(y), (b, p)
    cosines: Tensor  # precision, recall and the encoder's cosine, (b, 3)
    score: Tensor  # (b,), logit


class InfoMetIC(nn.Module):
    """The network above."""

    def __init__(self, shape: HeadShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, width = shape, shape.width
        self.region, self.piece = nn.Linear(shape.region, width), nn.Linear(shape.piece + 3 * shape.region, width)
        self.sharpness = nn.Parameter(torch.tensor(10.0))
        self.picture, self.sentence = (nn.Linear(shape.features, width) for _ in range(2))
        self.place = nn.Parameter(torch.randn(shape.regions, width) * 0.5)
        self.dropout = nn.Dropout(dropout)  # of the inputs only: within layers it would take half of a step's time
        layer = nn.TransformerEncoderLayer(width, shape.heads, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.together = nn.TransformerEncoder(
            layer, shape.layers, nn.LayerNorm(width), enable_nested_tensor=False, mask_check=False
        )
        self.ask_pieces, self.ask_regions = (nn.Linear(width, width) for _ in range(2))
        self.piece_key, self.region_key = (nn.Linear(width, width) for _ in range(2))
        self.combine = nn.Linear(3, 1)
        with torch.no_grad():
            self.combine.weight.copy_(torch.tensor([[0.2, 0.1, 0.5]]))
            self.combine.bias.fill_(-3.0)

    def forward(self, batch: HeadInputs) -> HeadOutput:
        """The predictions for a batch."""
        region_count = batch.regions.shape[1]
        image, sentence = self.picture(batch.image), self.sentence(batch.sentence)
        u = self.attention(batch) @ batch.regions
        piece_features = torch.cat([batch.pieces, batch.projections, u, batch.projections * u], dim=-1)
        joint_states = torch.cat([self.region(batch.regions) + self.place, self.piece(piece_features)], dim=1)
        padding_mask = torch.cat([torch.zeros_like(batch.region_mask), ~batch.piece_mask], dim=1)
        joint_states = self.together(self.dropout(joint_states), src_key_padding_mask=padding_mask)
        regions, pieces = joint_states[:, :region_count], joint_states[:, region_count:]
        attention_scale = self.shape.width**-0.5
        right = torch.einsum("bd,btd->bt", self.ask_pieces(image), self.piece_key(pieces)) * attention_scale
        mentioned = torch.einsum("bd,bpd->bp", self.ask_regions(sentence), self.region_key(regions)) * attention_scale
        attended = _masked_softmax(mentioned, batch.region_mask)
        pooled_pieces = torch.einsum("bt,btd->bd", _masked_softmax(right, batch.piece_mask), pieces)
        pooled_regions = torch.einsum("bp,bpd->bd", attended, regions)
        cosines = torch.stack(
            [
                cosine_similarity(sentence, pooled_pieces, dim=-1),
                cosine_similarity(image, pooled_regions, dim=-1),
                cosine_similarity(batch.image.float(), batch.sentence.float(), dim=-1),
            ],
            dim=-1,
        )
        return HeadOutput(right, mentioned, attended, cosines, self.combine(_COSINE_SCALE * cosines)[:, 0])

    def attention(self, batch: HeadInputs) -> Tensor:
        """a, the regions that each piece attends to, (b, t, p); 0 for a piece without grounding."""
        if batch.grounding.shape[-1]:
            return batch.grounding / batch.grounding.sum(-1, keepdim=True).clamp(min=1e-6)
        cosines = normalize(batch.projections, dim=-1) @ normalize(batch.regions, dim=-1).transpose(1, 2)
        return (self.sharpness * cosines).softmax(dim=-1)


def _masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """The softmax over unmasked elements; 0 everywhere if all are masked."""
    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min).softmax(dim=-1) * mask
