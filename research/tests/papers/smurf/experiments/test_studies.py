"""The studies: their arithmetic by hand, and each of them end to end on small or real data."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.experiments.cases import read_sheet, tally, write_sheet
from capmeter_research.papers.smurf.experiments.degradation import degraded, read_sentences
from capmeter_research.papers.smurf.experiments.failure_cases import (
    FailureCase,
    Failures,
    FailureStudy,
    correlations,
    critical_failures,
)
from capmeter_research.papers.smurf.experiments.grammar import Grammar, GrammarAgreement, grammar, read_corrections
from capmeter_research.papers.smurf.experiments.rankings import expected_wins, read_system_scores
from capmeter_research.papers.smurf.experiments.report import failure_table, grammar_table, tally_table, tie_table
from capmeter_research.papers.smurf.experiments.ties import TieFree, tie_free, without_own
from hypothesis import given
from hypothesis import strategies as st

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.stats.bootstrap import Interval
from capmeter.stats.correlation import pearson

WORDS = ["a", "brown", "dog", "runs", "over", "the", "wet", "grass", "while", "two", "cats", "sleep"]


def captions(system: str, output: list[str], references: str = "a brown dog runs") -> CaptionSet:
    rows = (Caption(str(k), f"p{k}", text, (references,), system=system) for k, text in enumerate(output))
    return CaptionSet.from_captions(rows)


# --- degradation


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_what_was_replaced_stays_replaced(seed: int, steps: int) -> None:
    fractions = np.linspace(0, 1, steps + 1).tolist()
    rows = [row.split() for row in degraded(WORDS, ["X", "Y"], fractions, np.random.default_rng(seed))]
    assert rows[0] == WORDS
    assert set(rows[-1]) <= {"X", "Y"}
    for fraction, before, after in zip(fractions[1:], rows, rows[1:], strict=False):
        assert sum(word in "XY" for word in after) == round(fraction * len(WORDS))
        assert all(now == old for now, old in zip(after, before, strict=True) if old in "XY")


def test_sentences_of_a_text_or_of_captions(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One is here. Is two?\n\nThree it is\n")
    assert read_sentences(str(tmp_path / "text.txt")) == ["One is here.", "Is two?", "Three it is"]
    (tmp_path / "rows.jsonl").write_text('{"image_id": "1", "candidate": "a dog", "references": []}\n')
    assert read_sentences(str(tmp_path / "rows.jsonl")) == ["a dog"]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="no sentence"):
        read_sentences(str(tmp_path / "empty.txt"))


# --- what people thought of systems


def test_expected_wins_of_the_real_rankings(shared: Path) -> None:
    rankings = read_system_scores(str(shared / "data" / "conll14_gec_judgments_grundkiewicz2015.jsonl.gz"))
    published = read_system_scores(str(shared / "data" / "conll14_gec_system_level.jsonl.gz"))
    assert rankings == pytest.approx(published, abs=1e-6)
    assert len(rankings) == 13


def test_system_scores_from_every_form(tmp_path: Path) -> None:
    def read(content: str, key: str | None = None) -> dict[str, float]:
        (tmp_path / "h.json").write_text(content)
        return read_system_scores(str(tmp_path / "h.json"), key)

    assert read('{"a": 1, "b": 0.5}') == {"a": 1, "b": 0.5}
    assert read('[{"system": "a", "human": 1}, {"system": "b", "human": 2}]') == {"a": 1, "b": 2}
    assert read('{"system": "a", "M7": 1}\n{"system": "b", "M7": 2}\n', "M7") == {"a": 1, "b": 2}
    assert read('{"ranks": {"a": 1, "b": 2}}\n') == expected_wins([{"a": 1, "b": 2}]) == {"a": 1, "b": 0}
    for content, output in (
        ('{"a": "good"}', "expected a number"),
        ('{"a": NaN}', "expected a number"),
        ('{"system": "a", "M7": 1}', "expected system and human or"),
        ("[1]", "not an object"),
        ("", "no system"),
        ("{]", "line 1: not JSON"),
    ):
        with pytest.raises(InputError, match=output):
            read(content)


# --- grammar


def test_grammar_by_hand() -> None:
    systems = {
        "good": captions("good", ["a brown dog runs", "a brown dog runs"]),
        "middling": captions("middling", ["a brown dog runs", "cats"]),
        "bad": captions("bad", ["cats", "cats"]),
        "unjudged": captions("unjudged", ["cats", "cats"]),
    }
    found = grammar(systems, {"good": 3, "middling": 1, "bad": 0, "absent": 9}, [parse("sparcs")], resamples=20)
    (agreement,) = found.agreements
    assert agreement.scores == {"good": 1, "middling": 0.5, "bad": 0}
    assert agreement.spearman.value == 1
    assert agreement.pearson.value == pytest.approx(pearson([1, 0.5, 0], [3, 1, 0]))
    with pytest.raises(InputError, match="at least three systems"):
        grammar(systems, {"good": 3, "bad": 1}, [parse("sparcs")])
    systems["bad"] = captions("bad", ["cats"])
    with pytest.raises(InputError, match="different sentences"):
        grammar(systems, {"good": 3, "middling": 1, "bad": 0}, [parse("sparcs")])


def test_corrections_are_read_from_rows_of_systems(tmp_path: Path, shared: Path) -> None:
    real = read_corrections(str(shared / "data" / "conll14_gec_sentences.jsonl.gz"))
    assert len(real) == 13 and {len(each) for each in real.values()} == {1312}
    path = tmp_path / "rows.jsonl"
    path.write_text('{"systems": {"a": "one", "b": "two"}}\n{"systems": {"a": "three", "b": 4}}\n')
    with pytest.raises(InputError, match="row 2: the sentence of b is 4"):
        read_corrections(str(path))


# --- critical failures


@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_correlations_are_pearson_s(systems: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    scores, human = draws.normal(size=(5, systems)), draws.normal(size=systems)
    expected = [pearson(row, human) for row in scores]
    np.testing.assert_allclose(correlations(scores, human), expected, atol=1e-9)


def test_critical_failures_by_hand() -> None:
    # rouge-l against sparcs, on two images: on the first, word order alone misleads rouge-l; on the second nothing does
    reference = "a brown dog runs on grass"
    systems = {
        "best": captions("best", ["grass runs dog brown", "a brown dog runs on grass"], reference),
        "good": captions("good", ["a brown dog on a car", "a brown dog"], reference),
        "bad": captions("bad", ["a man on a car and on a", "a man"], reference),
    }
    human = {"best": 0.9, "good": 0.5, "bad": 0.1}
    found = critical_failures(systems, human, parse_list("rouge-l"), parse("sparcs"), resamples=50)
    (row,) = found.failures
    expected = {
        name: correlations(_scores(systems, name), np.array(list(human.values()))) for name in ("sparcs", "rouge-l")
    }
    disparities = expected["sparcs"] - expected["rouge-l"]
    np.testing.assert_allclose(row.disparities, disparities, atol=1e-12)
    assert row.probability.value == (disparities > 1).mean()
    assert [case.image for case in row.worst_cases] == [f"p{k}" for k in np.argsort(-disparities) if disparities[k] > 1]
    assert found.images == 2
    with pytest.raises(InputError, match="tested against itself"):
        critical_failures(systems, human, parse_list("sparcs"), parse("sparcs"))
    with pytest.raises(InputError, match="are all 1; expected different scores"):
        critical_failures(systems, dict.fromkeys(human, 1.0), parse_list("rouge-l"), parse("sparcs"))


def _scores(systems: dict[str, CaptionSet], metric: str) -> np.ndarray:
    measured = [parse(metric).measure(each, RunContext()) for each in systems.values()]
    finished = [parse(metric).from_sums(each.values, np.ones(len(each.values)))["score"] for each in measured]
    return np.stack(finished, axis=1)


def test_a_metric_that_orders_nothing_counts_as_zero() -> None:
    systems = {name: captions(name, ["cats", text]) for name, text in (("a", "a dog"), ("b", "cats"), ("c", "runs"))}
    found = critical_failures(systems, {"a": 3, "b": 1, "c": 2}, parse_list("rouge-l"), parse("sparcs"), resamples=10)
    assert found.failures[0].undecided == 1
    assert found.failures[0].disparities[0] == 0


def test_gravest_cases_become_a_sheet_and_its_labels_a_tally(tmp_path: Path) -> None:
    output = {
        "good": [
            "a brown dog runs on grass",
            "two cats sleep on a sofa",
            "a red ball lies here",
            "a man rides a horse",
        ],
        "fair": ["a dog runs", "cats sleep", "a ball", "a man rides"],
        "poor": ['a "blue", bus', "=1+1 a bus\nstops", "a cat", "nobody"],
    }
    systems = {
        name: CaptionSet.from_captions(
            Caption(f"{k}", f"p{k}", text, (output["poor" if k % 2 else "good"][k], "a sofa, and a bus"))
            for k, text in enumerate(texts)
        )
        for name, texts in output.items()
    }
    human = {"good": 0.9, "fair": 0.6, "poor": 0.1}
    found = critical_failures(systems, human, parse_list("rouge-l,bleu-1"), parse("sparcs"), resamples=20, worst=9)
    inverted = FailureStudy(found.reference, found.human, found.images, [])
    with pytest.raises(InputError, match="no critical failure to label"):
        write_sheet(inverted, tmp_path / "none.csv")
    case = FailureCase(
        "p1", 0.9, -0.8, {name: (texts[1], 0.25) for name, texts in output.items()}, ("two cats, asleep", "cats")
    )
    failures = [replace(each, worst_cases=[case, case, case]) for each in found.failures]
    assert write_sheet(replace(found, failures=failures), tmp_path / "cases.csv") == 6
    rows = read_sheet(tmp_path / "cases.csv")
    assert [row["case"] for row in rows] == ["1", "2", "3"] * 2 and rows[0]["references"] == "two cats, asleep | cats"
    assert rows[0]["caption: poor"] == "=1+1 a bus\nstops" and rows[0]["score: good"] == "0.2500"
    assert list(rows[0])[7::2][:3] == ["caption: good", "caption: fair", "caption: poor"]
    with pytest.raises(InputError, match="no case of rouge-l has a cause yet"):
        tally(rows)
    for row, cause in zip(rows, ("c1", "c1", "RF", "c2", "", "C2 "), strict=True):
        row["cause"] = cause
    with (tmp_path / "back.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    rouge, bleu = tally(read_sheet(tmp_path / "back.csv"), resamples=50)
    assert {cause: round(share.value, 3) for cause, share in rouge.shares.items()} == {
        "c1": 0.667,
        "c2": 0,
        "RF": 0.333,
    }
    assert (bleu.labelled, bleu.unlabelled, bleu.shares["c2"].value) == (2, 1, 1.0)
    (tmp_path / "back.csv").write_text("metric,cause\nrouge-l,c9\n")
    with pytest.raises(InputError, match="row 2: unknown cause 'c9'; expected c1, c2, RF, or nothing"):
        read_sheet(tmp_path / "back.csv")
    (tmp_path / "back.csv").write_text("metric,why\nrouge-l,c1\n")
    with pytest.raises(InputError, match="there is no column 'cause'"):
        read_sheet(tmp_path / "back.csv")


# --- ties


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4)), min_size=3, max_size=9))
def test_tau_counts_the_pairs_that_neither_group_ties(points: list[tuple[int, int, int]]) -> None:
    first, second, scores = (np.array(column, float) for column in zip(*points, strict=True))
    remaining = [
        np.sign(first[i] - first[j]) * np.sign(scores[i] - scores[j])
        for i, j in itertools.combinations(range(len(points)), 2)
        if first[i] != first[j] and second[i] != second[j]
    ]
    if not remaining:
        with pytest.raises(InputError, match="every pair of captions is tied"):
            TieFree(first, second)
        return
    pairs = TieFree(first, second)
    assert pairs.count == len(remaining)
    assert pairs.tau(scores) == pytest.approx(np.mean(remaining))
    twice = np.arange(len(points)) % 2 + 1
    repeated = np.repeat(np.arange(len(points)), twice)
    again = TieFree(first[repeated], second[repeated])
    assert pairs.statistic(scores)(twice[None])[0] == pytest.approx(again.tau(scores[repeated]), abs=1e-6)


def test_ties_end_to_end() -> None:
    def judged(ratings: list[tuple[float, ...] | None]) -> CaptionSet:
        output = ["a brown dog runs", "a dog", "cats", "a brown cat", "a dog runs"]
        return CaptionSet.from_captions(
            Caption(str(k), f"p{k}", text, ("a brown dog runs", "the dog"), human=human)
            for k, (text, human) in enumerate(zip(output, ratings, strict=True))
        )

    experts, crowd = judged([(4, 4), (3, 2), (1, 1), (1, 2), None]), judged([(1,), (1,), (0,), (0, 1), (1,)])
    found = tie_free(experts, crowd, parse_list("sparcs"), resamples=20)
    assert (found.captions, found.all_pairs, found.pairs, found.ordered_pairs) == (4, 6, 5, 6)
    assert [row.name for row in found.rows] == ["inter-human", "sparcs"]
    assert found.rows[0].tie_free.value == 1
    assert found.rows[0].ordered.value == pytest.approx(5 / 6)
    assert found.rows[1].tau_b.value > 0.5
    assert without_own(experts).ids == ("1", "2", "3", "4")
    table = tie_table(found)
    assert [row[-2:] for row in table.rows] == [
        ["0.655 (Feinglass and Yang 2021)", "-"],
        ["0.716 (Feinglass and Yang 2021)", "0.481 (Feinglass and Yang 2021)"],
    ]
    with pytest.raises(InputError, match="both groups judged 0 captions"):
        tie_free(experts, judged([None] * 5), parse_list("sparcs"))


def test_ties_take_document_frequencies_from_the_whole_set() -> None:
    texts = ["a brown dog runs", "two cats sleep", "a red ball", "a man rides a horse", "a red bus", "a cat sleeps"]
    every = CaptionSet.from_captions(
        Caption(str(k), f"p{k}", text, (text + " today", "a dog"), human=(1 + k % 4,)) for k, text in enumerate(texts)
    )
    crowd = CaptionSet.from_captions(
        Caption(str(k), f"p{k}", text, ("x",), human=(k,)) for k, text in enumerate(texts[:4])
    )
    visits = []

    def spied(captions: CaptionSet, metrics: object, **how: object) -> object:
        visits.append((len(captions), how["corpus"]))
        return evaluate(captions, metrics, **how)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("capmeter_research.papers.smurf.experiments.ties.evaluate", spied)
        tie_free(every, crowd, parse_list("cider-d"), resamples=10)
    assert visits == [(4, every)]


def test_published_failures_stand_beside_their_reference_metric_alone() -> None:
    probability = Interval(0.2, 0.1, 0.3, 0.95, np.zeros(2))
    rows = [Failures(name, probability, np.zeros(3), 0, []) for name in ("cider-d", "smurf", "cider-d(n=3)")]
    study = FailureStudy("smurf(encoder=minilm)", {"a": 1.0, "b": 2.0}, 3, rows)
    assert [row[-1] for row in failure_table(study).rows] == ["0.237 (Feinglass and Yang 2021)", "-", "-"]
    note = failure_table(study).note
    assert note.endswith("the paper's smurf (distilbert+distilroberta), not smurf(encoder=minilm)")
    by_spice = failure_table(replace(study, reference="spice"))
    assert [row[-1] for row in by_spice.rows] == ["-", "0.038 (Feinglass and Yang 2021)", "-"]


def test_causes_and_grammar_stand_beside_the_papers() -> None:
    rows = [{"metric": name, "cause": "c1"} for name in ("cider-d", "smurf(encoder=minilm)", "bleu-4")]
    table = tally_table(tally(rows, resamples=10))
    assert [row[-1] for row in table.rows] == ["0.35 0.65 0.00", "0.40 0.30 0.30", "-"]
    assert tally_table(tally([{"metric": "spice", "cause": "x"}], ["x"], resamples=10)).rows[0][-1] == "-"
    interval = Interval(0.2, 0.1, 0.3, 0.95, np.zeros(2))
    agreements = [GrammarAgreement(name, {"a": 1.0}, interval, interval) for name in ("mima(encoder=minilm)", "sparcs")]
    found = grammar_table(Grammar({"a": 1.0}, 3, agreements))
    other = "other encoder: {} (distilbert, Feinglass and Yang 2021)"
    assert found.rows[0][-2:] == [other.format("0.852"), other.format("0.913")] and found.rows[1][-2:] == ["-", "-"]


# --- what is refused


def test_a_draw_in_which_all_systems_are_alike_counts_as_zero() -> None:
    output = {"a": ["x y", "x y"], "b": ["x y", "x y"], "c": ["z", "x y"]}  # the second sentence alone orders nothing
    systems = {
        name: CaptionSet.from_captions(Caption(str(k), str(k), text, ("x y",)) for k, text in enumerate(texts))
        for name, texts in output.items()
    }
    (found,) = grammar(systems, {"a": 3, "b": 2, "c": 1}, parse_list("rouge-l"), resamples=50).agreements
    assert found.spearman.value == pytest.approx(0.75**0.5)
    assert found.spearman.low == 0.0 and found.spearman.high == pytest.approx(0.75**0.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"ranks": 3}]', r"row 1: ranks is 3; expected \{system: rank\}"),
        ('[{"ranks": {"a": "x", "b": 1}}]', "row 1: the rank of a is 'x'; expected a number"),
        ('{"a": 1' + "0" * 400 + "}", "a is 10.*; expected a number"),
    ],
)
def test_what_is_no_score_of_a_system(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "people.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_system_scores(str(tmp_path / "people.json"))


def test_a_line_that_is_no_object_among_corrections(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"systems": {"a": "x"}}\n3\n')
    with pytest.raises(InputError, match=r"rows\.jsonl"):
        read_corrections(str(tmp_path / "rows.jsonl"))
