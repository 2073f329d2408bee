from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import ROWS, caption_set
from support.research import needs_research

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError, MetricError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, CorpusState, MeanMetric, Measurement, Metric, RunContext
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.runner import Evaluation, evaluate, score

CLASSIC = "bleu-4,rouge-l,cider,cider-d,cider-r"
pytestmark = pytest.mark.filterwarnings("ignore::capmeter.evaluation.base.CapmeterWarning")


class Parts:
    """A source that gives a set in the parts that were drawn, again at each walk."""

    def __init__(self, captions: CaptionSet, cuts: list[int]) -> None:
        self.pieces = [piece for piece in np.split(np.arange(len(captions)), sorted(cuts)) if len(piece)]
        self.captions = captions

    def __iter__(self):
        # sets of their own, as a file's parts are: no analysis is shared with the whole
        return (CaptionSet.from_captions(self.captions.select(piece)) for piece in self.pieces)


@settings(max_examples=60)
@given(ROWS, st.lists(st.integers(0, 12), max_size=4))
def test_split_and_merge_equals_the_whole(rows, cuts) -> None:
    metrics = parse_list(CLASSIC)
    captions = caption_set(rows)
    complete, parts = evaluate(captions, metrics), evaluate(Parts(captions, cuts), metrics)
    for metric in metrics:
        assert list(parts[metric].items) == list(complete[metric].items)
        assert np.abs(parts[metric].items.array - complete[metric].items.array).max() <= 1e-12
        assert abs(parts[metric].score - complete[metric].score) <= 1e-12
        assert parts[metric].signature == complete[metric].signature
        assert parts[metric].notes == complete[metric].notes


@settings(max_examples=30)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_captions_does_not_matter(rows, random) -> None:
    captions = caption_set(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    metrics = parse_list(CLASSIC)
    straight, turned = evaluate(captions, metrics), evaluate(captions.select(order), metrics)
    for metric in metrics:
        assert turned[metric].items == pytest.approx(dict(straight[metric].items), abs=1e-12)
        assert turned[metric].score == pytest.approx(straight[metric].score, abs=1e-12)


def test_a_candidate_equal_to_its_only_reference_has_the_full_score() -> None:
    texts = ["a man rides a red bike on the road", "two dogs play with a ball in the park", "some food on a table"]
    results = score(candidates=texts, references=[[text] for text in texts], metrics=CLASSIC)
    assert results["bleu-4"].score == pytest.approx(1, abs=1e-8)
    assert results["rouge-l"].score == 1.0
    assert [results[name].score for name in ("cider", "cider-d", "cider-r")] == pytest.approx([10, 10, 10])
    assert results.notes["candidate is one of its own references"] == ["0", "1", "2"]


def test_workers_give_the_same_results_and_pass_warnings_on() -> None:
    rows = [(f"a dog number {k} runs", [f"the dog {k} is running", "a dog"]) for k in range(9)] + [("", ["x"])]
    rows += [(f"w{k} x{k}", [f"y{k} x{k if k < 75 else 300 - k}"]) for k in range(110)]  # the last belong to others
    captions = caption_set(rows)
    metrics = CLASSIC + ",mean(bleu-4,cider-d,standardised=true)"
    alone, shared = (score(captions, metrics, workers=workers) for workers in (1, 2))
    assert not any("other images" in reason for results in (alone, shared) for reason in results.notes)
    for name in alone:
        assert list(shared[name].items) == list(alone[name].items)
        assert np.abs(shared[name].items.array - alone[name].items.array).max() <= 1e-12
        assert (shared[name].notes, shared[name].signature) == (alone[name].notes, alone[name].signature)
    with pytest.warns(CapmeterWarning, match="document frequencies come from 1 document"):
        score(captions.select([0]), "cider-d", workers=2)
    with pytest.raises(InputError, match="workers=0: expected a number of processes from 1 to 256"):
        score(captions, CLASSIC, workers=0)


def test_an_error_in_a_worker_is_the_same_error() -> None:
    captions = CaptionSet.from_captions(Caption(f"x{k}", f"x{k}", "a dog", ()) for k in range(3))
    with pytest.raises(InputError, match="captions have no reference"):
        score(captions, "bleu-4", workers=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected either captions, or candidates="),
        ({"candidates": ["a"], "captions": "x.json"}, "but not both"),
        ({"captions": iter([])}, "can be read only once"),
        ({"captions": [1, 2]}, "is a number|are numbers|expected"),
        ({"candidates": "a dog", "references": [["a dog"]]}, "a dog"),
        ({"candidates": ["a dog"], "references": [7]}, "expected"),
        ({"candidates": [], "references": []}, "an empty list"),
    ],
)
def test_wrong_calls_get_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(**arguments)


@dataclass(frozen=True, kw_only=True)
class Length(MeanMetric):
    """Words of the candidate; counts how often it runs."""

    NAME: ClassVar[str] = "length"
    SUMMARY: ClassVar[str] = "words"
    needs: ClassVar[frozenset[str]] = frozenset()
    runs: ClassVar[list[int]] = []

    columns = ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        self.runs.append(len(part))
        return Measurement(np.array([[len(caption.candidate.split())] for caption in part], np.float64))


