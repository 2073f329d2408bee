"""PASCAL-50S and ABSTRACT-50S (Vedantam et al. 2015): which of two captions is more similar to the others of the image?

PASCAL-50S: 4,000 pairs of 1,000 images, 1,000 in each category: both human and correct (HC), human and a human caption
of another image (HI), human and machine (HM), both machine (MM). Its label is the majority of 48 triplet judgments
(`pascal-consensus`); the 11 direct votes (`pascal-direct`) disagree with it in a third of HC, and numbers under the
two must not be mixed. ABSTRACT-50S: 400 pairs (HC, HI), each with 48 references and the vote of the annotator who saw
each reference. LCEval's values on it (64.5 for CIDEr-D) are not reproduced by following its description
(`lceval`: 81.7).

Layouts besides JSON lines:
* the folder of the original distribution (pyCIDErConsensus) with pair_pascal.mat and consensus_pascal.mat: all 48
  references; 24 votes against 24 are a tie, and left out. The direct votes are not read from it;
* FLEUR's and EXPERT's annotations/pascal_50s.json: category → [{image, captions, label, references}].
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_pairs, read_winner
from capmeter.judgments.protocol import Protocol, Ties
from capmeter.judgments.rows import JudgmentRow

CATEGORIES = ("HC", "HI", "HM", "MM")
VOTES = 48


def _better(row: JudgmentRow, protocol: Protocol) -> float:
    if protocol.judgments == "consensus":
        return read_winner(row, "consensus_winner")
    return sum(row.numbers("human" if protocol.judgments == "votes" else protocol.judgments))


def _votes(row: JudgmentRow, protocol: Protocol) -> tuple[tuple[float, ...], bool]:
    return (row.numbers("human") if "human" in row else ()), protocol.judgments != "consensus"


def _leaf(cell: Any) -> Any:
    """The text or number inside MATLAB's nested cells; an empty cell is an empty text."""
    while isinstance(cell, np.ndarray | np.void):
        inner_cell: Any = cell
        cell = next(iter(inner_cell), "")
    return cell


def _read_mat(folder: Path) -> list[JudgmentRow]:
    """pair_pascal.mat (new_input, new_data, category) with consensus_pascal.mat (triplets: 48 rows for each pair)."""
    from scipy.io import loadmat

    pair_data = loadmat(str(folder / "pair_pascal.mat"))
    triplets = loadmat(str(folder / "consensus_pascal.mat"))["triplets"].ravel()
    pair_inputs, categories = pair_data["new_input"].ravel(), pair_data["category"].ravel()
    if len(triplets) != VOTES * len(pair_inputs) or len(categories) != len(pair_inputs):
        raise InputError(f"{folder}: {len(triplets)} triplets are not {VOTES} for each of {len(pair_inputs)} pairs")
    rows = []
    for pair_index, pair_entry in enumerate(pair_inputs):
        pair_triplets = triplets[VOTES * pair_index : VOTES * (pair_index + 1)]
        vote_sum = sum(int(_leaf(triplet[3])) for triplet in pair_triplets)  # 1 for a, -1 for b
        row_fields = {
            "image_id": str(_leaf(pair_entry[0])).rsplit(".", 1)[0],
            "category": CATEGORIES[int(categories[pair_index]) - 1],
            "candidate_a": str(_leaf(pair_entry[1])).strip(),
            "candidate_b": str(_leaf(pair_entry[2])).strip(),
            "references": [str(_leaf(triplet[0])).strip() for triplet in pair_triplets],
            "consensus_winner": "a" if vote_sum > 0 else "b" if vote_sum < 0 else "tie",
        }
        rows.append(JudgmentRow(row_fields, f"{folder}, pair {pair_index}"))
    return rows


def _read_fleur(path: Path) -> list[JudgmentRow]:
    fleur_data = decode_json(read_text(path), str(path))
    rows = []
    for category, pair_entries in fleur_data.items() if isinstance(fleur_data, dict) else ():
        for pair_index, pair_entry in enumerate(pair_entries):
            location = f"{path}, {category} {pair_index}"
            try:
                (a, b), label = pair_entry["captions"], pair_entry["label"]
                row_fields = {
                    "image_id": PurePosixPath(pair_entry["image"]).stem,
                    "category": category,
                    "candidate_a": a,
                    "candidate_b": b,
                    "references": pair_entry["references"],
                    "consensus_winner": {0: "a", 1: "b"}[label],
                }
            except (KeyError, TypeError, ValueError):
                raise InputError(f"{location}: expected image, two captions, label 0 or 1, and references") from None
            rows.append(JudgmentRow(row_fields, location))
    if not rows:
        raise InputError(f"{path}: expected category → list of pairs, as FLEUR writes it")
    return rows


_PRESETS: tuple[tuple[str, str, str, Ties], ...] = (
    ("pascal-consensus", "consensus", "draw-5", "half"),
    ("pascal-direct", "votes", "draw-5", "half"),
    ("clipscore2021", "consensus", "draw-5", "random"),
    ("yi2020", "votes", "draw-5", "half"),  # the label is not stated; the votes give its table
    ("smurf2021", "consensus", "first-5", "half"),  # "the first 5 sentence A entries of each image"
)
PASCAL = Benchmark(
    name="pascal50s",
    title="PASCAL-50S: 4,000 pairs of captions in four categories",
    source="Vedantam et al. 2015, pyCIDErConsensus: pair_pascal.mat, consensus_pascal.mat",
    rows=4000,
    keys=("image_id", "category", "candidate_a", "candidate_b", "references", "human", "consensus_winner"),
    build=build_pairs(_better, _votes),
    readers=(
        LayoutReader(
            what="the folder with pair_pascal.mat and consensus_pascal.mat",
            accepts=lambda path: (path / "pair_pascal.mat").is_file() and (path / "consensus_pascal.mat").is_file(),
            read=_read_mat,
        ),
        LayoutReader(what="FLEUR's pascal_50s.json", accepts=lambda path: path.suffix == ".json", read=_read_fleur),
    ),
    protocols={
        name: Protocol(
            name=name,
            judgments=judgments,
            references=references,
            statistic="accuracy",
            ties=ties,
            by="category",
            expect=4000,
        )
        for name, judgments, references, ties in _PRESETS
    }
    | {
        # "we only used captions from HHC and HHI", Sharif et al. 2019, section 8.4.2
        "wembsim": Protocol(
            name="wembsim",
            judgments="votes",
            leave_out=("machine-captions",),
            references="draw-5",
            statistic="accuracy",
            by="category",
            expect=2000,
        ),
        "umic": Protocol(
            name="umic",
            judgments="votes",
            references="mean-of-single",
            maximum_for=("bertscore",),
            statistic="accuracy",
            by="category",
            expect=4000,
        ),
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
    build=build_pairs(_better, _votes),
    protocols={
        "majority": Protocol(name="majority", judgments="votes", statistic="accuracy", by="category", expect=400),
        "lceval": Protocol(
            name="lceval", judgments="votes", references="draw-5", statistic="accuracy", by="category", expect=400
        ),
    },
)
