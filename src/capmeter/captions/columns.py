"""Column names of caption rows: capmeter's own, common alternatives, and those that the user chooses.

>>> columns = Columns({"photo": "image_id"})
>>> [columns.field(name) for name in ("photo", "prediction", "ref0", "ground_truth", "score")]
['image_id', 'candidate', 'references', 'references', None]
>>> nearest(["imageid", "score"])
'imageid (image_id?), score'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from capmeter.captions.layouts import Layout, layout_of
from capmeter.captions.rows import named, shortened
from capmeter.errors import InputError

FIELDS = ("id", "image_id", "candidate", "references", "image", "system", "human", "split")
"""The fields of a native row."""
OTHER_NAMES = {
    "caption": "candidate",
    "prediction": "candidate",
    "hypothesis": "candidate",
    "reference": "references",
    "ground_truth": "references",
    "ground_truths": "references",
}
_NUMBERED = re.compile(r"(?:ref|reference)s?_?(\d{1,9})")
_KNOWN = (*FIELDS, *OTHER_NAMES, "captions")


@dataclass
class Columns:
    """Which column holds which field: `chosen` (column → field) comes before the known names.

    `ignored` collects the unknown names, `met` the chosen columns that were found; `layout` is that of another program,
    where the rows have one.
    """

    chosen: Mapping[str, str] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    layout: Layout | None = None
    _found: dict[str, str | None] = field(default_factory=dict)
    _decided: bool = False

    def layout_of(self, names: Iterable[Any]) -> Layout | None:
        """Whose layout the rows have, decided by the names in the first; none where the user chose what they mean."""
        if not self._decided:
            given = list(names)
            self._decided = True
            self.layout = None if self.chosen.keys() & set(given) else layout_of(given)
        return self.layout

    def native(self, names: Iterable[str]) -> list[str]:
        """The native names of these columns, as far as their layout says them."""
        given = list(names)
        layout = self.layout_of(given)
        return given if layout is None else [layout.renamed.get(name, name) for name in given]

    def field(self, name: str) -> str | None:
        """The field that a column of this name holds; None where the name is not known."""
        if name not in self._found:
            self._found[name] = self._field(name)
        return self._found[name]

    def _field(self, name: str) -> str | None:
        if name in self.chosen:
            self.met.add(name)
            return self.chosen[name]
        if name in FIELDS:
            return name if name not in self.chosen.values() else None
        found = OTHER_NAMES.get(name) or ("references" if number_of(name) is not None else None)
        return None if found in self.chosen.values() else found


def chosen_columns(given: Sequence[str]) -> dict[str, str]:
    """`FIELD=NAME` texts as column → field; `references` may be given for several columns."""
    chosen: dict[str, str] = {}
    for each in given:
        field, equals, name = each.partition("=")
        if not equals or not name or field not in FIELDS:
            raise InputError(
                f"--column {each}: expected FIELD=NAME, such as candidate=output; the fields are {', '.join(FIELDS)}"
            )
        if name in chosen or (field in chosen.values() and field != "references"):
            raise InputError(f"--column {each}: {shortened(name)} or {field} was given before; give each once")
        chosen[name] = field
    return chosen


def number_of(name: Any) -> int | None:
    """The number in `reference_1`, `ref0` and similar names."""
    return _number(name) if isinstance(name, str) else None


@lru_cache(maxsize=1024)  # asked of every row
def _number(name: str) -> int | None:
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else None


def nearest(names: Iterable[Any], most: int = 8) -> str:
    """The first names, each unknown one followed by the known name that was probably meant."""
    from difflib import get_close_matches  # which only mistakes need

    shown = []
    for name in names:
        text = name if isinstance(name, str) else f"({type(name).__name__})"
        known = name in _KNOWN or number_of(name) is not None
        close = [] if known else get_close_matches(text[:40].strip().lower().replace(" ", "_"), _KNOWN, 1, 0.75)
        shown.append(text + (f" ({close[0]}?)" if close else ""))
    return named(shown, most)
