"""The address and the key of a judge's server, and texts of the server without the key.

Both come from the environment (or the address from `endpoint=`), never from files; variables of other products are not
read. The address must be named once: nothing is sent anywhere else.

| variable | meaning |
|---|---|
| CAPMETER_JUDGE_URL | the server, such as `https://api.openai.com/v1` or `http://127.0.0.1:8000/v1` |
| CAPMETER_JUDGE_KEY | its key; a server on this machine may need none |

>>> key = ApiKey("sk-live-0123456789")
>>> key.mask("Incorrect API key: sk%2Dlive%2D0123456789"), key.mask("key 012345... or c2stbGl2ZS0wMTIzNDU2Nzg5")
('Incorrect API key: [key]', 'key [key]... or [key]')
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote, urlsplit

from capmeter.core.errors import InputError

URL_VARIABLE, KEY_VARIABLE = "CAPMETER_JUDGE_URL", "CAPMETER_JUDGE_KEY"
MASK = "[key]"
_PART = 6  # letters and digits of a key that are masked wherever they stand; shorter keys ("none") are placeholders
_ESCAPE = re.compile(r"\\u\{?([0-9a-fA-F]{4})\}?|\\x([0-9a-fA-F]{2})|=([0-9A-F]{2})")
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{8,}|(?:[0-9a-fA-F]{2,3}[ :,;-]+){7,}[0-9a-fA-F]{2,3}")
_WORD = re.compile(r"[a-z]*|[A-Z]*|[A-Z][a-z]*")
_LONG_RUN = re.compile(r"\S{20,}")
_LONG = re.compile(r"[^\s\"'`<>(){},;]{20,}")  # longer than the words of a sentence
_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_MESSAGE, _LONGEST_RUN, _LONGEST_DECODED = 200, 4_000, 100_000


@dataclass(frozen=True)
class ApiKey:
    """A key that is not printed, and that is masked in texts."""

    value: str = field(repr=False)

    def mask(self, text: str) -> str:
        """The text with the key, and parts of it of six letters and digits or more, replaced by `[key]`.

        The key is recognised whatever stands between its characters, in any case, with percent, JSON, HTML and
        quoted-printable escapes, and in base64, base32, hexadecimal digits, rot13 or reversed.
        """
        if not self._parts or not text:
            return text
        decoded = _decode_escapes(text)
        if decoded != text and self._key_spans(decoded):
            text = decoded
        for pattern, decode in ((_ENCODED, _decodings), (_LONG_RUN, _base85_decodings)):
            text = pattern.sub(lambda run, decode=decode: self._mask_run(run[0], decode), text)  # type: ignore[misc]
        for start, end in reversed(self._key_spans(text)):
            text = text[:start] + MASK + text[end:]
        return text

    def mask_message(self, message: str, expected: str = "") -> str:
        """A message of a server for people: decoded, masked, without long words that may hold anything, then cut.

        Args:
            message: of the server.
            expected: a long word that may stay, such as the model's name.
        """
        masked = self.mask(_decode_escapes(message[:_LONGEST_DECODED]))
        masked = _LONG.sub(lambda word: word[0] if _is_plain(word[0], expected) else "[…]", masked)
        return " ".join("".join(c if c.isprintable() else " " for c in masked).split())[:_LONGEST_MESSAGE]

    @cached_property
    def _parts(self) -> frozenset[str]:
        letters = "".join(letter for letter, _ in _letters(self.value))
        return frozenset(letters[k : k + _PART] for k in range(len(letters) - _PART + 1))

    def _key_spans(self, text: str) -> list[tuple[int, int]]:
        """Where characters of the key are, with what stands between them."""
        letters = _NO_LETTER.sub("", text).lower() if text.isascii() else "".join(each for each, _ in _letters(text))
        starts = [k for k in range(len(letters) - _PART + 1) if letters[k : k + _PART] in self._parts]
        places = [place for _, place in _letters(text)] if starts else []
        spans: list[tuple[int, int]] = []
        for start, end in ((places[k], places[k + _PART - 1] + 1) for k in starts):
            if spans and start <= spans[-1][1]:
                start = spans.pop()[0]
            spans.append((start, end))
        return spans

    def _mask_run(self, run: str, decode: Callable[[str], Iterator[str]]) -> str:
        """The mask instead of a run of characters that decodes to the key, or is longer than any word."""
        if _WORD.fullmatch(run) or (len(run) > _LONGEST_RUN and decode is _base85_decodings):
            return run
        if len(run) > _LONGEST_RUN or any(self._key_spans(_decode_escapes(each)) for each in decode(run)):
            return MASK
        return run


def find_server(address: str = "") -> str:
    """The server's address: this one, or the one in the environment, without a slash at its end.

    Raises:
        InputError: none is named, it is not an http address, or it contains a user name, password or query, which
            could contain a key.
    """
    address = (address or os.environ.get(URL_VARIABLE) or "").strip()
    if not address:
        raise InputError(
            f"no server is named to ask: set {URL_VARIABLE} (such as https://api.openai.com/v1), or endpoint="
        )
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        labels = host.encode("idna").decode("ascii").split(".") if not host.startswith("[") else [host]
        is_valid = parts.scheme in ("http", "https") and all(labels) and (parts.port is None or parts.port > 0)
        is_valid = (
            is_valid and address.isascii() and address.isprintable() and " " not in address and "\\" not in address
        )
        has_secret = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    except ValueError:
        is_valid, has_secret = False, ""
    if not is_valid:
        raise InputError("the judge's server: expected an address such as http://127.0.0.1:8000/v1 (endpoint=)")
    if has_secret:
        raise InputError(
            "the judge's server: its address contains a user name, a password or a query; the key comes from "
            f"{KEY_VARIABLE} in the environment"
        )
    return address.rstrip("/").removesuffix("/chat/completions")


def describe_server(address: str) -> str:
    """Host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def read_key() -> ApiKey:
    """The key in the environment; empty if there is none.

    Raises:
        InputError: it contains a character that no key has, such as a line break; the key is not shown.
    """
    key_text = (os.environ.get(KEY_VARIABLE) or "").strip()
    if not (key_text.isascii() and key_text.isprintable()) or " " in key_text:
        raise InputError(
            f"{KEY_VARIABLE}: the key contains a blank, a line break or another character that keys do not have; "
            "expected one word of printable ASCII characters (does its file have several lines?)"
        )
    return ApiKey(key_text)


