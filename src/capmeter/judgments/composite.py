"""Composite (Aditya et al. 2015): a human and two machine captions of 3,995 images, one correctness score each (1-5).

Images of Flickr8k (997), Flickr30k (991) and COCO (2,007). The human candidate is always among the image's
references; comparable protocols remove it from them ("no GT"). LCEval reports on "7,996 single sentence captions"
without saying which; no subset of these rows gives its numbers, so there is no protocol of that name.

Layout besides JSON lines: the folder AMT_eval of the original distribution (8k_correctness.csv,
30k_correctness.csv, coco_correctness.csv) is not read, because it has no references: join it with them first.
"""

from __future__ import annotations

from capmeter.judgments.benchmark import Benchmark, build_rated
from capmeter.judgments.protocol import Protocol

COMPOSITE = Benchmark(
    name="composite",
    title="Composite: 11,985 captions of 3,995 images, one correctness score each (1-5)",
    source="Aditya et al. 2015, AMT_eval: *_correctness.csv",
    rows=11985,
    keys=("image_id", "candidate", "references", "human", "candidate_index"),
    fits=lambda row: len(row.numbers("human")) == 1 and 1 <= row.numbers("human")[0] <= 5,
    looks="one score from 1 to 5",
    build=build_rated,
    protocols={
        "clipscore2021": Protocol(
            name="clipscore2021", references="without-human-candidate", statistic="tau-c", expect=11985
        ),
        # the paper does not say which references and which τ; this is the closest match found
        "yi2020": Protocol(name="yi2020", references="without-human-candidate", statistic="tau-c", expect=11985),
        # not stated either: τa with all references comes within one point of its table
        "smurf2021": Protocol(name="smurf2021", statistic="tau-a", expect=11985),
        "with-references": Protocol(name="with-references", statistic="tau-c", expect=11985),
        "machines": Protocol(name="machines", leave_out=("human-captions",), statistic="tau-b", expect=7990),
        # references one at a time, as the paper says; it does not say which τ: τb gives its table to the digit
        "umic": Protocol(
            name="umic", references="mean-of-single", maximum_for=("bertscore",), statistic="tau-b", expect=11985
        ),
    },
)
