"""Values of options that are taken as they are are those that Typer makes of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import capmeter
from typer.exceptions import TyperException
from typer.main import get_command

from capmeter.cli.main import app


def parameters(command: Any = None, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every parameter of every command: its name with the command's, the parameter, and a context of the command."""
    command = get_command(app) if command is None else command
    context = command.context_class(command)
    for each in command.get_params(context):
        yield f"{name} {each.name}", each, context
    if hasattr(command, "list_commands"):
        for part in command.list_commands(context):
            yield from parameters(command.get_command(context, part), f"{name} {part}")


EVERY = list(parameters())


def same(parameter: Any, context: Any, value: Any) -> bool:
    """Whether a value becomes what Typer makes of it, or fails as it does there."""
    found = []
    for process in (parameter.process_value, type(parameter).process_value.__get__(parameter)):
        try:
            made = process(context, value)
            found.append((type(made), list(made) if isinstance(made, tuple) else made))
        except TyperException as problem:
            found.append((type(problem), str(problem)))
    if found[0][0] in (list, tuple):  # the command gets a list in both cases
        found = [(list, made) for _, made in found]
    return found[0] == found[1]


def test_there_are_parameters_of_all_commands() -> None:
    assert len(EVERY) > 300 and len({name.split()[0] for name, _, _ in EVERY if name.count(" ") > 1}) > 20


def test_defaults_are_what_typer_makes_of_them() -> None:
    differ = [name for name, each, context in EVERY if not same(each, context, each.get_default(context))]
    assert not differ


@pytest.mark.parametrize("text", ["", "bleu-4", "3", "-0.5", __file__])
def test_texts_are_what_typer_makes_of_them(text: str) -> None:
    skipped = ("help", "install_completion", "show_completion")  # which leave, or write into the user's shell
    for name, each, context in EVERY:
        if each.name not in skipped:
            value = [text, text] if each.multiple else (text, text) if each.nargs == -1 else text
            assert same(each, context, value), name


def test_a_small_run_loads_neither_pydantic_nor_rich(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['capmeter', *sys.argv[1:]]; from capmeter.cli.main import main\n"
    code += "try: main()\nexcept SystemExit: pass\nprint(*sorted(sys.modules), file=sys.stderr)"
    files = ["examples/strong.json", "--references", "examples/references.json", "--output", str(tmp_path / "o.json")]
    command = [sys.executable, "-c", code, "score", *files, "--metrics", "bleu-4,rouge-l,cider-d"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert {"capmeter.metrics.cider", "typer"} <= loaded
    assert not loaded & {"pydantic", "pydantic_core", "rich.console", "rich.progress", "pandas", "pyarrow", "torch"}
    assert "cider-d" in done.stdout and (tmp_path / "o.json").is_file()


def test_a_missing_folder_is_still_a_mistake() -> None:
    done = capmeter("score", "examples/strong.json", "--images-root", "nowhere")
    assert done.returncode == 2 and "does not exist" in done.stderr.replace("│", " ")
