"""`capmeter list`: the metrics with what they measure and need, in lines that can be read."""

from __future__ import annotations

import json

import pytest
from support.command_line import capmeter

from capmeter.evaluation.registry import names


def test_every_metric_is_listed() -> None:
    listed = json.loads(capmeter("list", "-f", "json").stdout)
    assert list(listed) == names()
    assert listed["cider-d"]["parameters"]["sigma"]["default"] == "6.0"
    assert listed["cider-d"]["explains"] is True
    table = capmeter("list").stdout
    assert all(name in table for name in names())


@pytest.mark.parametrize("listed", ["metrics", "transforms", "tests", "protocol", "cider-d"])
def test_lines_can_be_read_in_a_pipe(listed: str) -> None:
    done = capmeter("list", listed)
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 200


def test_a_name_of_a_transform_and_a_test_shows_both() -> None:
    """`list tests` and `--test "permutation(permutations=2000)"` send people here."""
    lines = capmeter("list", "permutation").stdout.splitlines()
    assert "permutation: words swap positions (transform)" in lines and "no parameters" in lines
    assert any(line.startswith("permutation: paired permutation test") and line.endswith("(test)") for line in lines)
    data = json.loads(capmeter("list", "permutation", "-f", "json").stdout)
    assert data["summary"] == "words swap positions"
    assert data["also"]["tests"]["parameters"]["permutations"]["default"] == "10000"
    assert "also" not in json.loads(capmeter("list", "cider-d", "-f", "json").stdout)


def test_the_parameters_of_one_metric() -> None:
    lines = capmeter("list", "cider-d").stdout.splitlines()
    assert lines[0].startswith("cider-d: ")
    assert lines[2].split() == ["parameter", "type", "default", "meaning"]
    assert any(line.split()[:1] == ["sigma"] and "6.0" in line.split() for line in lines)
