"""The made world: everything that is said is checked against what is drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from capmeter_research.synthetic_scenes.scenes import (
    CONTENT_ERRORS,
    ERRORS,
    Content,
    Group,
    GroupMention,
    Look,
    Scene,
    World,
    make_errors,
    parse_world,
    truth,
    words,
    wrong,
)
from capmeter_research.synthetic_scenes.scenes.backgrounds import VARIANTS
from capmeter_research.synthetic_scenes.scenes.captions import true_captions
from capmeter_research.synthetic_scenes.scenes.drawing import Thing, draw
from capmeter_research.synthetic_scenes.scenes.scenes import Box
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, KINDS, RELATIONS, TEXTURES

from capmeter.core.errors import InputError

WORLD = World(split="train", size=150, seed=4)
FLOW = World(size=400, seed=8)


def pixels_of(scene: Scene) -> np.ndarray:
    return np.asarray(scene.render()).astype(int)


def test_the_same_seed_gives_the_same_scenes_captions_errors_and_pixels() -> None:
    again = World(split="train", size=150, seed=4)
    for first, second in zip(list(WORLD)[:30], again, strict=False):
        assert first == second and true_captions(first, 3) == true_captions(second, 3)
        assert first.render().tobytes() == second.render().tobytes()
        left, right = (make_errors(first, true_captions(first)[0], np.random.default_rng(5)) for _ in range(2))
        assert left == right


def test_another_seed_gives_other_scenes_and_another_size_the_same_first_ones() -> None:
    assert [scene.key for scene in World(size=5, seed=5)] != [scene.key for scene in World(size=5, seed=4)]
    assert list(World(size=5, seed=4)) == [WORLD[k] for k in range(5)]


def test_scenes_of_a_split_are_distinct_and_splits_share_none_whatever_their_seeds() -> None:
    keys = {}
    for split in ("train", "dev", "test"):
        for seed in (0, 4):
            output = [scene.key for scene in World(split=split, size=60, seed=seed)]  # type: ignore[arg-type]
            assert len(set(output)) == 60
            keys.setdefault(split, set()).update(output)
    assert not (keys["train"] & keys["dev"] or keys["train"] & keys["test"] or keys["dev"] & keys["test"])


def test_every_caption_is_true_and_its_words_are_listed() -> None:
    for scene in WORLD:
        for caption in true_captions(scene):
            assert truth(scene, caption.content).accuracy == 1, caption.text
            assert set(caption.text.split()) <= words(), caption.text


def test_captions_of_a_scene_differ_and_vary() -> None:
    captions = [caption for scene in WORLD for caption in true_captions(scene)]
    assert all(len({each.text for each in true_captions(scene)}) == 5 for scene in WORLD)
    assert len({each.text for each in captions}) > 0.9 * len(captions)
    used = Counter(word for each in captions for word in each.text.split())
    assert len(used) > 190
    assert {name for each in captions for _, name, _ in each.content.relations} == set(RELATIONS)
    assert len({tuple(each.text.split()[:2]) for each in captions}) > 100
    omitted = [len(each.content.mentions) < len(scene.groups) for scene in WORLD for each in true_captions(scene)]
    assert 0.1 < np.mean(omitted) < 0.5


def judged_by_geometry(scene: Scene, a: int, name: str, b: int) -> bool:
    """An independent reading of relations from boxes: what must at least be so where one is stated."""
    first, second = scene.groups[a].box, scene.groups[b].box
    x, y = ((box[0] + box[2]) / 2 for box in (first, second)), ((box[1] + box[3]) / 2 for box in (first, second))
    (x1, x2), (y1, y2) = x, y
    overlap = max(0.0, min(first[2], second[2]) - max(first[0], second[0])) * max(
        0.0, min(first[3], second[3]) - max(first[1], second[1])
    )
    return {
        "left of": x1 < x2 - 0.13 and first[2] <= second[0] + 0.03,
        "right of": x1 > x2 + 0.13 and second[2] <= first[0] + 0.03,
        "above": y1 < y2 - 0.13 and first[3] <= second[1] + 0.03,
        "below": y1 > y2 + 0.13 and second[3] <= first[1] + 0.03,
        "next to": min(abs(first[0] - second[2]), abs(second[0] - first[2])) <= 0.101 and overlap == 0,
        "on": y1 < y2 and second[0] <= x1 <= second[2] and second[1] - 0.01 <= first[3] <= y2 + 0.02,
        "inside": first[0] > second[0] and first[1] > second[1] and first[2] < second[2] and first[3] < second[3],
        "behind": overlap > 0 and a < b,
        "in front of": overlap > 0 and a > b,
        "holding": scene.groups[a].holds and scene.groups[a].look.of_kind.category == "person" and overlap > 0,
    }[name]


def test_stated_relations_are_there_in_the_boxes() -> None:
    visits: Counter[str] = Counter()
    for scene in FLOW:
        for a, name, b in scene.relations():
            assert judged_by_geometry(scene, a, name, b), (scene, a, name, b)
            visits[name] += 1
    assert min(visits[name] for name in RELATIONS) >= 12


def test_opposite_relations_are_never_both_true() -> None:
    for scene in WORLD:
        true = set(scene.relations())
        for a, name, b in true:
            if name in ("left of", "above", "behind", "on", "inside", "holding"):
                assert (b, name, a) not in true and scene.relation(b, name, a) is False


def test_relations_by_hand() -> None:
    def group(kind: str, box: Box, stands: bool = False) -> Group:
        return Group(Look(kind, "red"), (box,), stands)

    scene = Scene("x", "plain", 0, (group("ball", (0.1, 0.1, 0.2, 0.2)), group("star", (0.5, 0.12, 0.6, 0.22))))
    assert scene.relation(0, "left of", 1) is True and scene.relation(1, "left of", 0) is False
    assert scene.relation(0, "above", 1) is None or scene.relation(0, "above", 1) is False
    assert scene.relation(0, "next to", 1) is False and scene.relation(0, "on", 1) is False
    neighbours = Scene("y", "plain", 0, (group("ball", (0.1, 0.1, 0.2, 0.2)), group("star", (0.23, 0.1, 0.33, 0.2))))
    assert neighbours.relation(0, "next to", 1) is True and neighbours.relation(0, "left of", 1) is None
    ground = Scene(
        "z", "grass", 0, (group("dog", (0.1, 0.6, 0.3, 0.7), True), group("cat", (0.1, 0.75, 0.3, 0.9), True))
    )
    assert ground.relation(0, "above", 1) is None  # both stand on the ground: one is farther away


def test_graded_truth_by_hand() -> None:
    groups = (
        Group(Look("dog", "red", size="large", count=2), ((0.1, 0.6, 0.2, 0.7), (0.22, 0.6, 0.32, 0.7)), True),
        Group(Look("car", "blue", "striped"), ((0.6, 0.6, 0.9, 0.7),), True),
    )
    scene = Scene("s", "grass", 0, groups)
    dogs, car = (
        GroupMention("dog", 2, colour="red", size="large"),
        GroupMention("car", 1, colour="blue", texture="striped"),
    )
    right = Content((dogs, car), ((0, "left of", 1),), "grass")
    assert truth(scene, right).accuracy == 1 and len(right.facts()) == 10 and truth(scene, right).coverage == 1
    changed = replace(right, mentions=(replace(dogs, count=3), replace(car, colour="red")))
    assert truth(scene, changed).accuracy == pytest.approx(8 / 10)
    assert [fact.kind for fact in truth(scene, changed).wrong] == ["count", "colour"]
    assert truth(scene, replace(right, relations=((1, "left of", 0),), background="snow")).accuracy == 8 / 10
    other = Content((replace(dogs, noun="cat"), car), ((0, "left of", 1),))
    assert [fact.value for fact in truth(scene, other).wrong] == ["cat"] and truth(scene, other).coverage == 0.5
    assert truth(scene, Content((GroupMention("animal", 2, some=True),))).accuracy == 1
    assert truth(scene, Content((GroupMention("person"),))).holds == (False, True)  # the car is no person
    assert truth(scene, Content((dogs, car, GroupMention("bus", colour="blue")))).accuracy == 8 / 11


@pytest.mark.parametrize("kind", CONTENT_ERRORS)
def test_a_content_error_makes_exactly_the_named_fact_false(kind: str) -> None:
    rng, output = np.random.default_rng(2), 0
    for scene in WORLD:
        for caption in true_captions(scene):
            error = wrong(scene, caption, kind, rng)
            if error is None:
                continue
            output += 1
            assert [fact.kind for fact in truth(scene, error.content).wrong] == [kind], (caption.text, error.text)
            assert error.text != caption.text and error.error == kind
            assert set(error.text.split()) <= words()
    assert output > 0.15 * 5 * len(WORLD)


def test_an_error_changes_only_its_own_words() -> None:
    rng = np.random.default_rng(2)
    for scene in list(WORLD)[:60]:
        for caption in true_captions(scene):
            if error := wrong(scene, caption, "colour", rng):
                pairs = zip(caption.text.split(), error.text.split(), strict=True)
                different = [pair for pair in pairs if pair[0] != pair[1]]
                named = [pair for pair in different if pair not in (("a", "an"), ("an", "a"))]
                assert len(named) == 1, (caption.text, error.text)


def test_other_errors() -> None:
    rng = np.random.default_rng(2)
    for scene in list(WORLD)[:100]:
        for caption in true_captions(scene):
            mentions = len(caption.content.mentions)
            if (missing := wrong(scene, caption, "missing", rng)) is not None:
                judgments = truth(scene, missing.content)
                assert judgments.accuracy == 1 and judgments.named == mentions - 1
                assert all(max(a, b) < mentions - 1 for a, _, b in missing.content.relations)
            added = wrong(scene, caption, "hallucinated", rng)
            assert added is not None
            false = truth(scene, added.content).wrong
            assert {fact.mention for fact in false} == {mentions} and false[0].kind == "object"
            bad = wrong(scene, caption, "disfluency", rng)
            assert bad is not None and bad.content == caption.content and bad.text != caption.text
            assert set(bad.text.split()) == set(caption.text.split())
            twice = any(a == b for a, b in zip(bad.text.split(), bad.text.split()[1:], strict=False))
            assert twice or len(bad.text.split()) >= len(caption.text.split())


def test_an_unknown_error_is_a_sentence() -> None:
    with pytest.raises(InputError, match="unknown kind of error 'colr'; expected one of colour, count"):
        wrong(WORLD[0], true_captions(WORLD[0])[0], "colr", np.random.default_rng(0))


@pytest.mark.parametrize("kind", ("colour", "count", "relation", "object", "texture", "size"))
def test_errors_are_as_likely_as_the_truth(kind: str) -> None:
    """What replaces what is as frequent as the reverse, so words alone hardly tell which of two captions is wrong."""
    rng, flow = np.random.default_rng(3), Counter[tuple[str, str]]()
    for scene in FLOW:
        for caption in true_captions(scene):
            if error := wrong(scene, caption, kind, rng):
                old, new = (set(each.content.facts()) for each in (caption, error))
                a, b = (f"{fact.value}" for fact in (*(old - new), *(new - old)))
                flow[a, b] += 1
    assert sum(flow.values()) > 150
    # a judge that knows how often each word is right and wrong, of these very captions
    right, false = Counter[str](), Counter[str]()
    for (a, b), count in flow.items():
        right[a] += count
        false[b] += count
    better = sum(count * (right[a] * false[b] > right[b] * false[a]) for (a, b), count in flow.items())
    assert better / sum(flow.values()) < 0.65


def test_a_count_beside_another_group_is_as_often_wrong_upwards_as_downwards() -> None:
    """Several things are wide, and stand beside another group less often than one thing does."""
    rng, up = np.random.default_rng(4), []
    for scene in FLOW:
        for caption in true_captions(scene):
            if error := wrong(scene, caption, "count", rng):
                pairs = zip(caption.content.mentions, error.content.mentions, strict=True)
                ((place, one, other),) = [(k, a.count, b.count) for k, (a, b) in enumerate(pairs) if a != b]
                beside = {name for a, name, b in caption.content.relations if place in (a, b)} & {"left of", "right of"}
                if beside and 1 in (one, other):
                    up.append(one < other)
    assert len(up) > 100 and 0.4 < np.mean(up) < 0.6


def test_boxes_contain_everything_that_is_drawn() -> None:
    for scene in list(WORLD)[:60]:
        with_all, empty = pixels_of(scene), pixels_of(replace(scene, groups=()))
        sample = (with_all != empty).any(axis=2)
        inside = np.zeros_like(sample)
        for x0, y0, x1, y1 in scene.regions().boxes[:-1]:
            inside[int(np.floor(y0)) : int(np.ceil(y1)), int(np.floor(x0)) : int(np.ceil(x1))] = True
        assert sample.any() and not (sample & ~inside).any(), scene


def test_every_thing_fills_its_box_and_shows() -> None:
    for scene in list(WORLD)[:40]:
        for place, group in enumerate(scene.groups):
            without = replace(scene, groups=tuple(g for k, g in enumerate(scene.groups) if k != place), contacts=())
            changed = np.abs(pixels_of(scene) - pixels_of(without)).sum(axis=2) > 40
            for x0, y0, x1, y1 in group.boxes:
                x0, y0, x1, y1 = (round(each * scene.pixels) for each in (x0, y0, x1, y1))
                assert changed[y0:y1, x0:x1].mean() > 0.12, (scene, group)


def test_every_kind_colour_and_texture_looks_different() -> None:
    box = (0.2, 0.2, 0.8, 0.8)
    kinds = {kind: np.asarray(draw("plain", 0, [Thing(kind, "red", "", box)], 96)).astype(int) for kind in KINDS}
    names = list(kinds)
    for k, a in enumerate(names):
        for b in names[:k]:
            assert np.abs(kinds[a] - kinds[b]).mean() > 1, (a, b)
    looks = [("red", texture) for texture in ("", *TEXTURES)] + [(colour, "") for colour in COLOURS if colour != "red"]
    visits = [np.asarray(draw("grass", 0, [Thing("car", *look, box)], 96)).astype(int) for look in looks]
    for k in range(len(visits)):
        assert all(np.abs(visits[k] - visits[j]).mean() > 1 for j in range(k)), looks[k]


def test_backgrounds_differ_and_vary() -> None:
    empty = {name: [np.asarray(draw(name, v, [], 64)).astype(int) for v in range(VARIANTS)] for name in BACKGROUNDS}
    for name, variants in empty.items():
        assert any((variants[0] != each).any() for each in variants[1:])
        for other in set(BACKGROUNDS) - {name}:
            assert np.abs(variants[0] - empty[other][0]).mean() > 3


def test_regions_name_every_thing_and_the_whole_picture() -> None:
    for scene in list(WORLD)[:50]:
        regions = scene.regions()
        things = sum(group.look.count for group in scene.groups)
        assert regions.boxes.shape == (things + 1, 4) and len(regions.labels) == len(regions.attributes) == things + 1
        assert regions.labels[-1] == scene.background and regions.boxes[-1].tolist() == [0, 0, 96, 96]
        assert (regions.boxes >= 0).all() and (regions.boxes <= 96).all()
        for label, attributes, place in zip(
            regions.labels[:-1], regions.attributes[:-1], regions.groups[:-1].tolist(), strict=True
        ):
            look = scene.groups[place].look
            assert label == look.kind and attributes[0] == look.colour


def test_things_of_different_groups_keep_apart_unless_they_touch() -> None:
    for scene in WORLD:
        touching = {frozenset((a, b)) for a, _, b in scene.contacts}
        for a, first in enumerate(scene.groups):
            for b in range(a):
                if frozenset((a, b)) not in touching:
                    for x in first.boxes:
                        for y in scene.groups[b].boxes:
                            assert x[2] < y[0] or y[2] < x[0] or x[3] < y[1] or y[3] < x[1]


@pytest.mark.parametrize("pixels", (32, 97, 224))
def test_pictures_of_any_size(pixels: int) -> None:
    scene = World(size=1, pixels=pixels)[0]
    assert scene.render().size == (pixels, pixels) and scene.regions().boxes[-1].tolist() == [0, 0, pixels, pixels]


def test_the_text_form_is_the_world() -> None:
    output = World(split="dev", size=20, seed=3, pixels=64)
    assert str(output) == "world(split=dev,size=20,seed=3,pixels=64)" and parse_world(str(output)) == output
    assert parse_world("world") == World()
    assert WORLD[-1] == WORLD[149]
    with pytest.raises(IndexError):
        WORLD[150]


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("world(size=0)", "size=0 is not between 1 and 1,000,000"),
        ("world(seed=-1)", "seed=-1 is not between 0"),
        ("world(pixels=8)", "pixels=8 is not between 32 and 2,048"),
        ("world(split=val)", "split=val is not train, dev or test"),
        ("world(sise=3)", "has no parameter 'sise'; did you mean size?"),
        ("earth", "unknown set of synthetic scenes 'earth'"),
    ),
)
def test_hostile_parameters_get_a_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        parse_world(text)


def test_a_scene_that_is_too_simple_for_many_captions_says_so() -> None:
    scene = Scene("one", "plain", 0, (Group(Look("table", "red"), ((0.2, 0.2, 0.6, 0.45),), False),))
    assert len(true_captions(scene, count=5)) == 5
    with pytest.raises(InputError, match="count from 1 to 100"):
        true_captions(scene, count=0)
    with pytest.raises(InputError, match="mentions at least one thing"):
        truth(scene, Content(()))
    with pytest.raises(InputError, match="joins two of the 1 mentions"):
        truth(scene, Content((GroupMention("table"),), ((0, "on", 1),)))


def test_candidates_are_graded() -> None:
    output = World(split="test", size=40, seed=1)
    captions = output.captions()
    assert {each.system for each in captions} >= {"true", "other", "graded-4", *ERRORS}
    human = {system: [] for system in ("true", "graded-1", "graded-4", "other")}
    for each in captions:
        assert each.human is not None and len(each.references) == 5 and each.candidate not in each.references[:0]
        if each.system in human:
            human[each.system].append(each.human[0])
    means = [float(np.mean(human[system])) for system in human]
    assert means[0] == 1 and means == sorted(means, reverse=True) and means[-1] < 0.6
    assert captions.image_ids[0] == output[0].id and captions.images[0] == f"images/{output[0].id}.png"
