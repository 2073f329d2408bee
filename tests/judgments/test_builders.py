"""Captions of other images as pairs without judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import capmeter

from capmeter.core.errors import InputError
from capmeter.judgments.builders import find_other_images
from capmeter.judgments.layouts import JudgmentRow

OBJECTS = {"1": "a red dog", "2": "a dog", "3": "two cats on a bed", "4": "cats and a bed"}


def rows(language: str | None = None, **texts: str) -> list[dict[str, Any]]:
    named = {"language": language} if language else {}
    return [
        {"image_id": image, "references": [f"{text} {word}" for word in ("here", "there", "inside")], **named}
        for image, text in texts.items()
    ]


def partners(data: list[dict[str, Any]], kind: str, seed: int = 0) -> dict[tuple[str, str], str]:
    judged = [JudgmentRow(row, f"line {k}") for k, row in enumerate(data)]
    others = find_other_images(judged, kind, seed)
    return {(row.get("language", ""), row["image_id"]): other.text("image_id") for row, other in
            zip(data, others, strict=True)}  # fmt: skip


def test_other_images_of_foils() -> None:
    assert partners(rows(**OBJECTS), "similar") == {("", "1"): "2", ("", "2"): "1", ("", "3"): "4", ("", "4"): "3"}
    greek = {image: f"λέξη{ord(text[0])}" for image, text in OBJECTS.items()}
    found = partners(rows("el", **greek) + rows("en", **OBJECTS), "similar")
    assert all(found["el", image] == found["en", image] for image in OBJECTS)
    by_seed = [partners(rows(**OBJECTS), "random", seed) for seed in range(5)]
    assert all(image != other for each in by_seed for (_, image), other in each.items())
    assert by_seed[0] == partners(rows(**OBJECTS), "random", 0) and any(each != by_seed[0] for each in by_seed)
    with pytest.raises(InputError, match="at least two images"):
        partners(rows(**{"1": "a dog"}), "similar")


def test_agreement_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(**OBJECTS)))
    for protocol in ("similar", "random"):
        result = capmeter("meta", "-b", "reference-swap", "-d", str(path), "-m", "bleu-1", "-p", protocol)
        assert result.returncode == 0 and "12 pairs of 4 images" in result.stdout
