"""The words that are true of a region of the made world: by hand, and never one that its captions contradict."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL")

from capmeter.learning.umic.shown import region_words
from capmeter.learning.world import World
from capmeter.learning.world.captions import true_captions
from capmeter.learning.world.vocabulary import visible_words


def test_words_that_name_one_thing_alone_are_visible() -> None:
    words = visible_words()
    assert {"dog", "dogs", "puppy", "red", "striped", "tiny", "snowy", "animal"} <= words
    assert not {"a", "two", "left", "on", "an", "under"} & words


def test_a_region_is_named_by_its_kind_its_category_and_its_looks() -> None:
    for scene in World(split="dev", size=20):
        regions = scene.regions()
        for label, looks, words in zip(regions.labels[:-1], regions.attributes, region_words(scene), strict=False):
            assert label in words or label not in visible_words()
            assert {look for look in looks if look in visible_words()} <= words
        assert len(region_words(scene)) == len(regions.labels)


def test_true_captions_say_nothing_visible_that_no_region_is() -> None:
    for scene in World(split="train", size=40):
        shown = frozenset().union(*region_words(scene))
        for caption in true_captions(scene, 0, 5):
            assert set(caption.text.split()) & visible_words() <= shown, caption.text
