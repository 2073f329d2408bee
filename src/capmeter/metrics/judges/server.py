"""The address and the key of a judge's server, and texts of the server without the key.

Both come from the environment (or the address from `endpoint=`), never from files; variables of other products are not
read. The address must be named once: nothing is sent anywhere else.

| variable | meaning |
|---|---|
| CAPMETER_JUDGE_URL | the server, such as `https://api.openai.com/v1` or `http://127.0.0.1:8000/v1` |
| CAPMETER_JUDGE_KEY | its key; a server on this machine may need none |

>>> key = ApiKey("sk-live-0123456789")
>>> key.mask("Incorrect API key: sk%2Dlive%2D0123456789"), key.mask("as c2stbGl2ZS0wMTIzNDU2Nzg5, or 012345...")
('Incorrect API key: [key]', 'as [key]...')
"""

from __future__ import annotations

import base64
import codecs
import html
import os
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from urllib.parse import quote, unquote, urlsplit

from capmeter.core.errors import InputError
from capmeter.core.settings import split_address

URL_VARIABLE, KEY_VARIABLE = "CAPMETER_JUDGE_URL", "CAPMETER_JUDGE_KEY"
MASK = "[key]"
_PART, _ENCODED_PART = 6, 9  # letters and digits that are masked anywhere; shorter keys ("none") are placeholders
_ESCAPE = re.compile(r"\\u\{?([0-9a-fA-F]{4})\}?|[\\0]x([0-9a-fA-F]{2})|=([0-9A-F]{2})")
_ENCODINGS = (3, base64.b64encode), (5, base64.b32encode), (4, base64.b85encode), (4, base64.a85encode)
_ENCODING = f"{string.ascii_letters}{string.digits}+/=-_"
_LETTER = re.compile("[A-Za-z0-9]")
_WORD = re.compile(r"[a-z]*|[A-Z]*|[A-Z][a-z]*")
_LONG = re.compile(r"[^\s\"'`<>(){},;]{20,}")  # longer than the words of a sentence
_LONGEST_MESSAGE, _LONGEST_DECODED = 200, 100_000


@dataclass(frozen=True)
class ApiKey:
    """A key that is not printed, and that is masked in texts."""

    value: str = field(repr=False)

    def mask(self, text: str) -> str:
        """The text with `[key]` from the first to the last part of the key, of six letters and digits or more.

        The key is recognised whatever stands between its characters, in any case, with percent, JSON, HTML and
        quoted-printable escapes, reversed and in rot13; and from nine characters on in hexadecimal digits, decimal
        codes, base32, base64 and base85, and these once more in base64.
        """
        for form in (unicodedata.normalize("NFKC", _decode_escapes(text)), text):
            places = [match.start() for match in _LETTER.finditer(form)] if self._parts else []
            letters = "".join(form[k] for k in places).lower()
            starts = [
                (k, length)
                for length in (_PART, _ENCODED_PART)
                for k in range(len(letters) - length + 1)
                if letters[k : k + length] in self._parts
            ]
            if starts:  # with what is left of the word, which may encode its ends
                before = form[: places[min(starts)[0]]].rstrip(_ENCODING)
                after = form[places[max(map(sum, starts)) - 1] + 1 :].lstrip(_ENCODING)
                return f"{before}{MASK}{after}"
        return text

    def mask_message(self, message: str) -> str:
        """A message of a server for people: decoded, masked, without long words that may hold anything, then cut."""
        masked = self.mask(_decode_escapes(message[:_LONGEST_DECODED]))
        masked = _LONG.sub(lambda word: word[0] if _is_plain(word[0]) else "[…]", masked)
        return " ".join("".join(c if c.isprintable() else " " for c in masked).split())[:_LONGEST_MESSAGE]

    def mask_fields(self, fields: Iterable[str]) -> list[str]:
        """The texts of one message, each masked; only `[key]` if a part of the key is in several of them."""
        masked = list(map(self.mask_message, fields))
        return [MASK] if any(self.mask(text) != text for text in map("".join, permutations(masked))) else masked

    @cached_property
    def _parts(self) -> frozenset[str]:
        """What is masked: the parts of the key, as it is and encoded."""
        plain = [self.value, self.value[::-1], codecs.encode(self.value, "rot13")]
        if sum(character.isalnum() for character in self.value) < _PART:
            return frozenset()
        encoded = [each for text in (*plain, quote(self.value, safe="")) for each in _encode(text)]
        encoded += [each for text in encoded for each in _encode_bytes(base64.b64encode, 3, text.encode())]
        parts = set()
        for length, texts in ((_PART, plain), (_ENCODED_PART, encoded)):
            for letters in ("".join(_LETTER.findall(text)).lower() for text in texts):
                parts |= {letters[k : k + length] for k in range(len(letters) - length + 1)}
        return frozenset(parts)


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
    if (parts := split_address(address)) is None:
        raise InputError("the judge's server: expected an address such as http://127.0.0.1:8000/v1 (endpoint=)")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
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


def _is_plain(word: str) -> bool:
    """Whether a long word of a message consists of plain words, as an address does."""
    return all(len(each) <= 20 and _WORD.fullmatch(each) for each in re.split(r"[^A-Za-z0-9]+", word))


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


def _encode(text: str) -> Iterator[str]:
    """The text in the encodings of bytes, whatever stands before it in what is encoded."""
    yield " ".join(str(ord(character)) for character in text)
    for content in (text.encode(), text.encode("utf-16-le")):
        yield content.hex()
        for byte_count, encode in _ENCODINGS:
            yield from _encode_bytes(encode, byte_count, content)


def _encode_bytes(encode: Callable[[bytes], bytes], byte_count: int, content: bytes) -> Iterator[str]:
    """The characters that depend on the content alone, in an encoding of so many bytes at a time."""
    for before in range(byte_count):
        whole = content[-before % byte_count :] if before else content
        yield encode(whole[: len(whole) // byte_count * byte_count]).decode("ascii")
