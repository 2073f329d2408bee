"""The leaderboard page: every number of the results files, baselines, published and held-out values, sortable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.command_line import capmeter

COLUMNS = ("benchmark", "protocol", "analysis", "metric", "statistic", "value", "low", "high", "subset", "source")


def write_rows(path: Path, *rows: tuple[object, ...]) -> None:
    path.write_text("".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows))


def test_the_page_has_what_the_files_have(tmp_path: Path) -> None:
    first, second = ("hat", "hat(statistic=average-precision)"), ("flickr8k-expert", "clipscore2021(statistic=tau-c)")
    write_rows(
        tmp_path / "capmeter.jsonl",
        (*first, "results", "cider-d", "average-precision", 40.04, 30.0, 50.0, "all", ""),
        (*first, "held_out", "cider-d", "average-precision", 38.26, None, None, "all", ""),
        (*first, "categories", "cider-d", "average-precision", 77.7, None, None, "a category", ""),
        (*first, "length", "length", "average-precision", 37.6, 29.1, 47.9, "all", ""),
        (*second, "results", "cider-d", "tau-c", 43.9, 41.9, 46.1, "all", ""),
        (*second, "published", "cider-d", "tau-c", 43.8, None, None, "all", "Hessel et al. 2021"),
        (*second, "human_level", "human", "tau-c", 55.4, None, None, "all", ""),
    )
    write_rows(tmp_path / "mine.jsonl", (*second, "results", "<my metric>", "tau-c", 50.04, 48.0, 52.0, "all", ""))
    done = capmeter("meta", "--leaderboard", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "leaderboard.html").read_text("utf-8")
    lines = re.findall(r"<tr.*?</tr>", page, re.DOTALL)[1:]
    text = [" ".join(re.sub("<[^>]+>", " ", line).split()) for line in lines]
    assert text[0] == "people 55.4"
    assert text[1] == "&lt;my metric&gt; 50.0 [48.0, 52.0]"
    assert text[2] == ("cider-d references 43.9 [41.9, 46.1] Hessel et al. 2021: 43.8 40.0 [30.0, 50.0] held out 38.3")
    assert text[3] == "number of words 37.6 [29.1, 47.9]"
    assert "77.7" not in page and "tau-c" in page and "http" not in page


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("x.txt", "", "no results"), ("x.csv", "a,b\n1,2\n", "no column analysis"), ("x.jsonl", "{", "not a table")],
)
def test_what_is_not_a_results_file_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    done = capmeter("meta", "--leaderboard", tmp_path)
    assert done.returncode == 1 and said in done.stderr
    assert not (tmp_path / "leaderboard.html").exists()
