"""Evaluation frameworks in environments of their own, and two hundred captions to run them on.

The environment variable CAPMETER_FRAMEWORKS names a folder of virtual environments, made by `.ci/frameworks`:
`lmms-eval`, `inspect-ai`, `ms-vlmeval`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import capmeter
from support.thousand_captions import thousand

ROOT = Path(__file__).resolve().parents[2]
COCO_METRICS = "bleu-1,bleu-2,bleu-3,bleu-4,meteor,rouge-l,cider-d"


def framework_python(package: str, module: str) -> str:
    """The interpreter that has this framework; the test is skipped if there is none."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    folder = os.environ.get("CAPMETER_FRAMEWORKS")
    python = Path(folder or "", package, "bin", "python")
    if not folder or not python.exists():
        pytest.skip(f"needs {package} in an environment below CAPMETER_FRAMEWORKS (.ci/frameworks makes them)")
    return str(python)


def run_framework(python: str, *arguments: str, folder: Path, check: bool = True, **environment: str) -> str:
    """Runs the framework with this capmeter, without a network and without Java; returns what it printed."""
    variables = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    variables |= {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]), "HF_HUB_OFFLINE": "1"}
    variables |= {"PATH": str(folder / "bin"), "HF_HOME": str(folder / "hf"), "HOME": str(folder)}
    variables |= {"HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **environment}
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def two_hundred() -> list[dict[str, Any]]:
    """Rows of candidate and references, with the raw capitals and punctuation of people."""
    candidates, references, ids = thousand()
    rows = []
    for candidate, texts, id in list(zip(candidates, references, ids, strict=True))[20:220]:
        sentences = [text[:1].upper() + text[1:] + "." for text in texts]
        rows.append({"image_id": id, "candidate": candidate.capitalize() + ".", "references": sentences})
    return rows


def expected_scores(rows: list[dict[str, Any]], metrics: str = COCO_METRICS) -> capmeter.Results:
    return capmeter.score(capmeter.load(rows), metrics)
