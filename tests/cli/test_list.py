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


@pytest.mark.parametrize("listed", ["metrics", "transforms", "protocol", "cider-d"])
def test_lines_can_be_read_in_a_pipe(listed: str) -> None:
    done = capmeter("list", listed)
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 200


@pytest.mark.parametrize(("mistyped", "meant"), [("cidr", "metric 'cidr'; did you mean cider"), ("removl", "removal?")])
def test_a_mistyped_name_is_looked_for_in_both_lists(mistyped: str, meant: str) -> None:
    done = capmeter("list", mistyped)
    assert done.returncode == 1 and meant in done.stderr
