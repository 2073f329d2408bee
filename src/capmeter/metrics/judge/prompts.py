"""Prompt templates: named texts in the package, or a user's own file of the same form.

A file has a head (`source`, where the text is from; `role` of the message; `tokens`, the usual length of an answer, for
estimates), a line `---`, and the text, in which `{candidate}` and `{references}` are filled in.

>>> template("clair").role
'user'
>>> template("fleur").filled("a dog", "")[-55:]
'Caption: a dog\\n\\nScore(Choose a rating from 0.0 to 1.0):'
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from capmeter.errors import InputError

FOLDER = Path(__file__).parent / "templates"
_SLOT = re.compile(r"\{(candidate|references)\}")
_SEPARATOR = "\n---\n"
_ROLES = ("user", "system")


@dataclass(frozen=True)
class Template:
    """A prompt.

    source: where it is from. role: of the message. tokens: the usual length of an answer. text: with its slots.
    """

    name: str
    source: str
    role: str
    tokens: int
    text: str

    @property
    def sha256(self) -> str:
        """The hash of what is sent."""
        return hashlib.sha256(f"{self.role}\n{self.text}".encode()).hexdigest()

    @property
    def slots(self) -> frozenset[str]:
        """What is filled in."""
        return frozenset(_SLOT.findall(self.text))

    def filled(self, candidate: str, references: str) -> str:
        """The text with the candidate and the references; braces in these are left as they are."""
        values = {"candidate": candidate, "references": references}
        return _SLOT.sub(lambda slot: values[slot[1]], self.text)


def names() -> list[str]:
    """The templates in the package."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


@functools.lru_cache(maxsize=64)
def template(name: str) -> Template:
    """The template with this name, or in this file.

    Raises:
        InputError: there is none, or it is not of this form.
    """
    own = FOLDER / f"{name}.txt"
    path = own if name in names() else Path(name).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"template {name!r}: neither a file that can be read nor one of {', '.join(names())}"
        ) from error
    head, separator, body = text.partition(_SEPARATOR)
    said = dict(re.findall(r"^(\w+):[ \t]*(.*)$", head, re.MULTILINE))
    body = body[:-1] if body.endswith("\n") else body
    if not separator or "{candidate}" not in body:
        raise InputError(
            f"template {name!r}: expected a head, a line with ---, and a text with {{candidate}}; see {FOLDER}"
        )
    if said.get("role", "user") not in _ROLES or not said.get("tokens", "60").isdigit():
        raise InputError(f"template {name!r}: expected role: user or system, and tokens: a whole number")
    return Template(name, said.get("source", ""), said.get("role", "user"), int(said.get("tokens", "60")), body)
