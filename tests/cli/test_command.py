"""Commands whose options are dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capmeter.cli.command import Application, with_options
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option, option_group


def refuse_odd(values: list[int]) -> None:
    if any(value % 2 for value in values):
        raise InputError("expected even numbers")


@dataclass(frozen=True, kw_only=True)
class Inner:
    mode: str = option("slow", "How.", choices=("slow", "fast"))
    root: Path | None = option(None, "Where.", "--root", path="folder")
    numbers: str = option("none", "Not offered.", "--inner-numbers")


@dataclass(frozen=True, kw_only=True)
class Outer:
    files: list[str] = argument([], "Files.", metavar="FILE...")
    numbers: list[int] = option([], "Numbers.", "--number", "-n", check=refuse_odd)
    share: float = option(0.5, "A share.", minimum=0, maximum=1)
    loud: bool = option(True, "Loud.", "--loud/--quiet")
    sizes: dict[str, int] = option(
        None, "Sizes.", "--size", value_type=list[str] | None, convert=lambda texts: {text: len(text) for text in texts}
    )
    inner: Inner = option_group(Inner, without=("numbers",), mode="fast")


app = Application()


@app.command()
def run(options: Outer, extra: str = "x") -> None:
    """Run it."""
    print(options, extra)


def invoke(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(args), env={"COLUMNS": "80"})
    return done.exit_code, done.output


def test_defaults_are_those_of_the_dataclass() -> None:
    assert invoke() == (0, f"{Outer()} x\n")


def test_values_reach_the_dataclass(tmp_path: Path) -> None:
    code, output = invoke("a", "b", "-n", "2", "--number", "4", "--share", "1", "--quiet", "--mode", "slow")
    expected = Outer(files=["a", "b"], numbers=[2, 4], share=1.0, loud=False, inner=Inner(mode="slow"))
    assert (code, output) == (0, f"{expected} x\n")
    assert invoke("--size", "ab", "--size", "c")[1] == f"{Outer(sizes={'ab': 2, 'c': 1})} x\n"
    assert invoke("--inner-numbers", "many")[0] == 2
    assert invoke("--root", str(tmp_path), "--extra", "y")[1] == f"{Outer(inner=Inner(mode='fast', root=tmp_path))} y\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--mode", "odd"], "'odd' is not one of slow, fast"),
        (["-n", "3"], "expected even numbers"),
        (["--share", "2"], "expected a number from 0 to 1, but got 2"),
        (["--share", "nan"], "expected a number from 0 to 1, but got nan"),
        (["-n", "2.5"], "expected a whole number, but got '2.5'"),
        (["--root", "nowhere"], "does not exist"),
    ],
)
def test_wrong_values_are_wrong_usage(args: list[str], message: str) -> None:
    code, output = invoke(*args)
    assert code == 2 and message in " ".join(output.split())


def test_help_says_what_the_fields_say() -> None:
    output = invoke("--help")[1]
    assert "slow|fast" in output and "A share." in output and "FILE..." in output


@dataclass(frozen=True, kw_only=True)
class Rare:
    common: str = option("a", "A common one.")
    seldom: int = option(1, "A rare one.", minimum=1, group="rare things")


rare_app = Application()


@rare_app.command()
def run_rare(options: Rare) -> None: ...


def test_rare_options_are_named_and_all_are_described_on_request() -> None:
    short, long = (CliRunner().invoke(rare_app, [flag]) for flag in ("--help", "--help-all"))
    assert short.exit_code == long.exit_code == 0
    assert "A common one." in short.output and "A rare one." not in short.output and "--seldom" in short.output
    assert "A rare one. (at least 1)" in " ".join(long.output.split())


def test_two_options_of_one_name_are_refused() -> None:
    def twice(options: Inner, mode: str = "") -> None: ...

    twice.__annotations__ = {"options": Inner, "mode": str}
    with pytest.raises(TypeError, match="share a name"):
        with_options(twice)
