"""Machine captions of COCO images, rated: CapEval1k, THumB 1.0, and the study of where-image2.

* CapEval1k (Lee et al. 2021, UMIC): 1,000 captions of four systems, the mean of five workers' scores (0-1).
* THumB 1.0 (Kasai et al. 2022): 2,500 captions, 500 of each of four systems and 500 human ones: total (`human`),
  `precision`, `recall`.
* where-image2 (Tanti et al. 2019): 1,000 captions, 200 of each of four systems and 200 human ones, by five raters:
  accuracy (`human`) and `human_fluency`.

Layout besides JSON lines: THumB's mscoco_THumB-1.0.jsonl (SYS, hyp, image, P, R, human_score …) with
mscoco_references.json or .jsonl (seg_id, refs) in the same folder.
"""

from __future__ import annotations

from pathlib import Path

from capmeter.core.errors import InputError
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_rated
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow, read_jsonl


def _read_thumb(path: Path) -> list[JudgmentRow]:
    possible_files = [path.with_name(f"mscoco_references.{file_ending}") for file_ending in ("json", "jsonl")]
    reference_files = [possible_file for possible_file in possible_files if possible_file.is_file()]
    if not reference_files:
        raise InputError(f"{path} has no references; put THumB's {possible_files[0].name} in the same folder")
    references_by_segment = {str(row.fields.get("seg_id")): row.texts("refs") for row in read_jsonl(reference_files[0])}
    rows = []
    for row in read_jsonl(path):
        segment_id = str(row.fields.get("seg_id"))
        if segment_id not in references_by_segment:
            raise row.error_at("seg_id", f"a segment of {reference_files[0].name}")
        row_fields = {
            "image_id": row.text("image"),
            "system": row.text("SYS"),
            "candidate": row.text("hyp"),
            "references": list(references_by_segment[segment_id]),
            "human": [row.number("human_score")],
            "precision": row.number("P"),
            "recall": row.number("R"),
        }
        rows.append(JudgmentRow(row_fields, row.place))
    return rows


CAPEVAL1K = Benchmark(
    name="capeval1k",
    title="CapEval1k: 1,000 captions of four systems, mean score (0-1)",
    source="Lee et al. 2021, UMIC: txt_db/capeval1k",
    rows=1000,
    keys=("image_id", "candidate", "references", "human", "system_index"),
    build=build_rated,
    protocols={
        "averaged": Protocol(name="averaged", ratings="mean", statistic="tau-b", expect=1000),
        "umic": Protocol(
            name="umic",
            references="mean-of-single",
            maximum_for=("bertscore",),
            ratings="mean",
            statistic="tau-b",
            expect=1000,
        ),
    },
)

THUMB = Benchmark(
    name="thumb1",
    title="THumB 1.0: 2,500 captions of four systems and of people",
    source="Kasai et al. 2022, THumB: mscoco/mscoco_THumB-1.0.jsonl",
    rows=2500,
    keys=("image_id", "candidate", "references", "human", "precision", "recall", "system"),
    build=build_rated,
    readers=(
        LayoutReader(
            what="THumB's mscoco_THumB-1.0.jsonl",
            accepts=lambda path: path.name == "mscoco_THumB-1.0.jsonl",
            read=_read_thumb,
        ),
    ),
    protocols={
        "machines": Protocol(
            name="machines", leave_out=("human-captions",), ratings="mean", statistic="pearson", expect=2000
        ),
        "all": Protocol(name="all", ratings="mean", statistic="pearson", expect=2500),
        # Zhou et al. 2023 (Decoupled-norm) report τc on the total
        "zhou2023": Protocol(name="zhou2023", ratings="mean", statistic="tau-c", expect=2500),
    },
)

WHEREIMAGE = Benchmark(
    name="whereimage",
    title="where-image2: 1,000 captions of four systems and of people, five raters each (0/1)",
    source="Tanti et al. 2019, mtanti-phd: whereimage/_sample/mscoco/humaneval_export.txt",
    rows=1000,
    keys=("image_id", "candidate", "references", "human", "human_fluency", "system"),
    build=build_rated,
    protocols={
        "machines": Protocol(
            name="machines", leave_out=("human-captions",), ratings="mean", statistic="tau-b", expect=800
        ),
    },
)
