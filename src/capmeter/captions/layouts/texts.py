"""Texts without fields: lists of captions, pairs of an image's name and a caption, and lines of either.

Lines begin with `NAME#k` before a tab or blank (`Flickr8k.token.txt`, COCO-CN), with a file's name such as `10.jpg`, or
are two columns without a heading (ROCO; Oscar, whose second column is a list in JSON).

>>> are_named_lines(["10.jpg#0\\tA dog runs .", "10.jpg#1\\tIt runs ."]), are_named_lines(["A dog .", "A cat ."])
(True, False)
>>> split_line("COCO_val2014_000000000101#zhm#0 一只狗"), split_line("ROCO_00011\\t A scan.")
(('COCO_val2014_000000000101', '一只狗'), ('ROCO_00011', 'A scan.'))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from capmeter.captions.rows import (
    CaptionRow,
    NotCandidates,
    Side,
    candidate_text,
    caption_text,
    decode_list,
    image_key,
    reference_list,
)
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

_FILE_NAME = r"[^\s,|;]{1,1000}\.(?i:jpe?g|png|webp|gif|bmp|tiff?|mp4|avi|mkv|webm|mov|wav|flac|mp3)"
_IMAGE_NAME = re.compile(_FILE_NAME + r"|(?=[^\s\d]*\d)\S{1,1000}")
_MARK = r"(?:#[a-z]{2,4})?#\d{1,9}"  # #0, or #zhm#0 with the language of COCO-CN and Flickr30k-CN
_MARKED = re.compile(rf"([^\t,|;]{{1,1000}}?){_MARK}\t(.*)|([^\s,|;]{{1,1000}}?){_MARK} (.*)", re.DOTALL)
_NAMED = re.compile(rf"({_FILE_NAME})[\t ]\s*(\S.*)", re.DOTALL)
_COLUMNS = re.compile(r"([^\t]{1,1000})\t([^\t]*)", re.DOTALL)
_LONGEST = 10_000  # letters of a line that are looked at


def split_line(line: str, are_columns: bool = True) -> tuple[str, str] | None:
    """The name and the caption of a line; None if it has no name."""
    match = _MARKED.fullmatch(line) or _NAMED.fullmatch(line) or (_COLUMNS.fullmatch(line) if are_columns else None)
    if match is None:
        return None
    name, caption = (group.strip() for group in match.groups() if group is not None)
    if are_columns and " " in name and " " not in caption:  # Conceptual Captions: the caption, then the picture
        return caption, name
    return name, caption


def are_named_lines(lines: Sequence[str]) -> bool:
    """Whether lines that are not blank begin with the names of images, or have them in one of two columns."""
    lines = [line.rstrip("\r\n")[:_LONGEST] for line in lines]
    marked = sum(_MARKED.fullmatch(line) is not None for line in lines)
    file_named = [line for line in lines if _MARKED.fullmatch(line) is None and _NAMED.fullmatch(line)]
    count, has_tabs = 2 * (marked + len(file_named)), all("\t" in line for line in file_named)
    if lines and (2 * marked >= len(lines) or count > len(lines) or (file_named and has_tabs and count >= len(lines))):
        return True
    columns = [split_line(line) for line in lines if _COLUMNS.fullmatch(line)]
    names = [column[0] for column in columns if column is not None]
    return len(names) == len(lines) > 0 and all(map(_IMAGE_NAME.fullmatch, names))


def read_lines(lines: Iterable[tuple[int, str]], name: str, side: Side) -> Iterator[CaptionRow]:
    """A row for each line, also for an empty one; the line's number, from 0, is its image.

    Args:
        lines: number, from 1, and text of each.
        name: of the file, for messages.
        side: whether a line is a candidate or the one reference of its image.
    """
    for line_number, line in lines:
        text = line.rstrip("\r\n")
        candidate, references = (text, None) if side == "candidates" else (None, (text,))
        yield CaptionRow(f"{name}, line {line_number}", str(line_number - 1), candidate, references)


def read_named_lines(
    lines: Iterable[tuple[int, str]], name: str, side: Side, are_columns: bool
) -> Iterator[CaptionRow]:
    """A row for each line that is not blank: the name of an image and a caption of it.

    Args:
        lines: number, from 1, and text of each.
        name: of the file, for messages.
        side: whether captions are candidates or references.
        are_columns: whether name and caption may also be in two columns, separated by a comma or a tab.

    Raises:
        InputError: a line is not of this form.
    """
    for line_number, line in lines:
        location = f"{name}, line {line_number}"
        if not line.strip():
            continue
        parts = split_line(line.rstrip("\r\n"), are_columns)
        if parts is None:
            raise InputError(
                f"{location}: {describe(line.strip())}, expected NAME#0, a tab and a caption, or NAME.jpg and a caption"
            )
        image_name, caption = parts
        captions = decode_list(caption, location, "the caption") if caption[:2] in ('["', "[{", "['") else caption
        yield _named_row(image_name, captions, location, side)


def read_pairs(items: Any, name: str, side: Side) -> Iterator[CaptionRow]:
    """A row for each pair of an image's name and a caption.

    Args:
        items: image and caption each.
        name: of the source, for messages.
        side: whether captions are candidates or references.
    """
    return (_named_row(pair[0], pair[1], f"{name}[{k}]", side) for k, pair in enumerate(items))


def _named_row(name: str | int, caption: Any, location: str, side: Side) -> CaptionRow:
    """The row of one image's name and one caption, or a list of captions."""
    row = CaptionRow(location, image_key(name, location, "the name"), one_of_many=True)
    if side == "candidates":
        caption = caption[0] if isinstance(caption, list) and len(caption) == 1 else caption
        caption = caption.get("caption") if isinstance(caption, Mapping) else caption
        row.candidate = candidate_text(caption, location, "the caption")
    else:
        row.references = reference_list(caption, location, "the caption")
    return row


def read_list(items: Sequence[Any], name: str, side: Side) -> Iterator[CaptionRow]:
    """A row for each entry of a list, whose position is its image: a candidate, or the references of the image.

    Args:
        items: texts, or lists of texts.
        name: of the source, for messages.
        side: what the entries are read as.

    Raises:
        InputError: an entry of another form; `NotCandidates` if it is a list where a candidate was expected.
    """
    for item_number, item in enumerate(items):
        location, image_id = f"{name}[{item_number}]", str(item_number)
        if side == "references":
            yield CaptionRow(location, image_id, references=reference_list(item, location, "the entry"))
            continue
        if isinstance(item, Sequence) and not isinstance(item, str):
            if item and isinstance(item[0], Mapping):
                raise InputError(
                    f"{location}: a list of objects where one row was expected; join the lists, such as the batches of "
                    "a data loader, to one list of rows"
                )
            raise NotCandidates(
                f"{location}: {describe(item)} where one candidate caption was expected; are candidates and references "
                "swapped? Several candidates of an image come as a dict {id: [caption, ...]} or as rows"
            )
        yield CaptionRow(location, image_id, candidate=caption_text(item, location, "the entry"))


def are_named_pairs(items: Any) -> bool:
    """Whether every item of a list is a pair of an image's number, or name, and a caption.

    A name is a file's, or one word with a digit in it; a list of two references is not taken for one unless that holds
    of every first one, and every second one has several words.
    """
    return all(
        isinstance(item, Sequence)
        and not isinstance(item, str)
        and len(item) == 2
        and (type(item[0]) is int or (isinstance(item[0], str) and _IMAGE_NAME.fullmatch(item[0]) is not None))
        and isinstance(item[1], str)
        and len(item[1].split(maxsplit=1)) == 2
        for item in items
    )
