"""ALOHa: objects that are matched, computed examples, objects of a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.aloha.aloha import Aloha, _match_objects, _NounPhrase

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse

REFERENCES = ("a brown dog runs on the grass", "a dog is running outside on a lawn")


def captions(*texts: str, references: tuple[str, ...] = REFERENCES) -> CaptionSet:
    return CaptionSet.from_captions([Caption(str(k), "1", text, references) for k, text in enumerate(texts)])


def test_objects_are_matched_one_to_one() -> None:
    """The largest sum, 0.9 + 0.2, and not the largest single cosine for both; the third object has no match left."""
    objects = [_NounPhrase((name,), name, k, k + 1) for k, name in enumerate(("dog", "cat", "car"))]
    matches = _match_objects(objects, ["puppy", "tree"], np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.1]]))
    assert [(each.reference, each.similarity) for each in matches] == [("puppy", 0.9), ("tree", 0.2), (None, 0.0)]
    assert _match_objects(objects[:1], [], np.zeros((1, 0)))[0].reference is None


@pytest.mark.neural
def test_aloha_and_what_the_released_code_does() -> None:
    part = captions("a brown dog", "a dog with a piano", "running fast")
    paper, released = (Aloha(as_released=flag).measure(part, RunContext()).values[:, 0] for flag in (False, True))
    assert paper[0] == pytest.approx(1, abs=1e-4) and paper[1] < 0.6
    assert (paper[2], released[2]) == (1, 0)
    unsupported = captions("a brown dog", references=("running fast",))  # the released class has −inf
    assert [Aloha(as_released=flag).measure(unsupported, RunContext()).values.item() for flag in (False, True)] == [
        0,
        0,
    ]
    crowded = captions("a dog, a cat and a car", "a dog", references=("a dog",))
    (note,) = Aloha().measure(crowded, RunContext()).notes.items()
    assert note == ("more objects than its references name: 0 whatever they are", ["0"])
    (evidence,) = Aloha().explain(captions("a dog with a piano"), RunContext())
    assert evidence.candidate[int(np.argmin(evidence.word_scores))] == "piano"


@pytest.mark.neural
def test_objects_of_a_file_are_matched_too(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"1": ["Piano", "dining table"]}))
    part = captions("a dog runs on the piano", "a dog runs on the sofa")
    (alone, with_file) = (parse("aloha"), parse(f'aloha(objects="{path}")'))
    before, after = (metric.measure(part, RunContext()).values[:, 0] for metric in (alone, with_file))
    assert not with_file.lower_is_better
    change = before - after
    assert change[0] < -0.1 and abs(change[1]) < abs(change[0])
