"""The command `capmeter` itself: version, help, and commands of packages that are not installed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from support.command_line import capmeter

from capmeter import __version__
from capmeter.cli.main import COMMANDS, commands
from capmeter.core.registry import other_packages

RESEARCH_COMMANDS = other_packages()["capmeter-research"]["commands"]


def test_version_module_and_help() -> None:
    assert capmeter("--version").stdout == f"capmeter {__version__}\n"
    ran = subprocess.run([sys.executable, "-m", "capmeter", "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"capmeter {__version__}\n")
    text = capmeter("score", "--help").stdout
    assert "Examples" in text and "--per-caption" in text


@pytest.mark.parametrize("command", sorted(commands()))
def test_help_shows_whole_names_of_options_at_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = capmeter(command, "--help").stdout
    assert not re.findall(r"--[\w-]+…", text)


def test_help_of_score_fits_on_two_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(capmeter("score", "--help").stdout.splitlines()) <= 100


def test_help_shows_tags_of_html_and_comes_without_arguments() -> None:
    assert "<think>…</think>" in capmeter("score", "--help").stdout
    done = capmeter()
    assert done.returncode == 2 and "Usage: capmeter" in done.stdout + done.stderr


@pytest.mark.parametrize("command", RESEARCH_COMMANDS)
def test_a_command_of_a_package_that_is_not_installed_names_it(command: str) -> None:
    done = capmeter(command, "--help", added={})
    assert done.returncode == 3
    assert "part of capmeter-research" in done.stderr and "pip install ./research" in done.stderr


def test_help_lists_the_commands_that_are_installed() -> None:
    def listed(added: dict[str, str] | None) -> set[str]:
        lines = capmeter("--help", added=added).stdout.splitlines()
        return {line.strip("│| ").split(" ")[0] for line in lines} & {*COMMANDS, *RESEARCH_COMMANDS, "extra"}

    assert listed({}) == set(COMMANDS)
    assert listed({"extra": "capmeter.cli.schema"}) == {*COMMANDS, "extra"}
    assert listed(None) == set(commands())


def test_an_unknown_command_is_wrong_usage() -> None:
    done = capmeter("scored")
    assert done.returncode == 2 and "No such command 'scored'. Did you mean 'score'" in done.stderr


def test_a_closed_pipe_is_not_a_crash() -> None:
    command = [sys.executable, "-c", "from capmeter.cli.main import main; main()", "list", "-f", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait()
