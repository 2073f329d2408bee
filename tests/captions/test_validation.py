"""What `examine` finds in good, doubtful and bad captions."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path
from typing import Any

import pytest

from capmeter.captions.validation import examine
from capmeter.captions.writing import convert
from capmeter.core.errors import InputError

SUBJECTS = ["dog", "cat", "girl", "boy", "bus", "train", "horse", "bird", "man", "woman", "chef", "clown"]
PLACES = ["beach", "street", "kitchen", "park", "river", "forest", "stage", "roof", "field", "boat", "bridge", "yard"]
CANDIDATES = {str(k): f"a {SUBJECTS[k % 7]} in the {PLACES[k % 11]}" for k in range(24)}
REFERENCES = {
    key: [f"the {text.split()[1]} stays {text[text.index(' in ') + 1 :]}", "somewhere"]
    for key, text in CANDIDATES.items()
}


def test_good_captions() -> None:
    findings = examine(CANDIDATES, REFERENCES)
    assert findings.ok
    assert findings.warnings == []
    assert findings.facts == {
        "format": "clipscore",
        "references format": "pycocoevalcap",
        "holds": "candidates and references",
        "captions": 24,
        "images": 24,
        "references": 48,
        "references per caption": {"min": 2, "median": 2, "max": 2},
        "distinct candidates": len(set(CANDIDATES.values())),
        "empty candidates": 0,
        "candidates that end in a function word": 0,
        "words per candidate": 5.0,
        "words per reference": 3.5,
        "length ratio": 1.429,
        "candidate words that occur in references": round((7 + 11 + 2) / (7 + 11 + 3), 3),
        "words found in own references": 0.8,
        "words found in another image's references": pytest.approx(0.45, abs=0.1),
    }


def test_references_of_other_images_are_noticed() -> None:
    keys = list(REFERENCES)
    shifted = {key: REFERENCES[keys[(k + 5) % len(keys)]] for k, key in enumerate(keys)}
    (warning,) = examine(CANDIDATES, shifted).warnings
    assert "the references belong to other images, or are in another order" in warning


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"3": "", "4": " "}, "empty candidates, which get the lowest score: 2 (3, 4)"),
        (
            {"3": "a bird <eos>"},
            "special tokens such as <eos>, which would be scored as words: in 1 of the candidates (3)",
        ),
        ({"3": "startseq a bird endseq"}, "special tokens"),
        ({"3": "a\0bird"}, "control or replacement characters: in 1 of the candidates (3)"),
        ({"3": "a bird " * 200}, "texts longer than 1,000 characters: in 1 of the candidates (3)"),
        (
            {"3": "a bird with a", "4": "a cat sits on the."},
            "candidates that end in a function word, as truncated captions do: 2 of 24 "
            '(3 "… a bird with a", 4 "… cat sits on the.")',
        ),
        ({str(k): "a dog" for k in range(6)}, '6 of 24 candidates are the same: "a dog"'),
    ],
)
def test_doubtful_candidates(change: dict[str, str], expected: str) -> None:
    findings = examine({**CANDIDATES, **change}, REFERENCES)
    assert findings.ok
    assert any(expected in warning for warning in findings.warnings), findings.warnings


def test_truncated_captions_are_counted_by_system() -> None:
    rows = [
        {"image_id": str(k), "system": system, "candidate": text, "references": ["a room with a bed and a tv"]}
        for k in range(4)
        for system, text in (("cut", "a room with a bed and a tv in a"), ("whole", "a room with a bed"))
    ]
    findings = examine(rows)
    assert findings.facts["candidates that end in a function word"] == {"cut": 4, "whole": 0}
    (warning,) = (each for each in findings.warnings if "function word" in each)
    assert warning.startswith("candidates of cut that end in a function word, as truncated captions do: 4 of 4 (")
    assert '"… a tv in a"' in warning and warning.endswith("and 1 more)")


def test_repeated_candidates_and_unused_references() -> None:
    findings = examine({"7": ["a", "a"], "8": ["b"]}, {"7": ["a", "c"], "8": ["c"], "9": ["d"]})
    assert findings.ok
    assert findings.warnings == [
        "images with references but no candidate: 1 (9)",
        "candidates that repeat an earlier one of the same image, as padded data loaders produce: 1 (7#1)",
        "candidate is one of its own references: 2 (7#0, 7#1)",
    ]


def test_candidates_among_their_references_without_some_and_alone() -> None:
    references = {key: [*texts, CANDIDATES[key]] if key in ("2", "5") else texts for key, texts in REFERENCES.items()}
    (warning,) = examine(CANDIDATES, references).warnings
    assert warning == "candidate is one of its own references: 2 (2, 5)"
    findings = examine({"7": "a", "8": "b"}, {"7": ["a"]})
    assert findings.problems == ["candidates without references: 1 of 2 (8)"]
    assert not findings.ok
    findings = examine(CANDIDATES)
    assert findings.ok
    assert findings.facts["references"] == "none; name a file: --references"


def test_references_alone() -> None:
    rows: list[dict[str, Any]] = [
        {"image_id": "7", "references": ["a", " "], "split": "train"},
        {"image_id": "8", "references": [], "split": "test", "licence": 3},
    ]
    findings = examine(rows)
    assert findings.facts == {
        "format": "json",
        "holds": "references",
        "images": 2,
        "splits": {"train": 1, "test": 1},
        "references": 2,
        "references per caption": {"min": 0, "median": 1.0, "max": 2},
        "fields not used": ["licence"],
    }
    assert findings.warnings == ["images without a reference: 1 (8)", "images with an empty reference: 1 (7)"]
    assert examine(rows, split="train").facts["images"] == 1


def test_images_matched_by_another_name() -> None:
    findings = examine({"7.jpg": "a"}, {"7": ["a"]})
    assert findings.facts["images matched by"] == "file name without its ending"


def test_a_mistake_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"1": 3}))
    assert examine(path).problems == [
        f"{path}, key '1': the value is the number 3, expected a caption as text; correct or leave out the row"
    ]
    assert "there is no such file" in examine(tmp_path / "none").problems[0]
    assert "swapped" in examine({"annotations": [{"image_id": 1, "caption": "a"}]}, {"1": ["a"]}).problems[0]


def test_real_files(shared: Path) -> None:
    findings = examine(shared / "data" / "coco_val2014_mrnn.jsonl.gz")
    assert (findings.ok, findings.warnings) == (True, [])
    assert findings.facts["captions"] == 1000
    assert (
        findings.facts["words found in own references"]
        > 1.5 * findings.facts["words found in another image's references"]
    )


@pytest.mark.parametrize("candidate", [None, 3, ["a dog", "a cat"]])
def test_a_bad_first_candidate_does_not_make_a_file_of_references(tmp_path: Path, candidate: Any) -> None:
    path = tmp_path / "x.jsonl"
    rows = [
        {"image_id": "1", "candidate": candidate, "references": ["the dog"]},
        {"image_id": "2", "candidate": "a cat", "references": ["the cat"]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    (problem,) = examine(path).problems
    assert problem.startswith(f"{path}, line 1: candidate is ")
    with pytest.raises(InputError, match="line 1: candidate is "):
        convert(path, tmp_path / "y.jsonl", to="jsonl")
    assert not (tmp_path / "y.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "head", "line", "most"), [("lines.txt", "", "a\n", 30), ("rows.csv", "image_id,caption\n", "1,a\n", 80)]
)
def test_short_captions_cost_a_bounded_number_of_calls(
    tmp_path: Path, name: str, head: str, line: str, most: int
) -> None:
    """A megabyte may be half a million captions: what is equal in all of them is looked at once."""
    path, count = tmp_path / name, 5000
    path.write_text(head + line * count)
    examine(path)  # imports
    profile = cProfile.Profile()
    findings = profile.runcall(examine, path)
    calls = sum(entry.callcount for entry in profile.getstats())
    assert findings.facts["captions"] == count and calls < most * count