def _is_plain(word: str, expected: str) -> bool:
    """Whether a long word of a message consists of plain words, as an address does, or contains what is expected."""
    rest = word.replace(expected, "") if expected else word
    return all(len(each) <= 20 and _WORD.fullmatch(each) is not None for each in re.split(r"[^A-Za-z0-9]+", rest))


def _letters(text: str) -> Iterator[tuple[str, int]]:
    """The letters and digits of a text in lower case, with their places."""
    for place, character in enumerate(text):
        if character.isascii():
            if character.isalnum():
                yield character.lower(), place
        else:
            for each in unicodedata.normalize("NFKC", character):  # of full-width and mathematical letters
                if each.isascii() and each.isalnum():
                    yield each.lower(), place


def _decode_escapes(text: str) -> str:
    """The text without percent, HTML, JSON and quoted-printable escapes, also if it was escaped three times."""
    for _ in range(3):
        decoded = html.unescape(unquote(text)) if "%" in text or "&" in text else text
        decoded = _ESCAPE.sub(lambda escape: chr(int(escape[1] or escape[2] or escape[3], 16)), decoded)
        decoded = decoded.replace("\\/", "/")
        if decoded == text:
            break
        text = decoded
    return text


def _decodings(token: str, depth: int = 2) -> Iterator[str]:
    """What a word may stand for."""
    yield token[::-1]
    yield codecs.decode(token, "rot13")
    numbers = re.findall(r"\d+", token)
    yield "".join(chr(int(each)) for each in numbers if len(each) < 4)  # decimal character codes
    digits = re.sub(r"[ :,;-]", "", token)
    with suppress(ValueError):
        yield bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("latin-1")
    plain = token.rstrip("=").translate(str.maketrans("-_", "+/"))
    for start in range(4):  # the key may begin at any place of what is encoded
        with suppress(ValueError, binascii.Error):
            piece = plain[start:]
            piece = piece[: len(piece) - (len(piece) % 4 == 1)]
            decoded = base64.b64decode(piece + "=" * (-len(piece) % 4)).decode("latin-1").replace("\0", "")
            yield decoded
            if depth and decoded.isascii():
                yield from _decodings(decoded, depth - 1)
    for start in range(8):
        with suppress(ValueError, binascii.Error):
            piece = token.rstrip("=").upper()[start:]
            piece = piece[: len(piece) - (len(piece) % 8 in (1, 3, 6))]
            yield base64.b32decode(piece + "=" * (-len(piece) % 8)).decode("latin-1")


def _base85_decodings(run: str) -> Iterator[str]:
    for piece in (run, run.strip("\"',:{}[]")):
        for decode in (base64.b85decode, base64.a85decode):
            with suppress(ValueError):
                yield decode(piece).decode("latin-1")
