"""VIFIDEL with word vectors small enough to compute by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.region_files import write_npz_regions
from capmeter_research.papers.umic.vifidel import read_label_names
from support.uniter_examples import random_regions

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.images.regions import Regions

pytest.importorskip("torch")
VECTORS = {"dog": (1.0, 0.0), "cat": (0.0, 1.0), "puppy": (0.6, 0.8), "ball": (-1.0, 0.0), "red": (0.0, -1.0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"{len(VECTORS)} 2", *(f"{word} {x} {y}" for word, (x, y) in VECTORS.items())]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    regions = {"1": ("dog", "ball", "dog"), "2": ("red ball",), "3": ("zebra",), "4": ("2", "1", "2"), "0": ("0", "1")}
    write_npz_regions(
        tmp_path / "regions", ((key, random_regions(0, len(labels), labels=labels)) for key, labels in regions.items())
    )
    (tmp_path / "names.txt").write_text("dog,hound\ncat\n")
    return tmp_path


def score(folder: Path, image: str, candidate: str, references: list[str] | None = None, **parameters: str):
    rows = [{"image_id": image, "candidate": candidate, "references": references or []}]
    captions = capmeter.load(rows, on_missing="keep", regions=folder / "regions")
    inside = ",".join([f'vectors="{folder / "vectors.txt"}"', *(f"{k}={v}" for k, v in parameters.items())])
    name = str(parse(f"vifidel({inside})"))
    return capmeter.score(captions, name)[name]


def test_the_same_words_cost_nothing(folder: Path) -> None:
    assert score(folder, "1", "a dog with a ball").score == 1.0
    assert score(folder, "2", "the red ball").score == 1.0


def test_a_distance_by_hand(folder: Path) -> None:
    """Labels dog, ball (a half each); the caption says puppy: half of it comes from dog, half from ball."""
    to_dog, to_ball = np.hypot(1 - 0.6, 0.8), np.hypot(-1 - 0.6, 0.8)
    assert score(folder, "1", "a puppy").score == pytest.approx(np.exp(-(to_dog + to_ball) / 2))


def test_weights_by_the_references(folder: Path) -> None:
    """People say dog twice and puppy once, which is nearer to dog than to ball: all the weight is on dog."""
    results = score(folder, "1", "a puppy", ["a dog", "the dog and its puppy"], weighted="true")
    assert results.score == pytest.approx(np.exp(-np.hypot(1 - 0.6, 0.8)))
    mixed = score(folder, "1", "a dog", ["a dog", "a ball", "a ball", "ball"], weighted="true")
    assert mixed.score == pytest.approx(np.exp(-0.75 * 2))


def test_no_word_with_a_vector(folder: Path) -> None:
    for image, candidate in (("1", "the xyzzy"), ("3", "a dog")):
        results = score(folder, image, candidate)
        assert results.score == 0.0 and results.notes["out of vocabulary"] == [image]


def test_numbered_labels_need_names(folder: Path) -> None:
    with pytest.raises(InputError, match=r"the labels of '4\.npz' are numbers; name them with labels=FILE"):
        score(folder, "4", "a dog")
    results = score(folder, "4", "a dog and a cat", labels=f'"{folder / "names.txt"}"')
    assert results.score == 1.0 and "labels:names.txt@" in results.signature
    (folder / "names.txt").write_text("dog\n")

    read_label_names.cache_clear()
    with pytest.raises(InputError, match=r"has label 2, but .* names 1 to 1"):
        score(folder, "4", "a dog", labels=f'"{folder / "names.txt"}"')


def test_labels_are_counted_from_0_where_one_is_0(folder: Path) -> None:
    """Of all images of the run: label 1 is a cat then, and label 2 has no name."""
    names = f'"{folder / "names.txt"}"'
    assert score(folder, "0", "a dog and a cat", labels=names).score == 1.0
    captions = [{"image_id": image, "candidate": "a cat", "references": []} for image in "04"]
    name = str(parse(f'vifidel(vectors="{folder / "vectors.txt"}",labels={names})'))
    with pytest.raises(InputError, match=r"'4.npz' has label 2, but .* names 0 to 1"):
        capmeter.score(capmeter.load(captions, on_missing="keep", regions=folder / "regions"), name)


def test_regions_without_labels(folder: Path) -> None:
    regions = random_regions(0)
    write_npz_regions(folder / "regions", [("5", Regions(regions.features, regions.boxes))])
    with pytest.raises(InputError, match="have no labels"):
        score(folder, "5", "a dog")
