"""SPICE with the parser that ships, wherever a metric is used: rewards, streams, workers, files; hostile captions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.call_counts import steps

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.settings import Settings, shared_memory
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.integrations.scst import reward
from capmeter.meta.comparison import compare
from capmeter.text.scene_graphs import extraction

pytestmark = pytest.mark.meteor

REFERENCES = {
    "7": ["A young girl rides two brown horses.", "a kid on a horse in the field", "The girl is riding."],
    "9": ["two cats sleep on a red sofa", "Cats asleep on a couch"],
    "11": ["A man in a blue shirt throws a ball to his dog", "man playing with a dog on the beach", "a dog jumps"],
}
CANDIDATES = {"7": "a girl riding a brown horse", "9": "two cats on a couch", "11": "a man throws a frisbee to a cat"}
OTHERS = {"7": "a girl", "9": "a dog on a couch", "11": "a man in a blue shirt plays with his dog on the beach"}


@pytest.fixture(autouse=True)
def empty_memory() -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    shared_memory.cache_clear()


def caption_set(candidates: dict[str, str]) -> CaptionSet:
    return CaptionSet.from_captions(Caption(id, id, text, tuple(REFERENCES[id])) for id, text in candidates.items())


def items(results: capmeter.Results, metric: str) -> list[float]:
    values: list[float] = results[metric].items.array.tolist()
    return values


def test_a_reward_is_the_score_and_builds_the_references_once(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "mean(spice,cider-d)"
    both = capmeter.score(caption_set(CANDIDATES), ["spice", "spider", name])
    scorer = reward(name, references=REFERENCES)
    rewards = scorer(list(CANDIDATES.values()), list(CANDIDATES))
    assert rewards.tolist() == pytest.approx(items(both, name))
    assert rewards.tolist() == pytest.approx(items(both, "spider"))
    assert min(items(both, "spice")) > 0
    built: list[int] = []
    build = extraction.build_scene_graph
    monkeypatch.setattr(
        extraction, "build_scene_graph", lambda tuples, synsets: built.append(1) or build(tuples, synsets)
    )
    reward("spice", references=REFERENCES)(["a cat", "a dog", "two cats"] * 20, ["7", "9", "11"] * 20)
    assert len(built) == 3  # a graph for each distinct caption, none for references


def test_parts_and_workers_give_the_same(tmp_path: Path) -> None:
    rows = [
        {"image_id": f"{id}-{k}", "candidate": f"{text} {'again ' * k}".strip(), "references": REFERENCES[id]}
        for k in range(4)
        for id, text in CANDIDATES.items()
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    loaded = capmeter.score(str(path), ["spice", "spider"])
    in_parts = evaluate(list(capmeter.load(str(path)).chunks(5)), parse_list(["spice", "spider"]))
    shared = capmeter.score(
        capmeter.load(str(path)), ["spice", "spider"], workers=2, settings=Settings(cache=tmp_path / "cache")
    )
    for name in ("spice", "spider"):
        assert items(loaded, name) == items(in_parts, name) == items(shared, name)
        assert loaded[name].signature == shared[name].signature
        assert loaded[name].parts == in_parts[name].parts
    assert list((tmp_path / "cache").rglob("*.safetensors"))


def test_systems_are_compared_and_share_reference_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    build = extraction.build_scene_graph
    monkeypatch.setattr(
        extraction, "build_scene_graph", lambda tuples, synsets: built.append(1) or build(tuples, synsets)
    )
    one, two = capmeter.score(caption_set(CANDIDATES), "spice"), capmeter.score(caption_set(OTHERS), "spice")
    assert len(built) == 3 + 3 + 3  # the candidates of either, and the references once
    results = compare({"one": caption_set(CANDIDATES), "two": caption_set(OTHERS)}, ["spice", "spider"], resamples=200)
    assert results.results["two"]["spice"].score == two["spice"].score
    (pair,) = results["spice"].differences
    assert abs(pair.difference) == pytest.approx(abs(one["spice"].score - two["spice"].score))
    assert one["spice"].score != two["spice"].score


def test_it_is_judged_like_any_metric(tmp_path: Path) -> None:
    rows = [
        {"image_id": id, "id": f"{id}{k}", "candidate": text, "references": REFERENCES[id], "human": [rating]}
        for id in REFERENCES
        for k, (text, rating) in enumerate([(CANDIDATES[id], 3), (REFERENCES[id][0], 4), ("well well", 1)])
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = capmeter.meta.run(["spice", "spider"], benchmark="rated", data=path, resamples=20)
    assert report["spice"].value > 80
    assert report["spider"].n == 9


HOSTILE = {
    "ten thousand words": "a dog chases the cat and " * 2000,
    "nested": "a picture " + "of the back " * 500 + "of a dog",
    "conjoined": " and ".join(f"dog{k}" for k in range(3000)) + " chase " + " and ".join(f"c{k}" for k in range(3000)),
    "one long word": "x" * 100_000,
    "emoji": "🐕‍🦺 👩‍👩‍👧‍👦 🇩🇪",
    "one word": "dog",
    "control": "a\x00dog\x1b[31m \u202eruns\u2028fast\r\n\ud83d",
    "punctuation": "... !!! ??? (((" * 200,
    "Chinese": "一只棕色的狗在海滩上奔跑",
    "Arabic": "كلب يركض على العشب الأخضر",
    "Russian": "коричневая собака бежит по пляжу",
    "German": "Ein brauner Hund läuft am Strand entlang",
    "French": "un chien marron tient un parapluie sous la pluie",
    "English": "a brown dog runs on the beach",
    "blank": "  ",
    "empty": "",
}


def test_hostile_captions_are_scored() -> None:
    references = ("a brown dog runs on the beach", "the dog chases a cat")
    captions = CaptionSet.from_captions(
        Caption(name, name, text, references if name != "English" else tuple(HOSTILE.values()))
        for name, text in HOSTILE.items()
    )
    results = capmeter.score(captions, ["spice", "spice(synonyms=false)", "spider"])
    spice = results["spice"]
    assert np.isfinite(spice.items.array).all()
    assert spice.items["one word"] > 0
    assert spice.items["ten thousand words"] > 0
    foreign = spice.notes["not English; the parser supports English only"]
    assert {"Chinese", "Arabic", "Russian", "German", "French"} <= set(foreign)
    assert {"English", "one word", "ten thousand words", "nested", "blank", "empty"}.isdisjoint(foreign)
    places = [f"English (reference {list(HOSTILE).index(name) + 1})" for name in HOSTILE if name in foreign]
    assert spice.notes["reference not English; the parser supports English only"] == places
    assert "English" in results["spider"].items
    json.dumps(results.to_dict(), allow_nan=False)


def test_the_work_is_linear_in_words() -> None:
    def work(words: int) -> int:
        text = " ".join(f"a dog{k} on a red chair and" for k in range(words // 7))
        return steps(lambda: capmeter.score(candidates=[text], references=[["a dog"]], metrics="spice"))

    work(70)  # what is loaded once
    assert work(8_000) < 6 * work(2_000)


def test_names_are_not_another_language() -> None:
    names = ["Barack Obama and Angela Merkel", "Zinedine Zidane", "Ein Hund und eine Katze auf der Straße"]
    results = capmeter.score(candidates=names, references=[["two people shake hands"]] * 3, metrics="spice")
    assert results["spice"].notes["not English; the parser supports English only"] == ["2"]
