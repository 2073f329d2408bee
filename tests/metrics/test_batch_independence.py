"""A caption's score depends on nothing but the caption and its references: not on the other captions of its batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capmeter

ODD = ["\u200b", "\u202e", "\u0301", "\0", "\ue000", "\U000e0041", "🐕", "...", " ", "狗", "dog"]
TEXTS = [*ODD, "a man rides a horse", "a dog runs on the green grass near two people and a red bus " * 3]
REFERENCES = [["a dog is running on the grass", "dog"], ["\u200b"], ["\u200b", "a cat"], [""], ["a red bus " * 20]]
METRICS = (
    *("capmeter", "bertscore", "sbert", "sbert(encoder=minilm-captions,pooling=centroid)", "mowe", "wmd", "leic"),
    *("mima(encoder=minilm)", "spurts(encoder=minilm)", "wembsim(encoder=minilm)"),
)
# a candidate like "a.json" is refused
texts = st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=12)
pairs = st.tuples(st.sampled_from(TEXTS) | texts, st.sampled_from(REFERENCES))


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=8, deadline=None)
@given(pair=pairs, others=st.lists(pairs, min_size=1, max_size=6))
def test_other_captions_do_not_matter(metric: str, pair, others) -> None:
    together = {str(k): each for k, each in enumerate([pair, *others])}
    alone = capmeter.score(candidates={"0": pair[0]}, references={"0": pair[1]}, metrics=[metric])
    batch = capmeter.score(
        candidates={id: text for id, (text, _) in together.items()},
        references={id: texts for id, (_, texts) in together.items()},
        metrics=[metric],
    )
    assert batch[metric].items["0"] == pytest.approx(alone[metric].items["0"], abs=2e-5)


@pytest.mark.parametrize("text", ["\u200b", "\u202e", "\ufeff", "\u0301", "\0", "\ue000", "\U000e0041"])
def test_a_candidate_without_word_pieces_is_empty(text: str) -> None:
    scores = capmeter.score(
        candidates={"odd": text, "plain": "a dog runs"},
        references={"odd": [text], "plain": ["a dog"]},
        metrics="capmeter",
    )["capmeter"]
    assert scores.items["odd"] == 0 and scores.items["plain"] > 0
    assert "odd" in [*scores.notes.get("empty candidate", ()), *scores.notes.get("no words in candidate", ())]
    assert all(part["odd"] == 0 for part in scores.part_items.values())
