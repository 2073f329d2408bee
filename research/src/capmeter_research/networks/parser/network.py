"""The caption parser's network for training in torch; `capmeter.text.parsing.network` is its forward pass in numpy.

The parameters' names are those of the bundled checkpoint.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter.text.parsing.caption_parser import PAD_ID, UNKNOWN_ID
from capmeter.text.parsing.network import ParserShape

_MASKED = -1e9
_ATTENTION_REACH, _ARC_REACH = 10, 16


class ParserModule(nn.Module):
    """Tags, governors and relations of words, for sentences of the same length.

    Args:
        features: number of features with a vector.
        tags: number of tags.
        labels: number of relations.
        shape: layers and attention heads.
        width: of the states.
        hidden: width of each layer's perceptron.
        dropout: inside the network.
        word_dropout: of the words' vectors, the same dimensions for all words of a sentence.
        hiding: (features), the probability that each feature is hidden in training.
    """

    def __init__(
        self,
        *,
        features: int,
        tags: int,
        labels: int,
        shape: ParserShape,
        width: int = 128,
        hidden: int = 384,
        dropout: float = 0.1,
        word_dropout: float = 0.15,
        hiding: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.shape, self.word_dropout = shape, word_dropout
        self.features = nn.EmbeddingBag(features, width, mode="sum", padding_idx=PAD_ID)
        nn.init.normal_(self.features.weight, std=0.3)
        with torch.no_grad():
            self.features.weight[PAD_ID] = 0
        self.window = nn.Linear(3 * width, width)
        self.layers = nn.ModuleList(_Layer(width, shape.heads, hidden, dropout) for _ in range(shape.layers))
        self.tag_norm, self.tag = nn.LayerNorm(width), nn.Linear(width, tags)
        self.tag_vectors = nn.Embedding(tags, width)
        nn.init.normal_(self.tag_vectors.weight, std=0.3)
        self.norm, self.root = nn.LayerNorm(width), nn.Parameter(torch.randn(width) * 0.1)
        self.dependent, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.agreement = nn.Linear(width, width, bias=False)
        self.governor_bias = nn.Linear(width, 1, bias=False)
        self.distance = nn.Parameter(torch.zeros(2 * _ARC_REACH + 1))
        self.relation_dependent = nn.Linear(width, width)
        self.relation_head = nn.Linear(width, width, bias=False)
        self.relation = nn.Linear(width, labels)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hiding", torch.zeros(features) if hiding is None else hiding, persistent=False)
        self.hiding: Tensor

    def forward(
        self, features: Tensor, tags: Tensor, heads: Tensor | None = None, *, gold_tag_share: float = 0.5
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of tags (batch, length, tags), governors (batch, length, length + 1) and relations (batch, length,
        labels).

        Args:
            features: (batch, length, features per word), ids.
            tags: (batch, length), the gold tags.
            heads: (batch, length), the governors whose relations are scored; none: the predicted ones.
            gold_tag_share: share of the sentences whose gold tags are the input of the later layers in training.
        """
        tag_logits, states = self.encode(features, tags, gold_tag_share=gold_tag_share)
        rooted = torch.cat([self.root.expand(len(features), 1, -1), states], 1)
        arc_logits = self._governor_logits(states, rooted)
        if heads is None:
            heads = arc_logits.argmax(-1)
        head_states = self.relation_head(rooted)
        governor_states = torch.gather(head_states, 1, heads[..., None].expand(-1, -1, head_states.shape[2]))
        relation_states = functional.relu(self.relation_dependent(states) + governor_states)
        return tag_logits, arc_logits, self.relation(self.dropout(relation_states))

    def encode(
        self, features: Tensor, tags: Tensor | None = None, *, gold_tag_share: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Logits of tags (batch, length, tags), and hidden states for trees and relations (batch, length, width).

        Args:
            features, gold_tag_share: as in `forward`.
            tags: the gold tags, (batch, length); None: the later layers get the predicted ones.
        """
        sentence_count, length, width = features.shape
        if self.training:
            is_hidden = torch.rand(features.shape, device=features.device) < self.hiding[features]
            features = features.masked_fill(is_hidden, UNKNOWN_ID)
        states = self.features(features.reshape(sentence_count * length, width)).view(sentence_count, length, -1)
        if self.training and self.word_dropout:
            mask = torch.rand(sentence_count, 1, states.shape[2], device=features.device) > self.word_dropout
            states = states * mask / (1 - self.word_dropout)
        padded_states = functional.pad(states, (0, 0, 1, 1))
        window_states = torch.cat([padded_states[:, :-2], states, padded_states[:, 2:]], 2)
        states = states + self.dropout(functional.relu(self.window(window_states)))
        tag_logits = states
        for layer_index, layer in enumerate(self.layers):
            if layer_index == self.shape.tags_after:
                tag_logits = self.tag(self.dropout(self.tag_norm(states)))
                input_tags = tag_logits.argmax(-1)
                if self.training and tags is not None:
                    use_gold = torch.rand(sentence_count, 1, device=features.device) < gold_tag_share
                    input_tags = torch.where(use_gold, tags, input_tags)
                states = states + self.tag_vectors(input_tags)
            states = layer(states)
        return tag_logits, self.norm(states)

    def _governor_logits(self, states: Tensor, rooted: Tensor) -> Tensor:
        length = states.shape[1]
        dependents = self.dropout(functional.relu(self.dependent(states)))
        governors = self.dropout(functional.relu(self.head(rooted)))
        scores: Tensor = self.agreement(dependents) @ governors.transpose(1, 2) / math.sqrt(dependents.shape[2])
        scores = (
            scores
            + self.governor_bias(governors).transpose(1, 2)
            + self.distance[_distances(length, _ARC_REACH, states.device)]
        )
        return scores + _MASKED * functional.pad(torch.eye(length, device=states.device), (1, 0))


class _Layer(nn.Module):
    """Self-attention and a perceptron, with residual connections."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)
        distance = torch.arange(-_ATTENTION_REACH, _ATTENTION_REACH + 1).float()
        # heads are initialised to attend to the left, to the right, nearby and everywhere
        head_biases = [-(distance + 1).abs() * 0.7, -(distance - 1).abs() * 0.7, -distance.abs() * 0.3, 0 * distance]
        self.distance = nn.Parameter(torch.stack([head_biases[head % len(head_biases)] for head in range(heads)]))

    def forward(self, states: Tensor) -> Tensor:
        """The next states (batch, length, width)."""
        sentence_count, length, width = states.shape
        projected_states = self.attend(self.attention_norm(states)).view(
            sentence_count, length, 3, self.heads, width // self.heads
        )
        query, key, value = projected_states.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads)
        scores = scores + self.distance[:, _distances(length, _ATTENTION_REACH, states.device)[:, 1:]]
        attended_states = (
            (self.dropout(scores.softmax(-1)) @ value).transpose(1, 2).reshape(sentence_count, length, width)
        )
        states = states + self.dropout(self.mix(attended_states))
        wide_states = self.dropout(functional.relu(self.widen(self.perceptron_norm(states))))
        next_states: Tensor = states + self.dropout(self.narrow(wide_states))
        return next_states


def _distances(length: int, reach: int, device: torch.device) -> Tensor:
    """Indices (length, length + 1) in a table of distances −reach … reach, from each word to root and words."""
    position = torch.arange(length + 1, device=device)
    return (position[None] - position[1:, None]).clamp(-reach, reach) + reach
