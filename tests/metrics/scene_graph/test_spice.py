"""SPICE: by hand, against the official program, and as a metric among others."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support.spice_parses import Recorded, official_set, recorded, use_parser
from support.written_parses import caption

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError, MissingBackend
from capmeter.evaluation.base import RunContext
from capmeter.meta.metric_scores import read_scores
from capmeter.metrics.scene_graph.spice import SUBSETS, Spice, scene_graphs
from capmeter.metrics.scene_graph.spice_results import _detailed_row, read_spice, write_spice
from capmeter.report.explain import explain, render_explanations, to_dicts
from capmeter.text.parsing.parsers import corenlp_status, find_parser, parse_captions
from capmeter.text.scene_graphs.extraction import Scenes, _load_factory, find_synset_lookup
from capmeter.text.scene_graphs.graph import _TupleEvidence

pytestmark = pytest.mark.meteor

RIDES = (
    "a/DT/a/3/det young/JJ/young/3/amod girl/NN/girl/4/nsubj rides/VBZ/ride/0/root two/CD/two/6/nummod "
    "horses/NNS/horse/4/dobj"
)
PARSES = {
    "a young girl rides two horses": caption(RIDES),
    "a kid on a brown horse": caption(
        "a/DT/a/2/det kid/NN/kid/0/root on/IN/on/6/case a/DT/a/6/det brown/JJ/brown/6/amod horse/NN/horse/2/nmod"
    ),
    "a girl rides horses": caption("a/DT/a/2/det girl/NN/girl/3/nsubj rides/VBZ/ride/0/root horses/NNS/horse/3/dobj"),
    "well": caption("well/RB/well/0/root"),
    "": caption(),
}


@pytest.fixture(autouse=True)
def resources() -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")


@pytest.fixture
def fixed_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parses above, whatever parser is named."""
    use_parser(monkeypatch, Recorded(PARSES))


CANDIDATES = ["a young girl rides two horses", "well", ""]
REFERENCES = [["a girl rides horses", "a kid on a brown horse"]] * 3


def test_by_hand(fixed_parses):
    """True: girl, horse, girl–ride–horse of 5; the references have girl/kid, horse, brown, ride, on."""
    results = capmeter.score(candidates=CANDIDATES, references=REFERENCES, metrics="spice")
    scores = results["spice"]
    assert scores.part_items["precision"]["0"] == 3 / 5
    assert scores.part_items["recall"]["0"] == 3 / 6
    assert scores.items["0"] == pytest.approx(2 * 0.6 * 0.5 / 1.1)
    assert scores.items["1"] == scores.items["2"] == 0
    assert scores.score == pytest.approx(scores.items["0"] / 3)
    assert scores.parts["color-captions"] == 3
    assert scores.parts["cardinality-captions"] == scores.parts["cardinality"] == 0
    assert scores.parts["relation"] == pytest.approx(2 / 3 / 3)
    assert scores.notes["no tuple in candidate"] == ["1"]
    assert scores.notes["empty candidate"] == ["2"]
    assert "spice|input:tokens|parser:recorded|synonyms:meteor-1.5|graphs:spice-1.0" in scores.signature


def test_synonyms_can_be_left_out(fixed_parses):
    pair = {"candidates": ["a kid on a brown horse"], "references": [["a young girl rides two horses"]]}
    assert capmeter.score(**pair, metrics="spice")["spice"].part_items["precision"]["0"] == 1 / 4
    results = capmeter.score(**pair, metrics="spice(synonyms=false)")
    assert results["spice(synonyms=false)"].part_items["precision"]["0"] == 1 / 4  # horse
    assert "synonyms:none" in results["spice(synonyms=false)"].signature


def test_a_caption_that_could_not_be_parsed_is_noted(fixed_parses):
    results = capmeter.score(candidates=["qqq", "well"], references=[["well"], ["qqq", "well"]], metrics="spice")
    assert results["spice"].notes["candidate could not be parsed"] == ["0"]
    assert results["spice"].notes["reference could not be parsed"] == ["1"]
    assert results["spice"].score == 0


def test_parts_equal_the_set_and_rows_survive_a_file(fixed_parses, tmp_path):
    captions = CaptionSet.from_captions(
        Caption(str(k), str(k), text, tuple(REFERENCES[0])) for k, text in enumerate(PARSES)
    )
    expected = Spice().measure(captions, RunContext()).values
    halves = [Spice().measure(captions.select(rows), RunContext()).values for rows in ([0, 1], [2, 3, 4])]
    assert np.array_equal(np.concatenate(halves), expected)
    results = capmeter.score(captions, "spice")
    results.save(tmp_path / "results.json")
    again = type(results).read(tmp_path / "results.json")
    assert again["spice"].parts == results["spice"].parts
    assert again.intervals(resamples=20) == results.intervals(resamples=20)


