"""The settings of a critic's training, and the presets: `coco` (Cui et al. §4.1) and `flickr8k` (§4.4).

>>> read_shares("machine=1,permutation=0.5")
(('machine', 1.0), ('permutation', 0.5))
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError
from capmeter_research.common.recipe import Recipe
from capmeter_research.papers.leic.shape import MAX_WORDS, CriticShape

MACHINE, SAMPLES, OTHER, PERMUTED, REPLACED = SOURCES = (
    *("machine", "monte-carlo", "other-caption", "permutation", "replacement"),
)
"""Where negatives come from: a captioner's captions, its Monte-Carlo samples, T_RC, T_WP and T_RW."""
PATHOLOGICAL = (OTHER, PERMUTED, REPLACED)
VARIED = ("augmentation", "strategy", "context", "fusion", "layers", "width")
"""What critics of a study of capability can differ in."""
WORLD_CAPTIONS = 12
"""True captions of each synthetic scene to learn from: with five, a critic soon overfits."""
Shares = tuple[tuple[str, float], ...]
AUGMENTED: Shares = ((MACHINE, 3.0), (SAMPLES, 3.0), (OTHER, 1.0), (PERMUTED, 1.0), (REPLACED, 1.0))
"""A.3: captioner, Monte-Carlo sampling and transformations alike, each transformation a third of these."""


@dataclass(frozen=True)
class CriticRecipe(Recipe):
    """The settings of a run; the defaults are those of the preset `coco`.

    Args:
        context, fusion, hidden, layers, width, embedding, pooled, steps: of the network (`CriticShape`).
        negatives: shares of the sources of negatives. They need not add up to 1; for an image without captions of a
            source, the shares of the others count.
        others: how many captions of other images share the weight of one such negative; 1 as published.
        brief: number of first epochs without images whose captions have over ten words on average; 0 as published.
        images: images per batch, each with one positive and one negative pair.
        dropout: of word vectors, sentence vectors and hidden layers, as released.
        words: largest size of the vocabulary.
        least: how often a word of the vocabulary occurs.
    """

    epochs: int = 30
    lr: float = 1e-3
    gamma: float = 0.9
    max_grad_norm: float = 1.0
    context: str = "both"
    fusion: str = "concatenation"
    hidden: tuple[int, ...] = (512,)
    layers: int = 1
    width: int = 512
    embedding: int = 300
    pooled: int = 8192
    steps: int = MAX_WORDS
    negatives: Shares = AUGMENTED
    others: int = 1
    brief: int = 0
    images: int = 50
    dropout: float = 0.5
    words: int = 10_000
    least: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.brief < self.epochs:
            raise InputError(
                f"brief: expected fewer first epochs of short captions than the {self.epochs} epochs, got {self.brief}"
            )

    @property
    def sees_image(self) -> bool:
        """Whether the image is part of the context."""
        return self.context in ("image", "both")

    def shape(self, image: int) -> CriticShape:
        """The architecture, for image features of this width."""
        sizes = {each.name: getattr(self, each.name) for each in fields(CriticShape) if hasattr(self, each.name)}
        return CriticShape(image=image if self.sees_image else 0, **sizes)


def read_shares(text: str) -> Shares:
    """Shares from text: `SOURCE=SHARE,…`; a share is 1 where it is left out."""
    source_shares = []
    for share_text in text.split(","):
        source, equals, share = share_text.strip().partition("=")
        try:
            source_shares.append((source, float(share) if equals else 1.0))
        except ValueError:
            raise InputError(f"negatives: {share_text.strip()!r} is not SOURCE=SHARE, such as machine=0.5") from None
    for negative_source, parsed_share in source_shares:
        if negative_source not in SOURCES:
            raise InputError(f"negatives: unknown source {negative_source!r}; expected {', '.join(SOURCES)}")
        if not 0 < parsed_share < float("inf"):
            raise InputError(f"negatives: the share of {negative_source} is {parsed_share}; expected a positive number")
    if len(dict(source_shares)) < len(source_shares):
        raise InputError("negatives: expected one or more sources, each once, such as machine=1,permutation=0.5")
    return tuple(source_shares)


PRESETS: dict[str, CriticRecipe] = {
    "coco": CriticRecipe(),
    "flickr8k": CriticRecipe(epochs=100, gamma=0.98, words=3441, least=1, negatives=((OTHER, 1.0),)),
}
"""`coco`: §4.1 and A.3. `flickr8k`: §4.4 and the released configuration; every negative is another image's caption."""
