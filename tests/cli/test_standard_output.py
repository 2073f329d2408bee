"""Standard output that is closed or full, and text that would steer a terminal: one line, and the right exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from capmeter.cli.main import commands
from capmeter.evaluation.registry import METRICS
from capmeter.evaluation.runner import score

REFERENCES = {"1": ["a dog runs on the grass"], "2": ["two cats sleep"]}
COMMANDS = {
    "score": "score a.json -r r.json -m rouge-l",
    "score json": "score a.json -r r.json -m rouge-l -f json",
    "compare": "compare a.json b=a.json -r r.json -m rouge-l --permutations 100 --resamples 20",
    "robustness": "robustness r2.json -m rouge-l --images 2 --resamples 20",
    "report": "report s.json -f table --resamples 20",
    "explain": "explain a.json -r r.json -m rouge-l --worst 1",
    "validate": "validate a.json -r r.json",
    "convert": "convert a.json new.jsonl --references r.json",
    "meta": "meta --list",
    "list": "list",
    "doctor": "doctor",
    "schema": "schema",
    "help": "--help",
    "help of a command": "score --help",
    "version": "--version",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.json").write_text(json.dumps({"1": ["a dog runs"], "2": ["two cats"]}))
    (tmp_path / "r.json").write_text(json.dumps(REFERENCES))
    (tmp_path / "r2.json").write_text(json.dumps({key: [*texts, "a man sits"] for key, texts in REFERENCES.items()}))
    score(tmp_path / "a.json", "rouge-l", references=tmp_path / "r.json").save(tmp_path / "s.json")
    return tmp_path


# every command in one process, each with its own standard output; a process for each would take minutes
_RUN = """
import json, os, sys
from capmeter.cli.main import main
found = {}
for name, command in json.loads(sys.argv[1]).items():
    sys.argv = ["capmeter", *command.split()]
    if MODE == "full":
        sys.stdout = open("/dev/full", "w")
    elif MODE == "closed":
        reading, writing = os.pipe()
        os.close(reading)
        sys.stdout = os.fdopen(writing, "w")
    else:
        sys.stdout = None
    print("@" + name, file=sys.stderr, flush=True)
    try:
        main()
    except SystemExit as leaving:
        print(f"code {leaving.code}", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("full", "standard output cannot be written (No space left on device)"),
        ("closed", "standard output was closed before everything was printed"),
        ("absent", "standard output was closed before everything was printed"),
    ],
)
def test_every_command_says_in_one_line_that_nobody_reads(folder: Path, mode: str, said: str) -> None:
    if mode == "full" and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code = _RUN.replace("MODE", repr(mode))
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(COMMANDS)], cwd=folder, capture_output=True, text=True
    )
    runs = dict(part.split("\n", 1) for part in done.stderr.split("@")[1:] if part.partition("\n")[0] in COMMANDS)
    assert list(runs) == list(COMMANDS), done.stderr
    for name, err in runs.items():
        remaining = filter(None, err.splitlines())  # older versions of rich end a bar with a blank line
        lines = [line for line in remaining if not line.startswith(("capmeter: signature", "capmeter: note"))]
        assert lines == [f"capmeter: error: {said}", "code 1"], name
    assert done.returncode == 0 and "Traceback" not in done.stderr


@pytest.mark.parametrize("redirect", ["> /dev/full", "| true", ">&-"])
def test_the_process_leaves_with_code_1_and_one_line(folder: Path, redirect: str) -> None:
    if "full" in redirect and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = f'{sys.executable} -c "from capmeter.cli.main import main; main()" list -f json'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; (sleep 0.2; {command}) {redirect}"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("capmeter: error: standard output")


def terminal(folder: Path, *arguments: str, columns: int = 80) -> tuple[int, str]:
    """What a person at a terminal sees."""
    ours, other_values = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from capmeter.cli.main import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "dumb"},
        stdout=other_values,
        stderr=other_values,
        stdin=subprocess.DEVNULL,
    )
    os.close(other_values)
    visits = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        visits += part
    os.close(ours)
    return process.wait(), visits.decode("utf-8", "replace").replace("\r\n", "\n")


