"""Packages that add metrics and transforms: installed for real, run by the command line, and broken in many ways."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import kendalltau

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "plugin"
PACKAGE = "capmeter-chrf-0.1.0"
REFERENCES = {
    "1": ["a dog runs on the grass", "the dog is running"],
    "2": ["two cats sleep", "cats sleeping on a sofa"],
    "3": ["a man rides a horse", "someone on a horse"],
}
CANDIDATES = {"1": "a dog runs", "2": "two cats", "3": "a tree"}


COMMAND_LINE = "from capmeter.cli.main import main; main()"


def run(path: Path, *arguments: object, code: str = COMMAND_LINE) -> subprocess.CompletedProcess[str]:
    """The command line, or another program, in a process of its own, which sees the packages in this folder."""
    paths = [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8")


def run_json(path: Path, *arguments: object) -> dict:
    """What the command prints as JSON."""
    done = run(path, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed by pip from a copy, with what is at hand: nothing is downloaded."""
    pytest.importorskip("setuptools", reason="the example's build backend is not installed")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source, dirs_exist_ok=True)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, capture_output=True)
    return target


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    candidates, references = tmp_path / "candidates.json", tmp_path / "references.json"
    candidates.write_text(json.dumps([{"image_id": id, "caption": text} for id, text in CANDIDATES.items()]))
    references.write_text(json.dumps(REFERENCES))
    return candidates, references


def chrf(candidate: str, reference: str, n: int, *, blanks: bool = False, beta: float = 2.0) -> float:
    """The definition, once more."""
    texts = [text if blanks else text.replace(" ", "") for text in (candidate, reference)]
    precisions, recalls = [], []
    for order in range(1, n + 1):
        a, b = (Counter(text[k : k + order] for k in range(len(text) - order + 1)) for text in texts)
        if a and b:
            common = sum(min(count, b[gram]) for gram, count in a.items())
            precisions.append(common / sum(a.values()))
            recalls.append(common / sum(b.values()))
    p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0


def test_example_is_short() -> None:
    assert len((EXAMPLE / "capmeter_chrf" / "__init__.py").read_text().splitlines()) <= 40


def test_example_scores(installed: Path, files: tuple[Path, Path]) -> None:
    candidates, references = files
    data = run_json(
        installed,
        "score",
        candidates,
        "-r",
        references,
        "-m",
        "chrf,chrf( n=2, blanks=true ),rouge-l,mean(chrf,rouge-l)",
    )
    data = data["systems"]["candidates"]
    assert list(data["metrics"]) == ["chrf", "chrf(n=2,blanks=true)", "rouge-l", "mean(chrf,rouge-l)"]
    for name, n, blanks in (("chrf", 6, False), ("chrf(n=2,blanks=true)", 2, True)):
        items = [max(chrf(CANDIDATES[id], text, n, blanks=blanks) for text in REFERENCES[id]) for id in CANDIDATES]
        result = data["metrics"][name]
        assert result["score"] == pytest.approx(sum(items) / 3, abs=1e-12)
        assert f"|n:{n}|blanks:{str(blanks).lower()}|beta:2.0|plugin:{PACKAGE}|capmeter:" in result["signature"]
    assert "plugin" not in data["metrics"]["rouge-l"]["signature"]
    both = data["metrics"]["mean(chrf,rouge-l)"]
    assert both["score"] == pytest.approx(sum(data["metrics"][name]["score"] for name in ("chrf", "rouge-l")) / 2)
    assert f"|plugin:{PACKAGE}|" in both["signature"]


def test_example_is_judged_by_people(installed: Path, tmp_path: Path) -> None:
    rows = [
        {"id": f"{id}{k}", "image_id": id, "candidate": text, "references": REFERENCES[id], "human": [rating]}
        for id in REFERENCES
        for k, (text, rating) in enumerate([(CANDIDATES[id], 2), (REFERENCES[id][0], 3), ("xyz", 1)])
    ]
    data = tmp_path / "rated.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = run_json(installed, "meta", "-b", "rated", "-d", data, "-m", "chrf(n=3),rouge-l", "--resamples", 20)
    result = {each["metric"]: each for each in report["results"]}
    scores = [max(chrf(row["candidate"], text, 3) for text in row["references"]) for row in rows]
    expected = 100 * kendalltau(scores, [row["human"][0] for row in rows]).statistic
    assert 50 < expected < 100
    assert result["chrf(n=3)"]["value"] == pytest.approx(expected, abs=1e-9)
    assert f"plugin:{PACKAGE}" in result["chrf(n=3)"]["signature"]


