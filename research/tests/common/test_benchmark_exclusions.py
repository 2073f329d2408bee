"""Benchmark photos: every list of the file is read, every benchmark is in a list, and no recipe trains on one."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from capmeter_research.common.benchmark_exclusions import PhotoId, identify_photo, is_excluded, read_exclusions
from capmeter_research.common.corpus import PYCOCOEVALCAP, read_corpus
from capmeter_research.common.parsed_captions import read_parsed_captions
from capmeter_research.papers.lceval.training.examples import read_human_captions

from capmeter.captions.load import load_reference_table
from capmeter.core.errors import InputError
from capmeter.meta.robustness import leave_one_out

EXCLUSIONS = Path("data") / "training_exclusions.json.gz"
BENCHMARKS = (
    "coco_karpathy_test_captions",
    "coco_smurf_official_scores",
    "composite",
    "d_foil",
    "faithscore",
    "flickr30k_test_whereimage_captions",
    "flickr8k_cf",
    "flickr8k_expert",
    "flickr8k_references",
    "flickr8k_test_whereimage_captions",
    "haelm",
    "hat",
    "mscoco_test_whereimage_captions",
    "opera_captions",
    "reformulations",
    "samples/capeval1k",
    "samples/foil_valse",
    "samples/thumb1_mscoco",
    "samples/whereimage_humaneval",
    "vlm_long_captions",
)
"""The benchmarks of captions of COCO's and Flickr30k's photos."""
NAMED_EXCEPTIONS = (
    "caption_parses.jsonl.gz",
    "caption_parses_more.jsonl.gz",
    "factual_scene_graphs.jsonl.gz",
    "discosg_graphs.jsonl.gz",
)
"""Training data of parsers that hold, or may hold, photos of benchmarks, as the parsers' cards say."""
MACHINE_CAPTIONS = "machine_captions.jsonl.gz"


@cache
def exclusions(shared: Path) -> dict[str, frozenset[str]]:
    return read_exclusions(shared / EXCLUSIONS)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def listed(shared: Path) -> set[PhotoId]:
    """The photos of the raw file, without the reader."""
    return photos_of(json.loads(gzip.decompress((shared / EXCLUSIONS).read_bytes())))


def photos_of(lists: dict[str, list[int | str]]) -> set[PhotoId]:
    sources = (("coco" if name.startswith("coco") else "flickr30k", numbers) for name, numbers in lists.items())
    return {(source, str(number)) for source, numbers in sources for number in numbers}


def write_lists(path: Path, lists: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(lists).encode()))
    return path


