"""Figures: the kinds that can be written, the same bytes each time, and nothing half written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from capmeter.core.errors import InputError, MissingBackend
from capmeter.report.figures import house_style, open_figure, save_figures, series_style

pytest.importorskip("matplotlib")
SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@house_style()
def _drawn():
    figure, axes = open_figure(1, 2)
    for k in range(3):
        axes[0, 0].plot([0, 1, 2], [k, 2, 1], label=f"series {k}", **series_style(k))
    axes[0, 0].set_title("two words")
    return figure


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_figure_is_written_in_the_kind_of_its_name_and_is_the_same_each_time(tmp_path: Path, kind: str) -> None:
    one = save_figures(_drawn(), [tmp_path / f"one.{kind}"])[0].read_bytes()
    two = save_figures(_drawn(), [tmp_path / f"two.{kind.upper()}"])[0].read_bytes()
    assert one.startswith(SIGNATURES[kind])
    assert one == two
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"one.{kind}", f"two.{kind.upper()}"]


def test_text_of_an_svg_stays_text(tmp_path: Path) -> None:
    assert ">two words<" in save_figures(_drawn(), [tmp_path / "a.svg"])[0].read_text(encoding="utf-8")


def test_an_unknown_kind_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.gif: .*\.png, \.svg or \.pdf"):
        save_figures(_drawn(), [tmp_path / "a.png", tmp_path / "a.gif"])
    assert not list(tmp_path.iterdir())


def test_the_first_series_differ_in_colour_and_in_form() -> None:
    styles = [series_style(k) for k in range(32)]
    assert len({(each["color"], str(each["linestyle"])) for each in styles}) == 32
    assert len({(str(each["linestyle"]), each["marker"]) for each in styles[:8]}) == 8


def test_pyplot_is_not_needed(tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    save_figures(_drawn(), [tmp_path / "a.png"])[0]
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingBackend, match=r"pip install 'capmeter\[report\]'"):
        open_figure()


def test_what_is_drawn_has_the_style_and_leaves_no_setting_behind() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    axis = _drawn().axes[0]
    assert axis.get_title(loc="left") == "two words"
    assert not axis.spines["top"].get_visible()
    assert dict(matplotlib.rcParams) == before
