"""AMBER: computed examples, the program's counts, bad input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.amber.amber import Amber

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.runner import evaluate
from capmeter.text.meteor.resources import load_english_synonyms

AMBER = {
    "generative": {"1": {"truth": ["dog", "grass"], "hallu": ["ball"]}, "2": {"truth": ["car"], "hallu": []}},
    "associations": {"dog": ["puppy"], "grass": ["lawn"], "ball": ["frisbee"], "car": [], "tree": []},
    "safe_words": ["tree"],
}


@pytest.mark.meteor
def test_amber_by_hand(tmp_path: Path) -> None:
    """Caption 1 names puppy (dog), frisbee (ball, invented), tree (safe); caption 2 names a dog, which is not shown."""
    path = tmp_path / "amber.json"
    path.write_text(json.dumps(AMBER))
    rows = [
        Caption("1", "1", "A puppy chases a frisbee near the tree and the river.", ()),
        Caption("2", "2", "An automobile and a dog.", ()),
    ]
    metric = Amber(annotations=str(path))
    part = CaptionSet.from_captions(rows)
    assert metric.measure(part, RunContext()).values.tolist() == [[3, 1, 1, 2, 1, 1, 1], [1, 1, 0, 1, 1, 0, 0]]
    parts = evaluate(part, [metric])[metric].parts
    assert parts == pytest.approx({"chair": 2 / 4, "cover": 1 / 3, "hal": 1.0, "cog": 1.0})
    with pytest.raises(InputError, match="it has no description of image 9"):
        evaluate(CaptionSet.from_captions([Caption("1", "9", "a dog", ())]), [metric])
    path.write_text("[1]")
    with pytest.raises(InputError, match="not AMBER's annotations"):
        evaluate(part, [Amber(annotations=str(path))])
    with pytest.raises(InputError, match="name the file of annotations"):
        evaluate(part, [Amber()])
    with pytest.raises(InputError, match=r"annotations='no.*where.json'"):
        evaluate(part, [Amber(annotations="no\0where.json")])


@pytest.mark.meteor
def test_amber_counts_the_words_of_every_list_and_each_once(tmp_path: Path) -> None:
    """Neither boat nor kite is in the associations: the boat is covered, the kite invented."""
    path = tmp_path / "amber.json"
    image = {"truth": ["boat", "boat", "dog"], "hallu": ["kite", "kite"]}
    path.write_text(json.dumps({"generative": {"1": image}, "associations": {"dog": ["puppy"]}, "safe_words": []}))
    metric = Amber(annotations=str(path))
    part = CaptionSet.from_captions([Caption("1", "1", "A boat and a kite.", ())])
    assert metric.measure(part, RunContext()).values.tolist() == [[2, 1, 1, 2, 1, 1, 1]]
    facts = metric.signature_facts(RunContext())
    assert facts["annotations"].startswith("amber.json/") and facts["dictionary"] == "meteor-1.5" and facts["parser"]
    path.write_text(json.dumps(AMBER))
    assert metric.signature_facts(RunContext())["annotations"] != facts["annotations"]


def three_files(folder: Path, entries: Any, relation: Any, safe: str) -> Amber:
    """The metric with AMBER's own files."""
    (folder / "annotations.json").write_text(json.dumps([{"type": "generative", **each} for each in entries]))
    (folder / "relation.json").write_text(json.dumps(relation))
    (folder / "safe_words.txt").write_bytes(safe.encode())
    return Amber(annotations=str(folder / "annotations.json"))


