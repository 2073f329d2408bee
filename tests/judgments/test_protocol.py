"""Protocols: values that print, parse back, and refuse what they were not written for."""

from __future__ import annotations

import pytest

from capmeter.core.errors import InputError, ProtocolError
from capmeter.core.named import split_name
from capmeter.judgments.benchmarks import all_benchmarks
from capmeter.judgments.protocol import Protocol, change_protocol

PRESETS = [(name, preset) for name, each in all_benchmarks().items() for preset in each.protocols.values()]


@pytest.mark.parametrize(("benchmark", "preset"), PRESETS, ids=lambda value: getattr(value, "name", value))
def test_every_preset_is_one_line_that_parses_back(benchmark: str, preset: Protocol) -> None:
    line = str(preset)
    assert "\n" not in line
    assert all_benchmarks()[benchmark].protocol(line) == preset
    name, inside = split_name(line)
    assert name == preset.name and change_protocol(Protocol(name=name), inside) == preset


def test_named_presets_exist() -> None:
    names = {preset.name for _, preset in PRESETS}
    assert {"clipscore2021", "cui2018", "averaged", "pascal-consensus", "pascal-direct", "lceval", "umic"} <= names


def test_wrong_number_is_refused() -> None:
    protocol = Protocol(name="p", expect=16992)
    protocol.check(16992, "flickr8k-expert", "judgments")
    with pytest.raises(ProtocolError, match=r"expects 16,992 judgments, but this file has 16,991.*--sample"):
        protocol.check(16991, "flickr8k-expert", "judgments")
    change_protocol(protocol, "expect=none").check(3, "flickr8k-expert", "judgments")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("statistic=tau", "tau-a, tau-b, tau-c, pearson"),
        ("ratings=max", "flatten, mean, median or mode"),
        ("references=draw-0", "draw-K"),
        ("leave_out=own", "own-captions"),
        ("ties=>=", "half, strict"),
        ("leave_out=invalid+own", "own-captions"),
        ("name=other", "no parameter 'name'"),
        ("nonsense", "expected parameter=value"),
        ("expect=many", "expect=many is not a whole number or none"),
        ("expect=-1", "must not be negative"),
    ],
)
def test_unknown_decisions_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        change_protocol(Protocol(name="p"), text)


def test_only_what_matters_is_printed() -> None:
    assert "ties" not in str(Protocol(name="p", statistic="tau-b"))
    assert "ties=strict" in str(Protocol(name="p", statistic="accuracy", ties="strict"))
    assert "seed=7" in str(Protocol(name="p", statistic="accuracy", ties="random", seed=7))
    assert "seed" not in str(Protocol(name="p", statistic="accuracy", ties="half", seed=7))
