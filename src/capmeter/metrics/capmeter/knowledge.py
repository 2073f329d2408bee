"""What the metric `capmeter` knows of word pieces before it reads a caption; checkpoints hold it beside the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from capmeter.encoders import Encoder
from capmeter.metrics.capmeter.associations import Associations, is_of_associations
from capmeter.metrics.capmeter.inputs import Words
from capmeter.metrics.capmeter.language_model import LanguageModel, is_of_language_model
from capmeter.metrics.capmeter.lexicon import Lexicon, is_of_lexicon


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What word pieces follow one another, what they mean alone, and with which others they are said of a photo."""

    language: LanguageModel
    lexicon: Lexicon
    associations: Associations

    def words(self, encoder: Encoder) -> Words:
        """What is known of an encoder's word pieces, each by itself."""
        vectors = self.lexicon.vectors(encoder.embeddings())
        associated = self.associations.vectors(len(vectors))
        return Words(vectors, self.lexicon.things, associated, self.associations.signs)

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a checkpoint holds them."""
        return {**self.language.to_weights(), **self.lexicon.to_weights(), **self.associations.to_weights()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Knowledge:
        """That of a checkpoint's arrays; a `KeyError` if it has none."""
        return cls(
            LanguageModel.from_weights(weights), Lexicon.from_weights(weights), Associations.from_weights(weights)
        )


def is_of_knowledge(name: str) -> bool:
    """Whether a checkpoint's array is not the network's."""
    return is_of_language_model(name) or is_of_lexicon(name) or is_of_associations(name)
