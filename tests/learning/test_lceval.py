"""Training of LCEval: examples without benchmark photos and without clues, stored features, resumed runs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from lcevalset import made_set

from capmeter.captions.model import Caption, CaptionSet
from capmeter.checkpoints import Checkpoint
from capmeter.errors import InputError
from capmeter.judgments.benchmarks import benchmark
from capmeter.learning.lceval.examples import (
    Machine,
    caption_set,
    make_examples,
    photo_of,
    read_machine,
    read_photos,
)
from capmeter.learning.lceval.recipe import LcEvalRecipe
from capmeter.learning.lceval.stored_features import feature_matrix, measured_rows
from capmeter.learning.lceval.variants import SHIPPED, VARIANTS, variants
from capmeter.learning.parser.examples import read_exclusions
from capmeter.learning.selecting import selecting
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.lceval.features import FEATURES, Features, chosen
from capmeter.metrics.lceval.lceval import LcEval
from capmeter.metrics.registry import parse

NOUNS, VERBS = ["dog", "cat", "girl", "boy", "bird", "horse"], ["runs", "sleeps", "jumps", "waits", "plays", "eats"]
EXCLUSIONS = {"coco": frozenset({"4"}), "flickr30k": frozenset({"1004"})}


def people(photo: int) -> tuple[str, ...]:
    rng = np.random.default_rng(photo)
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    return (
        f"A brown {noun} {verb} in the park.",
        f"The {noun} {verb} on the grass, near a tree.",
        f"There is a {noun} that {verb}",
        f"A {noun} {verb} while two men watch it!",
        f"one small {noun} {verb} outside",
        f"A photo of a {noun}",
    )


PHOTOS = {photo_of(f"{1000 + k}.jpg"): people(k) for k in range(40)}
MACHINE = [
    Machine(photo, f"system {s}", f"a {noun} on a table {s}")
    for k, photo in enumerate(PHOTOS)
    for s, noun in enumerate(("man", "woman", "train", "bench"))
    if s <= k % 5  # some photos have one caption by a machine, some four
]


# examples


def test_photos_are_known_by_number() -> None:
    assert photo_of("COCO_val2014_000000226128.jpg") == ("coco", "226128")
    assert photo_of("val2014/COCO_val2014_000000000042.jpg") == ("coco", "42")
    assert photo_of("226128") == ("coco", "226128")
    assert photo_of("99679241_adc853a5c0.jpg") == photo_of("99679241.jpg") == ("flickr30k", "99679241")
    assert photo_of("99679241", "flickr30k") == ("flickr30k", "99679241")


def test_neither_class_nor_number_of_references_gives_the_label_away() -> None:
    examples = make_examples(PHOTOS, MACHINE, EXCLUSIONS)
    assert len(examples) == 2 * sum(min(3, 1 + k % 5) for k in range(40) if k != 4)
    assert Counter(each.human for each in examples) == {True: len(examples) // 2, False: len(examples) // 2}
    assert {len(each.references) for each in examples} == {4}
    for photo in {each.photo for each in examples}:
        own = [each for each in examples if each.photo == photo]
        by_person = [each for each in own if each.human]
        assert len(by_person) == len(own) - len(by_person) <= 3
        assert len({each.system for each in own}) == len(own) - len(by_person) + 1
        said = {" ".join(each.candidate.split()) for each in by_person}
        assert len(said) == len(by_person)
        assert all(each.candidate not in each.references for each in own)
    # which of the five references a machine's caption lacks is random
    lacking = Counter(
        k
        for each in examples
        if not each.human
        for k, text in enumerate(PHOTOS[each.photo])
        if text not in each.references
    )
    assert len(lacking) == 6 and min(lacking.values()) > 5


def test_candidates_of_both_are_written_alike() -> None:
    for each in make_examples(PHOTOS, MACHINE, EXCLUSIONS):
        assert each.candidate == each.candidate.lower()
        assert not set(".,!?") & set(each.candidate)


def test_examples_depend_on_seed_and_photo_alone() -> None:
    whole = make_examples(PHOTOS, MACHINE, EXCLUSIONS)
    assert whole == make_examples(dict(reversed(PHOTOS.items())), MACHINE, EXCLUSIONS)
    assert whole != make_examples(PHOTOS, MACHINE, EXCLUSIONS, seed=1)
    few = make_examples(PHOTOS, MACHINE, EXCLUSIONS, most=5)
    assert few == whole[: len(few)]
    assert len({each.photo for each in few}) == 5


def test_photos_of_benchmarks_are_left_out_whoever_names_them() -> None:
    excluded = ("flickr30k", "1004")
    assert excluded in PHOTOS
    assert excluded not in {each.photo for each in make_examples(PHOTOS, MACHINE, EXCLUSIONS)}
    with pytest.raises(InputError, match="has the source 'web'; expected one of coco, flickr30k"):
        make_examples({("web", "1"): people(1)}, [Machine(("web", "1"), "s", "a dog")], EXCLUSIONS)


def test_a_caption_that_a_person_wrote_too_is_not_a_machines() -> None:
    photo = photo_of("1.jpg")
    copy, own = Machine(photo, "s", people(0)[0].upper()), Machine(photo, "t", "a train on a table")
    examples = make_examples({photo: people(0)}, [copy, own], EXCLUSIONS)
    assert [each.system for each in examples if not each.human] == ["t"]
    with pytest.raises(InputError, match="no training example: 1 photos"):
        make_examples({photo: people(0)}, [], EXCLUSIONS)


def test_what_a_writer_read_is_no_reference_of_what_it_wrote() -> None:
    for place in range(6):
        photo = photo_of("1.jpg")
        examples = make_examples({photo: people(0)}, [Machine(photo, "w", "a train", (place,))], EXCLUSIONS)
        (own,) = [each for each in examples if not each.human]
        assert people(0)[place] not in own.references and len(own.references) == 4
    with pytest.raises(InputError, match="no training example"):  # two of five read: three are left
        make_examples({photo: people(0)[:5]}, [Machine(photo, "w", "a train", (0, 1))], EXCLUSIONS)


def test_files_of_people_and_machines(tmp_path: Path) -> None:
    rows = [{"image_id": "7.jpg", "references": list(people(7))}, {"image_id": "1004.jpg", "references": ["a dog"]}]
    photos = tmp_path / "photos.jsonl.gz"
    photos.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_photos(photos, EXCLUSIONS) == ({("flickr30k", "7"): people(7)}, 1)
    annotations = [{"image_id": 9, "id": k, "caption": text} for k, text in enumerate(people(9))]
    coco = tmp_path / "captions.json"
    coco.write_text(json.dumps({"annotations": [*annotations, {"image_id": 4, "id": 99, "caption": "a dog"}]}))
    assert read_photos(coco, EXCLUSIONS) == ({("coco", "9"): people(9)}, 1)
    written = tmp_path / "machine.jsonl"
    written.write_text(
        "\n".join(
            json.dumps(row)
            for row in (
                {"source": "flickr30k", "photo": "7", "candidate": "a dog", "system": "one", "read": [2]},
                {"image_id": "7.jpg", "captions": {"two": "a cat", "three": "  "}},
                {"image_id": "7.jpg", "candidate_a": "a bird", "candidate_b": "a real bird"},
            )
        )
    )
    photo = ("flickr30k", "7")
    assert read_machine(written) == [
        Machine(photo, "one", "a dog", (2,)),
        Machine(photo, "two", "a cat"),
        Machine(photo, "machine", "a bird"),
    ]
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"image_id": 9, "caption": "a train"}]))
    assert [(each.photo, each.caption) for each in read_machine(results)] == [(("coco", "9"), "a train")]
    photos.write_text('{"image_id": "7.jpg"}')
    with pytest.raises(InputError, match=r'line 1: expected {"image_id", "references"'):
        read_photos(photos, EXCLUSIONS)


def test_no_photo_of_a_benchmark_is_in_the_training_data(shared: Path) -> None:
    listed = read_exclusions(shared / "data" / "training_exclusions.json.gz")
    photos, left_out = read_photos(shared / "data" / "flickr30k_references.jsonl.gz", listed)
    assert len(photos) > 20_000 and left_out > 8_000
    # every benchmark's own file, whether it is in the list or not
    numbers = set()
    for name in ("flickr8k_expert", "flickr8k_cf", "composite"):
        with gzip.open(shared / "data" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as rows:
            numbers |= {photo_of(json.loads(row)["image_id"]) for row in rows}
    assert len(numbers) > 3_900
    mrnn, _ = read_photos(shared / "data" / "coco_val2014_mrnn.jsonl.gz", listed)
    assert numbers.isdisjoint(photos) and numbers.isdisjoint(mrnn)
    written = read_machine(shared / "data" / "coco_val2014_mrnn.jsonl.gz")
    examples = make_examples({**photos, **mrnn}, written, listed)
    assert len(examples) > 1_000
    assert numbers.isdisjoint({each.photo for each in examples})
    assert not {each.photo[1] for each in examples if each.photo[0] == "coco"} & listed["coco"]


# features


def test_features_are_those_of_the_metric_and_kept(tmp_path: Path) -> None:
    captions = caption_set(make_examples(PHOTOS, MACHINE, EXCLUSIONS, most=6))
    names = chosen("precision-1+precision-2+unigram-recall+rouge-l+cider-d+hwcm-dep-2")
    found = feature_matrix(captions, Features(names), tmp_path)
    metric = LcEval(features=names, learned=False)
    parts = evaluate(captions, [metric])[metric].part_items
    np.testing.assert_allclose(found, np.stack([parts[name].array for name in names], axis=1), rtol=1e-12)
    files = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert files == ["bleu", "hwcm", "rouge"]  # not CIDEr-D, which depends on the others
    assert (feature_matrix(captions, Features(names), tmp_path) == found).all()


def test_only_what_is_new_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions = CaptionSet.from_captions(Caption(str(k), str(k), f"a dog {k}", ("a dog runs",)) for k in range(6))
    metric = parse("rouge-l")
    measured = []
    own = type(metric).measure

    def counting(self, part, context):
        measured.append(len(part))
        return own(self, part, context)

    monkeypatch.setattr(type(metric), "measure", counting)
    half = measured_rows(captions.select(range(4)), [metric], tmp_path)[metric]
    whole = measured_rows(captions, [metric], tmp_path)[metric]
    assert measured == [4, 2]
    assert (whole[:4] == half).all()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])  # damaged: measured again
    assert (measured_rows(captions, [metric], tmp_path)[metric] == whole).all()
    assert measured == [4, 2, 6]


# training


def test_training_finds_the_direction_and_selects_by_tau(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.lceval.run import train_lceval
    from capmeter.metrics.lceval.checkpoint import trained

    known = made_set()
    for hidden in ((), (12,), (6, 5)):
        recipe = LcEvalRecipe(epochs=60, rate=0.01, hidden=hidden, patience=0)
        folder = tmp_path / str(len(hidden))
        outcome = train_lceval(known, recipe, folder)
        assert outcome.scores["tau"] > 0.75 and outcome.scores["accuracy"] > 0.8
        assert outcome.scores["tau"] == max(line["scores"]["tau"] for line in outcome.history)
        kept = trained(str(folder))
        assert [layer.weights.shape[1] for layer in kept.network.layers] == [*hidden, 2]
        from capmeter.learning.lceval.training import agreement

        assert known.judged is not None
        assert agreement(known.judged, kept.network) == pytest.approx(outcome.scores["tau"], abs=1e-6)
        checkpoint = Checkpoint.read(folder)
        assert checkpoint.training["epoch"] == outcome.epoch and "made" in checkpoint.selection
        np.testing.assert_allclose(kept.base, known.base)


def test_two_seeds_agree_and_the_same_seed_repeats_itself(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.lceval.run import train_lceval

    recipe = LcEvalRecipe(epochs=30, rate=0.01)
    first, again = (train_lceval(made_set(), recipe, tmp_path / name) for name in ("a", "b"))
    assert all((first.weights[name] == again.weights[name]).all() for name in first.weights)
    other = train_lceval(made_set(), LcEvalRecipe(epochs=30, rate=0.01, seed=1), tmp_path / "c")
    assert any((first.weights[name] != other.weights[name]).any() for name in first.weights)
    assert first.scores["tau"] == pytest.approx(other.scores["tau"], abs=0.03)


def test_the_mean_of_many_starts_depends_less_on_the_seed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.lceval.run import train_lceval
    from capmeter.metrics.lceval.checkpoint import trained

    known, elsewhere = made_set(), np.random.default_rng(9).random((400, len(FEATURES))) * 3 - 1
    gaps = {}
    for starts in (1, 8):
        logits = []
        for seed in (0, 1):
            recipe = LcEvalRecipe(epochs=60, rate=0.01, seed=seed, starts=starts)
            folder = tmp_path / f"{starts}-{seed}"
            outcome = train_lceval(known, recipe, folder)
            assert outcome.scores["tau"] > 0.7
            kept = trained(str(folder)).network
            assert [layer.weights.shape for layer in kept.layers] == [(16, 12), (12, 2)]
            logits.append(kept.logit(elsewhere))
        gaps[starts] = 1 - np.corrcoef(*logits)[0, 1]
    assert gaps[8] < gaps[1]
    assert "the mean of 8 starts" in Checkpoint.read(tmp_path / "8-0").selection
    again = train_lceval(known, LcEvalRecipe(starts=8), tmp_path / "again")
    assert Checkpoint.read(tmp_path / "again").scores == Checkpoint.read(tmp_path / "8-0").scores
    assert again.epoch == 0 and not again.history
    with pytest.raises(InputError, match="starts: expected 1 or more"):
        LcEvalRecipe(starts=0)


def test_the_l2_penalty_is_on_weights_alone(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.lceval.run import train_lceval

    sizes = []
    for decay in (0.0, 0.3):
        recipe = LcEvalRecipe(epochs=30, rate=0.01, hidden=(), patience=0, decay_weights=decay)
        weights = train_lceval(made_set(), recipe, tmp_path / str(decay)).weights
        sizes.append(np.abs(weights["0.weight"]).sum())
    assert sizes[1] < 0.2 * sizes[0]


def test_a_set_against_one_system_keeps_all_people() -> None:
    known = made_set()
    one = known.against("one")
    assert one.human.sum() == known.human.sum()
    assert set(one.systems.tolist()) == {"", "one"}
    with pytest.raises(InputError, match="no example is of the system 'three'; there are one, two"):
        known.against("three")
    semantic = known.of(chosen("semantic"))
    assert semantic.matrix.shape == (600, 3)
    assert semantic.judged is not None and semantic.judged.features.shape == (200, 3)


def test_recipes_and_variants() -> None:
    with pytest.raises(InputError, match="at most two layers"):
        LcEvalRecipe(hidden=(1, 2, 3))
    assert set(variants(["shipped"])) == set(SHIPPED) <= set(VARIANTS)
    assert {name for name, each in variants(["study"], ["m"]).items() if each.system} == {"lceval-against-m"}
    with pytest.raises(InputError, match="there is no network 'lcevil'"):
        variants(["lcevil"])


def test_a_pooling_belongs_to_features_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs torch")
    from commandline import capmeter

    (tmp_path / "people.jsonl").write_text("")
    given = ("people.jsonl", "--exclusions", "none.gz", "--pool", "mean", "-o", "out")
    done = capmeter("train", "lceval", *given, folder=tmp_path)
    assert done.returncode == 1
    assert "--pool is for a network of your own (--features)" in " ".join(done.stderr.split())


def test_the_networks_that_ship_are_those_of_their_names() -> None:
    for name in SHIPPED:
        own = name.removeprefix("lceval-")
        text = name if own == name else f"lceval({'pool' if own in ('mean', 'min') else 'features'}={own})"
        metric = parse(text)
        known = metric.trained  # type: ignore[attr-defined]
        expected = VARIANTS[name]
        assert known.features == expected.features and known.pool == expected.pool
        assert [layer.weights.shape[1] for layer in known.network.layers] == [*expected.hidden, 2]


def test_selection_by_a_part_of_the_judgments(tmp_path: Path) -> None:
    path = tmp_path / "cf.jsonl"
    rows = [
        {
            "image_id": f"{k // 3}.jpg",
            "candidate": f"a dog {k}",
            "references": ["a dog runs", "the dog"],
            "human": [k % 2, 1, 0],
            "candidate_id": f"9.jpg#{k}",
        }
        for k in range(300)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    whole = benchmark("flickr8k-cf").load(path, "clipscore2021(expect=none)")
    part = selecting("flickr8k-cf:clipscore2021(expect=none)", path, 120)
    assert len(part.captions) == len(part) == 120
    assert [part.captions[id].candidate for id in part.ids] == [whole.captions[id].candidate for id in part.ids]
    values = dict(zip(whole.ids, whole.human.tolist(), strict=True))
    assert [values[id] for id in part.ids] == part.human.tolist()