@dataclass(frozen=True, kw_only=True)
class Composite(MeanMetric):
    """Twice the length, asked of the run and not computed again."""

    NAME: ClassVar[str] = "composite"
    SUMMARY: ClassVar[str] = "twice the words"
    needs: ClassVar[frozenset[str]] = frozenset()
    by: float = 2.0

    columns = ("score", "length")

    def required_metrics(self) -> tuple[Metric, ...]:
        return (Length(),)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        length = context.scores[Length()]["score"]
        return Measurement(np.column_stack([self.by * length, length]))


def test_a_composite_metric_gets_the_scores_it_requires_once() -> None:
    Length.runs.clear()
    captions = CaptionSet.from_captions([Caption("a", "a", "one two"), Caption("b", "b", "one")])
    results = evaluate(captions, [Composite(), Length()])
    assert Length.runs == [2]
    assert dict(results["composite"].items) == {"a": 4.0, "b": 2.0}
    assert results["composite"].parts == {"length": 1.5}
    alone = evaluate(captions, [Composite(by=3.0)])
    assert list(alone) == ["composite(by=3.0)"]


def test_the_signature_says_everything_that_moves_the_number() -> None:
    captions = caption_set([("a dog", ["a dog"]), ("a cat", ["two cats"])])
    results = evaluate(captions, parse_list("bleu-2,cider-d(sigma=5)"))
    assert results["bleu-2"].signature == (
        f"bleu-2|tokenizer:ptb-3.4.1-caption|references:each|smooth:1e-15/1e-9|length:closest|capmeter:{capmeter.__version__}"
    )
    assert results["cider-d(sigma=5)"].signature.startswith("cider-d|n:4|idf:run/2 documents/")
    assert "|sigma:5.0|" in results["cider-d(sigma=5)"].signature
    assert Evaluation((Length(),)).signature(Length()) == f"length|capmeter:{capmeter.__version__}"


class Ran(Exception):
    """Something was run."""


@dataclass(frozen=True, kw_only=True)
class Looks(MeanMetric):
    """Looks at pictures; it must not come so far as to collect or measure."""

    NAME: ClassVar[str] = "looks"
    SUMMARY: ClassVar[str] = "looks"
    needs: ClassVar[frozenset[str]] = frozenset({"image"})
    columns = ("score",)

    def corpus_state(self) -> Any:
        return Collects()

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        raise Ran


@dataclass(frozen=True)
class Collects(CorpusState):
    def collect(self, part: CaptionSet, context: RunContext) -> Any:
        raise Ran


PICTURED = [{"image_id": k, "candidate": "a", "references": ["b"], "image": f"{k}.png"} for k in range(9)]


def test_what_a_metric_needs_is_said_before_anything_runs() -> None:
    with pytest.raises(Ran):
        evaluate(load(PICTURED), [Looks()])
    rows = [row if k in (2, 4) else {**row, "image": None} for k, row in enumerate(PICTURED)]
    with pytest.raises(
        InputError, match=r"7 captions name no picture \(the first: 0, 1, 3, 5, 6\), but looks needs images"
    ):
        evaluate(load(rows), [Looks()])
    rows = [{**row, "references": []} if k == 8 else row for k, row in enumerate(PICTURED)]
    with pytest.raises(InputError, match=r"1 caption has no reference \(the first: 8\), but cider needs references"):
        evaluate(load(rows, on_missing="keep"), [Looks(), parse("cider")])


def test_pictures_may_come_with_the_references() -> None:
    references = [{"image_id": k, "references": ["b"], "image": f"{k}.png"} for k in range(3)]
    candidates = [{"image_id": k, "candidate": "a"} for k in range(3)]
    with pytest.raises(Ran):
        evaluate(load(candidates, references), [Looks()])


def test_no_format_carries_regions() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Regions(Looks):
        needs: ClassVar[frozenset[str]] = frozenset({"regions"})

    with pytest.raises(InputError, match=r"9 captions have no regions .* but looks needs regions"):
        evaluate(load(PICTURED), [Regions()])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1.0, 2.0]), r"returned float64\[2\] for 2 captions; expected float64\[2, 1\]: one row per caption"),
        (np.ones((2, 2)), r"returned float64\[2, 2\] for 2 captions"),
        (np.ones((3, 1)), r"returned float64\[3, 1\] for 2 captions"),
        (np.ones((2, 1), np.int64), r"returned int64\[2, 1\]"),
        ([[1.0], [2.0]], "returned list for 2 captions"),
        (np.array([[1.0], [1e308]]), r"a value is not a finite number of at most 1e.100 for the captions \['b'\]"),
        (np.array([[1.0], [np.nan]]), r"a value is not a finite number of at most 1e.100 for the captions \['b'\]"),
        (np.array([[1.0], [np.inf]]), r"a value is not a finite number of at most 1e.100 for the captions \['b'\]"),
    ],
)
def test_rows_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, values: Any, message: str) -> None:
    captions = CaptionSet.from_captions([Caption("a", "a", "one"), Caption("b", "b", "two")])
    monkeypatch.setattr(Length, "measure", lambda *_: Measurement(values))
    with pytest.raises(MetricError, match=r"length \(from the module [\w.]*test_runner\): .*" + message):
        evaluate(captions, [Length()])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"other": 1.0}, 'must return a dict with "score" first'),
        ({"score": np.float64(1)}, "from_sums returned score of shape"),
        (None, 'must return a dict with "score" first'),
    ],
)
def test_scores_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, scores: Any, message: str) -> None:
    captions = CaptionSet.from_captions([Caption("a", "a", "one"), Caption("b", "b", "two")])
    monkeypatch.setattr(Length, "from_sums", lambda *_: scores)
    with pytest.raises(MetricError, match=message):
        evaluate(captions, [Length()])


