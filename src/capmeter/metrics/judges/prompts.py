"""Prompt templates: YAML files in the package, or a user's own.

A file has `prompt`, in which slots such as `{candidate}` and `{references}` are filled in, and may have `source`,
`version`, `system` (a message before it), `role` (of the prompt's message), `tokens` (the usual length of an answer),
`max_tokens` (its limit), and `schema` (the answer's JSON schema, for servers that support it). Tasks are declared in
the same files (`capmeter.metrics.judges.task_spec`).

A caption cannot leave its delimiters: where a template has tags such as `<caption>`, the same tags inside a filled-in
text are escaped.

>>> template("clair").role
'user'
>>> template("fleur").fill(candidate="a dog")[-55:]
'Caption: a dog\\n\\nScore(Choose a rating from 0.0 to 1.0):'
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError, MissingBackend

FOLDER = Path(__file__).resolve().parents[2] / "data" / "prompts"
SLOTS = ("candidate", "references", "question", "choices", "answer", "response", "items", "oracle", "other")
_SLOT = re.compile(r"\{(" + "|".join(SLOTS) + r")\}")
_TAG = re.compile(r"<(\w+)>")
_FIELDS = {"source": str, "version": int, "role": str, "system": str, "tokens": int, "max_tokens": int, "prompt": str}
_ROLES = ("user", "system")
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Template:
    """A prompt.

    Attributes:
        name, source, version: of the template.
        role: of the message.
        system: text of a system message before it, or empty.
        tokens, max_tokens: the usual and the maximum length of an answer.
        text: with its slots.
        schema: JSON schema of the answer as text, or empty.
    """

    name: str
    source: str
    version: int
    role: str
    system: str
    tokens: int
    max_tokens: int
    text: str
    schema: str = ""

    @property
    def sha256(self) -> str:
        """The hash of role, texts and schema."""
        system_text = f"{self.system}\n" if self.system else ""
        return hashlib.sha256(f"{self.role}\n{system_text}{self.text}{self.schema}".encode()).hexdigest()

    @property
    def slots(self) -> frozenset[str]:
        """The names of the slots."""
        return frozenset(_SLOT.findall(self.text + self.system))

    def fill(self, **values: str) -> str:
        """The text with these values in its slots; braces in values are unchanged, the template's own tags escaped."""
        tags = set(_TAG.findall(self.text))
        tag_pattern = (
            re.compile(rf"<(/?(?:{'|'.join(map(re.escape, sorted(tags)))})\b)", re.IGNORECASE) if tags else None
        )

        def value_of(slot: re.Match[str]) -> str:
            slot_value = values.get(slot[1], "")
            return slot_value if tag_pattern is None else tag_pattern.sub(r"&lt;\1", slot_value)

        return _SLOT.sub(value_of, self.text)


@functools.cache
def names() -> tuple[str, ...]:
    """The templates in the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def template(name: str) -> Template:
    """The template with this name, or in this file.

    Raises:
        InputError: there is none, or it has another format.
    """
    return template_of(name, read_yaml(name))


def read_yaml(name: str) -> Mapping[str, Any]:
    """The fields of the YAML file with this name in the package, or at this path, read once per content.

    Raises:
        InputError: there is none, or it is not a YAML mapping.
        MissingBackend: PyYAML is not installed.
    """
    return _read_yaml(name, file_version(name))


def file_version(name: str) -> tuple[Path, int, int]:
    """The file with this name, when it was changed, and its size: what is read of it holds for these.

    Raises:
        InputError: there is none, or it is too large.
    """
    path = FOLDER / f"{name}.yaml" if name in names() else Path(name).expanduser().absolute()
    try:
        file_status = path.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(name) from error
    if file_status.st_size > _MAX_BYTES:
        raise InputError(f"template {name!r}: {file_status.st_size:,} bytes; expected a YAML file of at most 1 MB")
    return path, file_status.st_mtime_ns, file_status.st_size


def _unreadable(template_name: str) -> InputError:
    return InputError(f"template {template_name!r}: neither a readable file nor one of {', '.join(names())}")


@functools.lru_cache(maxsize=64)
def _read_yaml(template_name: str, version: tuple[Path, int, int]) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError:
        raise MissingBackend("judges need PyYAML: pip install 'capmeter[judges]'") from None
    try:
        yaml_text = version[0].read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(template_name) from error
    try:
        fields = yaml.safe_load(yaml_text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"template {template_name!r}: not valid YAML: {reason}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise InputError(
            f"template {template_name!r}: expected YAML fields such as prompt: and source:; see docs/judges.md"
        )
    return fields


def template_of(name: str, fields: Mapping[str, Any]) -> Template:
    """The template in these fields.

    Raises:
        InputError: a field has another type, or the prompt is missing or does not contain the candidate.
    """
    for field_name, field_type in _FIELDS.items():
        field_value = fields.get(field_name, field_type())
        if (
            not isinstance(field_value, field_type)
            or isinstance(field_value, bool)
            or (isinstance(field_value, int) and field_value < 0)
        ):
            expected_type = "text" if field_type is str else "a whole number of at least 0"
            raise InputError(f"template {name!r}: {field_name}: {field_value!r:.60} is not {expected_type}")
    text, role = fields.get("prompt", ""), fields.get("role", "user")
    if "{candidate}" not in text and "{items}" not in text and "{response}" not in text:
        raise InputError(f"template {name!r}: expected prompt: with a text in which {{candidate}} stands for a caption")
    if role not in _ROLES:
        raise InputError(f"template {name!r}: role: {role!r:.40} is not one of {', '.join(_ROLES)}")
    schema = fields.get("schema")
    if schema is not None and not (isinstance(schema, dict) and schema.get("type") == "object"):
        raise InputError(f"template {name!r}: schema: expected a JSON schema with type: object")
    return Template(
        name=name,
        source=fields.get("source", ""),
        version=fields.get("version", 1),
        role=role,
        system=fields.get("system", ""),
        tokens=fields.get("tokens", 60),
        max_tokens=fields.get("max_tokens", 1024),
        text=text,
        schema="" if schema is None else json.dumps(schema, sort_keys=True),
    )
