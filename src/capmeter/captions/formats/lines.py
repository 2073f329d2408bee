"""Plain text: a caption a line, or an image's name and a caption a line.

The names are `NAME#k` before a tab (`Flickr8k.token.txt`), or file names such as `10.jpg` before a tab or blank.

>>> is_named_line(b"10.jpg#0\\tA dog runs ."), is_named_line(b"10.jpg A dog runs ."), is_named_line(b"A dog .")
(True, True, False)
>>> is_prose(b"a man, a dog"), is_prose(b"photo,text")
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from capmeter.captions.columns import Columns
from capmeter.captions.documents import FILE_NAME
from capmeter.captions.rows import CaptionRow, Side, caption_text, image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

_NAMED = re.compile(rb"[^\t,|;]{1,1000}#\d{1,9}\t|" + FILE_NAME.pattern.encode() + rb"[\t ]\s*\S")
_PLAIN = re.compile(r"\.(?:txt|text|hyps?|refs?|out|pred|tok|lines|[a-z]{2}|(?:ref|reference)\d{1,3})")
_LONGEST = 10_000  # bytes of a line that are looked at


def is_named_line(line: bytes) -> bool:
    """Whether a line begins with the name of an image: `NAME#k` and a tab, or a file name and a tab or blank."""
    return _NAMED.match(line[:_LONGEST]) is not None


def is_table(line: bytes) -> bool:
    """Whether a line could be the header of a table."""
    return any(delimiter in line[:_LONGEST] for delimiter in (b",", b";", b"|"))


def is_prose(line: bytes) -> bool:
    """Whether every comma or semicolon ends a word, as in a sentence and not in a header."""
    line_start = line[:_LONGEST]
    return b"|" not in line_start and re.search(rb"[,;](?! |$)", line_start) is None


def may_be_plain(kind: str) -> bool:
    """Whether files with this ending usually hold a caption a line; others are read so where the user says it."""
    return _PLAIN.fullmatch(kind) is not None


def read(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """A row for each line, an empty one too: its number, from 0, is the image."""
    columns.note("read_as_lines", f"{source.name}: a caption a line, images are numbered from 0")
    is_candidate, line_prefix = side == "candidates", f"{source.name}, line "
    for line_number, line in source.lines():
        line_text = line.rstrip("\r\n")
        if is_candidate:
            yield CaptionRow(f"{line_prefix}{line_number}", str(line_number - 1), line_text)
        else:
            yield CaptionRow(f"{line_prefix}{line_number}", str(line_number - 1), None, (line_text,))


def read_named(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """A row for each line: a reference of its image, or a candidate."""
    for line_number, line in source.lines():
        location = f"{source.name}, line {line_number}"
        if not line.strip():
            continue
        if not is_named_line(line.encode("utf-8", "surrogatepass")):
            raise InputError(
                f"{location}: {describe(line.strip())}, expected NAME#0, a tab and a caption, or NAME.jpg and a caption"
            )
        image_name, caption = re.split(r"\t" if "\t" in line else " ", line.rstrip("\r\n"), maxsplit=1)
        yield named_row(re.sub(r"#\d+$", "", image_name), caption.strip(), location, side)


def named_row(name: str | int, caption: Any, location: str, side: Side) -> CaptionRow:
    """The row of one image's name and one caption."""
    text = caption_text(caption, location, "the caption")
    caption_row = CaptionRow(location, image_key(name, location, "the name"))
    if side == "candidates":
        caption_row.candidate = text
    else:
        caption_row.references, caption_row.one_of_many = (text,), True
    return caption_row
