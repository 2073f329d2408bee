"""Texts without fields: lists of captions, pairs of an image's name and a caption, and lines of either.

Lines begin with `NAME#k` before a tab or blank (`Flickr8k.token.txt`, COCO-CN), with a file's name such as `10.jpg`, or
are two columns without a heading (ROCO; Oscar, whose second column is a list in JSON), or all begin with a word of
letters and digits (MSVD, `mv89psg6zh4_33_46 a bird ...`).

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
_MARK = r"(?:#[a-z][a-z0-9]{1,9})?#\d{1,9}"  # #0, or #zhm#0 with the language of COCO-CN and Flickr30k-CN
_MARKED = re.compile(rf"([^\t,|;]{{1,1000}}?){_MARK}\t(.*)|([^\s,|;]{{1,1000}}?){_MARK} (.*)", re.DOTALL)
_NAMED = re.compile(rf"({_FILE_NAME})[\t ]\s*(\S.*)", re.DOTALL)
_CODED = re.compile(r"(?=[^\s,|;]*[A-Za-z])(?=\S*\d)([^\s,|;]{4,1000}) +(\S.*)", re.DOTALL)
_COLUMNS = re.compile(r"([^\t]{1,1000})\t([^\t]*)", re.DOTALL)
_LONGEST = 10_000  # letters of a line that are looked at


def split_line(line: str, are_columns: bool = True) -> tuple[str, str] | None:
    """The name and the caption of a line; None if it has no name."""
    match = _MARKED.fullmatch(line) or _NAMED.fullmatch(line)
    if match is None and are_columns:
        match = _COLUMNS.fullmatch(line) or _CODED.fullmatch(line)
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
    uncommented = [line for line in lines if not line.startswith("#")]
    if len(uncommented) > 2 and all(map(_CODED.fullmatch, uncommented)):
        return True
    columns = [split_line(line) for line in lines if _COLUMNS.fullmatch(line)]
    names = [column[0] for column in columns if column is not None]
    return len(names) == len(lines) > 0 and all(map(_IMAGE_NAME.fullmatch, names))


def split_lines(
    lines: Iterable[tuple[int, str]], source_name: str, are_columns: bool
) -> Iterator[tuple[str, str, Any]]:
    """The location of each line that is not blank, the name of its image and its caption, or a list of captions.

    Args:
        lines: number, from 1, and text of each.
        source_name: of the file, for messages.
        are_columns: whether name and caption may also be in two columns, separated by a comma or a tab.

    Raises:
        InputError: a line is not of this form.
    """
    for line_number, line in lines:
        location = f"{source_name}, line {line_number}"
        if not line.strip():
            continue
        parts = split_line(line.rstrip("\r\n"), are_columns)
        if parts is None and line.startswith("#"):  # a comment, as in MSVD's file
            continue
        if parts is None:
            raise InputError(
                f"{location}: {describe(line.strip())}, expected NAME#0, a tab and a caption, or NAME.jpg and a caption"
            )
        name, caption = parts
        yield location, name, decode_list(caption, location, "the caption") if caption[:1] == "[" else caption


def read_pairs(pairs: Iterable[tuple[str, Any, Any]], side: Side) -> Iterator[CaptionRow]:
    """A row for each image's name and its caption, or list of captions.

    Args:
        pairs: location, name and caption each.
        side: whether captions are candidates or references.
    """
    for location, name, caption in pairs:
        row = CaptionRow(location, image_key(name, location, "the name"), one_of_many=True)
        if side == "candidates":
            row.candidate = candidate_text(caption, location, "the caption")
        else:
            row.references = reference_list(caption, location, "the caption")
        yield row


def read_list(entries: Iterable[tuple[str, Any]], side: Side) -> Iterator[CaptionRow]:
    """A row for each entry of a list, or line, whose position is its image: a candidate, or the image's references.

    Args:
        entries: locations, and texts or lists of texts.
        side: what the entries are read as.

    Raises:
        InputError: an entry of another form; `NotCandidates` if it is a list where a candidate was expected.
    """
    for number, (location, entry) in enumerate(entries):
        if side == "references":
            yield CaptionRow(location, str(number), references=reference_list(entry, location, "the entry"))
            continue
        if not isinstance(entry, str) and isinstance(entry, Sequence):
            if entry and isinstance(entry[0], Mapping):
                raise InputError(
                    f"{location}: a list of objects where one row was expected; join the lists, such as the batches of "
                    "a data loader, to one list of rows"
                )
            raise NotCandidates(
                f"{location}: {describe(entry)} where one candidate caption was expected; are candidates and "
                "references swapped? Several candidates of an image come as a dict {id: [caption, ...]} or as rows"
            )
        yield CaptionRow(location, str(number), candidate=caption_text(entry, location, "the entry"))


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
