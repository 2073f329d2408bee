"""Div-n, mBLEU and Self-CIDEr: hand-computed cases, values of the released formulas, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.diversity.diversity import distinct_shares, measure_diversity

from capmeter.core.errors import InputError

CAPTIONS = {
    "1": ["a dog runs on the grass", "a brown dog runs on the green grass", "a dog is playing"],
    "2": ["two cats sleep on a sofa", "two cats sleep on a red sofa", "cats lying on the couch with a dog"],
}
REFERENCES = {
    "a": ["a dog runs on the grass", "a dog plays outside"],
    "b": ["two cats sleep", "cats lying on a couch"],
    "c": ["a man rides a red bike", "a man on the street"],
    "d": ["a brown horse stands on the green grass"],
}


def test_values_of_the_released_formulas() -> None:
    """self-critical's Div-n, BLEU and CIDEr, run on these captions (which its tokenizer leaves as they are)."""
    report = measure_diversity(CAPTIONS, REFERENCES)
    assert report.by_image["div-1"] == pytest.approx([0.5555555246913597, 0.5714285442176883], abs=1e-12)
    assert report.by_image["div-2"] == pytest.approx([0.6111110771604957, 0.6666666349206364], abs=1e-12)
    assert report.by_image["self-cider"] == pytest.approx([0.7939065789344721, 0.7019615601189539], abs=1e-12)
    assert report.by_image["mbleu-2"] == pytest.approx([0.5696630016937752, 0.5043484081274671], abs=1e-12)
    expected = [0.7277839464094421, 0.5795201979544858, 0.4581290656047061, 0.40418442527093434]
    assert [report.values[f"mbleu-{n}"] for n in (1, 2, 3, 4)] == pytest.approx(expected, abs=1e-12)
    assert report.values["self-cider"] == pytest.approx(report.by_image["self-cider"].mean())


def test_equal_captions_and_captions_without_a_common_word() -> None:
    images = {"same": ["a dog runs on grass"] * 3, "different": ["two cats sleep here", "red cars stop now", "go on"]}
    report = measure_diversity(images)
    half_norms = np.sqrt([1, 1, 0.5])  # "go on" has neither three words nor four
    expected = -np.log(1 / half_norms.sum()) / np.log(3)
    assert report.by_image["self-cider"] == pytest.approx([0, expected], abs=1e-6)
    assert report.by_image["mbleu-2"] == pytest.approx([1, 0], abs=1e-6)
    assert distinct_shares(images, 1) == pytest.approx([5 / 15, 1], abs=1e-6)
    assert distinct_shares(images, 2) == pytest.approx([4 / 15, 7 / 10], abs=1e-6)  # 3 + 3 + 1 pairs of 10 words


def test_the_order_of_captions_and_images_does_not_matter() -> None:
    turned = {image: texts[::-1] for image, texts in reversed(CAPTIONS.items())}
    report, other = measure_diversity(CAPTIONS), measure_diversity(turned)
    assert list(other.values.values()) == pytest.approx(list(report.values.values()), abs=1e-12)
    assert other.images == report.images[::-1]


@pytest.mark.parametrize("captions", [{}, {"1": ["a dog"]}, {"1": ["a", "b"], "2": ["a", "b", "c"]}])
def test_other_numbers_of_captions_are_refused(captions: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match="the same number of captions of every image"):
        measure_diversity(captions)


def test_the_command(run, tmp_path: Path) -> None:
    for name, content in (("captions.json", CAPTIONS), ("references.json", REFERENCES)):
        (tmp_path / name).write_text(json.dumps(content))
    files = (str(tmp_path / "captions.json"), "-r", str(tmp_path / "references.json"))
    code, out, _ = run("study", "diversity", *files, "-f", "json")
    assert code == 0 and json.loads(out)["values"] == measure_diversity(CAPTIONS, REFERENCES).values
    assert json.loads(out)["images"] == ["1", "2"]
    assert "0.7479" in run("study", "diversity", *files)[1]