def test_an_unknown_parser_is_refused():
    with pytest.raises(InputError, match="parser=x is not caption or corenlp"):
        capmeter.parse("spice(parser=x)")


def test_explanation_has_matches_and_the_most_similar_tuples(fixed_parses):
    captions = CaptionSet.from_captions([Caption("7", "7", CANDIDATES[0], tuple(REFERENCES[0]))])
    (explanation,) = explain(captions, "spice")
    scene = explanation.evidence["spice"].scene
    assert scene is not None
    assert {each for each in scene.tuples if each.side == "candidate"} == {
        _TupleEvidence("candidate", "object", ("girl",), matched=True),
        _TupleEvidence("candidate", "object", ("horse",), matched=True),
        _TupleEvidence("candidate", "attribute", ("girl", "young"), False, None),
        _TupleEvidence("candidate", "attribute", ("horse", "two"), False, ("horse", "brown")),
        _TupleEvidence("candidate", "relation", ("girl", "ride", "horse"), matched=True),
    }
    console = Console(width=100)
    with console.capture() as capture:
        console.print(render_explanations([explanation]))
    assert "two horse (nearest: brown horse)" in capture.get()
    assert (
        json.loads(json.dumps(to_dicts([explanation])))[0]["evidence"]["spice"]["scene"]["tuples"][0]["kind"]
        == "object"
    )


def test_result_files_of_the_program(fixed_parses, tmp_path):
    captions = CaptionSet.from_captions([Caption("7", "7", CANDIDATES[0], tuple(REFERENCES[0]))])
    ((candidate, reference),) = scene_graphs(captions, Scenes("caption"), synonyms=True)
    write_spice(tmp_path / "old.json", [("7", candidate, reference)])
    (row,) = read_spice(tmp_path / "old.json", find_synset_lookup(True))
    assert row.counts["all"].f == Spice().measure(captions, RunContext()).values[0, 0]
    assert row.candidate is not None
    assert row.reference is not None
    assert _detailed_row("7", row.candidate, row.reference) == _detailed_row("7", candidate, reference)
    saved = json.loads((tmp_path / "old.json").read_text())
    assert list(saved[0]["scores"]) == ["All", *(kind.capitalize() for kind in SUBSETS)]
    assert saved[0]["scores"]["Size"]["f"] is None
    assert read_scores(tmp_path / "old.json", ["7"]) == {"spice": {"7": row.counts["all"].f}}
    (tmp_path / "bad.json").write_text('[{"image_id": 1, "scores": {"All": {"tp": 1.5, "fp": 0, "fn": 0}}}]')
    with pytest.raises(InputError, match="integers"):
        read_spice(tmp_path / "bad.json")


@pytest.mark.parametrize(("name", "every"), [("flickr8k_expert", 4), ("coco_systems", 4), ("composite_even_rows", 8)])
def test_official_scores_from_official_parses(shared: Path, monkeypatch: pytest.MonkeyPatch, name: str, every: int):
    """Score, precision, recall of every row to the last digit; subsets of all rows but one."""
    use_parser(monkeypatch, recorded(shared))
    captions, expected = official_set(shared, name, every)
    scores = capmeter.score(captions, "spice(input=raw)")["spice(input=raw)"]
    assert scores.items.array.tolist() == [row["f"] for row in expected]
    for kind in SUBSETS:
        true, extra, missed = np.array([row[kind] for row in expected]).T
        counting = true + missed > 0
        assert scores.parts[f"{kind}-captions"] == counting.sum()
        precision = np.divide(true, true + extra, out=np.zeros(len(true)), where=true + extra > 0)
        recall = np.divide(true, true + missed, out=np.zeros(len(true)), where=counting)
        total = precision + recall
        f = np.divide(2 * precision * recall, total, out=np.zeros(len(true)), where=(total > 0) & counting)
        assert (np.abs(scores.part_items[kind].array - f) > 1e-12).sum() <= (kind == "color")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mean"), [("flickr8k_expert", 0.06262), ("coco_systems", 0.20102), ("composite_even_rows", 0.20413)]
)
def test_official_scores_of_all_rows(shared: Path, monkeypatch: pytest.MonkeyPatch, name: str, mean: float):
    use_parser(monkeypatch, recorded(shared))
    captions, expected = official_set(shared, name)
    scores = capmeter.score(captions, "spice(input=raw)")["spice(input=raw)"]
    assert scores.items.array.tolist() == [row["f"] for row in expected]
    assert scores.score == pytest.approx(mean, abs=5e-6)


