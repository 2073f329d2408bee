"""Hostile captions: structures, mutated files of every format, and archives, through `load`, `open_parts`, `score`.

Whatever comes in, one of two things may happen: an error of capmeter's own, or scores that are finite and stand under
the right ids. `python tests/fuzz/hostile.py --inputs 200000` says how often anything else did (`make fuzz`).
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import math
import random
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.hostile_values import Found, hostile, main, mutated

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.captions.parts import open_parts
from capmeter.captions.writing import convert
from capmeter.core.errors import CapmeterError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate

METRICS = parse_list("bleu-4,rouge-l,cider-d")
ALONE = parse_list("rouge-l")
FORMATS = ("jsonl", "json", "csv", "tsv", "parquet", "coco", "pycocoevalcap", "clipscore")


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
        lambda: {"predictions": [{"image_id": row["image_id"], "caption": row["candidate"]} for row in each], "v": 1},
        lambda: {"results": {row["image_id"]: row["candidate"] for row in each}},
        lambda: {row["image_id"]: {"caption": row["candidate"], "score": 0.5} for row in each},
        lambda: {row["image_id"]: [{"caption": row["candidate"], "image_id": row["image_id"]}] for row in each},
        lambda: [{"ID": row["image_id"], "Caption": [row["candidate"]]} for row in each],
    )
    sentences = [[{"raw": text} for text in row["references"]] for row in each]
    references: tuple[Callable[[], Any], ...] = (
        lambda: [row["references"] for row in each],
        lambda: {row["image_id"]: row["references"] for row in each},
        lambda: {"annotations": [{"image_id": r["image_id"], "caption": t} for r in each for t in r["references"]]},
        lambda: {"images": [{"cocoid": r["image_id"], "sentences": s} for r, s in zip(each, sentences, strict=True)]},
        lambda: [{"image_id": row["image_id"], "ref0": row["references"][0]} for row in each],
        lambda: {row["image_id"]: row["references"][0] for row in each},
        lambda: [row["references"][0] for row in each],
        lambda: [{"ID": r["image_id"], "Caption": text} for r in each for text in r["references"]],
        lambda: {"test": [{"id": r["image_id"], "report": r["references"][0], "image_path": []} for r in each]},
        lambda: {"val": [{"image_id": r["image_id"], "references": r["references"]} for r in each], "train": []},
    )
    if rng.random() < 0.2:
        layouts: tuple[Callable[[], Any], ...] = (
            lambda: [{"predict": row["candidate"], "label": row["references"][0]} for row in each],
            lambda: [{"response": row["candidate"], "references": row["references"]} for row in each],
            lambda: [
                {"image_name": row["image_id"], "captions": row["references"], "prediction": row["candidate"]}
                for row in each
            ],
        )
        return rng.choice(layouts)(), None
    if rng.random() < 0.3:
        return each, None
    return rng.choice(candidates)(), rng.choice(references)()


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
    found["lines.txt"] = b"".join(f"m{k}m a dog, and a cat\n".encode() for k in range(4))
    found["pairs"] = json.dumps([[f"{k}.jpg", f"m{k}m the dog"] for k in range(4)]).encode()
    found["token"] = b"".join(f"{k}.jpg#0\tm{k}m the dog\n{k}.jpg#1\ta dog\n".encode() for k in range(4))
    found["bars"] = b"image_name| comment_number| comment\n" + b"".join(
        f"{k}.jpg| 0| m{k}m the dog\n{k}.jpg| 1   a dog\n".encode() for k in range(4)
    )
    return found | {f"{name}.gz": gzip.compress(data) for name, data in list(found.items())} | _archives(folder, found)


def _archives(folder: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A workbook, a tar shard and zip archives of each compression, as bytes."""
    workbook = openpyxl.Workbook()
    for row in [("image_id", "candidate", "reference"), *((k, f"m{k}m a dog", f"m{k}m the dog") for k in range(4))]:
        workbook.active.append(row)
    workbook.save(folder / "book")
    found = {"xlsx": (folder / "book").read_bytes()}
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", compression) as archive:
            archive.writestr("rows.jsonl", files["jsonl"])
        found[f"zip {compression}"] = packed.getvalue()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as shard:
        for k in range(4):
            for name, text in ((f"{k}.json", json.dumps({"references": [f"m{k}m the dog"]})), (f"{k}.txt", f"m{k}m a")):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                shard.addfile(member, io.BytesIO(text.encode()))
    return found | {"shard.tar": packed.getvalue()}


