"""Names of transforms: `parse("other-caption(similarity=cider-d)")`; Cui et al.'s names (T_RC, wp …) are accepted.

Other packages add degradations through the entry point group `capmeter.transforms` (name = "module:Class").

>>> str(parse("T_RC(similarity=random)"))
'other-caption(similarity=random)'
"""

from __future__ import annotations

from capmeter.core.registry import Entry, Registry
from capmeter.transforms.degradations import Degradation

TRANSFORMS: Registry[Degradation] = Registry(
    "degradation",
    Degradation,  # type: ignore[type-abstract]
    "capmeter.transforms",
    {
        "other-caption": Entry("capmeter.transforms.degradations:OtherCaption", aliases=("rc", "t_rc")),
        "permutation": Entry("capmeter.transforms.degradations:WordPermutation", aliases=("wp", "t_wp")),
        "replacement": Entry("capmeter.transforms.degradations:Replacement", aliases=("rw", "t_rw")),
        "substitution": Entry("capmeter.transforms.degradations:Substitution"),
        "repetition": Entry("capmeter.transforms.degradations:Repetition"),
        "removal": Entry("capmeter.transforms.degradations:Removal"),
    },
)
parse, parse_list, names = TRANSFORMS.parse, TRANSFORMS.parse_list, TRANSFORMS.names
