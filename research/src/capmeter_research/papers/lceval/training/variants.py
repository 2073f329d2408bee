"""The networks of the paper's tables, by name: features, hidden layers, pooling and machine captions of each.

The checkpoints of `lceval`, `nneval`, all feature groups (Tables 7.5, 7.7), `lceval-mean` and `lceval-min` (other
pooling over references, Figure B.1) are bundled. `lceval-linear` and `lceval-two-layers`, and the networks of SPICE and
CIDEr-D alone (`spider-…`), are the architectures of Table 7.2.

>>> VARIANTS["spider"].features, VARIANTS["nneval"].hidden
(('spice', 'cider-d'), (72, 72))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capmeter.core.errors import InputError
from capmeter_research.common.reference_pooling import Pooling
from capmeter_research.papers.lceval.features import FEATURES, GROUPS, NNEVAL, select_features

HIDDEN = (12,)
SINGLE_SYSTEM = "lceval-against-"
"""Prefix of the networks trained on the machine captions of one system only (Tables 7.10, 7.11)."""


@dataclass(frozen=True)
class Variant:
    """A network: features, nodes of hidden layers, pooling over references, and the only system of machine captions
    (none: all).
    """

    features: tuple[str, ...] = FEATURES
    hidden: tuple[int, ...] = HIDDEN
    pool: Pooling = "max"
    system: str | None = None


_SPIDER = select_features("spice+cider-d")
VARIANTS: dict[str, Variant] = {
    "lceval": Variant(),
    "nneval": Variant(NNEVAL, (72, 72)),
    **{f"lceval-{name}": Variant(select_features(name)) for name in GROUPS},
    "lceval-mean": Variant(pool="mean"),
    "lceval-min": Variant(pool="min"),
    "lceval-linear": Variant(hidden=()),
    "lceval-two-layers": Variant(hidden=(12, 12)),
    "spider-linear": Variant(_SPIDER, ()),
    "spider": Variant(_SPIDER),
    "spider-two-layers": Variant(_SPIDER, (12, 12)),
}
BUNDLED = ("lceval", "nneval", *(f"lceval-{name}" for name in (*GROUPS, "mean", "min")))


def resolve_variants(names: Iterable[str], systems: Iterable[str] = ()) -> dict[str, Variant]:
    """The variants of these names.

    Args:
        names: of networks; `study`: all, and one for each of the systems; `bundled`: those with a bundled checkpoint.
        systems: of the machine captions.

    Raises:
        InputError: a name is unknown.
    """
    resolved: dict[str, Variant] = {}
    for network_name in names:
        if network_name == "study":
            resolved |= VARIANTS
            resolved |= {f"{SINGLE_SYSTEM}{system}": Variant(system=system) for system in systems}
        elif network_name == "bundled":
            resolved |= {bundled_name: VARIANTS[bundled_name] for bundled_name in BUNDLED}
        elif network_name.startswith(SINGLE_SYSTEM):
            resolved[network_name] = Variant(system=network_name.removeprefix(SINGLE_SYSTEM))
        elif network_name in VARIANTS:
            resolved[network_name] = VARIANTS[network_name]
        else:
            raise InputError(
                f"unknown network {network_name!r}; expected study, bundled, {', '.join(VARIANTS)} or "
                f"{SINGLE_SYSTEM}SYSTEM"
            )
    return resolved
