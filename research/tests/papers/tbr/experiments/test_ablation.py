"""TBR's Table 2 from scores of the challenge's teams."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from capmeter_research.common.published import paper_table
from capmeter_research.papers.tbr.experiments.ablation import ROWS, TABLE, ablation, ablation_table
from support.command_line import capmeter

from capmeter.core.errors import ProtocolError
from capmeter.evaluation.registry import parse
from capmeter.judgments.builders import COCO_BASELINES


def test_the_rows_are_metrics_and_those_of_the_paper() -> None:
    assert [str(parse(name)) for name in ROWS] == list(ROWS)
    assert set(ROWS.values()) == paper_table(TABLE).keys()


def test_correlations_stand_beside_the_papers(shared: Path, tmp_path: Path) -> None:
    """Scores that are M1 itself correlate with it by 1; another metric than the paper's comes last."""
    data = shared / "data" / "coco2015_challenge_system_level.jsonl.gz"
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        teams = {row["team"]: row["M1"] for row in map(json.loads, lines) if row["team"] not in COCO_BASELINES}
    twelve = dict(list(teams.items())[:12])
    names = ("cider-d", "tbr(encoder=minilm,references=cat)", "bleu-1", "tbr(combine=false,remove=false)")
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps(dict.fromkeys(names, twelve)))
    rows = ablation(data, [scores])
    assert [row.label for row in rows] == ["BLEU-1", "T", "T+cat+R", ""]
    assert rows[0].correlations["M1"] == pytest.approx(1) and 0.5 < rows[0].correlations["M2"] < 1
    table = ablation_table(rows)
    assert table.rows[0][2:3] == ["1.000 (0.307)"] and table.rows[3][2] == "1.000"
    assert "contradicts its own Table 1" in table.note
    done = capmeter("study", "tbr", "-d", data, "--scores", scores, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][2]["published"] == {"M1": 0.857, "M2": 0.783}
    scores.write_text(json.dumps({"bleu-1": dict(list(teams.items())[:5])}))
    with pytest.raises(ProtocolError, match="expects 12"):
        ablation(data, [scores])
