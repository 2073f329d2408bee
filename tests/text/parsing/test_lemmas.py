"""Lemmas by endings and table, against CoreNLP's."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.parsing.caption_parser import CaptionParser
from capmeter.text.parsing.lemmas import LemmaRules

RULES = LemmaRules(
    {"NNS": {"s": "", "ss": "ss", "^men": "man"}, "V": {"ing": "", "nning": "n"}}, {"PRP$": {"his": "he"}}
)


def test_the_longest_ending_decides() -> None:
    assert RULES.lemma("dogs", "NNS") == "dog"
    assert RULES.lemma("boss", "NNS") == "boss"
    assert RULES.lemma("Men", "NNS") == "man"
    assert RULES.lemma("Women", "NNS") == "women"
    assert RULES.lemma("running", "VBG") == "run"
    assert RULES.lemma("eating", "VBZ") == "eat"


def test_other_tags_are_only_lower_cased_and_lemmas_not_empty() -> None:
    assert RULES.lemma("Glasses", "NN") == "glasses"
    assert RULES.lemma("Paris", "NNP") == "Paris"
    assert RULES.lemma("His", "PRP$") == "he"
    assert RULES.lemma("s", "NNS") == "s"


@given(st.text(min_size=1, max_size=20), st.sampled_from(["NN", "NNS", "VBG", "NNP", "PRP$", "."]))
def test_any_text_has_a_lemma(word: str, tag: str) -> None:
    assert RULES.lemma(word, tag)


def test_the_bundled_rules_agree_with_corenlp(shared: Path) -> None:
    """Words with the correct tag have the correct lemma; these captions are not in the training data."""
    rules = CaptionParser().lemmas
    correct = count = 0
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            for sentence in json.loads(line)["sentences"]:
                lemmas = map(rules.lemma, sentence["words"], sentence["tags"])
                correct += sum(map(str.__eq__, lemmas, sentence["lemmas"]))
                count += len(sentence["words"])
    assert count > 300_000
    assert correct / count >= 0.999
