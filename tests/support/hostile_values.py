"""Hostile values for fuzzing: structures with a node replaced, bytes that were changed, and what came of them."""

from __future__ import annotations

import argparse
import copy
import math
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = (
    *("", " ", "a dog", "\0", "\r", "a\nb", "\ud800", "\udfff", "\u2028", "\ufeff", "\u202e", "=1+1", "-", "ref.json"),
    *("nan", "1#0", "[", '["a"]', "['a']", "{", '"', "狗在跑", "🐕", "e\u0301" * 50, "dog " * 400, "x" * 3000),
)
NUMBERS = (0, 1, -1, True, 1.5, -0.0, 1e308, 1e-320, math.nan, math.inf, 10**400, 10**5000, 2**63, 1j)
OTHERS = (
    *(None, b"dog", bytearray(b"a"), (), [], {}, set(), frozenset({"a"}), range(3), object(), object, len),
    *(np.int64(3), np.float32(2), np.float64(math.nan), np.str_("a dog"), np.bool_(True), np.array(["a", "b"])),
    *(np.array(3), np.array([]), np.array([[1, 2]]), np.array([None], object), np.datetime64("2020"), np.bytes_(b"a")),
    *(memoryview(b"ab"), {1: 2}, {None: "a"}, {("a", 1): "b"}, {10**5000: "a"}, {"caption": "a"}),
    *([[]], [None], [["a"]]),
)
PIECES = (
    *(b"NaN", b"Infinity", b"null", b"true", b"\\ud800", b"\\u0000", b"\0", b"\xff\xfe", b"\xc3", b"\r", b"\n", b'"'),
    *(
        b",",
        b";",
        b"\t",
        b"[",
        b"]",
        b"{",
        b"}",
        b":",
        b"1e999",
        b"9" * 5000,
        b"[" * 3000,
        b"\xef\xbb\xbf",
        b"image_id",
    ),
)
DEEP = reduce(lambda inner, _: [inner], range(3000), list[Any]())  # which repr cannot write


class Evil:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.mark,)


@dataclass
class Found:
    """How many inputs there were, how they ended, and what must not happen."""

    inputs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, kind: str, check: Callable[[], str], describe: Callable[[], Any]) -> None:
        """Runs a check, which says how it ended; any error but an expected one is a fault."""
        self.inputs += 1
        try:
            self.ends[check()] += 1
        except Exception as error:  # noqa: BLE001  any other error is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            location = f"{Path(where.filename).name}:{where.lineno}"
            arguments = describe()
            display = "(a huge number)" if _has_huge(arguments) else ascii(arguments)[:500]
            self.faults.append(
                f"{self.inputs - 1} {kind}: {type(error).__name__} at {location}: {str(error)[:200]}: {display}"
            )


def hostile(value: Any, rng: random.Random) -> Any:
    """The structure with one of its nodes replaced, removed, doubled or keyed otherwise."""
    holders: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, dict | list) and node:
            holders.append(node)
            for child in node.values() if isinstance(node, dict) else node:
                visit(child)

    visit(value)
    odd = rng.choice(rng.choice((TEXTS, TEXTS, NUMBERS, OTHERS)))
    odd = copy.deepcopy(odd) if isinstance(odd, dict | list) else odd  # it may be changed by the next turn
    if not holders or rng.random() < 0.03:
        return odd
    holder = rng.choice(holders)
    at = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    act = rng.random()
    if act < 0.6:
        holder[at] = odd
    elif act < 0.75:
        del holder[at]
    elif isinstance(holder, list):
        holder.insert(at, rng.choice((odd, holder[at])))
    else:
        try:
            holder[odd] = holder.pop(at)
        except TypeError:  # it cannot be a key
            holder[at] = odd
    return value


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them changed, cut, doubled or put in."""
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 40)))
        act = rng.random()
        if act < 0.4:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif act < 0.55:
            data = data[:at] + data[end:]
        elif act < 0.7:
            data = data[:end] + data[at:]
        elif act < 0.95:
            data = data[:at] + rng.choice(PIECES) + data[at:]
        else:
            data = data[:at]
    return data


def as_json(value: Any) -> Any:
    """The value where JSON has it, else its text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else "key": as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, int) and abs(value) > 10**300:
        return 10**300
    return value if value is None or type(value) in (str, int, float, bool) else type(value).__name__


def _has_huge(value: Any) -> bool:
    try:
        repr(value)
    except Exception:  # noqa: BLE001
        return True
    return False


def main(fuzz: Callable[[int, int], Found], description: str | None, inputs: int) -> int:
    """Prints how the inputs ended, and the faults; 1 if there are any."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--inputs", type=int, default=inputs)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = fuzz(arguments.inputs, arguments.seed)
    kinds = Counter(" ".join(fault.split(":")[1:3]).strip()[:100] for fault in result.faults)
    print(f"{result.inputs:,} inputs (seed {arguments.seed}): {dict(result.ends)}, {len(result.faults)} faults")
    for kind, often in kinds.most_common():
        print(f"{often:6} {kind}")
    for fault in result.faults[:40]:
        print(fault)
    return 1 if result.faults else 0
