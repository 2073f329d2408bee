"""Hostile captions: Python structures and mutated files of every format, through `load`, `stream` and `score`.

Whatever comes in, one of two things may happen: an error of capmeter's own, or scores that are finite and stand under
the right ids. `python tests/fuzz/hostile.py --inputs 200000` says how often anything else did (`make fuzz`).
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import math
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.io import load
from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import stream
from capmeter.captions.writing import convert
from capmeter.errors import CapmeterError
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse_list

METRICS = parse_list("bleu-4,rouge-l,cider-d")
ALONE = parse_list("rouge-l")
FORMATS = ("jsonl", "json", "csv", "tsv", "parquet", "coco", "pycocoevalcap", "clipscore")
TEXTS = (
    *("", " ", "a dog", "\0", "\r", "a\nb", "\ud800", "\udfff", "\u2028", "\ufeff", "\u202e", "=1+1", "-", "ref.json"),
    *("nan", "1#0", "[", '["a"]', "['a']", "{", '"', "狗在跑", "🐕", "e\u0301" * 50, "dog " * 400, "x" * 3000),
)
NUMBERS = (0, 1, -1, True, 1.5, -0.0, 1e308, 1e-320, math.nan, math.inf, 10**400, 10**5000, 2**63, 1j)
OTHERS = (
    *(None, b"dog", bytearray(b"a"), (), [], {}, set(), frozenset({"a"}), range(3), object(), object, len),
    *(np.int64(3), np.float32(2), np.float64(math.nan), np.str_("a dog"), np.bool_(True), np.array(["a", "b"])),
    *(np.array(3), np.array([]), np.array([[1, 2]]), np.array([None], object), np.datetime64("2020"), np.bytes_(b"a")),
    *(
        memoryview(b"ab"),
        {1: 2},
        {None: "a"},
        {("a", 1): "b"},
        {10**5000: "a"},
        [[]],
        [None],
        [["a"]],
        {"caption": "a"},
    ),
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


@dataclass
class Found:
    """How many inputs there were, how they ended, and what must not happen."""

    inputs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def rows(rng: random.Random) -> list[dict[str, Any]]:
    """Sound rows; a candidate's first word tells its row."""
    many = rng.randint(1, 5)
    return [
        {
            "image_id": rng.choice([k, str(k), f"img{k}"]),
            "candidate": f"m{k}m a dog runs",
            "references": [f"m{k}m the dog {word}" for word in ("runs", "is running")[: rng.randint(1, 2)]],
            **({"system": "s"} if rng.random() < 0.1 else {}),
            **({"human": [1, 2.5]} if rng.random() < 0.1 else {}),
            **({"image": f"{k}.jpg"} if rng.random() < 0.1 else {}),
        }
        for k in range(many)
    ]


def documents(rng: random.Random) -> tuple[Any, Any]:
    """Candidates and references in any of the layouts that lists and dicts have."""
    each = rows(rng)
    candidates: tuple[Callable[[], Any], ...] = (
        lambda: [row["candidate"] for row in each],
        lambda: {row["image_id"]: row["candidate"] for row in each},
        lambda: {row["image_id"]: [row["candidate"]] for row in each},
        lambda: [{"image_id": row["image_id"], "caption": row["candidate"]} for row in each],
        lambda: [{"image_id": row["image_id"], "prediction": row["candidate"]} for row in each],
        lambda: [{"image_id": row["image_id"], "captions": {"s": row["candidate"]}} for row in each],
    )
    sentences = [[{"raw": text} for text in row["references"]] for row in each]
    references: tuple[Callable[[], Any], ...] = (
        lambda: [row["references"] for row in each],
        lambda: {row["image_id"]: row["references"] for row in each},
        lambda: {"annotations": [{"image_id": r["image_id"], "caption": t} for r in each for t in r["references"]]},
        lambda: {"images": [{"cocoid": r["image_id"], "sentences": s} for r, s in zip(each, sentences, strict=True)]},
        lambda: [{"image_id": row["image_id"], "ref0": row["references"][0]} for row in each],
    )
    if rng.random() < 0.4:
        return each, None
    return rng.choice(candidates)(), rng.choice(references)()


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


def files(folder: Path) -> dict[str, bytes]:
    """A sound file of every format, as bytes."""
    sound = [
        {"image_id": k, "candidate": f"m{k}m a dog; runs", "references": [f"m{k}m the dog", "a, dog"]} for k in range(4)
    ]
    found = {}
    for format in FORMATS:
        target = folder / format
        convert(sound, target, to=format, references_path=folder / "refs" if format[:1] in "pc" and format != "csv"
                and format != "parquet" else None)  # fmt: skip
        found[format] = target.read_bytes()
    found["semicolons"] = b"\xef\xbb\xbfimage_id;prediction;ref0\r\n" + b"".join(
        f"{k};m{k}m a dog;m{k}m the dog\r\n".encode() for k in range(4)
    )
    karpathy = [{"filename": f"{k}.jpg", "cocoid": k, "sentences": [{"raw": f"m{k}m a"}]} for k in range(4)]
    found["karpathy"] = json.dumps({"images": karpathy, "dataset": "x"}).encode()
    found["annotations"] = (folder / "refs").read_bytes()
    return found | {f"{name}.gz": gzip.compress(data) for name, data in list(found.items())}


