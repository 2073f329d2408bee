"""Video paragraphs with their factual errors marked: ActivityNet-Fact and YouCook2-Fact (Liu and Wan 2023, FactVC).

Six systems' paragraphs of each video. A paragraph has a rating from 1 to 5 (`human`), the share of its sentences
without an error (`sentence_factuality`), and the share of its words outside wrong stretches (`word_factuality`). The
paper's Pearson correlation is over all systems and videos together.
"""

from __future__ import annotations

from capmeter.judgments.benchmark import Benchmark, build_rated
from capmeter.judgments.protocol import Protocol

_FIELDS = {"paragraph": "human", "sentence": "sentence_factuality", "word": "word_factuality"}


def _benchmark(benchmark_name: str, title: str, row_count: int, marks_video: bool) -> Benchmark:
    return Benchmark(
        name=benchmark_name,
        title=title,
        source="Liu and Wan 2023: PKULiuHui/FactVC, data/",
        rows=row_count,
        keys=("image_id", "candidate", "references", *_FIELDS.values(), "system"),
        fits=lambda row: str(row.fields["image_id"]).startswith("v_") == marks_video,
        looks="paragraphs of ActivityNet's videos (v_…)" if marks_video else "paragraphs of YouCook2's videos",
        build=build_rated,
        protocols={
            level: Protocol(name=level, judgments=field_name, ratings="mean", statistic="pearson", expect=row_count)
            for level, field_name in _FIELDS.items()
        },
    )


ACTIVITYNET_FACT = _benchmark(
    "activitynet-fact", "ActivityNet-Fact: 1,200 video paragraphs, rated for factual errors", 1200, True
)
YOUCOOK2_FACT = _benchmark(
    "youcook2-fact", "YouCook2-Fact: 600 recipe paragraphs, rated for factual errors", 600, False
)
