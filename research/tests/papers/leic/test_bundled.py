"""The critic that ships: it scores offline, and it prefers captions that fit the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capmeter_research.papers.leic.critic import load_critic

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.assets import find_checkpoint

PEOPLE = [
    ("a man rides a bicycle down the street", "a man on a bike in the road"),
    ("two dogs play with a ball in the grass", "two dogs run after a ball on the lawn"),
    ("a woman in a red dress sings on a stage", "a singer in a red dress performs on stage"),
    ("children build a castle on the beach", "kids play in the sand at the beach"),
    ("a group of people sit at a table and eat", "several people are eating at a long table"),
    ("a boy jumps into a swimming pool", "a young boy is jumping into the pool"),
]


def test_it_prefers_captions_that_fit_the_reference() -> None:
    rows = [
        Caption(f"{k}/{other}", f"{k}", candidate, (reference,))
        for k, (_, reference) in enumerate(PEOPLE)
        for other, (candidate, _) in enumerate(PEOPLE)
    ]
    scores = capmeter.score(CaptionSet.from_captions(rows), ["leic"])["leic"]
    table = np.array(list(scores.items.values())).reshape(6, 6)
    assert (table > 0).all() and (table < 1).all()
    above = table.diagonal()[:, None] > table
    assert above[~np.eye(6, dtype=bool)].mean() > 0.65
    assert "weights:leic@" in str(scores.signature) and "context:reference" in str(scores.signature)


def test_it_is_small_and_says_what_it_was_trained_on() -> None:
    folder = find_checkpoint("leic")
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) < 10_000_000
    assert load_critic("leic").shape.context == "reference"
    assert "flickr30k" in Path(folder, "README.md").read_text("utf-8")