def test_an_explanation_fits_the_terminal(folder: Path) -> None:
    metric = "combine(rouge-l(beta=1.5),cider-d(sigma=5.0),bleu-1(references=cat),weights=0.5+0.3+0.2)"
    code, visits = terminal(folder, "explain", "a.json", "-r", "r.json", "-m", metric, "--worst", "1")
    assert code == 0 and f"captions by {metric[:30]}" in " ".join(visits.split())
    assert max(map(len, visits.splitlines())) <= 80


EVIL = "a\x1b]0;owned\x07\n\n\x1b[5;45mred\x9b2J\u202e"


@pytest.mark.parametrize("format", ["table", "csv", "latex", "markdown", "json"])
def test_no_text_steers_the_terminal(folder: Path, format: str) -> None:
    row = {"id": "1" + EVIL, "image_id": "1", "candidate": "", "references": ["a dog"]}
    rows = [{**row, "system": name} for name in (EVIL, "b")]
    (folder / "evil.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    code, visits = terminal(folder, "score", "evil.jsonl", "-m", "rouge-l,bleu-1", "--resamples", "20", "-f", format)
    assert code == 0, visits
    for harm in ("\x1b]", "\x07", "\x1b[5", "\x9b", "\u202e", "\n\n\n"):
        assert harm not in visits
    assert r"\x1b]0;owned" in visits.replace("\\textbackslash{}", "\\").replace("\\\\", "\\").replace(
        "\\u001b", "\\x1b"
    ).replace("\\]", "]")


def test_mistakes_are_told_without_steering_the_terminal(folder: Path) -> None:
    for arguments in (
        ["score", "\x1b[5;45mred.json", "-m", "rouge-l"],
        ["score", "a.json", "-r", "r.json", "-m", "\x1b[5;45mred"],
        ["score", "a.json", "--\x1b[5;45mred"],
        ["\x1b[5;45mred"],
        ["convert", "a.json", "x.jsonl", "--to", "jsonl", "\x1b[5;45mred", "third"],
    ):
        code, visits = terminal(folder, *arguments)
        assert code in (1, 2) and "\x1b[5" not in visits and "red" in visits, (arguments, visits)


def test_names_are_printed_whole_at_80_columns(folder: Path) -> None:
    code, visits = terminal(folder, "list")
    assert code == 0
    words = set(visits.split())
    assert all(len(line) <= 80 for line in visits.splitlines())
    for name in METRICS.builtin:
        assert name in words
        for word in METRICS.class_of(name).SUMMARY.split():
            assert word in words, (name, word)


def test_help_names_every_command(folder: Path) -> None:
    code, visits = terminal(folder, "--help")
    assert code == 0
    for name in commands():
        assert any(line.strip("│| ").split(" ")[0] == name for line in visits.splitlines()), name


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "long.json"],
        ["chair", "long.json", "--instances", "objects.json"],
        ["meta", "-b", "rated", "-d", "rated.jsonl", "-m", "rouge-l", "--resamples", "20"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_sentences_are_folded_at_blanks_in_a_terminal(folder: Path, arguments: list[str]) -> None:
    rows = [
        {"image_id": str(k), "caption": f"there is a dog and a bird on the grass and the other {k} animals run " * 2}
        for k in range(3)
    ]
    (folder / "long.json").write_text(json.dumps([*rows, {"image_id": "9", "caption": "a dog on the"}]))
    (folder / "objects.json").write_text(json.dumps({str(k): ["cat"] for k in (0, 1, 2, 9)}))
    rated = [
        {"image_id": row["image_id"], "candidate": row["caption"], "references": ["a dog runs"], "human": [k]}
        for k, row in enumerate(rows)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rated))
    _, visits = terminal(folder, *arguments)
    prose = [line for line in visits.splitlines() if "(judgments=" not in line]  # a protocol has no blanks to fold at
    assert len(prose) > 3 and max(map(len, prose)) <= 80, visits
