"""Pairs with a known better caption: FOIL, reformulations, the forced-choice distractions, and any such file.

* FOIL (Shekhar et al. 2017) in VALSE's selection: a caption, and the same with one noun exchanged; a is right.
* Reformulations (Berger et al. 2025): a machine's caption, and what a person made of it; b is better.
* Distractions (Hodosh and Hockenmaier 2016): replace, share or just person or scene. The set is not freely
  distributed; its pairs are read as rows {image_id, category, candidate_a, candidate_b, references, correct}.
* pairs: any file of such rows, with `correct` ("a", "b") or `human` (votes, 1 for a and -1 for b).

Layout besides JSON lines: VALSE's foil-it.json (id → caption, foil, image_file, mturk), without references.
"""

from __future__ import annotations

import json
from pathlib import Path

from capmeter.captions.files import read_text
from capmeter.errors import InputError
from capmeter.meta.benchmarks.benchmark import Benchmark, Reader, named_winner, paired
from capmeter.meta.benchmarks.rows import Row
from capmeter.meta.protocol import Protocol

SIDES = ("image_id", "candidate_a", "candidate_b")


def _read_valse(path: Path) -> list[Row]:
    entries = json.loads(read_text(path))
    rows = []
    for id, entry in entries.items():
        place = f"{path}, {id!r}"
        try:
            votes = entry["mturk"]
            fields = {
                "id": str(id),
                "image_id": entry["image_file"],
                "category": "foil",
                "candidate_a": entry["caption"],
                "candidate_b": entry["foil"],
                "references": [],
                "correct": "a",
                "human": votes,
                "valid": votes["caption"] >= 2,  # VALSE keeps what two of three annotators got right
            }
        except (KeyError, TypeError):
            raise InputError(f"{place}: expected caption, foil, image_file and mturk") from None
        rows.append(Row(fields, place))
    return rows


def _correct(row: Row, protocol: Protocol) -> float:
    return named_winner(row, "correct")


def _votes_or_correct(row: Row, protocol: Protocol) -> float:
    return named_winner(row, "correct") if "correct" in row else sum(row.numbers(protocol.judgments))


FOIL = Benchmark(
    name="foil",
    title="FOIL in VALSE's selection: 1,000 captions and their foils (943 valid, 252 with references)",
    source="Shekhar et al. 2017; Parcalabescu et al. 2022, VALSE: data/foil-it.json",
    rows=1000,
    keys=(*SIDES, "references", "correct", "valid"),
    build=paired(_correct),
    readers=(Reader(what="VALSE's foil-it.json", accepts=lambda path: path.suffix == ".json", read=_read_valse),),
    protocols={
        "referenced": Protocol(
            name="referenced", leave_out=("invalid", "unreferenced"), statistic="accuracy", expect=237
        ),
        "valid": Protocol(name="valid", leave_out=("invalid",), statistic="accuracy", expect=943),
    },
)

REFORMULATIONS = Benchmark(
    name="reformulations",
    title="Reformulations: 5,208 machine captions and what people made of them",
    source="Berger et al. 2025, caption_evaluation: full_reformulation_dataset.json",
    rows=5208,
    keys=(*SIDES, "references", "human", "identical"),
    build=paired(lambda row, protocol: named_winner(row, "human")),
    protocols={
        "changed": Protocol(name="changed", leave_out=("identical", "unreferenced"), statistic="accuracy"),
        "reference-free": Protocol(name="reference-free", leave_out=("identical",), statistic="accuracy", expect=4344),
    },
)

DISTRACTIONS = Benchmark(
    name="distractions",
    title="Forced-choice distractions: replace, share or just person or scene",
    source="Hodosh and Hockenmaier 2016",
    keys=(*SIDES, "references", "correct", "category"),
    build=paired(_correct),
    protocols={
        "lceval": Protocol(name="lceval", statistic="accuracy", by="category"),
        "strict": Protocol(name="strict", statistic="accuracy", ties="strict", by="category"),
    },
)

PAIRS = Benchmark(
    name="pairs",
    title="Any file of pairs: candidate_a, candidate_b, and correct or votes",
    source="your own",
    keys=SIDES,
    build=paired(_votes_or_correct),
    protocols={"accuracy": Protocol(name="accuracy", statistic="accuracy")},
)
