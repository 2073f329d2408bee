"""Captions of sounds: which of two fits better (AudioCaps-Eval, Clotho-Eval, BRACE), and which are fluent (FENSE).

* AudioCaps-Eval and Clotho-Eval (Zhou et al. 2022, FENSE): pairs of a clip with four votes each. HC: two human captions
  of the clip; HI: one of the clip, one of another; HM: a human and a machine caption; MM: two machine captions.
* BRACE (Guo et al. 2025): `brace`, pairs of captions of a clip of which people prefer one (HH, HM, MM), `brace-hallu`,
  a caption and the same with a wrong sound.
* fluency-723: texts with and without a fluency error, which a metric is to tell apart: the area under the ROC curve.

The protocol of FENSE: a candidate that is a reference is taken out of its references, those that remain are filled up
to four from the start; the first caption of HI and HM, the person's, is taken out for both captions. In MM the score is
the mean over the references without each one. Pairs whose votes add up to 0 are left out, and equal scores are wrong.
The first and the second captions are each a corpus, which document frequencies come from; those of MM are two more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.judgments.benchmark import Benchmark, build_pairs, read_winner
from capmeter.judgments.pairs import SIDES
from capmeter.judgments.prepared import JudgedPairs, Points, RatedCaption, prepare_points
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow, row_ids

_REFERENCES = 4


def reference_lists(row: JudgmentRow, side: int) -> Iterator[tuple[str, ...]]:
    """The lists of references that FENSE scores one caption of a pair against."""
    references, candidates = row.texts("references"), (row.text("candidate_a"), row.text("candidate_b"))
    category = row.text("category")
    if category == "MM":
        for k in range(len(references)):
            yield references[:k] + references[k + 1 :]
        return
    candidate_text = candidates[side] if category == "HC" else candidates[0]
    other_references = tuple(text for text in references if text != candidate_text)
    yield (other_references + other_references)[:_REFERENCES] if other_references else references


def _build_fense(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> JudgedPairs:
    pairs = build_pairs(lambda row, p: sum(row.numbers(p.judgments)), _votes)(benchmark_name, rows, protocol)
    assert isinstance(pairs, JudgedPairs)
    caption_ids = [
        f"{row_id}/{side}" for row_id in row_ids(rows) for side in "ab"
    ]  # pairs with tied votes too: they are in the corpora
    caption_positions = {caption_id: k for k, caption_id in enumerate(caption_ids)}
    captions, caption_owners, caption_corpora = [], [], []
    for owner_index, caption_id in enumerate(caption_ids):
        row, side = rows[owner_index // 2], owner_index % 2
        candidate_text, is_machine = row.text("candidate_b" if side else "candidate_a"), row.text("category") == "MM"
        for k, references in enumerate(reference_lists(row, side)):
            captions.append(Caption(f"{caption_id}/{k}", row.text("image_id"), candidate_text, references))
            caption_owners.append(owner_index)
            caption_corpora.append(2 * is_machine + side)
    corpus_numbers = np.array(caption_corpora)
    return replace(
        pairs,
        captions=CaptionSet.from_captions(captions),
        owners=np.array(caption_owners, np.int64),
        ids=tuple(caption_ids),
        first=np.array([caption_positions[pairs.ids[k]] for k in pairs.first]),
        second=np.array([caption_positions[pairs.ids[k]] for k in pairs.second]),
        corpora=tuple(np.flatnonzero(corpus_numbers == corpus_number) for corpus_number in np.unique(corpus_numbers)),
    )


def _votes(row: JudgmentRow, protocol: Protocol) -> tuple[tuple[float, ...], bool]:
    return row.numbers(protocol.judgments), True


def _build_fluency(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> Points:
    """Texts rated 1 (fluent) or 0 (faulty), each a clip of its own."""
    caption_ids = row_ids(rows := [JudgmentRow({"image_id": row.text("id"), **row.fields}, row.place) for row in rows])
    rated_texts = [
        RatedCaption(caption_id, caption_id, row.text("text"), (), (float(row.number(protocol.judgments) == 0),))
        for caption_id, row in zip(caption_ids, rows, strict=True)
    ]
    return prepare_points(benchmark_name, rated_texts, protocol)


def _fense(benchmark_name: str, title: str, row_count: int) -> Benchmark:
    return Benchmark(
        name=benchmark_name,
        title=title,
        source="Zhou et al. 2022 (FENSE): blmoistawinde/fense, branch experiment-code, dataset/",
        rows=row_count,
        keys=(*SIDES, "references", "human", "category"),
        fits=lambda row: row.fields.get("category") in ("HC", "HI", "HM", "MM") and "correct" not in row,
        looks="a category HC, HI, HM or MM, and votes",
        build=_build_fense,
        protocols={
            "fense": Protocol(name="fense", statistic="accuracy", ties="strict", expect=row_count),
            "by-category": Protocol(
                name="by-category", statistic="accuracy", ties="strict", by="category", expect=row_count
            ),
        },
    )


AUDIOCAPS_EVAL = _fense("audiocaps-eval", "AudioCaps-Eval: 1,671 pairs of captions of sounds, four votes each", 1671)
CLOTHO_EVAL = _fense("clotho-eval", "Clotho-Eval: 1,750 pairs of captions of sounds, four votes each", 1750)


def _build_brace(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> JudgedPairs:
    """Pairs of two corpora, AudioCaps and Clotho; of BRACE Main's references those that are neither caption."""
    set_of_row, pruned_rows = dict(zip(row_ids(rows), (row.text("set") for row in rows), strict=True)), []
    for row in rows:
        pair_texts = (row.text("candidate_a"), row.text("candidate_b")) if benchmark_name == "brace" else ()
        references = [reference_text for reference_text in row.texts("references") if reference_text not in pair_texts]
        pruned_rows.append(JudgmentRow({**row.fields, "references": references}, row.place))
    pairs = build_pairs(lambda row, _: read_winner(row, "correct"))(benchmark_name, pruned_rows, protocol)
    assert isinstance(pairs, JudgedPairs)
    of_captions = np.array([set_of_row[caption_id[:-2]] for caption_id in pairs.ids])
    return replace(pairs, corpora=tuple(np.flatnonzero(of_captions == set_name) for set_name in np.unique(of_captions)))


def _brace(benchmark_name: str, title: str, row_count: int) -> Benchmark:
    return Benchmark(
        name=benchmark_name,
        title=title,
        source="Guo et al. 2025 (BRACE): inseong00/CAF-Score, data/meta",
        rows=row_count,
        keys=(*SIDES, "references", "correct", "category", "set"),
        fits=lambda row: (row.fields.get("category") in ("HH", "HM", "MM")) == (benchmark_name == "brace"),
        looks="pairs of BRACE, with set and category",
        build=_build_brace,
        protocols={
            protocol_name: Protocol(name=protocol_name, leave_out=("unreferenced",), statistic="accuracy", by=group)
            for protocol_name, group in (("by-set", "set"), ("all", None), ("by-category", "category"))
        },
    )


BRACE = _brace("brace", "BRACE Main: 2,496 pairs of captions of sounds", 2496)
BRACE_HALLU = _brace("brace-hallu", "BRACE Hallucination: 10,135 captions of sounds and their foils", 10135)

FLUENCY_723 = Benchmark(
    name="fluency-723",
    title="fluency-723: 528 fluent and 195 faulty captions of sounds",
    source="Zhou et al. 2022 (FENSE): fluency_annotations_723.csv",
    rows=723,
    keys=("id", "text", "label"),
    build=_build_fluency,
    protocols={"auc": Protocol(name="auc", judgments="label", statistic="auc", expect=723)},
)
