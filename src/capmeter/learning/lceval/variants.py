"""The networks of the paper's tables, by name: the features, layers, pooling and machine captions of each.

`lceval` and `nneval` ship, as do all groups of features (Tables 7.5, 7.7), and `lceval-mean` and `lceval-min`, which
pool over references in other ways (Figure B.1). `lceval-linear` and `lceval-two-layers`, and the networks of SPICE and
CIDEr-D alone (`spider-…`), are the architectures of Table 7.2.

>>> VARIANTS["spider"].features, VARIANTS["nneval"].hidden
(('spice', 'cider-d'), (72, 72))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capmeter.errors import InputError
from capmeter.metrics.lceval.features import FEATURES, GROUPS, NNEVAL, chosen
from capmeter.metrics.pooling import Pooling

HIDDEN = (12,)
AGAINST = "lceval-against-"
"""`lceval-against-SYSTEM`: trained on the machine captions of one system alone (Tables 7.10, 7.11)."""


@dataclass(frozen=True)
class Variant:
    """Features, nodes of hidden layers, pooling over references, and the system whose captions stand for machines'."""

    features: tuple[str, ...] = FEATURES
    hidden: tuple[int, ...] = HIDDEN
    pool: Pooling = "max"
    system: str | None = None


_SPIDER = chosen("spice+cider-d")
VARIANTS: dict[str, Variant] = {
    "lceval": Variant(),
    "nneval": Variant(NNEVAL, (72, 72)),
    **{f"lceval-{name}": Variant(chosen(name)) for name in GROUPS},
    "lceval-mean": Variant(pool="mean"),
    "lceval-min": Variant(pool="min"),
    "lceval-linear": Variant(hidden=()),
    "lceval-two-layers": Variant(hidden=(12, 12)),
    "spider-linear": Variant(_SPIDER, ()),
    "spider": Variant(_SPIDER),
    "spider-two-layers": Variant(_SPIDER, (12, 12)),
}
SHIPPED = ("lceval", "nneval", *(f"lceval-{name}" for name in (*GROUPS, "mean", "min")))


def variants(names: Iterable[str], systems: Iterable[str] = ()) -> dict[str, Variant]:
    """The variants of these names; `study` stands for all, with one for each of these systems, `shipped` for those that
    ship.
    """
    found: dict[str, Variant] = {}
    for name in names:
        if name == "study":
            found |= VARIANTS
            found |= {f"{AGAINST}{system}": Variant(system=system) for system in systems}
        elif name == "shipped":
            found |= {each: VARIANTS[each] for each in SHIPPED}
        elif name.startswith(AGAINST):
            found[name] = Variant(system=name.removeprefix(AGAINST))
        elif name in VARIANTS:
            found[name] = VARIANTS[name]
        else:
            raise InputError(
                f"there is no network {name!r}; expected study, shipped, {', '.join(VARIANTS)} or {AGAINST}SYSTEM"
            )
    return found
