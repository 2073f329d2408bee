"""What the metric `capmeter` knows about word pieces before it reads a caption, stored in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from capmeter.encoders import Encoder
from capmeter.metrics.learned.capmeter.associations import Associations
from capmeter.metrics.learned.capmeter.inputs import PieceFeatures
from capmeter.metrics.learned.capmeter.language_model import LanguageModel
from capmeter.metrics.learned.capmeter.lexicon import Lexicon


@dataclass(frozen=True, eq=False)
class TokenPriors:
    """Probabilities of word pieces in context, their static embeddings, and their associations within a photo."""

    language_model: LanguageModel
    lexicon: Lexicon
    associations: Associations

    def piece_features(self, encoder: Encoder) -> PieceFeatures:
        """The context-free features of an encoder's word pieces."""
        static = self.lexicon.static_embeddings(encoder.embeddings())
        associations = self.associations.vectors(len(static))
        return PieceFeatures(static, self.lexicon.noun_shares, associations, self.associations.signs)

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays under their names in checkpoints."""
        return {**self.language_model.to_weights(), **self.lexicon.to_weights(), **self.associations.to_weights()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> TokenPriors:
        """The priors in a checkpoint; a `KeyError` if it has none."""
        language_model, lexicon = LanguageModel.from_weights(weights), Lexicon.from_weights(weights)
        return cls(language_model, lexicon, Associations.from_weights(weights))


def is_prior_array(name: str) -> bool:
    """Whether an array of a checkpoint belongs to the priors, not to a network."""
    return name.startswith(("language.", "lexicon.", "associations."))
