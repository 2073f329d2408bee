"""The wheels of both distributions as users get them: built, installed into an environment of their own, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
HIDDEN = ("capmeter", "_capmeter", "__editable__", "torch", "transformers")  # the library needs neither
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The library's wheel and that of research, built with what is at hand: nothing is downloaded."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("wheels")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT), str(ROOT / "research")]
    subprocess.run(command, check=True, capture_output=True)
    return [next(folder.glob("capmeter-*.whl")), next(folder.glob("capmeter_research-*.whl"))]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A fresh environment with the packages of this one, but without the project and without torch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    target = next((tmp_path / "venv").rglob("site-packages"))
    for folder in map(Path, sys.path):
        for package in folder.iterdir() if folder.name == "site-packages" else ():
            if (
                not package.name.startswith(HIDDEN)
                and package.suffix != ".pth"
                and not (target / package.name).exists()
            ):
                (target / package.name).symlink_to(package)
    return tmp_path / "venv"


def install(environment: Path, *wheels: Path) -> None:
    options = ["--quiet", "--no-index", "--no-deps", *map(str, wheels)]
    python = environment / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *options], check=True)


def run(environment: Path, *arguments: object, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """A command of the environment, in its folder."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(environment / "bin" / "capmeter"), *map(str, arguments)]
    done = subprocess.run(command, cwd=environment, env=variables, capture_output=True, text=True)
    assert done.returncode == expected, done.stderr
    return done


def test_the_library_alone_scores(environment: Path, wheels: list[Path]) -> None:
    install(environment, wheels[0])
    captions = [EXAMPLES / "strong.json", EXAMPLES / "weak.json"]
    references = ["--references", EXAMPLES / "references.json"]
    run(environment, "demo", "example")
    assert (environment / "example" / "scores.json").is_file()
    run(environment, "score", *captions, *references, "-m", "bleu-4,cider-d", "--output", "scores.json")
    run(environment, "report", "scores.json", "--output", "page.html")
    assert (environment / "page.html").read_text("utf-8").rstrip().endswith("</html>")
    assert "cider-d" in run(environment, "compare", *captions, *references, "-m", "cider-d").stdout
    run(environment, "chair", captions[0], *references)
    listed = json.loads(run(environment, "list", "--format", "json").stdout)
    assert {each["package"] for each in listed.values()} == {None}
    assert "pip install ./research" in run(environment, "train", "parser", expected=3).stderr
    score = ("score", captions[0], *references, "-m", "sparcs")
    assert "pip install ./research" in " ".join(run(environment, *score, expected=2).stderr.replace("│", " ").split())


def test_research_adds_its_metrics(environment: Path, wheels: list[Path]) -> None:
    install(environment, *wheels)
    done = run(
        environment,
        *("score", EXAMPLES / "weak.json", "--references", EXAMPLES / "references.json", "--format", "json"),
        *("--metrics", "sparcs,tbr-unigram,hwcm"),
    )
    scores = json.loads(done.stdout)["systems"]["weak"]["metrics"]
    assert all(0 < scores[name]["score"] < 1 for name in ("sparcs", "tbr-unigram", "hwcm"))
    run(environment, "study", "--help")