@pytest.mark.meteor
@pytest.mark.parametrize(
    ("truth", "hallu", "relation", "safe"),
    [
        (["dog", "grass"], "kite", {"dog": ["puppy"], "boy": ["lad"]}, "boy\nlad\n"),
        (["Dog", " GRASS"], "Kite", {"Dog": [], "dog ": ["Puppy"], "BOY": ["lad"]}, "Boy\rLAD"),
        (["dog", "Grass"], "KITE", {"DOG": ["PUPPY"], "boy": [" Lad"]}, ' ["Boy", "lad "]'),
    ],
)
def test_words_count_however_they_are_written(
    truth: list[str], hallu: str, relation: dict[str, list[str]], safe: str, tmp_path: Path
) -> None:
    entry = {"id": 1, "truth": truth, "hallu": [hallu]}
    metric = three_files(tmp_path, [entry, entry | {"id": "1"}], relation, safe)
    part = CaptionSet.from_captions([Caption("1", "1", "A puppy and a kite near a boy and a lad.", ())])
    assert metric.measure(part, RunContext()).values.tolist() == [[4, 1, 1, 2, 1, 1, 1]]


DOG = {"id": 1, "truth": ["dog"], "hallu": []}


@pytest.mark.parametrize(
    ("entries", "relation", "message"),
    [
        ([DOG, DOG | {"truth": ["cat"]}], {}, r'^annotations.json, image "1": .*listed twice, with different words'),
        ([DOG, DOG | {"id": 1.0, "hallu": ["cat"]}], {}, r'^annotations.json, image "1": .*listed twice'),
        ([DOG | {"truth": "dog"}], {}, r"""^annotations.json, image "1": .*'dog' is not a list of words"""),
        ([DOG, DOG | {"id": None}], {}, r"^annotations.json\[1\]: id is missing"),
        ([DOG, {"truth": ["dog"], "hallu": []}], {}, r"^annotations.json\[1\]: .*'id' is missing"),
        ([DOG], {"boat": ["ship"], "car": "auto"}, r"""^relation.json, "car": .*'auto' is not a list of words"""),
        ([DOG], [["boat", "ship"]], "^relation.json: .*of another kind than expected.*{word: .words.}"),
    ],
)
def test_a_mistake_names_its_file_and_entry(entries: Any, relation: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        three_files(tmp_path, entries, relation, "").signature_facts(RunContext())


@pytest.mark.meteor
def test_an_entry_counts_whatever_its_type_and_a_file_from_when_it_is_there(tmp_path: Path) -> None:
    metric = three_files(tmp_path, [DOG | {"type": None}, {"id": 2, "type": "relation", "truth": "yes"}], {}, "")
    part = CaptionSet.from_captions([Caption("1", "1", "A puppy runs.", ())])
    assert metric.measure(part, RunContext()).values.tolist() == [[0, 0, 0, 1, 0, 0, 0]]
    (tmp_path / "relation.json").write_text('{"dog": ["puppy"]}')
    assert metric.measure(part, RunContext()).values.tolist() == [[1, 0, 1, 1, 0, 0, 0]]
    (tmp_path / "safe_words.txt").write_text('{"puppy": 1}')
    with pytest.raises(InputError, match=r"^safe_words.txt: .*is not a list of words"):
        metric.measure(part, RunContext())


def count_as_the_program(
    nouns: Sequence[str], image: Mapping[str, Sequence[str]], amber: Mapping[str, Any]
) -> list[int]:
    """Mentions, hallucinated, covered, truths, whether any is hallucinated, invented and hallus, by AMBER's loops."""
    synonyms = load_english_synonyms()
    nouns = [noun for noun in nouns if noun in amber["associations"] or noun in chain(*amber["associations"].values())]
    covered, invented = [0] * len(image["truth"]), [0] * len(image["hallu"])

    def mark(objects: Sequence[str], marks: list[int], noun: str, similar: bool) -> bool:
        words = [(word, k) for k, each in enumerate(objects) for word in amber["associations"][each]]
        for word, k in [*words, *((each, k) for k, each in enumerate(objects))]:
            if noun == word or (similar and synonyms.synsets(noun) & synonyms.synsets(word)):
                marks[k] = 1
                return True
        return False

    wrong = 0
    for noun in nouns:
        if noun in amber["safe_words"] or mark(image["truth"], covered, noun, False):
            continue
        mark(image["hallu"], invented, noun, False)
        mark(image["hallu"], invented, noun, True)
        wrong += not mark(image["truth"], covered, noun, True)
    return [len(nouns), wrong, sum(covered), len(covered), int(wrong > 0), sum(invented), len(invented)]


@pytest.mark.meteor
def test_amber_as_released_counts_as_the_program(tmp_path: Path) -> None:
    """400 captions of 100 images, with synonyms, safe words, objects listed twice and capital letters."""
    rng = np.random.default_rng(0)
    words = "car automobile dog puppy boat ship sofa couch child kid bike bicycle plane airplane tree rock stone street"
    others = "road flower hat cup mug bag purse table chair bed lamp bird cat horse man woman"
    nouns = [*words.split(), *others.split()]
    associations = {word: rng.choice(nouns, 2, replace=False).tolist() for word in nouns[:26]}
    keys = list(associations)
    draws = [rng.choice(keys, 9).tolist() for _ in range(100)]
    images = {str(k): {"truth": each[:5], "hallu": each[5:]} for k, each in enumerate(draws)}
    amber = {"generative": images, "associations": associations, "safe_words": ["tree", "street", "man"]}
    (tmp_path / "amber.json").write_text(json.dumps(amber))
    mentioned = [rng.choice(nouns, 6).tolist() for _ in range(400)]
    for row in mentioned[::3]:
        row[2] = row[2].capitalize()
    texts = [f"There is a {' and a '.join(each)}." for each in mentioned]
    part = CaptionSet.from_captions(Caption(str(k), str(k % 100), text, ()) for k, text in enumerate(texts))
    released, plain = (Amber(annotations=str(tmp_path / "amber.json"), as_released=flag) for flag in (True, False))
    expected = [count_as_the_program(each, images[str(k % 100)], amber) for k, each in enumerate(mentioned)]
    results = evaluate(part, [released, plain])
    assert results[str(released)].values.tolist() == expected
    mentions, wrong, covered, truths, captions, invented, hallus = np.sum(expected, axis=0).tolist()
    parts = {"chair": wrong / mentions, "cover": covered / truths, "hal": captions / 400, "cog": invented / hallus}
    assert results[str(released)].parts == pytest.approx(parts, abs=1e-9)
    assert all(abs(results[str(plain)].parts[name] - parts[name]) > 1e-3 for name in ("chair", "cover", "cog"))


@pytest.mark.meteor
@pytest.mark.parametrize(
    ("caption", "released", "plain"),
    [
        ("A puppy runs.", [1, 0, 1, 2, 0, 0, 1], [1, 0, 2, 2, 0, 0, 1]),  # of both truths the first
        ("A Puppy runs.", [0, 0, 0, 2, 0, 0, 1], [1, 0, 2, 2, 0, 0, 1]),
        ("A tree stands.", [1, 0, 0, 2, 0, 0, 1], [1, 0, 1, 2, 0, 0, 1]),  # is safe, and a word of the second
        ("A seashore.", [1, 0, 1, 2, 0, 1, 1], [1, 0, 1, 2, 0, 0, 1]),  # similar to a truth and to a hallucination
    ],
)
def test_what_amber_counts_otherwise_as_released(
    caption: str, released: list[int], plain: list[int], tmp_path: Path
) -> None:
    image = {"truth": ["dog", "coast"], "hallu": ["shore"]}
    associations = {"dog": ["puppy"], "coast": ["puppy", "tree"], "shore": ["seashore"], "seashore": []}
    content = {"generative": {"1": image}, "associations": associations, "safe_words": ["tree"]}
    (tmp_path / "amber.json").write_text(json.dumps(content))
    part = CaptionSet.from_captions([Caption("1", "1", caption, ())])
    for flag, expected in ((True, released), (False, plain)):
        metric = Amber(annotations=str(tmp_path / "amber.json"), as_released=flag)
        assert metric.measure(part, RunContext()).values.tolist() == [expected]
