"""The network of a head of InfoMetIC's shape: which words are right, which regions are mentioned, and the whole.

Regions v_j of a frozen joint encoder, and what its word pieces say, s_i, lie in one space. What a piece finds in the
picture is

    u_i = Σ_j a_ij v_j                a_i = softmax_j(τ cos(s_i, v_j)), or what the encoder says that piece i speaks of

Then v_j (with a place e_j) and the pieces [state_i, s_i, u_i, s_i ⊙ u_i], mapped to one width, read each other in a
Transformer and become v_j and t_i. With V and T the encoder's features of the picture and the sentence:

    z_i = q(V) · k(t_i) / √d          P(piece i is right) = σ(z_i)             precision = cos(T, Σ_i softmax(z)_i t_i)
    y_j = q'(T) · k'(v_j) / √d        P(region j is mentioned) = σ(y_j)        recall    = cos(V, Σ_j softmax(y)_j v_j)
    score = σ(a precision + b recall + c cos(V, T) + d)

As in the released code, the picture asks the words and the sentence the regions, and precision and recall are cosines
with what was asked for. There, softmax(z) itself is a word's score, which says which word of a caption is the worst,
but not whether it is wrong; the three cosines are added; each side has a Transformer of its own before they meet, and
u_i is left to the Transformer to find, which takes many more examples.

Hu, Chen, Zhang, Jin: InfoMetIC: An Informative Metric for Reference-free Image Caption Evaluation. ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

_COSINES = 10.0  # cosines are small numbers: their weights are learned on this scale


@dataclass(frozen=True)
class NetworkShape:
    """The number of regions, the widths of a region, of a word piece's state and of the encoder's features; the width,
    layers and attention heads of the network."""

    regions: int
    region: int
    piece: int
    features: int
    width: int = 64
    layers: int = 2
    heads: int = 4


@dataclass(frozen=True, eq=False)
class Batch:
    """What the network reads. picture, sentence: [b, features]. regions: [b, p, region]; there: bool[b, p]. pieces:
    [b, t, piece], padded; says: [b, t, region]; about: [b, t, p] or [b, t, 0], how much each speaks of a region; said:
    bool[b, t], false for padding. A caption without pieces has none that is said.
    """

    picture: Tensor
    regions: Tensor
    there: Tensor
    sentence: Tensor
    pieces: Tensor
    says: Tensor
    about: Tensor
    said: Tensor


@dataclass(frozen=True, eq=False)
class Told:
    """What the network says. right: [b, t], the logit of each piece. mentioned: [b, p], of each region. attended:
    [b, p], the regions' shares in the recall. cosines: [b, 3], precision, recall, and that of the encoder. score: [b],
    its logit.
    """

    right: Tensor
    mentioned: Tensor
    attended: Tensor
    cosines: Tensor
    score: Tensor


class InfoMetIC(nn.Module):
    """See the module."""

    def __init__(self, shape: NetworkShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, width = shape, shape.width
        self.region, self.piece = nn.Linear(shape.region, width), nn.Linear(shape.piece + 3 * shape.region, width)
        self.sharpness = nn.Parameter(torch.tensor(10.0))
        self.picture, self.sentence = (nn.Linear(shape.features, width) for _ in range(2))
        self.place = nn.Parameter(torch.randn(shape.regions, width) * 0.5)
        self.dropout = nn.Dropout(dropout)  # of what goes in alone: within layers it takes half of a step's time
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

    def forward(self, batch: Batch) -> Told:
        """See the module."""
        count = batch.regions.shape[1]
        picture, sentence = self.picture(batch.picture), self.sentence(batch.sentence)
        found = self.shares(batch) @ batch.regions
        words = torch.cat([batch.pieces, batch.says, found, batch.says * found], dim=-1)
        states = torch.cat([self.region(batch.regions) + self.place, self.piece(words)], dim=1)
        unsaid = torch.cat([torch.zeros_like(batch.there), ~batch.said], dim=1)
        states = self.together(self.dropout(states), src_key_padding_mask=unsaid)
        regions, pieces = states[:, :count], states[:, count:]
        root = self.shape.width**-0.5
        right = torch.einsum("bd,btd->bt", self.ask_pieces(picture), self.piece_key(pieces)) * root
        mentioned = torch.einsum("bd,bpd->bp", self.ask_regions(sentence), self.region_key(regions)) * root
        attended = _shares(mentioned, batch.there)
        heard = torch.einsum("bt,btd->bd", _shares(right, batch.said), pieces)
        seen = torch.einsum("bp,bpd->bd", attended, regions)
        cosines = torch.stack(
            [
                cosine_similarity(sentence, heard, dim=-1),
                cosine_similarity(picture, seen, dim=-1),
                cosine_similarity(batch.picture.float(), batch.sentence.float(), dim=-1),
            ],
            dim=-1,
        )
        return Told(right, mentioned, attended, cosines, self.combine(_COSINES * cosines)[:, 0])

    def shares(self, batch: Batch) -> Tensor:
        """Which regions each piece speaks of, [b, t, p]; 0 for a piece that speaks of none."""
        if batch.about.shape[-1]:
            return batch.about / batch.about.sum(-1, keepdim=True).clamp(min=1e-6)
        cosines = normalize(batch.says, dim=-1) @ normalize(batch.regions, dim=-1).transpose(1, 2)
        return (self.sharpness * cosines).softmax(dim=-1)


def _shares(logits: Tensor, there: Tensor) -> Tensor:
    """The softmax over what is there; 0 everywhere if nothing is."""
    return logits.masked_fill(~there, torch.finfo(logits.dtype).min).softmax(dim=-1) * there
