"""The networks of synthetic scenes as sources of picture features: `world-encoder` and `world-reader`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.core.settings import Settings
from capmeter.images.reading import DecodedImage
from capmeter_research.common.image_features import Features, ImageEncoder


@dataclass(frozen=True, kw_only=True)
class SceneVectors(ImageEncoder):
    """The encoder of synthetic scenes."""

    NAME: ClassVar[str] = "world-encoder"
    SUMMARY: ClassVar[str] = "the encoder of synthetic scenes"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-encoder"

    def label(self, settings: Settings) -> str:
        """The checkpoint's label."""
        from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder

        return load_world_encoder(self.checkpoint).label

    def encode(self, picture: DecodedImage, settings: Settings) -> Features:
        """The slots of all kinds and of the background."""
        from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder

        vector: Features = load_world_encoder(self.checkpoint).pictures([picture.pixels])[0]
        return vector


@dataclass(frozen=True, kw_only=True)
class SceneTables(ImageEncoder):
    """A table of what a picture of a synthetic scene shows."""

    NAME: ClassVar[str] = "world-reader"
    SUMMARY: ClassVar[str] = "a table of what pictures of synthetic scenes show"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-reader"

    def label(self, settings: Settings) -> str:
        """The checkpoint's label."""
        from capmeter_research.synthetic_scenes.attribute_reader.reader import load_world_reader

        return load_world_reader(self.checkpoint).label

    def encode(self, picture: DecodedImage, settings: Settings) -> Features:
        """What there is, how many, what it is like, and how it stands to the rest."""
        from capmeter_research.synthetic_scenes.attribute_reader.reader import load_world_reader

        table: Features = load_world_reader(self.checkpoint).pictures([picture.pixels])[0]
        return table