def test_spider_is_the_mean_of_spice_and_cider_d(fixed_parses):
    results = capmeter.score(
        candidates=CANDIDATES,
        references=[REFERENCES[0], ["well", "so"], ["a kid on a brown horse"]],
        metrics="spider,spice,cider-d",
    )
    spider = results["spider"]
    assert spider.items["0"] == (results["spice"].items["0"] + results["cider-d"].items["0"]) / 2
    assert spider.score == pytest.approx((results["spice"].score + results["cider-d"].score) / 2)
    assert spider.items["1"] > 0  # by n-grams alone
    assert spider.parts["spice"] == results["spice"].score
    assert "parser:recorded" in spider.signature


OFFICIAL_PARSES = {  # of the official parser, whose output depends on case and punctuation
    "a man in a red cap throws a ball": caption(
        "a/DT/a/2/det man/NN/man/7/nsubj in/IN/in/6/case a/DT/a/6/det red/JJ/red/6/amod cap/NN/cap/2/nmod "
        "throws/VBZ/throw/0/root a/DT/a/9/det ball/NN/ball/7/dobj"
    ),
    "his dog runs after it": caption(
        "his/PRP$/he/2/nmod:poss dog/NN/dog/3/nsubj runs/VBZ/run/0/root after/IN/after/5/case it/PRP/it/3/nmod"
    ),
    "the dog runs": caption("the/DT/the/2/det dog/NN/dog/3/nsubj runs/VBZ/run/0/root"),
    "A man in a Red cap throws a ball. His dog runs after it!": caption(
        "A/DT/a/2/det man/NN/man/7/nsubj in/IN/in/6/case a/DT/a/6/det Red/NNP/Red/6/compound cap/NN/cap/2/nmod "
        "throws/VBZ/throw/0/root a/DT/a/9/det ball/NN/ball/7/dobj ./././7/punct",
        "His/PRP$/he/2/nmod:poss dog/NN/dog/3/nsubj runs/VBZ/run/0/root after/IN/after/5/case it/PRP/it/3/nmod "
        "!/./!/3/punct",
    ),
    "two cats asleep on the sofa": caption(
        "two/CD/two/2/nummod cats/NNS/cat/3/nmod:npmod asleep/JJ/asleep/0/root on/IN/on/6/case the/DT/the/6/det "
        "sofa/NN/sofa/3/nmod"
    ),
    "Two cats, asleep on the sofa.": caption(
        "Two/CD/two/2/nummod cats/NNS/cat/0/root ,/,/,/2/punct asleep/NNP/asleep/2/appos on/IN/on/7/case "
        "the/DT/the/7/det sofa/NN/sofa/4/nmod ././././2/punct"
    ),
    "The dog, runs.": caption("The/DT/the/2/det dog/NN/dog/4/nsubj ,/,/,/2/punct runs/VBZ/run/0/root ././././4/punct"),
}


def test_the_parser_reads_the_tokens_of_each_sentence_as_in_papers_or_captions_as_written(monkeypatch):
    use_parser(monkeypatch, Recorded(OFFICIAL_PARSES))
    candidates = ["A man in a Red cap throws a ball. His dog runs after it!", "Two cats, asleep on the sofa."]
    results = capmeter.score(
        candidates=candidates,
        references=[["The dog, runs."], ["two cats asleep on the sofa"]],
        metrics="spice,spice(input=raw),spider(input=raw)",
    )
    tokens, raw = results["spice"], results["spice(input=raw)"]
    # man, ball, cap, dog, red cap, man throw ball, man in cap, dog run after dog: two sentences, read one by one
    assert tokens.part_items["precision"]["0"] == 1 / 8
    assert tokens.items["1"] == 1.0
    assert raw.items["1"] == pytest.approx(
        2 * 3 / (5 + 3)
    )  # after the comma "asleep" is a name, with an object of its own
    assert tokens.notes == raw.notes == {}
    assert "|input:tokens|" in tokens.signature and "|tokenizer:ptb-3.4.1-caption|" in tokens.signature
    assert "|input:raw|" in raw.signature and "tokenizer" not in raw.signature
    assert results["spider(input=raw)"].parts["spice"] == raw.score


def test_a_sentence_that_could_not_be_parsed_leaves_the_text_without_tuples(monkeypatch):
    use_parser(monkeypatch, Recorded(OFFICIAL_PARSES))
    results = capmeter.score(candidates=["The dog runs. Qqq."], references=[["the dog runs"]], metrics="spice")
    assert results["spice"].notes["candidate could not be parsed"] == ["0"]


def test_graphs_of_a_package_that_is_not_installed_are_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **kwargs: ())
    _load_factory.cache_clear()
    with pytest.raises(MissingBackend, match="graphs=factual: it is part of capmeter-research, which"):
        capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics="spice(graphs=factual)")


@pytest.mark.skipif(not corenlp_status()[0], reason="needs Java and Stanford CoreNLP (CAPMETER_CORENLP)")
def test_the_official_parser_reads_both_inputs_as_recorded():
    for text, expected in OFFICIAL_PARSES.items():
        assert parse_captions(find_parser("corenlp"), [text]) == [expected]
