"""Options that several commands share mean the same everywhere and fail with the same code."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import capmeter
from support.research import needs_research
from typer.main import get_command

from capmeter.cli.main import app, commands

SHARED = ("--device", "--seed", "--resamples", "--level", "--column", "--plot", "--regions", "--digits")
SHARED += ("--scale", "--input-format", "--references-format", "--threads")  # type: ignore[assignment]
SYSTEMS = ["examples/strong.json", "examples/weak.json", "--references", "examples/references.json"]


def leaves(command: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that has no commands in it, with its name."""
    command = get_command(app) if command is None else command
    context = command.context_class(command)
    if hasattr(command, "list_commands"):
        for part in command.list_commands(context):
            yield from leaves(command.get_command(context, part), f"{name} {part}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves())


@needs_research
def test_there_are_options_of_all_commands() -> None:
    assert {name.split()[0] for name in COMMANDS} == set(commands())
    assert sum(len(command.params) for command in COMMANDS.values()) > 300


@needs_research
@pytest.mark.parametrize("flag", SHARED)
def test_a_shared_option_means_the_same_everywhere(flag: str) -> None:
    meanings = defaultdict(list)
    for name, command in COMMANDS.items():
        for each in command.params:
            if flag in each.opts:
                meanings[each.help.partition(" (default")[0].rstrip(".")].append(name)
    assert len(meanings) == 1, dict(meanings)


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    return capmeter(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", *SYSTEMS, "--metrics", "bleu-5"], "did you mean"),
        (["meta", "--metrics", "bleu-5"], "did you mean"),
        (["compare", *SYSTEMS, "--plot", "x.gif"], "end the name in"),
        (["meta", "--plot", "x.gif"], "end the name in"),
        pytest.param(["systems", "a.json", "--human", "b", "--plot", "x.gif"], "end the name in", marks=needs_research),
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


@pytest.mark.parametrize("command", [[], ["score"], pytest.param(["study", "degradation"], marks=needs_research)])
def test_short_help(command: list[str]) -> None:
    done = called(*command, "-h")
    assert done.returncode == 0 and "Usage: capmeter" in done.stdout


@pytest.mark.parametrize(("name", "command"), list(COMMANDS.items()))
def test_what_reads_captions_takes_other_columns(name: str, command: Any) -> None:
    parameters = {each.name for each in command.params}
    corpora = name.startswith(("train", "write", "study leic"))  # which read photos with captions, by source
    if {"references", "captions", "candidates"} & parameters and not corpora:
        assert "column" in parameters, f"{name} has no --column"


@pytest.mark.parametrize("command", ["score", "compare", "explain"])
def test_a_device_that_is_none_is_named_though_no_metric_needs_one(command: str) -> None:
    selection = ["--id", "1"] if command == "explain" else []
    systems = SYSTEMS if command == "compare" else SYSTEMS[:1] + SYSTEMS[2:]
    done = called(command, *systems, *selection, "--metrics", "bleu-1", "--device", "toaster")
    assert done.returncode == 1
    assert "device: expected auto, cpu, cuda, cuda:1 or mps, but got 'toaster'" in done.stderr


def written_files() -> list[Any]:
    """Each command with each of its options that names a file to write."""
    flags = ("--plot", "--per-caption", "--export")
    return [
        pytest.param(name, command.params, option.opts[0], id=f"{name} {option.opts[0]}")
        for name, command in leaves()
        for option in command.params
        if option.opts[0] in flags and not option.is_flag
    ]


@pytest.mark.parametrize(("name", "parameters", "flag"), written_files())
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    name: str, parameters: list[Any], flag: str, tmp_path: Path
) -> None:
    (tmp_path / "input.json").write_text("[]")  # which no work can begin with
    words = []
    for parameter in parameters:
        if parameter.required or parameter.name in ("benchmark", "data", "candidates"):
            value = "rated=input.json" if "=" in str(parameter.metavar) else "input.json"
            words += [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]
    done = capmeter(*name.split(), *words, flag, f"nowhere/a{'.png' if flag == '--plot' else '.csv'}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "there is no folder nowhere" in done.stderr, done.stderr
