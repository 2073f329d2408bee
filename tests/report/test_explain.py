from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from support.page_examples import HOSTILE

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls
from capmeter.evaluation.evidence import Contributions, Evidence, Link, Mark
from capmeter.evaluation.runner import score
from capmeter.report.explain import Explanation, explain, render_explanations, to_dicts
from capmeter.report.page_data import PackedEvidence

CAPTIONS = load(
    {"one": "a dog runs on grass", "two": "a cat", "three": "two birds fly"},
    {"one": ["the dog runs on the grass"], "two": ["a blue car"], "three": ["two birds fly", "birds fly"]},
)


def plain(result: list[Explanation]) -> str:
    text = io.StringIO()
    Console(file=text, width=160, color_system=None).print(render_explanations(result))
    return text.getvalue()


def test_the_worst_are_found_by_the_metric_that_was_named() -> None:
    result = explain(CAPTIONS, "rouge-l,cider-d", worst=2, by="bleu-1")
    assert [each.caption.id for each in result] == ["two", "one"]
    assert list(result[0].scores) == ["rouge-l", "cider-d", "bleu-1"] and list(result[0].evidence) == [
        "rouge-l",
        "cider-d",
    ]
    assert [each.caption.id for each in explain(CAPTIONS, "rouge-l", worst=1, best=True)] == ["three"]


def test_one_caption_is_explained_as_it_was_scored_among_all() -> None:
    (alone,) = explain(CAPTIONS, "cider-d", ids=["one"])
    among = next(each for each in explain(CAPTIONS, "cider-d") if each.caption.id == "one")
    assert alone == among
    weights = {link.kind: link.weight for link in alone.evidence["cider-d"].links}
    assert weights and all(weight > 0 for weight in weights.values())  # idf of three documents, not of one


def test_results_of_other_captions_and_wrong_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="results are not of these captions"):
        explain(CAPTIONS, "rouge-l", worst=1, stored=score(CAPTIONS.select([1, 0, 2]), metrics="rouge-l"))
    for worst in (0, -1, 1.5, "1"):
        with pytest.raises(InputError, match="worst: expected a whole number"):
            explain(CAPTIONS, "rouge-l", worst=worst)  # type: ignore[arg-type]


def test_json_names_the_words_of_every_match() -> None:
    (result,) = json.loads(json.dumps(to_dicts(explain(CAPTIONS, "rouge-l", ids=["one"]))))
    assert result["candidate"] == "a dog runs on grass" and result["references"] == ["the dog runs on the grass"]
    links = result["evidence"]["rouge-l"]["links"]
    assert {link["words"] for link in links} and all(link["words"] == link["reference_words"] for link in links)
    assert "grass" in " ".join(link["words"] for link in links)


def test_the_terminal_shows_words_weights_and_marks() -> None:
    evidence = Evidence(
        ("a", "dog", "runs"),
        (("the", "dog", "run"),),
        (Link((1, 2), 0, (1, 2), "exact", 1.5), Link((2, 3), 0, (2, 3), "stem", 0.6)),
        (Mark("candidate", None, 0, 1, "unmatched"), Mark("reference", 0, 0, 1, "cut")),
        {"chunks": 1.0, "rule": "greedy"},
    )
    caption = CAPTIONS["one"]
    display = plain([Explanation(caption, {"m": 0.25}, {"m": evidence})])
    for text in ("0.2500", "dog 1.5", "runs ~ run 0.6", "chunks 1", "rule greedy", "unmatched", "cut", "stem"):
        assert text in display
    scored = replace(evidence, links=(), marks=(), word_scores=(1.0, 0.9, 1.0))  # of a metric that matches no words
    assert "nothing" not in plain([Explanation(caption, {"m": 0.25}, {"m": scored})])
    colours = io.StringIO()
    Console(file=colours, width=160, force_terminal=True, color_system="standard").print(
        render_explanations([Explanation(caption, {"m": 0.25}, {"m": evidence})])
    )
    assert "\x1b[9m" in colours.getvalue() or "\x1b[2;9m" in colours.getvalue()  # the cut word is struck out


def test_an_unknown_id_and_a_mute_metric_are_errors() -> None:
    with pytest.raises(InputError, match="no caption with the id 'four'"):
        explain(CAPTIONS, "rouge-l", ids=["four"])


def test_hostile_captions_cannot_steer_the_terminal() -> None:
    rows = [Caption(str(k), str(k), text, ("a dog runs",)) for k, text in enumerate(HOSTILE)]
    captions = CaptionSet.from_captions(rows)
    display = plain(explain(captions, "rouge-l"))
    assert not any(c in display for c in "\x1b\x00\u202e\u2066\u2028\ud83d")
    assert "\\u202eright" in display


def test_printable_leaves_all_scripts_alone() -> None:
    assert escape_controls("naïve كلب 犬 🐕") == "naïve كلب 犬 🐕"
    assert escape_controls("a\tb\x1b[31m") == "a\\tb\\x1b[31m"


def test_contributions_to_a_learned_score_are_shown_largest_first() -> None:
    output = Contributions("the mean caption", -0.5, 1.0, (("meteor", 0.25, 0.2, 0.5), ("spice", 0.75, 0.125, 1.0)))
    evidence = Evidence(("a", "dog"), (("a", "dog"),), contributions=output)
    result = Explanation(Caption("1", "1", "a dog", ("a dog",)), {"learned": 0.73}, {"learned": evidence})
    text = plain([result])
    assert "1.000 = -0.500 (the mean caption) + contributions" in text
    assert text.index("+1.000  spice 0.75 (base 0.125)") < text.index("+0.500  meteor 0.25 (base 0.2)")
    (message,) = json.loads(json.dumps(to_dicts([result])))
    remaining = message["evidence"]["learned"]["contributions"]
    assert remaining["base_logit"] + sum(each["contribution"] for each in remaining["inputs"]) == remaining["logit"]
    assert [each["input"] for each in remaining["inputs"]] == ["meteor", "spice"]
    packed = PackedEvidence()
    packed.add(0, 3, evidence)
    table = packed.to_dict()
    ((metric, row, record),) = table["records"]
    assert (metric, row, unpack(record, table)) == (0, 3, evidence.to_dict())


def unpack(value, table):
    """As the page's script reads packed evidence."""
    if isinstance(value, list):
        return [unpack(each, table) for each in value]
    if not isinstance(value, dict) or not value:
        return value
    ((kind, content),) = value.items()
    if kind == "words":
        return list(table["sequences"][content])
    rows = unpack(content, table)
    return (
        rows[0]
        if kind == "one"
        else [dict(zip(table["kinds"][kind], row, strict=True)) for row in zip(*rows, strict=True)]
    )


def test_a_long_name_of_a_metric_leaves_the_width_to_the_words() -> None:
    name = "rouge-l(beta=1.5,tokenizer=whitespace)"
    text = io.StringIO()
    rendered = render_explanations(explain(CAPTIONS, name, ids=["one"]))
    Console(file=text, width=60, color_system=None).print(rendered)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert sum(line.startswith(f"{name}  0.") for line in lines) == 1 and "…" not in text.getvalue()
    assert "reference  the dog runs on the grass" in lines


def test_wrong_words_come_first_and_a_caption_once() -> None:
    """Where the words of the evidence are those of the caption, it is printed with its marks alone."""
    captions = CaptionSet.from_captions([Caption("1", "1", "a dog and a cat", ("a puppy",))])
    display = plain(explain(captions, "chair"))
    assert display.count("a dog and a cat") == 1
    assert display.index("cat (hallucinated)") < display.index("a dog and a cat")
