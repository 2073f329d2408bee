"""Pronouns of documents: what they refer to."""

from __future__ import annotations

import pytest

from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.scene_graphs.coreference import replace_pronouns
from capmeter.text.tokenization.ptb import split_as_written


def resolve(*sentences: str) -> str:
    """The words of the last sentence."""
    parses = bundled_caption_parser().parse_sentences([split_as_written(sentence) for sentence in sentences])
    return " ".join(replace_pronouns(parses)[-1].words).lower()


@pytest.mark.parametrize(
    ("sentences", "last"),
    [
        (("A brown dog sits on a sofa.", "Its tail is long."), "dog tail is long ."),
        (("A man stands beside a car.", "He wears a hat."), "man wears a hat ."),
        (("A woman holds a red umbrella.", "It is open."), "umbrella is open ."),
        (("Two buses are parked on a street.", "They are red."), "buses are red ."),
        (("The image shows a train.", "It is blue."), "train is blue ."),
        (("It is a sunny day.",), "it is a sunny day ."),
        (
            ("A girl rides a horse.", "Trees are green.", "Clouds pass.", "The sky is blue.", "She smiles."),
            "she smiles .",
        ),
    ],
)
def test_antecedents(sentences: tuple[str, ...], last: str) -> None:
    assert resolve(*sentences) == last


def test_trees_stay_as_they_are() -> None:
    parses = bundled_caption_parser().parse_sentences([split_as_written(s) for s in ("A dog runs.", "Its tail wags.")])
    replaced = replace_pronouns(parses)
    assert [each.heads for each in replaced] == [each.heads for each in parses]
    assert [each.labels for each in replaced] == [each.labels for each in parses]
    assert replaced[0] == parses[0]
    assert replaced[1].words == ("dog", "tail", "wags", ".")