def test_every_list_is_read(tmp_path: Path) -> None:
    lists = {"coco": [1], "flickr": ["2"], "coco_field": [3, 4], "flickr_field": [], "flickr_more": ["5"]}
    photos = read_exclusions(write_lists(tmp_path / "lists.json.gz", lists))
    assert {"1", "3", "4"} < photos["coco"] and {"2", "5"} < photos["flickr30k"]
    assert not {"1", "3", "4"} & photos["flickr30k"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"coco": [1]}, "no list flickr"),
        ({"coco": [1], "flickr": [2], "places_field": [3]}, "places_field is not a list of photos of COCO or"),
        ({"coco": [1], "flickr": {"2": 3}}, "flickr is not a list"),
        ([1], "expected the object"),
    ],
)
def test_other_lists_are_refused(tmp_path: Path, lists: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_exclusions(write_lists(tmp_path / "lists.json.gz", lists))


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = write_lists(tmp_path / "lists.json.gz", {"coco": [1], "flickr": [2]})
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(InputError, match=r"lists\.json\.gz: "):
        read_exclusions(path)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_photo_of_a_benchmark_is_excluded(name: str, shared: Path) -> None:
    images = {row["image_id"] for row in rows(shared / "data" / f"{name}.jsonl.gz")}
    photos = {identify_photo(image) for image in images if image.endswith(".jpg")}  # others are of further sources
    assert photos
    assert [photo for photo in sorted(photos) if not is_excluded(photo, exclusions(shared))] == []


def test_the_photos_of_the_evaluations_are_those_listed(shared: Path) -> None:
    lists = json.loads((files("capmeter_research.common") / "evaluation_photos.json").read_bytes())
    references = load_reference_table(shared / "data" / "coco_val2017_references.jsonl.gz").references
    evaluated = leave_one_out(references, images=1000).image_ids
    assert sorted(int(identify_photo(image, "coco")[1]) for image in evaluated) == lists["coco_val2017"]
    for name, file, source in (
        ("coco_reformulations", "reformulations", "coco"),
        ("flickr_reformulations", "reformulations", "flickr30k"),
        ("flickr_test", "flickr30k_test_whereimage_captions", "flickr30k"),
    ):
        photos = {identify_photo(row["image_id"]) for row in rows(shared / "data" / f"{file}.jsonl.gz")}
        missing = sorted(int(number) for photo in photos - listed(shared) if photo[0] == source for number in photo[1:])
        assert missing == sorted(map(int, lists[name]))


@pytest.mark.slow
@pytest.mark.meteor
def test_no_recipe_reads_a_benchmark_photo(shared: Path) -> None:
    """The corpora of all recipes (COCO, Flickr30k, parsed captions), against the lists as they lie in the files; and
    weights that were trained on other corpora say so."""
    evaluated = json.loads((files("capmeter_research.common") / "evaluation_photos.json").read_bytes())
    benchmarks = listed(shared) | photos_of(evaluated)
    flickr = shared / "data" / "flickr30k_references.jsonl.gz"
    corpora = [
        read_corpus(source, file, exclusions(shared))
        for source, file in (("coco", PYCOCOEVALCAP), ("flickr30k", flickr))
    ]
    parses, _ = read_parsed_captions(shared / "data" / "caption_parses.jsonl.gz", exclusions(shared))
    photos, _ = read_human_captions(flickr, exclusions(shared))
    for read in (
        {photo.id for corpus in corpora for photo in corpus.photos},
        {(caption.source, caption.photo) for caption in parses},
        set(photos),
    ):
        assert len(read) > 20_000
        assert read.isdisjoint(benchmarks)
    assert [len(corpus.photos) for corpus in corpora] == [110_427, 22_704]
    assert [corpus.excluded for corpus in corpora] == [12_860, 8_310]
    held_out = sum(photo.held_out for photo in corpora[0].photos) / len(corpora[0].photos)
    assert 0.028 < held_out < 0.032
    hashes = {corpus.data.name: corpus.data.sha256 for corpus in corpora}
    checkpoints = bundled_checkpoints()
    assert {"leic", "lceval", "nneval", "fluency", "writer", "300", "1000"} <= {folder.name for folder in checkpoints}
    for folder in checkpoints:
        content = json.loads((folder / "checkpoint.json").read_bytes())
        clean = [
            is_clean(data, hashes, flickr, len(photos))
            for data in content["data"]
            if data["name"] not in NAMED_EXCEPTIONS
        ]
        card = folder / "README.md" if (folder / "README.md").exists() else folder.parent / "README.md"
        assert all(clean) != ("**Overlap.**" in card.read_text(encoding="utf-8")), folder.name


def bundled_checkpoints() -> list[Path]:
    root = Path(__file__).resolve().parents[3]
    files = [
        *root.glob("src/capmeter/data/weights/**/checkpoint.json"),
        *root.glob("research/src/**/weights/**/checkpoint.json"),
    ]
    return [file.parent for file in files]


def is_clean(data: dict[str, Any], hashes: dict[str, str], flickr: Path, photos: int) -> bool:
    """Whether a checkpoint's training data are what its recipe reads today, which holds no photo of a benchmark."""
    if data["name"].startswith("world("):  # synthetic scenes
        return True
    if data["name"] == MACHINE_CAPTIONS:  # of the caption writer, joined to photos of the other corpora
        return True
    if data["name"] == flickr.name:  # LCEval: the file's hash, and the number of its photos outside the benchmarks
        return data["sha256"] == hashlib.sha256(flickr.read_bytes()).hexdigest() and data["examples"] == photos
    return bool(hashes[data["name"]] == data["sha256"])  # a KeyError: a corpus that this test does not know


def test_the_named_exceptions_are_counted_on_their_cards(shared: Path) -> None:
    """Parses and scene graphs: the parser's card states how many of its rows are of benchmark photos, and the cards of
    the scene-graph parsers that their graphs name no photo of COCO or Flickr30k."""
    lists = json.loads(gzip.decompress((shared / EXCLUSIONS).read_bytes()))
    evaluated = json.loads((files("capmeter_research.common") / "evaluation_photos.json").read_bytes())
    benchmarks, field = listed(shared) | photos_of(evaluated), photos_of({"coco_field": lists["coco_field"]})
    parses = shared / "data" / "caption_parses.jsonl.gz"
    parsed = [(row["source"], str(row["photo"])) for row in rows(parses)]
    cards = {folder.name: (folder / "README.md") for folder in bundled_checkpoints()}
    text = {name: " ".join(card.read_text(encoding="utf-8").split()) for name, card in cards.items() if card.exists()}
    for name, photos in (("any list", benchmarks), ("coco_field", field)):
        of_list = [photo for photo in parsed if photo in photos]
        assert of_list, name
        assert f"{len(of_list):,} rows ({len(set(of_list)):,} photos)" in text["parser"], name
    assert json.loads((cards["parser"].parent / "checkpoint.json").read_bytes())["data"][0] == {
        "name": parses.name,
        "sha256": hashlib.sha256(parses.read_bytes()).hexdigest(),
        "examples": len(parsed),
    }
    for name, file in (("factual", "factual_scene_graphs"), ("factual-documents", "discosg_graphs")):
        keys = set[str]().union(*rows(shared / "data" / f"{file}.jsonl.gz"))
        assert keys.isdisjoint({"photo", "source", "coco_id", "file_name"})
        assert ("image_id" in keys) == ("the photo numbers of Visual Genome" in text[name])
        assert "so benchmark photos may be among them" in text[name]
    assert "see the card of `parser`" in text["factual"]