def test_example_notices_degradations(installed: Path, files: tuple[Path, Path]) -> None:
    strengths = ("--strengths", "0,1", "--resamples", 20)
    data = run_json(installed, "robustness", files[1], "-m", "chrf", "--degradations", "removal,wp", *strengths)
    assert [curve["metric"] for curve in data["curves"]] == ["chrf", "chrf"]
    removal, permutation = data["curves"]
    assert removal["scores"][0] == permutation["scores"][0] > removal["scores"][1]
    assert f"plugin:{PACKAGE}" in removal["signature"]


def test_example_explains(installed: Path, files: tuple[Path, Path]) -> None:
    done = run(installed, "explain", files[0], "-r", files[1], "-m", "chrf", "--id", "2", "--format", "json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["scores"]["chrf"] == pytest.approx(chrf("two cats", "two cats sleep", 6), abs=1e-12)
    evidence = result["evidence"]["chrf"]
    assert "".join(evidence["candidate"]) == "twocats"
    (link,) = evidence["links"]
    assert (link["candidate"], link["reference_index"], link["reference"]) == ([0, 7], 0, [0, 7])


def test_example_is_listed_and_its_mistakes_are_named(installed: Path, files: tuple[Path, Path]) -> None:
    assert run_json(installed, "list")["chrf"]["package"] == PACKAGE
    reference_values = run_json(installed, "list", "chrf")["parameters"]
    assert reference_values["n"] == {"type": "a whole number", "choices": [], "default": "6", "help": "longest n-gram"}
    assert reference_values["blanks"]["type"] == "true or false"
    assert run_json(installed, "doctor")["plug-in chrf"] == {"state": "ready", "detail": PACKAGE, "command": ""}
    done = run(installed, "score", files[0], "-r", files[1], "-m", "chrf(n=many)")
    outputs = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2
    assert f"chrf (from {PACKAGE}): n=many is not a whole number (its default is 6)" in outputs


def test_example_transforms_captions_and_has_a_command(installed: Path, files: tuple[Path, Path]) -> None:
    arguments = ("--degradations", "shout(marks=2),removal", "--strengths", "0,1", "--resamples", 20)
    data = run_json(installed, "robustness", files[1], "-m", "bleu-1", *arguments)
    examples = data["examples"]["shout(marks=2)"]
    assert examples[1] == examples[0].upper() + "!!"
    assert run_json(installed, "list", "transforms")["shout"]["package"] == PACKAGE
    help_text = run(installed, "robustness", "--help").stdout.replace("│", " ")
    assert "shout: captions in capitals" in " ".join(help_text.split())
    assert run(installed, "characters", files[0], "--top", 2).stdout == " \t4\na\t3\n"


KINDS = """
import json, sys
from pathlib import Path
from capmeter.core.assets import find_checkpoint, known_assets
from capmeter.core.checkpoints import Checkpoint
from capmeter.encoders.handle import find_encoder
from capmeter.images.regions import open_regions
from capmeter.meta.published import published

(folder,) = sys.argv[1:]
try:
    find_encoder("chrf-letters")
except Exception as error:
    advice = str(error)
(Path(folder) / "regions.json").write_text(json.dumps({"a.jpg": {"features": [[1, 2]], "boxes": [[0, 0, 1, 1]]}}))
print(json.dumps({
    "asset": known_assets()["chrf-letters"].licence,
    "advice": advice,
    "checkpoint": Checkpoint.read(find_checkpoint("chrf_mean")).parameters,
    "published": published("flickr8k-expert", "clipscore2021", "chrf").value,
    "regions": open_regions(folder).read("a.jpg").features.tolist(),
}))
"""


def test_example_adds_one_thing_of_each_kind(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "regions").mkdir()
    done = run(installed, tmp_path / "regions", code=KINDS)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert "hf download someone/chrf-letters" in results.pop("advice")
    assert results == {"asset": "MIT", "checkpoint": {"beta": 2.0}, "published": 35.1, "regions": [[1.0, 2.0]]}


def test_example_has_an_image_encoder_for_research(installed: Path) -> None:
    pytest.importorskip("capmeter_research", reason="needs capmeter-research")
    code = "from capmeter_research.common.image_features import *; print(parse_feature_source('mean-colour').SUMMARY)"
    done = run(installed, code=code)
    assert (done.returncode, done.stdout) == (0, "the mean of the pixels\n")


def test_example_registers_an_architecture(installed: Path) -> None:
    pytest.importorskip("transformers", reason="needs the neural extra")
    code = (
        "from capmeter.encoders.joint.encoder import register_model_type\n"
        "from transformers import AutoConfig\n"
        "print(register_model_type('chrf-letters'), AutoConfig.for_model('chrf-letters').model_type)"
    )
    done = run(installed, code=code)
    assert (done.returncode, done.stdout) == (0, "True chrf-letters\n")


BROKEN = {
    "absent": ("nowhere.at.all:Metric", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    "raises": ("raises_at_once:Metric", "cannot be imported: RuntimeError: out of luck"),
    "number": ("math:pi", "expected a Metric class"),
    "idle": ("odd_metrics:Idle", "the class Idle has no measure; define it"),
    "other": ("odd_metrics:Same", "its NAME is 'same'; class and entry point must agree"),
    "careless": ("odd_metrics:Careless", "Careless.n is not a field; decorate the class"),
    "unlucky": ("odd_metrics:Unlucky", "cannot create a metric from Unlucky: division by zero"),
    "cider-d": ("odd_metrics:Same", "the name is capmeter's own"),
    "twice": ("odd_metrics:Same", "is provided twice"),
}
ODD = """
from capmeter.evaluation.base import MeanMetric

class Idle(MeanMetric):
    NAME, SUMMARY = "idle", "nothing"

class Same(MeanMetric):
    NAME, SUMMARY, columns = "same", "all the same", ("score",)
    def measure(self, *_): ...

class Unlucky(Same):
    NAME = "unlucky"
    def __post_init__(self):
        1 / 0

class Careless(Same):
    NAME = "careless"
    n: int = 3
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages whose entry points are wrong, laid out as pip would."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "raises_at_once.py").write_text("raise RuntimeError('out of luck')")
    (folder / "odd_metrics.py").write_text(ODD)
    metrics = "".join(f"{name} = {target}\n" for name, (target, _) in BROKEN.items())
    metrics = f"[capmeter.metrics]\n{metrics}same = odd_metrics:Same\n"
    for package, points in (
        ("odd", f"{metrics}[capmeter.assets]\nodd = odd_metrics:Same\n"),
        ("second", "[capmeter.metrics]\ntwice = odd_metrics:Idle\n"),
    ):
        information = folder / f"{package}-1.5.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        (information / "entry_points.txt").write_text(points)
    return folder


def test_broken_packages_are_rows_and_harm_nobody(broken: Path, files: tuple[Path, Path]) -> None:
    listed, from_doctor = run_json(broken, "list"), run_json(broken, "doctor")
    table = run(broken, "list").stdout
    for name, (_, why) in BROKEN.items():
        state = from_doctor[f"plug-in {name}"]
        assert state["state"] == "not ready" and why in state["detail"], name
        assert "odd-1.5" in state["detail"], name
        if name != "cider-d":
            assert listed[name]["ready"] is False and why in listed[name]["why"], name
        assert any(
            "not ready" in line and re.search(rf"{name} \(from .*odd-1.5", line) for line in table.splitlines()
        ), name
    assert listed["same"]["package"] == "odd-1.5" and listed["same"]["ready"]
    assert from_doctor["assets odd"]["state"] == "not ready"
    done = run(broken, "score", files[0], "-r", files[1], "-m", "cider-d", "-f", "json")
    assert done.returncode == 0 and "plugin:" not in done.stdout
    done = run(broken, "score", files[0], "-r", files[1], "-m", "raises")
    assert done.returncode == 2 and "out of luck" in done.stderr and "Traceback" not in done.stderr