def test_what_is_not_collected_is_not_measured() -> None:
    captions = caption_set([("a dog", ["a dog"]), ("a cat", ["two cats"])])
    with pytest.raises(RuntimeError, match="must be collected before captions are measured"):
        Evaluation(tuple(parse_list("cider-d"))).measure(captions)


NEURAL = "bertscore,bertscore(idf=true),tbr,sbert,mima(encoder=minilm),spurts(encoder=minilm),smurf(encoder=minilm)"


def test_runners_with_other_settings_at_the_same_time_do_not_disturb_each_other() -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    captions = caption_set([(f"a dog runs after {k} cats", ["a dog chases cats", "cats run"]) for k in range(12)])
    ways = [Settings(precision="float32"), Settings(precision="half", tokens=16, threads=1)]
    alone = [score(captions.select(range(12)), NEURAL, settings=way) for way in ways]
    for name in alone[0]:
        assert not np.array_equal(alone[0][name].items.array, alone[1][name].items.array)
        assert all(
            f"|precision:{way.precision}|" in each[name].signature for way, each in zip(ways, alone, strict=True)
        )
    with ThreadPoolExecutor(4) as threads:  # on one set, whose analyses are remembered
        together = list(threads.map(lambda way: score(captions, NEURAL, settings=way), ways * 2))
    for expected, got in zip(alone * 2, together, strict=True):
        for name in expected:
            # a torch operation's threads, which the first of two evaluations sets, may move the last bits
            np.testing.assert_allclose(got[name].items.array, expected[name].items.array, rtol=0, atol=1e-5)
            assert got[name].signature == expected[name].signature


def test_settings_reach_every_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    from capmeter.encoders.text import encoder

    used: set[tuple[str, Settings]] = set()
    plain = encoder.Encoder.encode_ids

    def watched(self: Any, *arguments: Any, **more: Any) -> Any:
        used.add((self.precision.name, self.settings))
        return plain(self, *arguments, **more)

    monkeypatch.setattr(encoder.Encoder, "encode_ids", watched)
    way = Settings(device="cpu", precision="half", tokens=77)
    captions = caption_set([("a zebra yawns at noon", ["the zebra is yawning", "zebras"])])
    for name in parse_list(NEURAL):
        used.clear()
        evaluation = Evaluation((name,), way).with_collected_states(captions)
        evaluation.run(captions)
        if name.can_explain:
            evaluation.explain(captions)
        assert used <= {("bfloat16", way)}
    assert used


@needs_research
def test_scores_reach_the_end_of_their_range_and_do_not_leave_it_by_more_than_rounding() -> None:
    texts = ["a man rides a red bike on the road", "two dogs play with a ball in the park", "some food on a table"]
    names = [*CLASSIC.split(","), "tbr-unigram", "sparcs"]
    largest = {name: 10.0 if name.startswith("cider") else 1.0 for name in names}
    room = dict.fromkeys(names, 1e-14)
    if find_spec("torch") is not None:
        largest |= {"tbr": 1.0, "sbert": 1.0, "bertscore": 1.0, "wembsim": 1.0, "mowe": 1.0, "wmd": 1.0}
        room |= {"tbr": 0.0, "sbert": 0.0, "bertscore": 1e-6, "wembsim": 1e-14, "mowe": 1e-14, "wmd": 1e-14}
    results = score(candidates=texts, references=[[text] for text in texts], metrics=list(largest))
    for name, most in largest.items():
        result = results[name].items.array
        assert result.max() <= most + room[name], name
        assert result.min() >= most - 1e-6, name


@pytest.mark.parametrize(("source", "found"), [({"a dog"}, "set of str"), (None, "NoneType"), (5, "int")])
def test_what_is_no_caption_set_is_said(source: Any, found: str) -> None:
    with pytest.raises(InputError, match=f"expected caption sets, but got a {found}; read captions with"):
        capmeter.explain(source, "rouge-l")
    with pytest.raises(InputError, match="is not a metric; expected a name"):
        capmeter.score(candidates=["a dog"], references=["a dog"], metrics=source and [source])