def expected_ids(source: Any) -> dict[str, str]:
    """The image id under which each marked candidate must come out, where the row says so plainly."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(source, Mapping):
        pairs = [pair for pair in source.items() if pair[0] not in ("predictions", "results")]
    elif isinstance(source, list):
        for location, row in enumerate(source):
            if isinstance(row, Mapping):
                pairs += [(row.get("image_id"), row.get(name)) for name in ("candidate", "caption", "prediction")]
            else:
                pairs.append((location, row))
    marked: dict[str, set[str | None]] = {}
    for key, value in pairs:
        plain = type(key) is str or (type(key) is int and abs(key) < 10**9)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                marked.setdefault(str(text), set()).add(str(key) if plain else None)
    return {text: key for text, keys in marked.items() for key in keys if len(keys) == 1 and key is not None}


def check(source: Any, references: Any, how: dict[str, Any], rng: random.Random) -> str:
    """Loads, whole and in parts, and scores; an AssertionError says what must not be. The answer says how it ended."""
    expected = {} if isinstance(source, Path) else expected_ids(source)
    try:
        captions = load(source, references, **how)
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        total: CaptionSet | None = None
    else:
        total = captions
    if total is None:
        return "refused"
    if isinstance(source, Path) and references is None and "on_absent" not in how:
        parts = open_parts(source, rows=len(total), **how)
        systems = [each for part in parts for _, each in part.read().systems.values()]
        if len(systems) == len(parts):
            assert [caption for each in systems for caption in each] == list(total), (
                "parts are other captions than load"
            )
    for caption in total:
        if caption.candidate in expected:
            assert caption.image_id == expected[caption.candidate], f"{caption} under another image's id"
    try:
        results = evaluate(total, METRICS)
    except CapmeterError:
        return "read, not scored"
    for metric in METRICS:
        scores = results[metric]
        assert list(scores.items) == list(total.ids), "the ids of the scores are not those of the captions"
        assert np.isfinite(scores.values).all() and math.isfinite(scores.score), f"{metric} is not finite"
    id = rng.choice(total.ids)
    alone = evaluate(CaptionSet.from_captions([total[id]]), ALONE)[ALONE[0]]
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
            ending = next((each for each in (".txt", ".tar", ".zip", ".xlsx") if each[1:] in name), "")
            target = folder / f"mutated{ending}"
            target.write_bytes(mutated(sound[name], rng))
            bare = name.removesuffix(".gz") in ("coco", "pycocoevalcap", "clipscore", "lines.txt")
            if name.removesuffix(".gz") in ("karpathy", "annotations", "pairs", "token", "bars"):
                yield name, refs, target
            else:
                yield name, target, refs if bare or rng.random() < 0.3 else None


def fuzz(count: int, seed: int) -> Found:
    """Runs so many inputs."""
    rng, found = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hostile_inputs = inputs(rng, files(Path(folder)), Path(folder))
        for _ in range(count):
            kind, source, references = next(hostile_inputs)
            how = {"on_missing": rng.choice(("error", "skip", "keep"))}
            found.add(
                kind,
                functools.partial(check, source, references, how, rng),
                functools.partial(_describe, source, references, how),
            )
    return found


def _describe(source: Any, *arguments: Any) -> Any:
    return (source.read_bytes()[:300] if isinstance(source, Path) else source, *arguments)


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__, 200_000))
