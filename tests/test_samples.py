"""Python samples of the pages that show no output: each runs, on files and objects of the names that it uses.

Samples with output (`>>>`) are run by `test_docs`, those of docs/tasks.md by `test_tasks`.
"""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import capmeter

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/compare.md", "docs/robustness.md", "research/docs/writer.md")
NEEDS_TORCH = ("docs/robustness.md", "research/docs/writer.md")
ELSEWHERE = {
    "docs/adapters.md": "tests/integrations/test_transformers.py",
    "docs/audio.md": "tests/integrations/test_aac_metrics.py",
    "docs/frameworks.md": "tests/integrations/test_inspect_ai.py",
    "docs/hallucination.md": "tests/test_samples.py",  # below
    "docs/tasks.md": "tests/test_tasks.py",
}


def samples(page: str) -> list[str]:
    """The page's blocks of Python that are no session."""
    blocks = re.findall(r"(?ms)^```python[^\n]*\n(.*?)^```$", (ROOT / page).read_text("utf-8"))
    return [block for block in blocks if not block.startswith(">>>")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example captions under the names that pages use; the first image is 391895."""
    for name, source in (("results", "strong"), ("captions_val2014", "references"), ("captions", "references")):
        text = (ROOT / "examples" / f"{source}.json").read_text("utf-8")
        first = json.loads(text)[0]["image_id"] if source == "strong" else json.loads(text)["images"][0]["id"]
        text = re.sub(rf'("(?:image_)?id": ){first}\b', r"\g<1>391895", text)
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names() -> dict[str, Any]:
    """What samples take for granted."""
    load = {
        system: capmeter.load(ROOT / "examples" / f"{system}.json", ROOT / "examples" / "references.json")
        for system in ("strong", "weak")
    }
    return {"capmeter": capmeter, **load}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.neural] if page in NEEDS_TORCH else []) for page in PAGES]
)
def test_samples_run(page: str, folder: Path) -> None:
    if page in NEEDS_TORCH:
        pytest.importorskip("torch", reason="needs torch")
    expected_names = names()
    if page == "README.md":
        pytest.importorskip("pandas", reason="needs pandas")
        pytest.importorskip("pycocoevalcap", reason="needs METEOR's tables")
    result = samples(page)
    assert result
    for sample in result:
        exec(compile(sample, page, "exec"), expected_names)


def test_a_cached_chair_evaluator_becomes_a_file_of_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evaluator = SimpleNamespace(imid_to_objects={391895: {"person", "bicycle"}})
    Path("chair.pkl").write_bytes(pickle.dumps(evaluator))
    (sample,) = samples("docs/hallucination.md")
    exec(compile(sample, "docs/hallucination.md", "exec"), {})
    assert json.loads(Path("objects.json").read_text("utf-8")) == {"391895": ["bicycle", "person"]}
    captions = capmeter.CaptionSet.from_captions([capmeter.Caption("1", "391895", "a dog on a bicycle", ())])
    scores = capmeter.score(captions, "chair(objects=objects.json,references=false)")
    assert next(iter(scores.values())).score == 0.5


def test_no_page_has_a_sample_that_nothing_runs() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "research" / "docs").glob("*.md")]
    with_samples = {str(page.relative_to(ROOT)) for page in pages if samples(str(page.relative_to(ROOT)))}
    assert with_samples == {*PAGES, *ELSEWHERE}
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())
