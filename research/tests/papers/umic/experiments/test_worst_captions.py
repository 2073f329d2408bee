"""The worst-rated captions by type of error: which they are, what their words suggest, and a person's labels."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from capmeter_research.papers.umic.experiments.worst_captions import (
    error_table,
    read_error_sheet,
    suggest_type,
    worst_captions,
    write_error_sheet,
)

from capmeter.cli.main import main
from capmeter.core.errors import InputError

REFERENCES = ["A brown dog runs in the park.", "The dog is running on grass."]
RATED = [
    ("Two cats sleep on a bed.", [1, 1, 1]),  # no word in common
    ("a dog is running in the park on a on a on a", [1, 1, 2]),  # breaks off and repeats itself
    ("A black dog runs in the park.", [1, 2, 2]),  # one keyword is wrong
    ("The dogs ran.", [1, 1, 1]),  # dogs: the stem of dog
    ("A brown dog runs.", [4, 4, 4]),
]


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    path = tmp_path / "rated.jsonl"
    rows = [
        {"id": f"c{k}", "image_id": f"i{k}", "candidate": text, "references": REFERENCES, "human": ratings}
        for k, (text, ratings) in enumerate(RATED)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_words_suggest() -> None:
    assert suggest_type("Two cats sleep on a bed.", REFERENCES, error=0.99) == "irrelevant"  # whatever its grammar
    assert suggest_type("the is a", REFERENCES, error=0.0) == "irrelevant"  # no content word at all
    assert suggest_type("The dogs ran.", REFERENCES, error=0.9) == "keywords"
    assert suggest_type("The dogs ran.", REFERENCES, error=0.91) == "grammar"


def test_the_lowest_ratings_first(rated: Path) -> None:
    result = worst_captions("rated", str(rated), 4)
    assert {each.id for each in result[:2]} == {"c0", "c3"} and [each.id for each in result[2:]] == ["c1", "c2"]
    assert [each.rating for each in result] == pytest.approx([1, 1, 4 / 3, 5 / 3])
    suggested = {each.id: each.suggested for each in result}
    assert suggested == {"c0": "irrelevant", "c1": "grammar", "c2": "keywords", "c3": "keywords"}
    assert result == worst_captions("rated", str(rated), 4)
    orders = {tuple(each.id for each in worst_captions("rated", str(rated), 2, seed=seed)) for seed in range(8)}
    assert orders == {("c0", "c3"), ("c3", "c0")}, "the seed orders equal ratings"


def test_a_persons_labels_are_counted_beside(rated: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "errors.csv"
    result = worst_captions("rated", str(rated), 4)
    write_error_sheet(result, sheet)
    assert read_error_sheet(sheet) == {}
    lines = sheet.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,image_id,rating,candidate,references,suggested,type" and lines[1].endswith(",")
    labels = {"c0": "Irrelevant", "c1": "keywords", "c2": "keywords"}
    sheet.write_text("\n".join([lines[0], *(line + labels.get(line[:2], "") for line in lines[1:])]), encoding="utf-8")
    assert read_error_sheet(sheet) == {"c0": "irrelevant", "c1": "keywords", "c2": "keywords"}
    sheet.write_text(f"{lines[0]}\n{lines[1]}colour\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"errors\.csv, row 2: unknown type 'colour'; expected keywords, irrelevant"):
        read_error_sheet(sheet)
    sheet.write_text("id,kind\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no column 'type'; expected what `study errors --sheet` writes"):
        read_error_sheet(sheet)


def test_the_command(
    rated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capmeter", "study", "errors", f"rated={rated}", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        return (int(leaving.value.code or 0), *capsys.readouterr())

    sheet = tmp_path / "errors.csv"
    code, out, err = run("--number", "4", "--sheet", str(sheet), "-f", "json")
    assert code == 0 and "write keywords, irrelevant or grammar into the column type" in " ".join(err.split())
    result = json.loads(out)
    assert result["suggested"] == {"keywords": 2, "irrelevant": 1, "grammar": 1} and len(result["captions"]) == 4
    text = sheet.read_text(encoding="utf-8").replace(",irrelevant,", ",irrelevant,irrelevant")
    sheet.write_text(text.replace(",grammar,", ",grammar,keywords"), encoding="utf-8")
    code, out, err = run("--number", "4", "--labelled", str(sheet), "-f", "csv")
    assert code == 0, err
    cells = [line.split(",") for line in out.splitlines()]
    counts = {row[0]: row[-4:-1] for row in cells[1:]}
    assert counts == {"keywords": ["2", "1", "0"], "irrelevant": ["1", "1", "1"], "grammar": ["1", "0", "0"]}
    code, out, err = run("--number", "1", "--labelled", str(sheet))
    assert code == 1 and "not among the 1 worst-rated captions" in " ".join(err.split())
    code, out, err = run("--protocol", "no-such")
    assert code == 1 and "no-such" in err


def test_benchmarks_without_rated_captions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    row = {"image_id": "1", "candidate_a": "a", "candidate_b": "b", "references": ["a"], "correct": "a"}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="pairs: has pairs, expected a benchmark of rated captions"):
        worst_captions("pairs", str(path), 3)


def test_an_empty_table_has_no_example() -> None:
    assert [row[-1] for row in error_table([]).rows] == ["-"] * 3
