"""PAC-S and RefPAC-S (Sarto et al. 2023): CLIPScore with projections trained on augmented positives.

    PAC-S(c, v)       = w max(cos(T("A photo depicts " + c), V(v)), 0)                        w = 2
    RefPAC-S(c, R, v) = H(PAC-S(c, v), max(max_{r ∈ R} cos(T(c), T(r)), 0))      H: the harmonic mean

V and T are CLIP's encoders with the projections of the authors' checkpoint. Ranges 0 to 2, and 0 to 1.34. An empty
candidate scores 0; the corpus score is the mean. The checkpoint is not bundled: `checkpoint=FILE`, or
clip_ViT-B-32.pth in the folder `assets/pac-s` of the user's data. One that would give CLIPScore's numbers is refused,
which the released code does not check (`capmeter.encoders.joint.encoder`).

>>> str(PacS(checkpoint="clip_ViT-B-32.pth"))
'pac-s(checkpoint=clip_ViT-B-32.pth)'

Sarto, Barraco, Cornia, Baraldi, Cucchiara: Positive-Augmented Contrastive Learning for Image and Video Captioning
Evaluation. CVPR 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.core.assets import ASSETS
from capmeter.core.errors import AssetError
from capmeter.metrics.vision.clipscore import ImageTextScore, ReferencedScore


@dataclass(frozen=True, kw_only=True)
class _ProjectedScore(ImageTextScore):
    """The base of PAC-S and RefPAC-S: the projections of their checkpoint, and w = 2."""

    scale: Annotated[float, "w, the factor of the cosine"] = 2.0
    checkpoint: Annotated[str, "file of the checkpoint; empty: the one among the user's assets"] = ""

    @property
    def projection(self) -> str:
        """The checkpoint's file: the one that is named, or the one among the user's assets."""
        if self.checkpoint:
            return self.checkpoint
        asset = ASSETS["pac-s"]
        asset_folder = asset.find()
        if asset_folder is None:
            raise AssetError(f"pac-s needs its authors' checkpoint: {asset.get}; or name it: pac-s(checkpoint=FILE)")
        return str(asset_folder / asset.files[0])


@dataclass(frozen=True, kw_only=True)
class PacS(_ProjectedScore):
    """PAC-S: CLIPScore with the projections of its checkpoint, and w = 2."""

    NAME: ClassVar[str] = "pac-s"
    SUMMARY: ClassVar[str] = "CLIPScore with positive-augmented training"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{PAC-S}(c, v) = 2 \, \max\left( \cos(T(\text{“A photo depicts ”} + c), V(v)), 0 \right)",
    )


@dataclass(frozen=True, kw_only=True)
class RefPacS(_ProjectedScore, ReferencedScore):
    """RefPAC-S: the harmonic mean of PAC-S and the best cosine with a reference."""

    NAME: ClassVar[str] = "refpac-s"
    SUMMARY: ClassVar[str] = "PAC-S and the best cosine with a reference"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{RefPAC-S}(c, R, v) = H\left( \text{PAC-S}(c, v), \max\left( \max_{r \in R} \cos(T(c), T(r)), 0 "
        r"\right) \right)",
        r"H(a, b) = \frac{2 a b}{a + b}",
    )