def expected_ids(source: Any) -> dict[str, str]:
    """The image id under which each marked candidate must come out, where the row says so plainly."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(source, Mapping):
        pairs = list(source.items())
    elif isinstance(source, list):
        for place, row in enumerate(source):
            if isinstance(row, Mapping):
                pairs += [(row.get("image_id"), row.get(name)) for name in ("candidate", "caption", "prediction")]
            else:
                pairs.append((place, row))
    marked: dict[str, set[str | None]] = {}
    for key, text in pairs:
        text = text[0] if isinstance(text, list) and text else text
        if isinstance(text, str):
            plain = type(key) is str or (type(key) is int and abs(key) < 10**9)
            marked.setdefault(str(text), set()).add(str(key) if plain else None)
    return {text: key for text, keys in marked.items() for key in keys if len(keys) == 1 and key is not None}


def check(source: Any, references: Any, how: dict[str, Any], rng: random.Random) -> str:
    """Loads, streams and scores; an AssertionError says what must not be. The answer says how it ended."""
    wanted = {} if isinstance(source, Path) else expected_ids(source)
    try:
        captions = load(source, references, **how)
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        whole: CaptionSet | None = None
    else:
        whole = captions
    try:
        parts = list(stream(source, references, rows=2, **how))
    except CapmeterError:
        assert whole is None, "what load reads, stream refuses"
        return "refused"
    assert whole is not None, "what load refuses, stream reads"
    assert [caption for part in parts for caption in part] == list(whole), "stream reads other captions than load"
    for caption in whole:
        if caption.candidate in wanted:
            assert caption.image_id == wanted[caption.candidate], f"{caption} under another image's id"
    try:
        results = evaluate(whole, METRICS)
    except CapmeterError:
        return "read, not scored"
    for metric in METRICS:
        scores = results[metric]
        assert list(scores.items) == list(whole.ids), "the ids of the scores are not those of the captions"
        assert np.isfinite(scores.values).all() and math.isfinite(scores.score), f"{metric} is not finite"
    id = rng.choice(whole.ids)
    alone = evaluate(CaptionSet.from_captions([whole[id]]), ALONE)[ALONE[0]]
    assert results[ALONE[0]].items[id] == alone.score, "the score stands under another id"
    return "scored"


def inputs(rng: random.Random, sound: Mapping[str, bytes], folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Endless hostile inputs: what they are, candidates, references."""
    refs = folder / "references.json"
    refs.write_text(json.dumps({str(k): [f"m{k}m the dog", "a dog"] for k in range(4)}))
    target = folder / "mutated"
    while True:
        if rng.random() < 0.5:
            source, references = documents(rng)
            for _ in range(rng.choice((1, 1, 2, 4))):
                if references is None or rng.random() < 0.6:
                    source = hostile(source, rng)
                else:
                    references = hostile(references, rng)
            yield "structure", source, references
        else:
            name = rng.choice(list(sound))
            target.write_bytes(mutated(sound[name], rng))
            bare = name.removesuffix(".gz") in ("coco", "pycocoevalcap", "clipscore")
            if name.removesuffix(".gz") in ("karpathy", "annotations"):
                yield name, refs, target
            else:
                yield name, target, refs if bare or rng.random() < 0.3 else None


def fuzz(count: int, seed: int) -> Found:
    """Runs so many inputs."""
    rng, found = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hostile_inputs = inputs(rng, files(Path(folder)), Path(folder))
        for number in range(count):
            kind, source, references = next(hostile_inputs)
            how = {"on_missing": rng.choice(("error", "skip", "keep"))}
            found.inputs += 1
            try:
                found.ends[check(source, references, how, rng)] += 1
            except Exception as error:  # noqa: BLE001  any other error is what is looked for
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                content = source.read_bytes()[:300] if isinstance(source, Path) else source
                given = (content, references, how)
                shown = "(a huge number)" if _has_huge(given) else ascii(given)[:500]
                found.faults.append(f"{number} {kind}: {type(error).__name__} at {place}: {str(error)[:200]}: {shown}")
    return found


def _has_huge(value: Any) -> bool:
    try:
        repr(value)
    except Exception:  # noqa: BLE001
        return True
    return False


def main() -> int:
    """Prints how the inputs ended, and the faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = fuzz(given.inputs, given.seed)
    kinds = Counter(" ".join(fault.split(":")[1:3]).strip()[:100] for fault in found.faults)
    print(f"{found.inputs:,} inputs (seed {given.seed}): {dict(found.ends)}, {len(found.faults)} faults")
    for kind, often in kinds.most_common():
        print(f"{often:6} {kind}")
    for fault in found.faults[:40]:
        print(fault)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
