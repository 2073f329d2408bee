"""Words that are true of the regions of synthetic scenes: by hand, and consistent with true captions."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL")

from capmeter_research.papers.umic.training.examples import region_words
from capmeter_research.synthetic_scenes.scenes import World
from capmeter_research.synthetic_scenes.scenes.captions import true_captions
from capmeter_research.synthetic_scenes.scenes.vocabulary import visible_words


def test_unambiguous_words_for_what_is_visible() -> None:
    words = visible_words()
    assert {"dog", "dogs", "puppy", "red", "striped", "tiny", "snowy", "animal"} <= words
    assert not {"a", "two", "left", "on", "an", "under"} & words


def test_a_region_has_words_for_its_kind_category_and_attributes() -> None:
    for scene in World(split="dev", size=20):
        regions = scene.regions()
        for label, attributes, words in zip(regions.labels[:-1], regions.attributes, region_words(scene), strict=False):
            assert label in words or label not in visible_words()
            assert {value for value in attributes if value in visible_words()} <= words
        assert len(region_words(scene)) == len(regions.labels)


def test_visible_words_of_true_captions_are_true_of_a_region() -> None:
    for scene in World(split="train", size=40):
        scene_words = frozenset().union(*region_words(scene))
        for caption in true_captions(scene, 0, 5):
            assert set(caption.text.split()) & visible_words() <= scene_words, caption.text
