"""Training of LCEval: examples without benchmark photos or label leaks, stored features, training, variants."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.benchmark_exclusions import identify_photo
from capmeter_research.common.machine_captions import MachineCaption, read_machine_captions
from capmeter_research.common.model_selection import load_selection_judgments
from capmeter_research.papers.lceval.checkpoint import load_network
from capmeter_research.papers.lceval.features import FEATURES, Features, select_features
from capmeter_research.papers.lceval.lceval import LcEval
from capmeter_research.papers.lceval.training.examples import build_caption_set, build_examples, read_human_captions
from capmeter_research.papers.lceval.training.stored_features import feature_matrix, measure_rows
from capmeter_research.papers.lceval.training.train import LcEvalOptions, train
from capmeter_research.papers.lceval.training.training import LcEvalRecipe, judgment_tau, train_lceval
from capmeter_research.papers.lceval.training.variants import BUNDLED, VARIANTS, resolve_variants
from support.command_line import capmeter
from support.lceval_training_set import random_training_set

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.judgments.benchmarks import find_benchmark

NOUNS, VERBS = ["dog", "cat", "girl", "boy", "bird", "horse"], ["runs", "sleeps", "jumps", "waits", "plays", "eats"]
EXCLUSIONS = {"coco": frozenset({"4"}), "flickr30k": frozenset({"1004"})}


def human_captions(photo: int) -> tuple[str, ...]:
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


PHOTOS = {identify_photo(f"{1000 + k}.jpg"): human_captions(k) for k in range(40)}
MACHINE = [
    MachineCaption(photo, f"system {s}", f"a {noun} on a table {s}")
    for k, photo in enumerate(PHOTOS)
    for s, noun in enumerate(("man", "woman", "train", "bench"))
    if s <= k % 5  # photos have one to four machine captions
]


# examples


def test_photos_are_identified_by_number() -> None:
    assert identify_photo("COCO_val2014_000000226128.jpg") == ("coco", "226128")
    assert identify_photo("val2014/COCO_val2014_000000000042.jpg") == ("coco", "42")
    assert identify_photo("226128") == ("coco", "226128")
    assert identify_photo("99679241_adc853a5c0.jpg") == identify_photo("99679241.jpg") == ("flickr30k", "99679241")
    assert identify_photo("99679241", "flickr30k") == ("flickr30k", "99679241")


def test_the_number_of_candidates_or_references_does_not_reveal_the_label() -> None:
    examples = build_examples(PHOTOS, MACHINE, EXCLUSIONS)
    assert len(examples) == 2 * sum(min(3, 1 + k % 5) for k in range(40) if k != 4)
    assert Counter(each.human for each in examples) == {True: len(examples) // 2, False: len(examples) // 2}
    assert {len(each.references) for each in examples} == {4}
    for photo in {each.photo for each in examples}:
        candidates = [each for each in examples if each.photo == photo]
        human = [each for each in candidates if each.human]
        assert len(human) == len(candidates) - len(human) <= 3
        assert len({each.system for each in candidates}) == len(candidates) - len(human) + 1
        assert len({" ".join(each.candidate.split()) for each in human}) == len(human)
        assert all(each.candidate not in each.references for each in candidates)
    # a random one of the five references is left out for a machine caption
    left_out_counts = Counter(
        k
        for each in examples
        if not each.human
        for k, text in enumerate(PHOTOS[each.photo])
        if text not in each.references
    )
    assert len(left_out_counts) == 6 and min(left_out_counts.values()) > 5


def test_human_and_machine_candidates_have_the_same_spelling() -> None:
    for each in build_examples(PHOTOS, MACHINE, EXCLUSIONS):
        assert each.candidate == each.candidate.lower()
        assert not set(".,!?") & set(each.candidate)


def test_examples_depend_on_seed_and_photo_alone() -> None:
    examples = build_examples(PHOTOS, MACHINE, EXCLUSIONS)
    assert examples == build_examples(dict(reversed(PHOTOS.items())), MACHINE, EXCLUSIONS)
    assert examples != build_examples(PHOTOS, MACHINE, EXCLUSIONS, seed=1)
    few = build_examples(PHOTOS, MACHINE, EXCLUSIONS, max_photos=5)
    assert few == examples[: len(few)]
    assert len({each.photo for each in few}) == 5


def test_benchmark_photos_are_excluded_from_every_source() -> None:
    excluded = ("flickr30k", "1004")
    assert excluded in PHOTOS
    assert excluded not in {each.photo for each in build_examples(PHOTOS, MACHINE, EXCLUSIONS)}
    with pytest.raises(InputError, match="no exclusions are listed for source 'web'"):
        build_examples({("web", "1"): human_captions(1)}, [MachineCaption(("web", "1"), "s", "a dog")], EXCLUSIONS)


def test_a_copy_of_a_human_caption_is_not_a_machine_caption() -> None:
    photo = identify_photo("1.jpg")
    copy, other = (
        MachineCaption(photo, "s", human_captions(0)[0].upper()),
        MachineCaption(photo, "t", "a train on a table"),
    )
    examples = build_examples({photo: human_captions(0)}, [copy, other], EXCLUSIONS)
    assert [each.system for each in examples if not each.human] == ["t"]
    with pytest.raises(InputError, match="no training example: 1 photos"):
        build_examples({photo: human_captions(0)}, [], EXCLUSIONS)


def test_the_input_of_a_writer_is_not_a_reference_of_its_output() -> None:
    for index in range(6):
        photo = identify_photo("1.jpg")
        examples = build_examples(
            {photo: human_captions(0)}, [MachineCaption(photo, "w", "a train", (index,))], EXCLUSIONS
        )
        (example,) = [each for each in examples if not each.human]
        assert human_captions(0)[index] not in example.references and len(example.references) == 4
    with pytest.raises(InputError, match="no training example"):  # two of five are inputs: three are left
        build_examples({photo: human_captions(0)[:5]}, [MachineCaption(photo, "w", "a train", (0, 1))], EXCLUSIONS)


def test_files_of_human_and_machine_captions(tmp_path: Path) -> None:
    rows = [
        {"image_id": "7.jpg", "references": list(human_captions(7))},
        {"image_id": "1004.jpg", "references": ["a dog"]},
    ]
    photos = tmp_path / "photos.jsonl.gz"
    photos.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_human_captions(photos, EXCLUSIONS) == ({("flickr30k", "7"): human_captions(7)}, 1)
    annotations = [{"image_id": 9, "id": k, "caption": text} for k, text in enumerate(human_captions(9))]
    coco = tmp_path / "captions.json"
    coco.write_text(json.dumps({"annotations": [*annotations, {"image_id": 4, "id": 99, "caption": "a dog"}]}))
    assert read_human_captions(coco, EXCLUSIONS) == ({("coco", "9"): human_captions(9)}, 1)
    machine = tmp_path / "machine.jsonl"
    machine.write_text(
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
    assert read_machine_captions(machine) == [
        MachineCaption(photo, "one", "a dog", (2,)),
        MachineCaption(photo, "two", "a cat"),
        MachineCaption(photo, "", "a bird"),
    ]
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"image_id": 9, "caption": "a train"}]))
    assert [(each.photo, each.caption) for each in read_machine_captions(results)] == [(("coco", "9"), "a train")]
    photos.write_text('{"image_id": "7.jpg"}')
    with pytest.raises(InputError, match=r"neither a candidate .caption. nor references"):
        read_human_captions(photos, EXCLUSIONS)


# features


def test_features_are_those_of_the_metric_and_are_stored(tmp_path: Path) -> None:
    captions = build_caption_set(build_examples(PHOTOS, MACHINE, EXCLUSIONS, max_photos=6))
    names = select_features("precision-1+precision-2+unigram-recall+rouge-l+cider-d+hwcm-dep-2")
    matrix = feature_matrix(captions, Features(names), tmp_path)
    metric = LcEval(features=names, learned=False)
    parts = evaluate(captions, [metric])[metric].part_items
    np.testing.assert_allclose(matrix, np.stack([parts[name].array for name in names], axis=1), rtol=1e-12)
    assert len(list(tmp_path.glob("analyses/*"))) == 3  # not CIDEr-D, which depends on the corpus
    assert (feature_matrix(captions, Features(names), tmp_path) == matrix).all()


def test_only_new_captions_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions = CaptionSet.from_captions(Caption(str(k), str(k), f"a dog {k}", ("a dog runs",)) for k in range(6))
    metric = parse("rouge-l")
    measured_counts = []
    measure = type(metric).measure

    def counting(self, part, context):
        measured_counts.append(len(part))
        return measure(self, part, context)

    monkeypatch.setattr(type(metric), "measure", counting)
    half = measure_rows(captions.select(range(4)), [metric], tmp_path)[metric]
    full = measure_rows(captions, [metric], tmp_path)[metric]
    assert measured_counts == [4, 2]
    assert (full[:4] == half).all()
    for path in tmp_path.glob("analyses/*/*"):
        path.write_bytes(path.read_bytes()[:100])  # damaged: measured again
    assert (measure_rows(captions, [metric], tmp_path)[metric] == full).all()
    assert measured_counts == [4, 2, 6]


# training


def test_training_finds_the_direction_and_selects_by_tau(tmp_path: Path) -> None:
    examples = random_training_set()
    for hidden in ((), (12,), (6, 5)):
        recipe = LcEvalRecipe(epochs=60, lr=0.01, hidden=hidden, patience=0)
        folder = tmp_path / str(len(hidden))
        outcome = train_lceval(examples, recipe, folder)
        assert outcome.scores["tau"] > 0.75 and outcome.scores["accuracy"] > 0.8
        assert outcome.scores["tau"] == max(entry["scores"]["tau"] for entry in outcome.history)
        loaded = load_network(str(folder))
        assert [layer.weights.shape[1] for layer in loaded.network.layers] == [*hidden, 2]
        assert examples.judgments is not None
        assert judgment_tau(examples.judgments, loaded.network) == pytest.approx(outcome.scores["tau"], abs=1e-6)
        checkpoint = Checkpoint.read(folder)
        assert checkpoint.training["epoch"] == outcome.epoch and "simulated" in checkpoint.selection
        np.testing.assert_allclose(loaded.baseline, examples.mean_features)


def test_a_distilled_ensemble_depends_less_on_the_seed(tmp_path: Path) -> None:
    examples, other_features = random_training_set(), np.random.default_rng(9).random((400, len(FEATURES))) * 3 - 1
    gaps = {}
    for restarts in (1, 8):
        logits = []
        for seed in (0, 1):
            recipe = LcEvalRecipe(epochs=60, lr=0.01, seed=seed, restarts=restarts)
            folder = tmp_path / f"{restarts}-{seed}"
            outcome = train_lceval(examples, recipe, folder)
            assert outcome.scores["tau"] > 0.7
            network = load_network(str(folder)).network
            assert [layer.weights.shape for layer in network.layers] == [(16, 12), (12, 2)]
            logits.append(network.logit(other_features))
        gaps[restarts] = 1 - np.corrcoef(*logits)[0, 1]
    assert gaps[8] < gaps[1]
    assert "distilled from 8 restarts" in Checkpoint.read(tmp_path / "8-0").selection
    again = train_lceval(examples, LcEvalRecipe(restarts=8), tmp_path / "again")
    assert Checkpoint.read(tmp_path / "again").scores == Checkpoint.read(tmp_path / "8-0").scores
    assert again.epoch == 0 and not again.history


def test_the_l2_penalty_is_on_weights_alone(tmp_path: Path) -> None:
    sizes = []
    for decay in (0.0, 0.3):
        recipe = LcEvalRecipe(epochs=30, lr=0.01, hidden=(), patience=0, weight_decay=decay)
        weights = train_lceval(random_training_set(), recipe, tmp_path / str(decay)).weights
        sizes.append(np.abs(weights["0.weight"]).sum())
    assert sizes[1] < 0.2 * sizes[0]


def test_a_set_against_one_system_keeps_all_human_captions() -> None:
    examples = random_training_set()
    one = examples.against_system("one")
    assert one.human.sum() == examples.human.sum()
    assert set(one.systems.tolist()) == {"", "one"}
    with pytest.raises(InputError, match="unknown system 'three' of machine captions; expected one of one, two"):
        examples.against_system("three")
    semantic = examples.with_features(select_features("semantic"))
    assert semantic.matrix.shape == (600, 3)
    assert semantic.judgments is not None and semantic.judgments.features.shape == (200, 3)


def test_recipes_and_variants() -> None:
    assert set(resolve_variants(["bundled"])) == set(BUNDLED) <= set(VARIANTS)
    assert {name for name, each in resolve_variants(["study"], ["m"]).items() if each.system} == {"lceval-against-m"}
    with pytest.raises(InputError, match="unknown network 'lcevil'"):
        resolve_variants(["lcevil"])


def test_a_pooling_needs_custom_features(tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text("")
    inputs = ("people.jsonl", "--exclusions", "none.gz", "--pool", "mean", "-o", "out")
    done = capmeter("train", "lceval", *inputs, folder=tmp_path)
    assert done.returncode == 2
    assert "--pool is for a custom network (--features)" in " ".join(done.stderr.replace("│", " ").split())


def test_the_bundled_networks_match_their_names() -> None:
    for name in BUNDLED:
        variant = name.removeprefix("lceval-")
        parameter = "pool" if variant in ("mean", "min") else "features"
        text = name if variant == name else f"lceval({parameter}={variant})"
        metric = parse(text)
        bundled = metric.trained  # type: ignore[attr-defined]
        expected = VARIANTS[name]
        assert bundled.features == expected.features and bundled.pool == expected.pool
        assert [layer.weights.shape[1] for layer in bundled.network.layers] == [*expected.hidden, 2]


def test_an_epoch_that_nothing_selects_is_refused(tmp_path: Path) -> None:
    """A dozen photos, of which none is held out, and no judgments."""
    rows = [{"image_id": f"{number}.jpg", "references": human_captions(number)} for number in range(2000, 2012)]
    (tmp_path / "human.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "none.json.gz").write_bytes(gzip.compress(b'{"coco": [], "flickr": []}'))
    options = {"human": [tmp_path / "human.jsonl"], "exclusions": tmp_path / "none.json.gz", "output": tmp_path / "out"}
    with pytest.raises(InputError, match="none of 12 photos is held out and there are no judgments, so nothing select"):
        train(LcEvalOptions(**options, retrieval=12))


def test_selection_by_a_subset_of_the_judgments(tmp_path: Path) -> None:
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
    full = find_benchmark("flickr8k-cf").load(path, "clipscore2021(expect=none)")
    subset = load_selection_judgments("flickr8k-cf:clipscore2021(expect=none)", path, 120)
    assert len(subset.captions) == len(subset) == 120
    assert [subset.captions[id].candidate for id in subset.ids] == [full.captions[id].candidate for id in subset.ids]
    values = dict(zip(full.ids, full.human.tolist(), strict=True))
    assert [values[id] for id in subset.ids] == subset.human.tolist()
