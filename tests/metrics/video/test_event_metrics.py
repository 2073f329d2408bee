"""SODA_c, dense captioning and proposals: three events by hand, every matching tried, and values of plain slow code."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_rows

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet, Events, VideoEvents
from capmeter.captions.event_fields import read_events
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.video import overlap
from capmeter.metrics.video.overlap import overlap_iou
from capmeter.metrics.video.soda import best_ordered_sum

ROUGE = "metric=rouge-l"


def video(candidate: Events, *references: Events, id: str = "v") -> Caption:
    texts = tuple(each.paragraph for each in references)
    return Caption(id, id, candidate.paragraph, texts, events=VideoEvents(candidate, references))


def score(captions: list[Caption], metrics: str) -> capmeter.Results:
    return capmeter.score(CaptionSet.from_captions(captions), metrics)


# overlaps with the reference 0-10 "a dog eats", 10-20 "a dog sleeps", 20-30 "a cat": .5, .9, .5; ROUGE-L 1 for a copy
THREE = Events(((0.0, 5.0), (10.0, 19.0), (25.0, 30.0)), ("a dog eats", "a dog sleeps", "two men"))
TRUTH = Events(((0.0, 10.0), (10.0, 20.0), (20.0, 30.0)), ("a dog eats", "a dog sleeps", "a cat"))


def test_three_events_by_hand() -> None:
    results = score([video(THREE, TRUTH)], f"soda-c({ROUGE}),dense({ROUGE},iou=0.5+0.6),proposals(iou=0.4+0.6)")
    assert results[f"soda-c({ROUGE})"].score == pytest.approx((0.5 + 0.9) / 3)
    assert results[f"soda-c({ROUGE})"].parts == pytest.approx({"precision": 1.4 / 3, "recall": 1.4 / 3})
    dense = results[f"dense({ROUGE},iou=0.5+0.6)"]
    assert dense.parts == pytest.approx({"iou 0.5": 2 / 3, "iou 0.6": 1 / 3})  # at .6 the others count 0
    assert dense.score == pytest.approx(1 / 2)
    proposals = results["proposals(iou=0.4+0.6)"]
    assert proposals.parts["precision at 0.4"] == proposals.parts["recall at 0.4"] == 1
    assert proposals.parts["precision at 0.6"] == proposals.score - 1 / 3 == pytest.approx(1 / 3)


def test_the_order_of_the_file_does_not_matter_and_the_better_annotator_counts() -> None:
    shuffled = Events(tuple(THREE.times[k] for k in (2, 0, 1)), tuple(THREE.sentences[k] for k in (2, 0, 1)))
    poor = Events(((40.0, 50.0),), ("nothing",))
    for references in ((TRUTH,), (poor, TRUTH), (TRUTH, poor)):
        results = score([video(shuffled, *references)], f"soda-c({ROUGE})")
        assert results[f"soda-c({ROUGE})"].score == pytest.approx(1.4 / 3)


@pytest.mark.meteor
def test_soda_as_released_scores_the_reference_against_the_candidate(meteor_index: Path) -> None:
    candidate = Events(((0.0, 10.0), (10.0, 20.0)), ("a man cuts an onion", "he fries it"))
    sentences = "a man in a white shirt cuts a red onion into small pieces with a knife", "he fries the onion"
    truth = Events(((0.0, 10.0), (12.0, 20.0)), sentences)
    results = score([video(candidate, truth)], "soda-c,soda-c(as_released=true)")
    assert [result.score for result in results.values()] == pytest.approx([0.172185, 0.290250], abs=5e-7)


def test_what_counts_of_several_annotators() -> None:
    shifted = Events(tuple((start + 100, end + 100) for start, end in TRUTH.times), TRUTH.sentences)
    names = [f"soda-c({ROUGE}{rest})" for rest in ("", ",annotators=mean", ",annotators=merged", ",as_released=true")]
    results = score([video(THREE, TRUTH, shifted)], ",".join(names))
    best, precision, recall = 1.4 / 3, 1.4 / 3, 1.4 / 6  # merged: six reference events
    merged = 2 * precision * recall / (precision + recall)
    assert [results[name].score for name in names[:3]] == pytest.approx([best, best / 2, merged])
    assert results[names[2]].parts == pytest.approx({"precision": precision, "recall": recall})
    assert results[names[3]].score == pytest.approx(merged)  # ROUGE-L of these pairs is symmetric


@pytest.mark.parametrize("metric", [f"dense({ROUGE})", f"soda-c({ROUGE},as_released=true)"])
def test_videos_of_many_events_are_compared_in_bounded_memory(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MAX_PAIRS", 10_000)
    words = [f"{first} {second}" for first in "abcdefghij" for second in "klmnopqrst"]
    many, other = (Events(((0.0, 1.0),) * 100, tuple(each)) for each in (words, words[::-1]))
    peaks = []
    for count in (2, 8):
        tracemalloc.start()
        score([video(many, other, id=str(k)) for k in range(count)], metric)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_videos_without_results_count_as_the_released_code_has_it() -> None:
    """Of four reference videos one has results, all right; the note counts the other three."""
    sentences = [
        {"sentence": text, "timestamp": list(span)} for text, span in zip(TRUTH.sentences, TRUTH.times, strict=True)
    ]
    reference = {"duration": 30, "timestamps": list(TRUTH.times), "sentences": list(TRUTH.sentences)}
    captions = capmeter.load({"results": {"v0": sentences}}, {f"v{k}": reference for k in range(4)})
    names = ["proposals", f"dense({ROUGE})", f"soda-c({ROUGE},as_released=true)"]
    released = ["proposals(as_released=true)", f"dense({ROUGE},as_released=true)"]
    results = capmeter.score(captions, [*names, *released])
    assert [results[name].score for name in names] == pytest.approx([1, 1, 1])
    for name in released:
        assert results[name].score == pytest.approx(0.25)
        assert dict(results[name].items) == pytest.approx({"v0": 1})
        assert results[name].notes == {"without results, and counted 0": ["v1", "v2", "v3"]}
        assert results.intervals()[name] == pytest.approx((0.25, 0.25))
    assert results.notes["references_without_candidate"] == ["v1", "v2", "v3"]
    saved = capmeter.Results.from_dict(results.to_dict())
    assert [saved[name].score for name in released] == pytest.approx([0.25, 0.25])
    assert saved.intervals()[released[0]] == pytest.approx((0.25, 0.25))


def test_events_that_overlap_by_half_are_below_half_as_released() -> None:
    half = video(Events(((0.0, 5.0),), ("a dog eats",)), Events(((0.0, 10.0),), ("a dog eats",)))
    names = [f"dense({ROUGE},iou=0.5)", f"dense({ROUGE},iou=0.5,as_released=true)"]
    results = score([half], ",".join(names))
    assert [results[name].score for name in names] == [1, 0]


def test_the_order_of_events_as_released() -> None:
    """Both start at 0; in the order of the file they cross, by start and end they do not."""
    candidate = Events(((0.0, 10.0), (0.0, 20.0)), ("a dog", "a cat"))
    truth = Events(((0.0, 20.0), (0.0, 10.0)), ("a cat", "a dog"))
    names = [f"soda-c({ROUGE}{rest})" for rest in ("", ",as_released=true", ",as_released=true,annotators=best")]
    results = score([video(candidate, truth)], ",".join(names))
    assert [results[name].score for name in names] == pytest.approx([1, 0.5, 0.5], abs=1e-8)
    late_first = Events(((5.0, 9.0), (0.0, 4.0)), ("a cat", "a dog"))
    results = score([video(late_first, late_first)], ",".join(names))
    assert [results[name].score for name in names] == pytest.approx([1, 1, 0.5], abs=1e-8)


def test_crossing_matches_are_not_allowed() -> None:
    swapped = Events(((0.0, 10.0), (0.5, 10.0)), ("a cat", "a dog eats"))
    truth = Events(((0.0, 10.0), (0.5, 10.0)), ("a dog eats", "a cat"))
    results = score([video(swapped, truth)], f"soda-c({ROUGE})")
    assert results[f"soda-c({ROUGE})"].score == pytest.approx(0.95 / 2)


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), max_size=4))
def test_the_matching_is_the_best_of_all(rows: list[list[float]]) -> None:
    similarity = np.array(rows).reshape(len(rows), 4)
    best = max(
        sum(similarity[i, j] for i, j in zip(left, right, strict=True))
        for size in range(len(rows) + 1)
        for left in combinations(range(len(rows)), size)
        for right in combinations(range(4), size)
    )
    assert best_ordered_sum(similarity) == pytest.approx(best)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)).map(lambda pair: tuple(sorted(pair))), max_size=6))
def test_overlap_is_symmetric_and_between_0_and_1(times: list[Any]) -> None:
    shares = overlap_iou(times, times)
    assert np.array_equal(shares, shares.T)
    assert ((shares >= 0) & (shares <= 1)).all()
    lengths = np.array([end - start for start, end in times])
    assert np.diag(shares).tolist() == (lengths > 0).astype(float).tolist()


@pytest.mark.parametrize("size", [1.7e308, 1e300, 1.0, 0.3, 1e-200, 5e-324, 0.0])
@pytest.mark.parametrize("width", [1.7e308, 1.0, 0.0])
def test_a_box_overlaps_itself_at_any_size(size: float, width: float) -> None:
    boxes = [(-size, 0.0, size, width), (0.0, 0.0, width, size), (0.0, 0.0, 0.0, size, width, size)]
    for box in boxes:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert overlap_iou([box], [box]).tolist() == [[1.0]]
    halves = overlap_iou([(-size, 0.0, size, 1.0)], [(0.0, 0.0, size, 1.0)])
    assert halves.item() == pytest.approx(0.5 if size else 1.0)


def test_no_events_and_instants_score_zero_and_are_noted() -> None:
    instant = Events(((5.0, 5.0),), ("a dog eats",))
    for candidate, note in ((Events(), "no events"), (instant, "event of zero length")):
        results = score(
            [video(candidate, TRUTH)], f"soda-c({ROUGE}),dense({ROUGE}),proposals,dense({ROUGE},as_released=true)"
        )
        for name in results:
            assert results[name].score == 0
            assert results[name].notes[note] == ["v"]
    assert score([video(THREE, Events())], f"soda-c({ROUGE})")[f"soda-c({ROUGE})"].score == 0


def test_too_many_events_end_with_a_sentence_and_many_are_counted() -> None:
    many = Events(tuple((float(k), k + 1.0) for k in range(10_000)), ("a dog",) * 10_000)
    with pytest.raises(InputError, match="video v: 10,000 events in the results and 10,000 in the references are more"):
        score([video(many, many)], "proposals")
    results = score([video(many, TRUTH)], f"soda-c({ROUGE}),proposals")
    assert 0 < results[f"soda-c({ROUGE})"].score < 0.01
    thousand = Events(many.times[:1000], many.sentences[:1000])
    with pytest.raises(InputError, match="1,000 events in the results and 2,000 in the references"):
        score([video(thousand, thousand, thousand)], "proposals")


def test_document_frequencies_are_of_reference_events() -> None:
    """CIDEr-D of a copied event alone among others is CIDEr-D in a corpus of the reference events."""
    other = Events(((0.0, 5.0), (5.0, 9.0)), ("a man runs fast", "a man swims"))
    captions = [video(TRUTH, TRUTH, id="a"), video(other, other, id="b")]
    texts = [*TRUTH.sentences, *other.sentences]
    each = capmeter.score(candidates=texts, references=[[text] for text in texts], metrics="cider-d")["cider-d"]
    results = score(captions, "dense(metric=cider-d,iou=0.9)")["dense(metric=cider-d,iou=0.9)"]
    assert results.items["a"] == pytest.approx(np.mean([each.items[str(k)] for k in range(3)]))
    assert "5 documents" in results.signature


def test_as_released_each_video_is_a_corpus() -> None:
    half = Events(((0.0, 10.0), (50.0, 60.0)), ("a dog eats food", "a bird"))
    name = "dense(metric=bleu-1,iou=0.5,as_released=true)"
    assert score([video(half, TRUTH)], name)[name].score == pytest.approx(3 / 6)  # of six words three are right
    cider = "dense(metric=cider-d,iou=0.5,as_released=true)"
    texts, references = list(half.sentences), [["a dog eats"], ["zqzqzq"]]
    local = capmeter.score(candidates=texts, references=references, metrics="cider-d")["cider-d"].score
    assert score([video(half, TRUTH)], cider)[cider].score == pytest.approx(local)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dense(iou=0+0.5)", "dense: iou=0\\+0.5, expected thresholds"),
        ("proposals(iou=0.5+0.5)", "each once"),
        ("proposals(iou=none)", "iou=none"),
        ("soda-c(metric=clipscore)", "needs more than two sentences"),
        ("soda-c(metric=5)", "is not a metric"),
        ("soda-c(metric=fer)", "soda-c: lower values of metric=fer are better"),
        ("dense(metric=repetition)", "dense: lower values of metric=repetition are better"),
    ],
)
def test_bad_parameters_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse(name)


def test_names_are_read_back_and_parts_add_up() -> None:
    for name in ("soda-c", "soda-c(metric=cider-d(sigma=5.0))", "dense(metric=bleu-4,iou=0.3+0.5,as_released=true)"):
        assert str(parse(name)) == name
    captions = [video(THREE, TRUTH, id="a"), video(TRUTH, THREE, id="b"), video(Events(), TRUTH, id="c")]
    metrics = [parse(name) for name in (f"soda-c({ROUGE})", "dense(metric=cider-d)", "proposals")]
    total = CaptionSet.from_captions(captions)
    in_parts = evaluate([total.select([0]), total.select([1, 2])], metrics)
    for name, scores in evaluate(total, metrics).items():
        assert in_parts[name].score == pytest.approx(scores.score)


# ---- values of slow code, written from the formulas apart from this package


def youcook2(shared: Path, system: str) -> CaptionSet:
    references = {
        row["id"]: [read_events(each["timestamps"], each["sentences"], row["id"]) for each in row["references"]]
        for row in read_rows(shared / "data" / "dense_captions_youcook2.jsonl.gz")
    }
    return CaptionSet.from_captions(
        video(
            read_events(row["timestamps"], row["sentences"], row["id"]),
            *references[row["image_id"]],
            id=row["image_id"],
        )
        for row in read_rows(shared / "data" / "paragraphs_youcook2.jsonl.gz")
        if row["system"] == system and row["image_id"] in references
    )


@pytest.mark.parametrize("system", ["VTrans", "MART", "COOT"])
@pytest.mark.parametrize("similarity", ["rouge-l", "meteor"])
def test_values_of_slow_code(system: str, similarity: str, shared: Path, meteor_index: Path) -> None:
    expected = json.loads((shared / "oracles" / "dense_expected.json").read_text())["dense"]
    values = expected[f"youcook2 | {system} | {similarity}"]
    soda, dense, released = f"soda-c(metric={similarity})", f"dense(metric={similarity})", "dense(as_released=true)"
    soda, dense = (name.replace("(metric=meteor)", "") for name in (soda, dense))
    captions = youcook2(shared, system)
    results = capmeter.score(captions, [soda, dense, "proposals", *([released] if similarity == "meteor" else [])])
    digits = {"abs": 1e-8, "rel": 0}  # stored with eight
    assert len(captions) == values["videos"]
    assert results[soda].score == pytest.approx(values["soda_c"]["f1"], **digits)
    assert results[dense].score == pytest.approx(values["mean"]["average"], **digits)
    for threshold in ("0.3", "0.5", "0.7", "0.9"):
        for name in ("precision", "recall"):
            part = results["proposals"].parts[f"{name} at {threshold}"]
            assert part == pytest.approx(values[name][threshold], **digits)
        if similarity == "meteor":
            assert results[released].parts[f"iou {threshold}"] == pytest.approx(
                values["aggregate"][threshold], **digits
            )
    stored = [
        row
        for row in read_rows(shared / "oracles" / "dense_expected_videos.jsonl.gz")
        if (row["set"], row["system"], row["similarity"]) == ("youcook2", system, similarity)
    ]
    for row in stored:
        assert results[soda].items[row["id"]] == pytest.approx(row["soda_c"][2], **digits)
    assert len(stored) == (len(captions) if similarity == "meteor" else 0)
