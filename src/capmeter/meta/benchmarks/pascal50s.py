"""PASCAL-50S and ABSTRACT-50S (Vedantam et al. 2015): which of two captions is more like the others of the image?

PASCAL-50S: 4,000 pairs of 1,000 images, 1,000 in each category: both human and correct (HC), human and a human caption
of another image (HI), human and machine (HM), both machine (MM). Its label is the majority of 48 triplet judgments
(`pascal-consensus`); the 11 direct votes (`pascal-direct`) say otherwise in a third of HC, and numbers under the two
must not be mixed. ABSTRACT-50S: 400 pairs (HC, HI), each with 48 references and the vote of the annotator who saw
each reference. LCEval's values on it (64.5 for CIDEr-D) are not reproduced by its description (`lceval`: 81.7).

Layout besides JSON lines: FLEUR's annotations/pascal_50s.json is read as JSON lines after conversion only; the .mat
files of the original distribution are read where both pair_pascal.mat and consensus_pascal.mat lie in the folder.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from capmeter.errors import InputError
from capmeter.meta.benchmarks.benchmark import Benchmark, Reader, named_winner, paired
from capmeter.meta.benchmarks.rows import Row
from capmeter.meta.protocol import Protocol

CATEGORIES = ("HC", "HI", "HM", "MM")


def _better(row: Row, protocol: Protocol) -> float:
    if protocol.judgments == "consensus":
        return named_winner(row, "consensus_winner")
    return sum(row.numbers("human" if protocol.judgments == "votes" else protocol.judgments))


def _text(cell: Any) -> str:
    """The text in MATLAB's nested cells."""
    while not isinstance(cell, str):
        if len(cell) == 0:
            return ""
        cell = cell[0]
    return cell


def _read_mat(folder: Path) -> list[Row]:
    """pair_pascal.mat (new_input, new_data, category) with consensus_pascal.mat (triplets: 48 rows for each pair)."""
    from scipy.io import loadmat

    pairs = loadmat(str(folder / "pair_pascal.mat"))
    triplets = loadmat(str(folder / "consensus_pascal.mat"))["triplets"][0]
    inputs, votes, categories = pairs["new_input"][0], pairs["new_data"], pairs["category"][0]
    if len(triplets) != 48 * len(inputs):
        raise InputError(f"{folder}: {len(triplets)} triplets are not 48 for each of {len(inputs)} pairs")
    rows = []
    for k, entry in enumerate(inputs):
        place = f"{folder}, pair {k}"
        shown = triplets[48 * k : 48 * (k + 1)]
        winners = Counter(int(triplet[3].ravel()[0]) for triplet in shown)
        a, b = _text(entry[1]), _text(entry[2])
        # ties of 24 to 24 go to a, as the label then would be a coin's
        winner = "b" if winners[-1] > winners[1] else "a"
        references = list(dict.fromkeys(_text(triplet[0]) for triplet in shown))
        fields = {
            "image_id": _text(entry[0]).rsplit(".", 1)[0],
            "category": CATEGORIES[int(categories[k]) - 1],
            "candidate_a": a,
            "candidate_b": b,
            "references": references,
            "human": [int(vote) for vote in votes[k][:-2]] if len(votes[k]) > 2 else [],
            "consensus_winner": winner,
        }
        rows.append(Row(fields, place))
    return rows


PASCAL = Benchmark(
    name="pascal50s",
    title="PASCAL-50S: 4,000 pairs of captions in four categories",
    source="Vedantam et al. 2015, pyCIDErConsensus: pair_pascal.mat, consensus_pascal.mat",
    rows=4000,
    keys=("image_id", "category", "candidate_a", "candidate_b", "references", "human", "consensus_winner"),
    build=paired(_better),
    readers=(
        Reader(
            what="the folder with pair_pascal.mat and consensus_pascal.mat",
            accepts=lambda path: (path / "pair_pascal.mat").is_file() and (path / "consensus_pascal.mat").is_file(),
            read=_read_mat,
        ),
    ),
    protocols={
        name: Protocol(
            name=name,
            judgments=judgments,
            references="draw-5",
            statistic="accuracy",
            ties=ties,
            by="category",
            expect=4000,
        )
        for name, judgments, ties in (
            ("pascal-consensus", "consensus", "half"),
            ("pascal-direct", "votes", "half"),
            ("clipscore2021", "consensus", "random"),
        )
    }
    | {
        "umic": Protocol(
            name="umic", judgments="consensus", references="each", statistic="accuracy", by="category", expect=4000
        )
    },
)

ABSTRACT = Benchmark(
    name="abstract50s",
    title="ABSTRACT-50S: 400 pairs of captions of clip-art scenes, 48 votes each",
    source="Vedantam et al. 2015, consensus_abstract.mat, abstract48S.json",
    rows=400,
    keys=("image_id", "category", "candidate_a", "candidate_b", "references", "human"),
    fits=lambda row: len(row.numbers("human")) == len(row.texts("references")) == 48,
    looks="48 references and 48 votes",
    build=paired(_better),
    protocols={
        "majority": Protocol(name="majority", judgments="votes", statistic="accuracy", by="category", expect=400),
        "lceval": Protocol(
            name="lceval", judgments="votes", references="draw-5", statistic="accuracy", by="category", expect=400
        ),
    },
)
