"""The networks of synthetic scenes as sources of picture features: `world-encoder` and `world-reader`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.core.settings import Settings
from capmeter.images.reading import DecodedImage
from capmeter_research.common.image_features import Features, ImageEncoder
from capmeter_research.synthetic_scenes.attribute_reader.reader import load_world_reader
from capmeter_research.synthetic_scenes.encoder.encoder import SceneNetwork, load_world_encoder


class _SceneEncoder(ImageEncoder):
    """An encoder of pictures whose network is a checkpoint."""

    def load(self) -> SceneNetwork:
        """The network."""
        raise NotImplementedError

    def label(self, settings: Settings) -> str:
        """The checkpoint's label."""
        return self.load().label

    def encode(self, picture: DecodedImage, settings: Settings) -> Features:
        """The picture's feature."""
        vector: Features = self.load().pictures([picture.pixels])[0]
        return vector


@dataclass(frozen=True, kw_only=True)
class SceneVectors(_SceneEncoder):
    """The slots of all kinds and of the background."""

    NAME: ClassVar[str] = "world-encoder"
    SUMMARY: ClassVar[str] = "the encoder of synthetic scenes"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-encoder"

    def load(self) -> SceneNetwork:
        """The encoder."""
        return load_world_encoder(self.checkpoint)


@dataclass(frozen=True, kw_only=True)
class SceneTables(_SceneEncoder):
    """What there is, how many, what it is like, and how it stands to the rest."""

    NAME: ClassVar[str] = "world-reader"
    SUMMARY: ClassVar[str] = "a table of what pictures of synthetic scenes show"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-reader"

    def load(self) -> SceneNetwork:
        """The reader."""
        return load_world_reader(self.checkpoint)
