"""The 2015 COCO captioning challenge: 15 teams, human scores M1 to M5, and the automatic scores of their submissions.

M1: share of captions at least as good as a person's; M2: share that passes the Turing test; M3: correctness and M4:
detail (1-5); M5: share similar to a person's. The captions are not public, so metrics are given as scores by team:
those in the challenge's table for the same submission (names such as `cider-d@c40`), or from a file.
With a dozen points the interval is wide; p of an exact or sampled permutation test is printed beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from capmeter.judgments.benchmark import Benchmark
from capmeter.judgments.prepared import JudgedSystem, PreparedJudgments, prepare_systems
from capmeter.judgments.protocol import LeaveOut, Protocol
from capmeter.judgments.rows import JudgmentRow

COLUMNS = {
    "Bleu_1": "bleu-1",
    "Bleu_2": "bleu-2",
    "Bleu_3": "bleu-3",
    "Bleu_4": "bleu-4",
    "METEOR": "meteor",
    "ROUGE_L": "rouge-l",
    "CIDEr": "cider-d",
    "SPICE": "spice",
}
BASELINES = ("Human", "Random")


def _scores(row: JudgmentRow) -> dict[str, float]:
    """The automatic scores of the judged submission, not of a later one."""
    scores: dict[str, float] = {}
    for table_name in ("c5", "c40"):
        score_entries = row.fields.get(table_name)
        if not isinstance(score_entries, list) or not all(isinstance(entry, Mapping) for entry in score_entries):
            raise row.error_at(table_name, "a list of automatic scores")
        for entry in score_entries:
            if entry.get("same_submission_date"):
                scores |= {f"{name}@{table_name}": float(entry[column_name]) for column_name, name in COLUMNS.items()}
    return scores


def _build(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    teams = []
    for row in rows:
        team = row.text("team")
        teams.append(JudgedSystem(team, row.number(protocol.judgments), (), _scores(row), baseline=team in BASELINES))
    return prepare_systems(benchmark_name, teams, protocol)


# ten teams and the human baseline, whose automatic scores are of the judged submission; or twelve teams with scores of
# their validation captions from a file (yi2020: of images of the Karpathy split); or three teams and a person
_PRESETS: tuple[tuple[str, int, tuple[LeaveOut, ...]], ...] = (
    ("same-submission", 11, ()),
    ("cui2018", 12, ("baselines",)),
    ("yi2020", 12, ("baselines",)),
    ("smurf2021", 4, ()),
)
COCO2015 = Benchmark(
    name="coco2015",
    title="COCO captioning challenge 2015: 15 teams, M1-M5",
    source="cocodataset.github.io: leaderboard/cap_*.json",
    rows=17,
    keys=("team", "M1", "M2", "c5", "c40"),
    build=_build,
    protocols={
        f"{name}{suffix}": Protocol(
            name=f"{name}{suffix}",
            judgments=judgments,
            leave_out=left_out,
            statistic="pearson",
            expect=expect,
        )
        for name, expect, left_out in _PRESETS
        for suffix, judgments in (("", "M1"), ("-m2", "M2"), ("-m3", "M3"), ("-m4", "M4"), ("-m5", "M5"))
    },
)
