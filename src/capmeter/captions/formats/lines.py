"""Plain text: a caption a line, or `NAME#k`, a tab and a caption a line (`Flickr8k.token.txt`).

>>> is_token_line(b"10.jpg#0\\tA dog runs ."), is_prose(b"a man, a dog"), is_prose(b"photo,text")
(True, True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from capmeter.captions.columns import Columns
from capmeter.captions.rows import CaptionRow, Side, caption_text, image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

_TOKEN = re.compile(rb"[^\t,|;]{1,1000}#\d{1,9}\t")
_PLAIN = re.compile(r"\.(?:txt|text|hyps?|refs?|out|pred|tok|lines|[a-z]{2}|(?:ref|reference)\d{1,3})")
_LONGEST = 10_000  # bytes of a line that are looked at


def ending(source: CaptionSource) -> str:
    """The ending of the file's name, without that of its compression."""
    name = source.member or source.path.name
    return PurePath(re.sub(r"(?i)\.(gz|zst)$", "", name)).suffix.lower()


def is_token_line(line: bytes) -> bool:
    """Whether a line begins with `NAME#k` and a tab."""
    return _TOKEN.match(line) is not None


def is_table(line: bytes) -> bool:
    """Whether a line could be the header of a table."""
    return any(delimiter in line[:_LONGEST] for delimiter in (b",", b";", b"|"))


def is_prose(line: bytes) -> bool:
    """Whether every comma or semicolon ends a word, as in a sentence and not in a header."""
    start = line[:_LONGEST]
    return b"|" not in start and re.search(rb"[,;](?! |$)", start) is None


def may_be_plain(kind: str) -> bool:
    """Whether files with this ending usually hold a caption a line; others are read so where the user says it."""
    return _PLAIN.fullmatch(kind) is not None


def read(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """A row for each line, an empty one too: its number, from 0, is the image."""
    columns.note("read_as_lines", f"{source.name}: a caption a line, images are numbered from 0")
    for number, line in source.lines():
        location = f"{source.name}, line {number}"
        text = caption_text(line.rstrip("\r\n"), location, "the caption")
        if side == "candidates":
            yield CaptionRow(location, str(number - 1), candidate=text)
        else:
            yield CaptionRow(location, str(number - 1), references=(text,))


def read_token(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """A row for each line: a reference of its image, or a candidate."""
    for number, line in source.lines():
        location = f"{source.name}, line {number}"
        name, tab, caption = line.rstrip("\r\n").partition("\t")
        image, mark, _ = name.rpartition("#")
        if not line.strip():
            continue
        if not tab or not mark:
            raise InputError(f"{location}: {describe(line.strip())}, expected NAME#0, a tab and a caption")
        text = caption_text(caption.strip(), location, "the caption")
        row = CaptionRow(location, image_key(image, location, "the name"))
        if side == "candidates":
            row.candidate = text
        else:
            row.references, row.one_of_many = (text,), True
        yield row
