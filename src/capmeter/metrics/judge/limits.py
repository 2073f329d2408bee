"""How judges are asked: keys, rates, tries, prices. All from the environment; nothing of it is in a name or a file.

| variable | meaning | default |
|---|---|---|
| CAPMETER_JUDGE_URL, else OPENAI_BASE_URL | the server | https://api.openai.com/v1 |
| CAPMETER_JUDGE_KEY, else OPENAI_API_KEY | the key; a server on this machine may need none | |
| CAPMETER_JUDGE_CONCURRENCY | questions that wait for an answer at a time | 8 |
| CAPMETER_JUDGE_RATE | most questions per minute; 0: no limit | 0 |
| CAPMETER_JUDGE_TRIES | tries of one question | 6 |
| CAPMETER_JUDGE_TIMEOUT | seconds for one try | 120 |
| CAPMETER_JUDGE_PRICES | IN,OUT: of a million tokens read and written, for estimates in money | |
| CAPMETER_JUDGE_BUDGET | a run that is estimated to cost more does not start (needs prices) | |
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from capmeter.errors import InputError

OPENAI = "https://api.openai.com/v1"
_PREFIX = "CAPMETER_JUDGE_"


@dataclass(frozen=True)
class Limits:
    """See the table in the module's documentation; `prices` are of a million tokens."""

    concurrency: int = 8
    rate: float = 0.0
    tries: int = 6
    timeout: float = 120.0
    prices: tuple[float, float] | None = None
    budget: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Limits:
        """The limits in the environment; an `InputError` names a variable that cannot be read."""
        known = os.environ if environment is None else environment
        prices = known.get(f"{_PREFIX}PRICES")
        found = cls(
            concurrency=int(_number(known, "CONCURRENCY", 8, least=1)),
            rate=_number(known, "RATE", 0),
            tries=int(_number(known, "TRIES", 6, least=1)),
            timeout=_number(known, "TIMEOUT", 120, least=0.1),
            prices=None if not prices else _prices(prices),
            budget=_number(known, "BUDGET", 0) if known.get(f"{_PREFIX}BUDGET") else None,
        )
        if found.budget is not None and found.prices is None:
            raise InputError(f"{_PREFIX}BUDGET needs {_PREFIX}PRICES=IN,OUT, the prices of a million tokens")
        return found

    def cost(self, read: int, written: int) -> float | None:
        """What these tokens cost; None without prices."""
        return None if self.prices is None else (read * self.prices[0] + written * self.prices[1]) / 1e6


@dataclass(frozen=True)
class Secret:
    """A key that does not show itself."""

    value: str = field(repr=False)

    def removed_from(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self.value, "[key]") if self.value else text


def key(environment: Mapping[str, str] | None = None) -> Secret:
    """The key in the environment; empty if there is none."""
    known = os.environ if environment is None else environment
    return Secret((known.get(f"{_PREFIX}KEY") or known.get("OPENAI_API_KEY") or "").strip())


def server(named: str = "", environment: Mapping[str, str] | None = None) -> str:
    """The server's address: the named one, else the one in the environment, without a slash at its end.

    Raises:
        InputError: it is not an http address, or holds a name, a password or a query, which could hold a key.
    """
    known = os.environ if environment is None else environment
    address = named or known.get(f"{_PREFIX}URL") or known.get("OPENAI_BASE_URL") or OPENAI
    try:
        parts = urlsplit(address)
        problem = parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 0) < 0
        hidden = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    except ValueError:
        problem, hidden = True, ""
    if problem:
        raise InputError("the judge's server: expected an address such as http://127.0.0.1:8000/v1 (endpoint=)")
    if hidden:
        raise InputError(
            "the judge's server: its address holds a name, a password or a query; keys come from "
            f"{_PREFIX}KEY in the environment"
        )
    return address.rstrip("/")


class Pace:
    """Lets at most `rate` questions per minute begin; threads share it."""

    def __init__(self, rate: float) -> None:
        self._between = 60.0 / rate if rate else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Returns when the next question may begin."""
        if not self._between:
            return
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._between
        time.sleep(start - now)


def _number(known: Mapping[str, str], name: str, default: float, least: float = 0.0) -> float:
    text = known.get(_PREFIX + name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise InputError(f"{_PREFIX}{name}={text!r}: expected a number of {least:g} or more")
    return value


def _prices(text: str) -> tuple[float, float]:
    try:
        read, written = (float(each) for each in text.split(","))
        if not (0 <= read < math.inf and 0 <= written < math.inf):
            raise ValueError
    except ValueError:
        raise InputError(
            f"{_PREFIX}PRICES={text!r}: expected IN,OUT, the prices of a million tokens read and written"
        ) from None
    return read, written
