"""The caption parser's network for training in torch; `capmeter.text.parser_network` is its forward pass in numpy.

The tensors' names are those of the shipped file.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import NOTHING, UNKNOWN

_IMPOSSIBLE = -1e9
_REACH_OF_ATTENTION, _REACH_OF_ARCS = 10, 16


class ParserModule(nn.Module):
    """Tags, governors and relations of the words of sentences that have the same length.

    Args:
        features: number of features with a vector.
        tags: number of tags.
        labels: number of relations.
        shape: layers and attention heads.
        width: of the states.
        hidden: width of each layer's perceptron.
        dropout: inside the network.
        word_dropout: of the words' vectors, the same places for a whole sentence.
        rareness: for each feature the probability of hiding it in training, shape [features].
    """

    def __init__(
        self,
        *,
        features: int,
        tags: int,
        labels: int,
        shape: NetworkShape,
        width: int = 128,
        hidden: int = 384,
        dropout: float = 0.1,
        word_dropout: float = 0.15,
        rareness: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.shape, self.word_dropout = shape, word_dropout
        self.features = nn.EmbeddingBag(features, width, mode="sum", padding_idx=NOTHING)
        nn.init.normal_(self.features.weight, std=0.3)
        with torch.no_grad():
            self.features.weight[NOTHING] = 0
        self.window = nn.Linear(3 * width, width)
        self.layers = nn.ModuleList(_Layer(width, shape.heads, hidden, dropout) for _ in range(shape.layers))
        self.tag_norm, self.tag = nn.LayerNorm(width), nn.Linear(width, tags)
        self.tag_vectors = nn.Embedding(tags, width)
        nn.init.normal_(self.tag_vectors.weight, std=0.3)
        self.norm, self.root = nn.LayerNorm(width), nn.Parameter(torch.randn(width) * 0.1)
        self.dependent, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.agreement = nn.Linear(width, width, bias=False)
        self.governor_bias = nn.Linear(width, 1, bias=False)
        self.distance = nn.Parameter(torch.zeros(2 * _REACH_OF_ARCS + 1))
        self.relation_dependent = nn.Linear(width, width)
        self.relation_head = nn.Linear(width, width, bias=False)
        self.relation = nn.Linear(width, labels)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("rareness", torch.zeros(features) if rareness is None else rareness, persistent=False)
        self.rareness: Tensor

    def forward(
        self, rows: Tensor, tags: Tensor, heads: Tensor | None = None, *, told: float = 0.5
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of tags [B, n, tags], of governors [B, n, n + 1] and, given `heads`, of relations [B, n, labels].

        Args:
            rows: feature numbers, [B, n, features of a word].
            tags: the gold tags, [B, n], which the later layers get in training for a share `told` of the sentences.
            heads: the arcs whose relations are scored; None: the likeliest arcs.
            told: that share.
        """
        tag_scores, states = self.read(rows, tags, told=told)
        count = len(rows)
        rooted = torch.cat([self.root.expand(count, 1, -1), states], 1)
        arcs = self._governors(states, rooted)
        if heads is None:
            heads = arcs.argmax(-1)
        mapped = self.relation_head(rooted)
        governors = torch.gather(mapped, 1, heads[..., None].expand(-1, -1, mapped.shape[2]))
        hidden = functional.relu(self.relation_dependent(states) + governors)
        return tag_scores, arcs, self.relation(self.dropout(hidden))

    def read(self, rows: Tensor, tags: Tensor | None = None, *, told: float = 0.0) -> tuple[Tensor, Tensor]:
        """Scores of tags [B, n, tags], and the words' states behind trees and relations [B, n, width].

        Args: as `forward`; without `tags` the layers behind get the predicted ones.
        """
        count, length, width = rows.shape
        if self.training:
            unseen = torch.rand(rows.shape, device=rows.device) < self.rareness[rows]
            rows = rows.masked_fill(unseen, UNKNOWN)
        states = self.features(rows.reshape(count * length, width)).view(count, length, -1)
        if self.training and self.word_dropout:
            kept = torch.rand(count, 1, states.shape[2], device=rows.device) > self.word_dropout
            states = states * kept / (1 - self.word_dropout)
        padded = functional.pad(states, (0, 0, 1, 1))
        around = torch.cat([padded[:, :-2], states, padded[:, 2:]], 2)
        states = states + self.dropout(functional.relu(self.window(around)))
        tag_scores = states
        for number, layer in enumerate(self.layers):
            if number == self.shape.tags_after:
                tag_scores = self.tag(self.dropout(self.tag_norm(states)))
                chosen = tag_scores.argmax(-1)
                if self.training and tags is not None:
                    chosen = torch.where(torch.rand(count, 1, device=rows.device) < told, tags, chosen)
                states = states + self.tag_vectors(chosen)
            states = layer(states)
        return tag_scores, self.norm(states)

    def _governors(self, states: Tensor, rooted: Tensor) -> Tensor:
        length = states.shape[1]
        dependents = self.dropout(functional.relu(self.dependent(states)))
        governors = self.dropout(functional.relu(self.head(rooted)))
        scores: Tensor = self.agreement(dependents) @ governors.transpose(1, 2) / math.sqrt(dependents.shape[2])
        scores = (
            scores
            + self.governor_bias(governors).transpose(1, 2)
            + self.distance[_distances(length, _REACH_OF_ARCS, states.device)]
        )
        return scores + _IMPOSSIBLE * functional.pad(torch.eye(length, device=states.device), (1, 0))


class _Layer(nn.Module):
    """Self-attention and a perceptron, each added to what it reads."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)
        distance = torch.arange(-_REACH_OF_ATTENTION, _REACH_OF_ATTENTION + 1).float()
        # heads are initialised to attend to the left, to the right, nearby and everywhere
        looks = [-(distance + 1).abs() * 0.7, -(distance - 1).abs() * 0.7, -distance.abs() * 0.3, 0 * distance]
        self.distance = nn.Parameter(torch.stack([looks[head % len(looks)] for head in range(heads)]))

    def forward(self, states: Tensor) -> Tensor:
        """The states [B, n, width] after the layer."""
        count, length, width = states.shape
        parts = self.attend(self.attention_norm(states)).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads)
        scores = scores + self.distance[:, _distances(length, _REACH_OF_ATTENTION, states.device)[:, 1:]]
        read = (self.dropout(scores.softmax(-1)) @ value).transpose(1, 2).reshape(count, length, width)
        states = states + self.dropout(self.mix(read))
        wide = self.dropout(functional.relu(self.widen(self.perceptron_norm(states))))
        result: Tensor = states + self.dropout(self.narrow(wide))
        return result


def _distances(length: int, reach: int, device: torch.device) -> Tensor:
    """Positions in a table of distances −reach … reach for each word and place 0 (the root), 1 … n."""
    place = torch.arange(length + 1, device=device)
    return (place[None] - place[1:, None]).clamp(-reach, reach) + reach
