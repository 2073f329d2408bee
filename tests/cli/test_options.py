"""Options that several commands share mean the same everywhere and fail with the same code."""

from __future__ import annotations

import importlib
import inspect
import subprocess
from collections.abc import Iterator
from typing import Optional, get_type_hints

import pytest
from commandline import capmeter

from capmeter.cli import options
from capmeter.cli.main import COMMANDS
from capmeter.cli.train.options import TrainingPrecision

SHARED = {"device": "Device", "precision": "Precision", "metrics": "Metrics", "plot": "Plots", "resamples": "Resamples"}
SHARED |= {"seed": "Seed", "level": "Level", "references_format": "ReferencesFormat", "split": "Split"}
OTHER_MEANING = {("metrics", "list list_names"), ("split", "world world")}
OTHER_MEANING |= {("precision", "train umic")}  # which goes by the device where none is named
SYSTEMS = ["examples/strong.json", "examples/weak.json", "--references", "examples/references.json"]


def functions() -> Iterator[tuple[str, object]]:
    """Every command's function, with its name."""
    for name, module in COMMANDS.items():
        app = importlib.import_module(module).app
        for each in app.registered_commands:
            yield f"{name} {each.callback.__name__}", each.callback


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_a_shared_option_is_the_shared_one(name: str, function: object) -> None:
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters:  # type: ignore[arg-type]
        if parameter in SHARED and not (name.startswith("idf") or (parameter, name) in OTHER_MEANING):
            judged = parameter == "metrics" and name.startswith("meta")  # which takes baselines, too
            shared = "JudgedMetrics" if judged else SHARED[parameter]
            trained = parameter == "precision" and name.startswith("train")
            expected = TrainingPrecision if trained else getattr(options, shared)
            # Python 3.10 makes a hint with the default None optional once more
            assert hints[parameter] in (expected, Optional[expected]), f"{name}: {parameter}"  # noqa: UP045


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    return capmeter(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", *SYSTEMS, "--metrics", "bleu-5"], "did you mean"),
        (["meta", "--metrics", "bleu-5"], "did you mean"),
        (["study", "ties", "a.json", "b.json", "--metrics", "bleu-5"], "did you mean"),
        (["compare", *SYSTEMS, "--plot", "x.gif"], "end the name in"),
        (["meta", "--plot", "x.gif"], "end the name in"),
        (["systems", "a.json", "--human", "b", "--plot", "x.gif"], "end the name in"),
        (["score", *SYSTEMS, "--format", "xml"], "is not one of table, json"),
        (["calibrate", "a.json", "--format", "xml"], "is not one of table, json"),
        (["score", *SYSTEMS, "--on-missing", "drop"], "is not one of error, skip, keep"),
        (["score", *SYSTEMS, "--precision", "int8"], "is not one of float32, half"),
        (["validate", "a.json", "--input-format", "yaml"], "is not one of jsonl"),
    ],
)
def test_a_wrong_value_is_a_mistake_in_calling(arguments: list[str], message: str) -> None:
    done = called(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", [[], ["score"], ["study", "ties"]])
def test_short_help(command: list[str]) -> None:
    done = called(*command, "-h")
    assert done.returncode == 0 and "Usage: capmeter" in done.stdout


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_what_reads_captions_takes_other_columns(name: str, function: object) -> None:
    given = inspect.signature(function).parameters  # type: ignore[arg-type]
    corpora = name.startswith(("train", "write"))  # which read photos with captions, by source
    if {"references", "captions", "candidates"} & set(given) and not corpora:
        assert "column" in given, f"{name} has no --column"


@pytest.mark.parametrize("command", ["score", "compare", "explain"])
def test_a_device_that_is_none_is_named_though_no_metric_needs_one(command: str) -> None:
    chosen = ["--id", "1"] if command == "explain" else []
    systems = SYSTEMS if command == "compare" else SYSTEMS[:1] + SYSTEMS[2:]
    done = called(command, *systems, *chosen, "--metrics", "bleu-1", "--device", "toaster")
    assert done.returncode == 1
    assert "device: expected auto, cpu, cuda, cuda:1 or mps, but got 'toaster'" in done.stderr
