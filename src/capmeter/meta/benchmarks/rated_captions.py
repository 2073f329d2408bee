"""Machine captions of COCO images, rated: CapEval1k, THumB 1.0, and the study of where-image2.

* CapEval1k (Lee et al. 2021, UMIC): 1,000 captions of four systems, the mean of five workers' scores (0-1).
* THumB 1.0 (Kasai et al. 2022): 2,500 captions, 500 of each of four systems and of people: total (`human`),
  `precision`, `recall`.
* where-image2 (Tanti et al. 2019): 1,000 captions, 200 of each of four systems and of people, by five raters: accuracy
  (`human`) and `human_fluency`.
"""

from __future__ import annotations

from capmeter.meta.benchmarks.benchmark import Benchmark, rated
from capmeter.meta.protocol import Protocol

CAPEVAL1K = Benchmark(
    name="capeval1k",
    title="CapEval1k: 1,000 captions of four systems, mean score (0-1)",
    source="Lee et al. 2021, UMIC: txt_db/capeval1k",
    rows=1000,
    keys=("image_id", "candidate", "references", "human", "system_index"),
    build=rated,
    protocols={
        "averaged": Protocol(name="averaged", ratings="mean", statistic="tau-b", expect=1000),
        "umic": Protocol(name="umic", references="each", ratings="mean", statistic="tau-b", expect=1000),
    },
)

THUMB = Benchmark(
    name="thumb1",
    title="THumB 1.0: 2,500 captions of four systems and of people",
    source="Kasai et al. 2022, THumB: mscoco/mscoco_THumB-1.0.jsonl",
    rows=2500,
    keys=("image_id", "candidate", "references", "human", "precision", "recall", "system"),
    build=rated,
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
    build=rated,
    protocols={
        "machines": Protocol(
            name="machines", leave_out=("human-captions",), ratings="mean", statistic="tau-b", expect=800
        ),
    },
)
