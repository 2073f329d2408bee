from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.smurf.system_plot import system_plot
from capmeter_research.papers.smurf.systems import clip_polygon, ellipse_outline, polygon_area
from support.page_examples import candidates, fused, results, scored

from capmeter.core.errors import InputError
from capmeter.report.page import write_page


def test_the_table_says_what_the_analysis_of_systems_says() -> None:
    systems = {"people": fused((0, 0), 1), "machine": fused((0.7, -0.4), 2)}
    plot = system_plot(systems, human="people", sample=50)
    assert plot is not None
    points = {
        name: np.stack([each["smurf(encoder=minilm)"].part_items[part].array for part in ("sparcs", "spurts")], axis=1)
        for name, each in systems.items()
    }
    outline = {name: ellipse_outline(each) for name, each in points.items()}
    overlap = polygon_area(clip_polygon(outline["machine"], outline["people"])) / polygon_area(outline["machine"])
    (_, people), (_, machine) = plot.rows
    assert plot.heads == ["SPARCS", "SPURTS", "H∩M / M", "penalty", "Centroid caption"]
    assert people[2] == "1.000" and machine[2] == f"{overlap:.3f}" and machine[3] == "−100.00"
    assert machine[0] == f"{points['machine'][:, 0].mean():.3f}"
    assert len(plot.points) == 100 and plot.ellipses[1]["outline"][0] == plot.ellipses[1]["outline"][-1]


def test_raw_scores_are_drawn_on_their_own_scale() -> None:
    random = np.random.default_rng(0)
    both = results({"sparcs": {"score": random.random(30)}, "spurts(encoder=minilm)": {"score": random.random(30)}})
    plot = system_plot({"both": both, "other": scored(candidates(5, 0))})
    assert plot is not None and plot.x == "meaning: SPARCS"
    assert [row[0] for row in plot.rows] == [0] and plot.heads == ["SPARCS", "SPURTS", "Centroid caption"]


def test_without_the_scores_there_is_no_plot() -> None:
    assert system_plot({"a": scored(candidates(5, 0))}) is None
    flat = results({"sparcs": {"score": np.ones(9)}, "spurts(encoder=minilm)": {"score": np.ones(9)}})
    assert system_plot({"flat": flat}) is None
    with pytest.raises(InputError, match="unknown system 'people'"):
        system_plot({"a": scored(candidates(5, 0))}, human="people")


def test_the_page_has_the_section_only_with_the_plot(tmp_path: Path) -> None:
    options: dict[str, Any] = {"resamples": 50, "explained": 0}
    rendering = write_page({"a": fused((0, 0), 1)}, tmp_path / "a.html", human="a", **options).path.read_text("utf-8")
    assert 'id="systems"' in rendering and "H∩M / M" in rendering
    plain = write_page({"a": scored(candidates(5, 0))}, tmp_path / "b.html", **options).path.read_text("utf-8")
    assert 'id="systems"' not in plain
