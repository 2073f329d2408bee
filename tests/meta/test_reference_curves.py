"""Agreement by number of references: nested draws, the whole at the end, one pool for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capmeter.core.errors import InputError
from capmeter.judgments.prepared import Points, RatedCaption, RatedPair, prepare_pairs, prepare_points
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import measure_agreement
from capmeter.meta.coefficient import make_statistic
from capmeter.meta.metric_scores import score_judgments
from capmeter.meta.reference_curves import numbers_up_to, parse_numbers, reference_curve
from capmeter.report.agreement import curve_table

WORDS = [
    "a",
    "dog",
    "runs",
    "over",
    "green",
    "grass",
    "while",
    "two",
    "children",
    "look",
    "at",
    "it",
    "from",
    "far",
    "away",
]


@pytest.fixture(scope="module")
def judged() -> Points:
    random = np.random.default_rng(0)

    def sentence(length: int) -> str:
        return " ".join(random.choice(WORDS, length))

    rows = []
    for image in range(30):
        references = tuple(sentence(7) for _ in range(5))
        for k in range(3):
            shared = references[0].split()[: 2 * k + 1]
            rows.append(
                RatedCaption(f"{image}#{k}", str(image), " ".join(shared) + " " + sentence(3), references, (k,))
            )
    return prepare_points("mine", rows, Protocol(name="p", ratings="mean", statistic="tau-b"))


def test_all_references_give_the_value_itself(judged: Points) -> None:
    curve = reference_curve(judged, "rouge-l,bleu-1", (1, 3, 5), repeats=3, seed=1)
    scores, *_ = score_judgments(judged, "rouge-l,bleu-1")
    rows = {(row.metric, row.references): row for row in curve}
    assert set(rows) == {(name, number) for name in ("rouge-l", "bleu-1") for number in (1, 3, 5)}
    for name in ("rouge-l", "bleu-1"):
        last = rows[name, 5]
        assert (last.low, last.value, last.high) == pytest.approx([100 * make_statistic(judged, scores[name])()] * 3)
        assert rows[name, 1].low < rows[name, 1].high and last.n == 3  # which single reference was sampled matters


def test_seeds(judged: Points) -> None:
    first, again, other = (reference_curve(judged, "rouge-l", (2,), repeats=2, seed=seed) for seed in (1, 1, 2))
    assert first == again and first[0].value != other[0].value


@pytest.mark.parametrize("numbers", [(), (0, 1), (1, 6)])
def test_numbers_out_of_range(judged: Points, numbers: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="from 1 to 5"):
        reference_curve(judged, "rouge-l", numbers)


def test_numbers_up_to() -> None:
    assert numbers_up_to(5) == (1, 2, 3, 4, 5)
    many = numbers_up_to(48)
    assert many[0] == 1 and many[-1] == 48 and len(many) <= 12 and list(many) == sorted(set(many))


def test_chosen_parse_numbers_references() -> None:
    assert parse_numbers("4") == (1, 2, 3, 4) and parse_numbers("1,20, 5") == (1, 5, 20)
    for wrong in ("", "0", "1,x", "1,-2", "1,"):
        with pytest.raises(InputError, match="not a number of references"):
            parse_numbers(wrong)


def test_the_curve_of_each_category() -> None:
    texts = ["a dog runs", "two cats sleep", "a red ball", "a man rides a horse"] * 6
    rows = [
        RatedPair(
            str(k),
            f"i{k}",
            (text, "a bus stops") if k % 3 else ("a bus stops", text),
            (f"{text} today", "a bus", f"{text}"),
            1,
            groups={"category": "AB"[k % 2]},
        )
        for k, text in enumerate(texts)
    ]
    judged = prepare_pairs("mine", rows, Protocol(name="p", statistic="accuracy", by="category"))
    curve = reference_curve(judged, "rouge-l", (1, 3), repeats=2)
    values = {(row.subset, row.references): row.value for row in curve}
    assert all((values["A", k] + values["B", k]) / 2 == pytest.approx(values["all", k]) for k in (1, 3))
    table = measure_agreement(judged, {"rouge-l": np.arange(48.0)}, resamples=10).add(curve)
    assert [row[0] for row in curve_table(table).rows] == ["rouge-l", "  A", "  B"]
    (row,) = reference_curve(replace(judged, groups=None), "rouge-l", (1,), repeats=1)
    assert row.subset == "all"
