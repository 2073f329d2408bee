"""How language models that judge captions are asked: concurrency, tries, proxy, prices and budget.

None of it changes an answer. The key and the address come from the environment (`capmeter.metrics.judges.server`).

>>> JudgeLimits(prices=(2.5, 10)).cost(1_000_000, 100_000)
3.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from capmeter.core.errors import InputError
from capmeter.core.options import option


@dataclass
class JudgeUsage:
    """The number of questions asked, and of the input and output tokens of their answers."""

    questions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def read_prices(text: str) -> tuple[float, float]:
    """The two prices in a text "IN,OUT".

    Raises:
        InputError: it is not two numbers of at least 0.
    """
    try:
        input_price, output_price = (float(price) for price in text.split(","))
        if not (0 <= input_price < math.inf and 0 <= output_price < math.inf):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--judge-prices: {text!r} is not IN,OUT, the prices of a million input and output tokens, such as 2.5,10"
        ) from None
    return input_price, output_price


def check_proxy(address: str) -> str:
    """The address of a proxy.

    Raises:
        InputError: it is not an http address of host and port.
    """
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna") and parts.port)
        is_valid = is_valid and address.isascii() and address.isprintable() and not {" ", "\\", "@"} & set(address)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InputError("--judge-proxy: expected an address such as http://proxy:3128, without a user and a password")
    return address


@dataclass(frozen=True, kw_only=True)
class JudgeLimits:
    """How judges are asked, and limits of it.

    Args:
        concurrency: number of questions in progress.
        tries: maximum number of requests for one question.
        timeout: seconds for one request, from the connection to the last byte.
        proxy: the address of an HTTP proxy; those of the environment are not used.
        certificates: a file of certificate authorities (PEM) that are trusted besides those of the system.
        prices: of a million input tokens and a million output tokens.
        max_cost: what all questions under these limits may cost, by `prices`.
        max_requests: how many questions may be asked under these limits (further tries of a question do not count).
        usage: what was used under these limits so far.

    Raises:
        InputError: a value is out of range, or `max_cost` is without prices.
    """

    concurrency: int = option(
        8, "Questions to a judge in progress at a time.", "--judge-concurrency", group="judges", minimum=1, maximum=512
    )
    tries: int = option(
        10, "Requests for one question, with growing pauses.", "--judge-tries", group="judges", minimum=1, maximum=50
    )
    timeout: float = option(120.0, "Seconds for one answer of a judge.", "--judge-timeout", group="judges", minimum=0.1)
    proxy: str | None = option(
        None,
        "HTTP proxy for judges; those of the environment are not used.",
        "--judge-proxy",
        check=check_proxy,
        group="judges",
    )
    certificates: Path | None = option(
        None,
        "Certificate authorities (PEM) to trust besides the system's when judges are asked.",
        "--judge-certificates",
        group="judges",
        path="file",
    )
    prices: tuple[float, float] | None = option(
        None,
        "Prices of a million input and output tokens of a judge, for estimates.",
        "--judge-prices",
        group="judges",
        metavar="IN,OUT",
        value_type=str | None,
        check=read_prices,
        convert=read_prices,
    )
    max_cost: float | None = option(
        None, "Ask a judge no more than this costs by --judge-prices.", "--max-cost", minimum=0, group="judges"
    )
    max_requests: int | None = option(
        None, "Ask a judge at most this many questions.", "--max-requests", minimum=0, group="judges"
    )
    usage: JudgeUsage = field(default_factory=JudgeUsage, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.prices is not None:
            object.__setattr__(self, "prices", tuple(self.prices))  # the command line collects a list
        for limit_name, least in (("concurrency", 1), ("tries", 1), ("timeout", 0.1)):
            limit_value = getattr(self, limit_name)
            if not (math.isfinite(limit_value) and limit_value >= least):
                raise InputError(f"judges: {limit_name}={limit_value}: expected a number of {least:g} or more")
        if self.max_cost is not None and not (math.isfinite(self.max_cost) and self.max_cost >= 0):
            raise InputError(f"judges: max_cost={self.max_cost}: expected a number of 0 or more")
        if self.proxy is not None:
            check_proxy(self.proxy)
        if self.max_cost is not None and self.prices is None:
            raise InputError("--max-cost needs --judge-prices IN,OUT, the prices of a million tokens")

    def cost(self, inputs: int, outputs: int) -> float | None:
        """The cost of these numbers of tokens; None without prices."""
        return None if self.prices is None else (inputs * self.prices[0] + outputs * self.prices[1]) / 1e6

    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        cost = self.cost(self.usage.input_tokens, self.usage.output_tokens)
        too_many = self.max_requests is not None and self.usage.questions >= self.max_requests
        return too_many or (self.max_cost is not None and cost is not None and cost >= self.max_cost)

    def divided(self, processes: int) -> JudgeLimits:
        """The limits of one of several processes that share these."""
        return replace(
            self,
            usage=JudgeUsage(),
            concurrency=max(1, self.concurrency // processes),
            max_cost=None if self.max_cost is None else self.max_cost / processes,
            max_requests=None if self.max_requests is None else self.max_requests // processes,
        )


def format_cost(cost: float) -> str:
    """A cost as text; small ones have more decimals, since no run of a judge is free.

    >>> format_cost(0.00021), format_cost(0.9)
    ('0.000210', '0.90')
    """
    return f"{cost:.2f}" if cost >= 0.1 or cost == 0 else f"{cost:.6f}"
