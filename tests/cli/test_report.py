from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.page_examples import candidates


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "references.json").write_text(json.dumps({str(k): [text] for k, text in enumerate(candidates(8, 0))}))
    for name, shift in (("good", 0), ("bad", 3)):
        texts = {str(k): [text] for k, text in enumerate(candidates(8, shift))}
        (tmp_path / f"{name}.json").write_text(json.dumps(texts))


def test_from_captions_to_the_page(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    score = ("score", "good.json", "bad.json", "-r", "references.json", "-m", "bleu-1,rouge-l", "-o", "scores.json")
    assert run(*score)[0] == 0
    code, out, err = run("report", "scores.json", "-o", "page.html", "--title", "Good & bad")
    assert (code, out) == (0, "")
    assert "wrote page.html (0.1 MB): 16 captions, 16 of them explained" in err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Good &amp; bad</h1>" in page
    assert "capmeter score good.json bad.json -r references.json" in page
    assert "capmeter report scores.json -o page.html" in page
    assert "rouge-l|beta:1.2|tokenizer:" in page


def test_files_of_one_system_are_named(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for name in ("good", "bad"):
        assert (
            run("score", f"{name}.json", "-r", "references.json", "-m", "rouge-l", "-o", f"{name}-scores.json")[0] == 0
        )
    assert run("report", "A=good-scores.json", "bad-scores.json", "-o", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">A</bdi>" in page and ">bad</bdi>" in page
    code, _, err = run("report", "A=good-scores.json", "A=bad-scores.json")
    assert code == 1 and "two systems have the name 'A'" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "the file ends in the middle"),
        ("[1]", "not a results file"),
        ('{"metrics": {}}', "not a results file"),
        ('{"capmeter": "0", "schema": 1, "systems": {"a": {"metrics": {}}}}', "has no metrics"),
        (None, "no such file"),
    ],
)
def test_other_files_are_refused_with_a_sentence(run, tmp_path: Path, content: str | None, message: str) -> None:  # type: ignore[no-untyped-def]
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    code, _, err = run("report", "x.json")
    assert code == 1 and message in err.lower() and "Traceback" not in err


def test_a_page_that_cannot_be_written_is_refused_at_once(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "x.json").write_text("[]")  # no page can be made of it
    for page in ("nowhere/page.html", "."):
        code, out, err = run("report", "x.json", "-o", page)
        assert (code, out) == (1, "") and f"cannot write {page}" in err


def test_explain_in_the_terminal_and_as_json(run) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run("explain", "bad.json", "-r", "references.json", "-m", "rouge-l", "--worst", "2")
    assert code == 0 and out.count("reference  ") == 2 and "unmatched" in out
    assert out.startswith("2 of 8 captions by rouge-l, lowest first (higher is better)\n")
    code, out, _ = run("explain", "bad.json", "-r", "references.json", "-m", "rouge-l", "--best", "1", "-f", "json")
    assert [each["order"] for each in json.loads(out)] == ["rouge-l, highest first (higher is better)"]
    code, out, _ = run("explain", "good.json", "-r", "references.json", "-m", "rouge-l", "--id", "3", "-f", "json")
    (result,) = json.loads(out)
    assert code == 0 and result["id"] == "3" and result["scores"] == {"rouge-l": 1.0}


def test_explain_wants_to_know_which(run) -> None:  # type: ignore[no-untyped-def]
    for choice in ((), ("--worst", "1", "--id", "3")):
        code, _, err = run("explain", "bad.json", "-r", "references.json", *choice)
        assert code == 2 and "exactly one of" in err
    code, _, err = run("explain", "bad.json", "-r", "references.json", "--id", "99")
    assert code == 1 and "no caption with the id '99'" in err
