"""Captions with their dependency parses, without benchmark photos.

A row of `caption_parses.jsonl.gz` is `{"source", "photo", "form", "caption", "sentences": [{words, tags, lemmas, heads,
labels}]}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter_research.common.benchmark_exclusions import Exclusions, is_excluded
from capmeter_research.common.corpus import is_held_out


@dataclass(frozen=True)
class ParsedCaption:
    """A caption with its parse; `form` says whether it is as written, in lower case or damaged."""

    source: str
    photo: str
    form: str
    caption: str
    parse: CaptionParse

    @property
    def held_out(self) -> bool:
        """Whether the photo is held out for evaluation."""
        return is_held_out((self.source, self.photo))


def read_parsed_captions(path: Path, exclusions: Exclusions) -> tuple[list[ParsedCaption], int]:
    """The parsed captions of a file, and the number of rows that were left out as benchmark photos.

    Raises:
        InputError: a line is not a parsed caption, or has a source that the exclusions do not list.
    """
    captions: list[ParsedCaption] = []
    excluded_count = 0
    for line_number, row in read_json_rows(path, "parsed captions"):
        try:
            parse = CaptionParse.from_dict(row)
            caption = ParsedCaption(row["source"], str(row["photo"]), row["form"], row["caption"], parse)
        except (KeyError, TypeError, InputError) as error:
            raise InputError(f"{path}, line {line_number}: not a parsed caption: {error}") from error
        try:
            if is_excluded((caption.source, caption.photo), exclusions):
                excluded_count += 1
            else:
                captions.append(caption)
        except InputError as error:
            raise InputError(f"{path}, line {line_number}: {error}") from None
    return captions, excluded_count


def read_json_rows(path: Path, content: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line numbers and objects of JSON lines.

    Args:
        path: the file.
        content: what the rows are, for the error message.

    Raises:
        InputError: the file cannot be read or is not JSON lines.
    """
    for line_number, line in CaptionSource.resolve(path).lines():
        try:
            yield line_number, json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {line_number}: expected JSON lines of {content}: {error}") from error
