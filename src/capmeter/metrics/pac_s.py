"""PAC-S and RefPAC-S (Sarto et al. 2023): CLIPScore with projections trained on augmented positives.

    PAC-S(c, v)       = w max(cos(T("A photo depicts " + c), V(v)), 0)                        w = 2
    RefPAC-S(c, R, v) = H(PAC-S(c, v), max(max_{r ∈ R} cos(T(c), T(r)), 0))      H: the harmonic mean

V and T are CLIP's encoders with the projections of the authors' checkpoint (see `capmeter.encoders.projection`, which
refuses one that would give CLIPScore's numbers, as the released code does not). Ranges 0 to 2, and 0 to 1.34. The
checkpoint is not shipped: `checkpoint=FILE`, or clip_ViT-B-32.pth in the folder `assets/pac-s` of the user's data.

Sarto, Barraco, Cornia, Baraldi, Cucchiara: Positive-Augmented Contrastive Learning for Image and Video Captioning
Evaluation. CVPR 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.assets import ASSETS
from capmeter.errors import AssetError
from capmeter.metrics.clipscore import ImageTextScore, ReferencedScore


def found_checkpoint(named: str) -> str:
    """The file of PAC-S's checkpoint: the named one, or the one among the user's assets."""
    if named:
        return named
    asset = ASSETS["pac-s"]
    folder = asset.find()
    if folder is None:
        raise AssetError(f"pac-s needs its authors' checkpoint: {asset.get}; or name it: pac-s(checkpoint=FILE)")
    return str(folder / asset.files[0])


@dataclass(frozen=True, kw_only=True)
class PacS(ImageTextScore):
    """PAC-S: CLIPScore with the projections of its checkpoint, and w = 2."""

    NAME: ClassVar[str] = "pac-s"
    SUMMARY: ClassVar[str] = "CLIPScore with positive-augmented training"

    scale: Annotated[float, "w, the factor of the cosine"] = 2.0
    checkpoint: Annotated[str, "file of the checkpoint; empty: the one among the user's assets"] = ""

    @property
    def projection(self) -> str:
        """The checkpoint's file."""
        return found_checkpoint(self.checkpoint)


@dataclass(frozen=True, kw_only=True)
class RefPacS(ReferencedScore):
    """RefPAC-S: the harmonic mean of PAC-S and the best cosine with a reference."""

    NAME: ClassVar[str] = "refpac-s"
    SUMMARY: ClassVar[str] = "PAC-S and the best cosine with a reference"

    scale: Annotated[float, "w, the factor of the cosine"] = 2.0
    checkpoint: Annotated[str, "file of the checkpoint; empty: the one among the user's assets"] = ""

    @property
    def projection(self) -> str:
        """The checkpoint's file."""
        return found_checkpoint(self.checkpoint)
