"""Completion in the shells themselves, and that it loads no more than it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.research import needs_research

from capmeter.cli.main import commands
from capmeter.cli.options import complete_metrics
from capmeter.report.tables import FORMATS

PROGRAM = "from capmeter.cli.main import main; main()"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path on which `capmeter` is this checkout's."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "capmeter"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def said(command: list[str], path: str, **more: str) -> list[str]:
    environment = {**os.environ, "PATH": path, "TERM": "dumb", **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.split()


def needs(shell: str) -> str:
    location = shutil.which(shell)
    if location is None:
        pytest.skip(f"needs {shell}")
    return location


@needs_research
def test_bash(path: str) -> None:
    bash = needs("bash")
    script = "\n".join(
        [
            'eval "$(_CAPMETER_COMPLETE=source_bash capmeter)"',
            "complete -p capmeter",
            "COMP_WORDS=(capmeter sc) COMP_CWORD=1; _capmeter_completion capmeter; echo commands ${COMPREPLY[@]}",
            "COMP_WORDS=(capmeter score -m bleu-4,cid) COMP_CWORD=3; _capmeter_completion capmeter",
            "echo metrics ${COMPREPLY[@]}",
        ]
    )
    words = said([bash, "--norc", "-c", script], path)
    assert "_capmeter_completion" in words
    assert words[words.index("commands") + 1 : words.index("metrics")] == ["score", "schema", "scenes"]
    assert words[words.index("metrics") + 1 :] == ["bleu-4,cider", "bleu-4,cider-d", "bleu-4,cider-r"]


def test_fish(path: str, tmp_path: Path) -> None:
    fish = needs("fish")
    script = 'env _CAPMETER_COMPLETE=source_fish capmeter | source; complete -C"capmeter score --format "'
    words = said([fish, "--no-config", "-c", script], path, HOME=str(tmp_path))
    assert words == sorted(FORMATS)


def test_zsh(path: str, tmp_path: Path) -> None:
    zsh = needs("zsh")
    script = "\n".join(
        [
            "autoload -Uz compinit && compinit -u -D",
            'eval "$(_CAPMETER_COMPLETE=source_zsh capmeter)"',
            "echo function ${_comps[capmeter]}",
            "_arguments() { print -r -- $@ }",  # what the completion would offer
            'words=(capmeter "scor"); CURRENT=2; _capmeter_completion',
        ]
    )
    display = " ".join(said([zsh, "-f", "-c", script], path, HOME=str(tmp_path), ZDOTDIR=str(tmp_path)))
    assert "function _capmeter_completion" in display and '"score"' in display


def test_commands_complete_without_being_loaded() -> None:
    code = "\n".join(
        [
            "import os, sys",
            "os.environ |= {'_CAPMETER_COMPLETE': 'complete_bash', 'COMP_WORDS': 'capmeter ', 'COMP_CWORD': '1'}",
            "from capmeter.cli.main import main",
            "try: main()",
            "except SystemExit: pass",
            "print(sorted({'numpy', 'scipy', 'torch', 'capmeter.cli.score'} & set(sys.modules)))",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*commands(), "[]"]


def test_metrics_complete_one_after_the_other() -> None:
    assert complete_metrics("ci") == ["cider", "cider-d", "cider-r"]
    assert complete_metrics("cider-d,spi") == ["cider-d,spice", "cider-d,spider", "cider-d,spider-fl"]
    assert complete_metrics("cider,ci") == ["cider,cider-d", "cider,cider-r"]
    assert complete_metrics("zzz") == []
