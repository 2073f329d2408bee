"""The server of a judge and its key: from the environment or a keyring, never from files.

| variable | meaning | default |
|---|---|---|
| CAPMETER_JUDGE_URL, else OPENAI_BASE_URL | the server | https://api.openai.com/v1 |
| CAPMETER_JUDGE_KEY | the key of any server, or `keyring`; a server on this machine may need none | |
| OPENAI_API_KEY | the key of OpenAI's server, or of the one in OPENAI_BASE_URL | |

With `keyring` the key is the password of the service `capmeter` and the user HOST or HOST:PORT in the system's keyring.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from capmeter.core.errors import AssetError, InputError, MissingBackend

OPENAI = "https://api.openai.com/v1"
_KEY, _URL = "CAPMETER_JUDGE_KEY", "CAPMETER_JUDGE_URL"
_KEYRING, _SERVICE = "keyring", "capmeter"
_FORMER = ("CONCURRENCY", "RATE", "TRIES", "TIMEOUT", "PRICES", "BUDGET")  # variables before they were options
_SHORTEST_SECRET = 6  # shorter keys ("none", "EMPTY") are placeholders


@dataclass(frozen=True)
class ApiKey:
    """A key that is not printed."""

    value: str = field(repr=False)

    def redact(self, text: str) -> str:
        """The text with the key masked, as it is, quoted for addresses, JSON or Python, or in base64."""
        if len(self.value) >= _SHORTEST_SECRET:
            encoded_key = base64.b64encode(self.value.encode()).decode().rstrip("=")
            forms = {self.value, quote(self.value), json.dumps(self.value)[1:-1], repr(self.value)[1:-1], encoded_key}
            for form in sorted(forms, key=len, reverse=True):
                text = text.replace(form, "[key]")
        return text


def read_key(address: str, environment: Mapping[str, str] | None = None) -> ApiKey:
    """The key for a server; empty if there is none.

    Raises:
        InputError: it contains a character that no key has, such as a line break; the key is not shown. Or a limit is
            set in the environment, where it would have no effect.
        MissingBackend, AssetError: it should come from the keyring, and cannot.
    """
    variables = os.environ if environment is None else environment
    if ignored_names := [name for name in _FORMER if variables.get(f"CAPMETER_JUDGE_{name}")]:
        raise InputError(
            f"CAPMETER_JUDGE_{ignored_names[0]} has no effect: limits of judges are options (--judge-concurrency, "
            "--judge-rate, --judge-tries, --judge-timeout, --judge-prices, --max-cost); unset the variable"
        )
    name, key_value = _KEY, (variables.get(_KEY) or "").strip()
    if key_value == _KEYRING:
        name, key_value = "the keyring", _read_keyring(describe_server(address))
    elif not key_value and address in (OPENAI, (variables.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")):
        name, key_value = "OPENAI_API_KEY", (variables.get("OPENAI_API_KEY") or "").strip()
    if not (key_value.isascii() and key_value.isprintable()) or " " in key_value:
        raise InputError(
            f"{name}: the key contains a blank, a line break or another character that keys do not have; expected one "
            "word of printable ASCII characters (does its file have several lines?)"
        )
    return ApiKey(key_value)


def _read_keyring(server: str) -> str:
    """The key of a server in the system's keyring."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise MissingBackend(f"{_KEY}={_KEYRING} needs keyring: pip install 'capmeter[keyring]'") from None
    try:
        stored_key: str | None = keyring.get_password(_SERVICE, server)
    except (KeyringError, OSError, RuntimeError) as error:
        raise AssetError(
            f"{_KEY}={_KEYRING}: the keyring cannot be read ({type(error).__name__}); unlock it, choose another with "
            f"`keyring --list-backends`, or set {_KEY} to the key"
        ) from None
    if not stored_key:
        raise AssetError(
            f"{_KEY}={_KEYRING}: there is no key of {server} in the keyring; store it with "
            f"`keyring set {_SERVICE} {server}`"
        )
    return stored_key.strip()


def find_server(address: str = "", environment: Mapping[str, str] | None = None) -> str:
    """The server's address: this one, or the one in the environment, without a slash at its end.

    Raises:
        InputError: it is not an http address, or contains a user name, password or query, which could contain a key.
    """
    variables = os.environ if environment is None else environment
    address = address or variables.get(_URL) or variables.get("OPENAI_BASE_URL") or OPENAI
    try:
        parts = urlsplit(address)
        is_invalid = parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 0) < 0
        is_invalid = is_invalid or not (address.isascii() and address.isprintable()) or " " in address
        has_secret = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    except ValueError:
        is_invalid, has_secret = True, ""
    if is_invalid:
        raise InputError("the judge's server: expected an address such as http://127.0.0.1:8000/v1 (endpoint=)")
    if has_secret:
        raise InputError(
            "the judge's server: its address contains a user name, a password or a query; keys come from "
            f"{_KEY} in the environment, or with {_KEY}={_KEYRING} from the keyring"
        )
    return address.rstrip("/")


def describe_server(address: str) -> str:
    """Host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"
