"""How captions are read: declared once, for functions and for commands.

`capmeter.load` and the other functions that read captions take a `LoadOptions`, or its fields as keyword arguments;
commands get an option for each field (`capmeter.cli.command.with_options`).

>>> LoadOptions(split="test", columns={"output": "candidate"}).split
'test'
>>> LoadOptions.from_keywords(LoadOptions(split="test"), {"on_missing": "skip"}).on_missing
'skip'
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from capmeter.captions.layouts import parse_columns
from capmeter.captions.reading import FORMATS, NAMES
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.options import flat_options, option

Source = str | os.PathLike[str] | CaptionSource | Mapping[Any, Any] | Sequence[Any]
"""A file, or what a file of captions may hold."""
OnMissing = Literal["error", "skip", "keep"]
OnAbsent = Literal["skip", "empty"]


def _is_file(value: Any) -> bool:
    """Whether this names a file, rather than being a caption or a list of captions."""
    if isinstance(value, str):
        with suppress(OSError, ValueError):  # too long, or with NUL
            return Path(value).is_file()
    return isinstance(value, os.PathLike | CaptionSource)


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How candidates and references are read.

    Args:
        references: the references, in any format, if in a separate source; they take precedence. A list of files: the
            references of all of them, joined by image.
        format: the candidates' format, one of `capmeter.captions.reading.NAMES` (None: detected from the content).
        references_format: the format of `references`, likewise.
        on_missing: what happens to candidates without references: "error" raises `InputError`, "skip" leaves them out
            and notes their ids, "keep" keeps them for metrics that need no references.
        on_absent: what happens to images with references but without a candidate: "skip" leaves them out and notes
            their ids, "empty" scores an empty caption for each.
        system: reads only this system of a source with several.
        split: reads only the images of this split, or of these (of `references`, if they are separate).
        columns: other column names and the fields that they hold, such as `{"hyp": "candidate", "gt": "references"}`.
        reference_columns: those of separate `references`, where they differ from `columns`.
        unicode: brings candidates and references into this Unicode form, "nfc" or "nfkc"; None: as they are.
        clean: of candidates: "chat-artifacts" removes what chat models and tokenizers leave around a caption (see
            `capmeter.captions.clean_texts`), "markdown" reads what their Markdown renders; None: as they are.
        event_order: how the sentences of a video's events are joined to one text: by "time", or as in the "file".
        images_root: the folder of the pictures: relative paths start here, and captions that name no picture have the
            file of their image id (see `capmeter.captions.sources`).
        regions: a folder of .npz files or an LMDB with the pictures' regions.
    """

    references: Source | None = option(
        None,
        "The references, in any format, if in a separate file; repeatable: joined by image.",
        "--references",
        "-r",
        value_type=list[str] | None,
        convert=lambda paths: paths[0] if len(paths) == 1 else list(map(Path, paths)),
    )
    format: str | None = option(
        None,
        f"Override format detection: {', '.join(NAMES)}.",
        "--input-format",
        group="reading files",
        choices=FORMATS,
        metavar="FORMAT",
    )
    references_format: str | None = option(
        None, "Override format detection for the references.", choices=FORMATS, metavar="FORMAT", group="reading files"
    )
    on_missing: OnMissing = option(
        "error",
        "Captions without references: stop, skip them, or keep them for metrics that need none.",
        value_type=str,
        choices=("error", "skip", "keep"),
    )
    on_absent: OnAbsent = option(
        "skip",
        "Images or videos that have references but no candidate: skip them, or score an empty caption for each.",
        group="reading files",
        value_type=str,
        choices=("skip", "empty"),
    )
    system: str | None = option(None, "Use only this system of a file with several.", group="reading files")
    split: str | Sequence[str] | None = option(
        None, "Use only the images of this split (named in Karpathy's files); repeatable.", value_type=list[str] | None
    )
    columns: Mapping[str, str] | None = option(
        None,
        "Which column holds a field: candidate=NAME, references=NAME,NAME …; repeatable.",
        "--column",
        value_type=list[str] | None,
        convert=parse_columns,
    )
    reference_columns: Mapping[str, str] | None = option(
        None,
        "The same for the file of references, where its columns have other names; repeatable.",
        "--reference-column",
        group="reading files",
        value_type=list[str] | None,
        convert=partial(parse_columns, flag="--reference-column"),
    )
    unicode: str | None = option(
        None,
        "Bring all texts into one Unicode form: nfc (letters with their accents), or nfkc (also full-width forms).",
        group="reading files",
        choices=("nfc", "nfkc"),
    )
    clean: str | None = option(
        None,
        "Remove what is not caption from candidates: chat-artifacts (reasoning such as `<think>…</think>`, tokens of "
        "chat templates, code fences, ASSISTANT:, marks of tokenizers), or markdown (its marks).",
        choices=("chat-artifacts", "markdown"),
        metavar="KIND",
    )
    event_order: str = option(
        "time",
        "How the sentences of a video's events become one text for metrics that need no times: by time, or as in the "
        "file.",
        group="reading files",
        choices=("time", "file"),
    )
    images_root: Path | None = option(
        None,
        "The folder of the pictures, for metrics that need them: relative paths start here, and captions that name no "
        "picture have the file of their image id (also COCO's numbers).",
        path="folder",
    )
    regions: str = option(
        "", "Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB.", group="reading files"
    )

    def __post_init__(self) -> None:
        for option_name, allowed_values in _CHOICES.items():
            if (option_value := getattr(self, option_name)) not in allowed_values:
                *other_values, last_value = map(repr, allowed_values)
                raise InputError(
                    f"{option_name} is {option_value!a}, expected {', '.join(other_values)} or {last_value}"
                )
        for option_name, (kind, expected_form) in _KINDS.items():
            if not isinstance(option_value := getattr(self, option_name), kind | None):
                raise InputError(f"{option_name} is {describe(option_value)}, expected {expected_form}")
        object.__setattr__(self, "images_root", Path(self.images_root) if self.images_root else None)
        object.__setattr__(self, "regions", os.fspath(self.regions or ""))

    @property
    def adjustments(self) -> dict[str, str]:
        """The options by which texts are changed when they are read, for signatures."""
        chosen = {"clean": self.clean, "unicode": self.unicode}
        chosen["event_order"] = None if self.event_order == "time" else self.event_order
        return {option_name: option_value for option_name, option_value in chosen.items() if option_value is not None}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are read; empty: all."""
        return (str(self.split),) if isinstance(self.split, str | int) else tuple(self.split or ())

    @property
    def reference_files(self) -> list[Any]:
        """The files of references; none if they are an object."""
        references = self.references
        if isinstance(references, str | os.PathLike | CaptionSource):
            return [references]
        if isinstance(references, list | tuple) and references and all(map(_is_file, references)):
            return list(references)
        return []

    @classmethod
    def from_keywords(
        cls, options: LoadOptions | None, keywords: Mapping[str, Any], references: Source | None = None
    ) -> LoadOptions:
        """The options with some fields replaced.

        Args:
            options: None: the defaults.
            keywords: values of fields by name.
            references: replaces the field of this name, if given.
        """
        if not isinstance(options, cls | None):
            raise InputError(f"options is {describe(options)}, expected LoadOptions(…); its fields are keywords, too")
        return replace(options or cls(), **(keywords if references is None else {**keywords, "references": references}))


_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("columns", "reference_columns"), (Mapping, '{"NAME": FIELD}')),
    **dict.fromkeys(("images_root", "regions"), (str | os.PathLike, "the path of a folder or file")),
    "split": (str | Iterable, "a name or a list of names"),
}
_CHOICES = {
    each.name: list(dict.fromkeys([*declared.choices, default]))
    for each, _, declared, default in flat_options(LoadOptions)
    if declared.choices and declared.choices != FORMATS  # formats are checked when a file is opened
}


class ReferenceKeywords(TypedDict, total=False):
    """The fields of `LoadOptions` that matter for references alone, as keyword arguments."""

    format: str | None
    split: str | Sequence[str] | None
    columns: Mapping[str, str] | None


class LoadKeywords(ReferenceKeywords, total=False):
    """The fields of `LoadOptions` but `references`, as keyword arguments."""

    references_format: str | None
    reference_columns: Mapping[str, str] | None
    on_missing: OnMissing
    on_absent: OnAbsent
    system: str | None
    unicode: str | None
    clean: str | None
    event_order: str
    images_root: str | os.PathLike[str] | None
    regions: str | os.PathLike[str]
