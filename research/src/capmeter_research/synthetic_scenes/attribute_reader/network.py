"""What a world encoder saw, as a table: what is there, how many, what it is like, how it stands to the rest.

The reader begins with a world encoder, and has it trained along. The encoder's slots hold all of this, but each kind's
slot is a place of its own, and a linear map of the whole feature would have to learn every attribute once for every
kind. The reader is one small network, the same for all slots; it reads each slot z_k with the peaks of its heat map:

    h_k   = ReLU(W [z_k, peaks_k] + b)
    p_k   = σ(w h_k)                                 is this kind there?
    a_k   = softmax of linear maps of h_k            count, colour, texture, size;  c_k: its centre
    r_kj  = σ(V ReLU(A h_k + B h_j))                 the relations of k to j, for the most probable categories
    row k = [p_k, q_k a_k, q_k min(1, Σ_j q_j r_kj), q_k x_k, q_k y_k],    q_k = min(1, 4 p_k)

All quantities are read of what may be there: captions that name it ask for them. x_k is how far right of the others the
kind is: the mean of clip((c_k − c_j) / 0.14, −1, 1) with the weights q_j; y_k how far below. The picture's feature is
all rows, the largest value of each column over the kinds, and what the background is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork, WorldShape

PEAKS = 5
"""How many peaks of a heat map are read: the highest ones, each with its height and its place."""
_LIKELIEST = 6
_CLEAR = 0.14
_MAYBE = 4
_NOWHERE = -20.0


@dataclass(frozen=True)
class AttributeReaderShape:
    """Sizes: of a slot, of what is read, and how many relations and backgrounds there are.

    attributes: how many values each attribute has (count, colour, texture, size). unsaid: how many of its first values
    mean that there is nothing to say (plain, ordinary); they have no column in the table.
    """

    slot: int
    attributes: tuple[int, ...]
    unsaid: tuple[int, ...]
    relations: int
    backgrounds: int
    hidden: int = 128

    @property
    def row(self) -> int:
        """The columns of the table."""
        return 1 + sum(self.attributes) - sum(self.unsaid) + self.relations + 2


@dataclass(frozen=True, eq=False)
class AttributeLogits:
    """What is read of pictures: logits of presence [n, kinds], of each attribute [n, kinds, values], of the background,
    the centres [n, kinds, 2], and `inner` [n, kinds, hidden], from which relations are read.
    """

    presence: Tensor
    attributes: tuple[Tensor, ...]
    centres: Tensor
    background: Tensor
    inner: Tensor


class ReaderNetwork(nn.Module):
    """The reader; the arithmetic is in the module's description."""

    def __init__(self, shape: AttributeReaderShape) -> None:
        super().__init__()
        self.shape = shape
        self.inner = nn.Linear(shape.slot + 3 * PEAKS, shape.hidden)
        self.presence = nn.Linear(shape.hidden, 1)
        self.attributes = nn.ModuleList(nn.Linear(shape.hidden, value_count) for value_count in shape.attributes)
        self.centre = nn.Linear(shape.hidden, 2)
        self.first, self.second = (nn.Linear(shape.hidden, shape.hidden) for _ in range(2))
        self.related = nn.Linear(shape.hidden, shape.relations)
        self.background = nn.Linear(shape.slot, shape.backgrounds)

    def forward(self, slots: Tensor, peaks: Tensor) -> AttributeLogits:
        """From slots [n, kinds + 1, slot], the background's last, and peaks [n, kinds, 5, 3]."""
        inner_states = functional.relu(self.inner(torch.cat([slots[:, :-1], peaks.flatten(2)], dim=-1)))
        return AttributeLogits(
            self.presence(inner_states)[..., 0],
            tuple(head(inner_states) for head in self.attributes),
            self.centre(inner_states),
            self.background(slots[:, -1]),
            inner_states,
        )

    def relations(self, first: Tensor, second: Tensor) -> Tensor:
        """Logits of the relations between things, from what is read of each."""
        relation_logits: Tensor = self.related(functional.relu(self.first(first) + self.second(second)))
        return relation_logits

    def table(self, read: AttributeLogits) -> Tensor:
        """The features of pictures, from what is read of them: float [n, kinds · row + row + backgrounds]."""
        is_present = read.presence.sigmoid()
        attribute_values = [
            logits.softmax(-1)[..., unsaid:] for logits, unsaid in zip(read.attributes, self.shape.unsaid, strict=True)
        ]
        confidence = (_MAYBE * is_present).clamp(max=1)
        top_categories = is_present.topk(min(_LIKELIEST, is_present.shape[1]), dim=1).indices
        category_weights = confidence.gather(1, top_categories)
        category_states = read.inner.gather(1, top_categories[..., None].expand(-1, -1, read.inner.shape[-1]))
        off_diagonal = 1 - torch.eye(top_categories.shape[1], device=category_weights.device)
        others = category_weights[:, None] * off_diagonal  # [n, chosen, chosen]: how surely there is another thing
        relation_values = self.relations(category_states[:, :, None], category_states[:, None]).sigmoid()
        relation_roles = (relation_values * others[..., None]).sum(2).clamp(max=1)
        centres = read.centres.gather(1, top_categories[..., None].expand(-1, -1, 2))
        clear_distances = ((centres[:, :, None] - centres[:, None]) / _CLEAR).clamp(-1, 1)
        relative_positions = (clear_distances * others[..., None]).sum(2) / others.sum(2).clamp(min=1)[..., None]
        relation_columns = read.inner.new_zeros(*is_present.shape, self.shape.relations + 2)
        index = top_categories[..., None].expand(-1, -1, relation_columns.shape[-1])
        relation_columns = relation_columns.scatter(1, index, torch.cat([relation_roles, relative_positions], dim=-1))
        table_rows = torch.cat(
            [is_present[..., None], confidence[..., None] * torch.cat([*attribute_values, relation_columns], dim=-1)],
            dim=-1,
        )
        return torch.cat([table_rows.flatten(1), table_rows.amax(1), read.background.softmax(-1)], dim=1)


class SeeingReader(nn.Module):
    """A world encoder's network and the reader of what it sees: pictures to readings, and to tables."""

    def __init__(self, sees: WorldShape, shape: AttributeReaderShape) -> None:
        super().__init__()
        self.encoder = WorldNetwork(sees)
        self.reader = ReaderNetwork(shape)

    def forward(self, pixels: Tensor) -> tuple[AttributeLogits, Tensor]:
        """What is read of pictures, uint8 [n, 96, 96, 3], and the heat, float [n, kinds, 24, 24]."""
        slots, heat = self.encoder.slots(self.encoder.maps(pixels))
        return self.reader(slots, heat_peaks(heat)), heat

    def tables(self, pixels: Tensor) -> Tensor:
        """The features of pictures: `ReaderNetwork.table`."""
        return self.reader.table(self(pixels)[0])


def heat_peaks(heat: Tensor) -> Tensor:
    """The highest peaks of heat maps, the highest first: height (0 to 1) and place (x, y, in parts of the side).

    Args:
        heat: float [n, kinds, side, side].

    Returns:
        float [n, kinds, 5, 3].
    """
    heat = heat.float()
    is_peak = functional.max_pool2d(heat, 3, 1, 1) == heat
    peak_logits, cell = torch.where(is_peak, heat, torch.full_like(heat, _NOWHERE)).flatten(2).topk(PEAKS, dim=2)
    map_side = heat.shape[-1]
    return torch.stack([peak_logits.sigmoid(), cell % map_side / map_side, cell // map_side / map_side], dim=-1)
