"""A captioner's training: it learns to see, the reward moves it, a killed run resumes, wrong input gets a sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic_scenes import made_pictures, write_files

torch = pytest.importorskip("torch", reason="training needs the neural extra")
pytest.importorskip("sentencepiece", reason="the captioner needs the captioner extra")

from capmeter_research.common.region_lmdb import write_lmdb_regions  # noqa: E402
from capmeter_research.common.transformer.decoding import END, PAD, DecodedCaption  # noqa: E402
from capmeter_research.papers.subicap.captioner import Captioner, DecodingStrategy, parse_decoding  # noqa: E402
from capmeter_research.papers.subicap.examples import divided, file_pictures, uncaptioned_pictures, world_pictures  # noqa: E402
from capmeter_research.papers.subicap.network import RegionBatch  # noqa: E402
from capmeter_research.papers.subicap.recipe import CaptionerRecipe, SelfCriticalRecipe  # noqa: E402
from capmeter_research.papers.subicap.training import (  # noqa: E402
    SelfCriticalLearner,
    _together,
    freeze_references,
    measure_captions,
    prepared,
    train_captioner,
)

from capmeter.core.checkpoints import Checkpoint  # noqa: E402
from capmeter.core.errors import AssetError, InputError  # noqa: E402
from capmeter.images.regions import open_regions  # noqa: E402
from capmeter.integrations.scst import word_based  # noqa: E402

RECIPE = CaptionerRecipe(
    epochs=6,
    lr=1e-2,
    batch=16,
    captions=2,
    segmentation="word",
    pieces=40,
    checked=40,
    width=32,
    hidden=32,
    heads=2,
    encoder_layers=1,
    decoder_layers=1,
    geometry=8,
    positions=True,
    dropout=0.0,
)
CRITICAL = SelfCriticalRecipe(epochs=3, lr=2e-3, batch=16, samples=3, checked=40)


@pytest.fixture(scope="module")
def pictures() -> Any:
    return made_pictures(160)


@pytest.fixture(scope="module")
def folder(pictures: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioner")
    trained = train_captioner(pictures, made_pictures(40, 1), RECIPE, CRITICAL, folder)
    assert trained.scores["cross-entropy"]["cider_d"] > 2
    assert trained.scores["self-critical"]["cider_d"] > trained.scores["cross-entropy"]["cider_d"]
    assert sorted(trained.seconds) == ["decoding", "gradient", "reward"]
    return folder


def test_it_says_what_it_sees(folder: Path) -> None:
    unseen = made_pictures(60, 2)
    captioner = Captioner(folder)
    scorer = freeze_references("cider-d", unseen)
    written = [captioner.write(pictures) for pictures in (unseen, unseen.shuffled())]
    local, other = (measure_captions(captions, scorer(captions, unseen.ids)) for captions in written)
    assert local["cider_d"] > 3 * other["cider_d"]
    assert local["distinct"] > 0.5
    assert 5 < local["words"] < 9
    file_text = captioner.write(unseen, DecodingStrategy(decode="beam"))
    assert np.mean([text in names for text, names in zip(file_text, unseen.captions, strict=True)]) > 0.45
    again = captioner.write(unseen.take([3, 4]), DecodingStrategy(decode="beam"))
    assert again == file_text[3:5]


def test_samples_follow_their_seed(folder: Path) -> None:
    captioner, unseen = Captioner(folder / "cross-entropy"), made_pictures(5, 3)
    how = DecodingStrategy(decode="sample")
    first = captioner.write(unseen, how, samples=6, seed=4)
    assert len(first) == 30 and first == captioner.write(unseen, how, samples=6, seed=4)
    assert first != captioner.write(unseen, how, samples=6, seed=5)
    cold = captioner.write(unseen, DecodingStrategy(decode="sample", temperature=1e-3), samples=2)
    assert cold[::2] == cold[1::2] == captioner.write(unseen)


def test_the_checkpoint_says_how_it_was_made(folder: Path) -> None:
    result, first = Checkpoint.read(folder, "captioner"), Checkpoint.read(folder / "cross-entropy", "captioner")
    assert result.training["self-critical"]["reward"] == "cider-d"
    assert "eos:<end>" in result.training["reward"]
    assert result.training["cross-entropy"]["segmentation"] == "word"
    assert result.parameters == first.parameters and result.sha256 != first.sha256
    assert result.scores["cider_d"] > first.scores["cider_d"]
    assert result.data[0].examples == 160
    for stage in ("cross-entropy", "self-critical"):
        assert (folder / stage / "log.jsonl").read_text().count("\n") == {"c": 6, "s": 3}[stage[0]]


def test_a_run_that_stops_between_its_stages_ends_with_the_same_weights(
    pictures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, held_out = pictures.take(range(48)), made_pictures(10, 1)
    recipe, critical = replace(RECIPE, epochs=2), replace(CRITICAL, epochs=2)
    train_captioner(few, held_out, recipe, critical, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(SelfCriticalLearner, "losses", None)
        with pytest.raises(TypeError):
            train_captioner(few, held_out, recipe, critical, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "checkpoint.json").exists()
    train_captioner(few, held_out, recipe, critical, tmp_path / "stopped")
    total, resumed = (Checkpoint.read(tmp_path / name, "captioner") for name in ("whole", "stopped"))
    assert total.sha256 == resumed.sha256


def test_another_metric_is_a_reward_too(pictures: Any, tmp_path: Path) -> None:
    for name in ("mean(bleu-1,rouge-l)", "mean(cider-d,spice)"):
        lexical = word_based(name)
        then = replace(CRITICAL, reward=name, epochs=1)
        few = pictures.take(range(32))
        to = tmp_path / name
        train_captioner(few, made_pictures(8, 1), replace(RECIPE, epochs=1), then, to)
        assert Checkpoint.read(to).training["self-critical"]["reward"] == name
        assert ("eos:<end>" in Checkpoint.read(to).training["reward"]) == lexical
    assert word_based("cider-d") and not word_based("mean(cider-d,spice)")


class Fixed:
    """A learner's parts whose captions and rewards are given."""

    def __init__(self, learner: Any, texts: list[str]) -> None:
        self.texts = texts
        learner.segmentation = self

    def decode(self, rows: Any) -> list[str]:
        return self.texts[: len(list(rows))]


def test_the_advantage_by_hand(pictures: Any) -> None:
    """r(sample) - r(greedy), with an end for what ended."""
    visits: list[Any] = []

    def scorer(candidates: Sequence[str], images: Sequence[str]) -> Any:
        visits.append((list(candidates), list(images)))
        return np.array([1.0, 4.0, 2.0, 0.0, 3.0, 0.5])

    module = torch.nn.Linear(1, 1)
    module.longest = 4
    learner = SelfCriticalLearner(
        module,
        pictures,
        scorer,
        "<end>",
        None,
        None,
        replace(CRITICAL, samples=2),  # type: ignore[arg-type]
    )
    Fixed(learner, ["a", "b b", "c", "", "greedy", "best"])
    rows = [DecodedCaption((5,) * count, -1.0) for count in (1, 4, 1, 0, 2, 2)]
    result = learner._advantage(rows[:4], rows[4:], ["x", "y"])
    assert result.tolist() == [-2.0, 1.0, 1.5, -0.5]
    assert visits == [(["a <end>", "b b", "c <end>", "<end>", "greedy <end>", "best <end>"], [*"xxyyxy"])]


def test_captions_of_about_one_length_are_together() -> None:
    output = _together([[7] * 3, [8], [9] * 9], longest=5)
    (rows, targets), *rest = output
    assert not rest and rows.tolist() == [1, 0, 2]
    assert targets.tolist() == [[8, END, PAD, PAD, PAD], [7, 7, 7, END, PAD], [9] * 5]


def test_the_gradient_raises_what_scores_better(folder: Path, pictures: Any) -> None:
    """One step with a reward of one caption: its probability rises, that of the others falls."""
    output = Captioner(folder / "cross-entropy")
    module, few = output.module, pictures.take(range(2))
    before = {name: values.clone() for name, values in module.state_dict().items()}

    def scorer(candidates: Sequence[str], images: Sequence[str]) -> Any:
        return np.array(["left" in text for text in candidates], float) * 10

    learner = SelfCriticalLearner(
        module,
        few,
        scorer,
        "",
        None,
        output.segmentation,
        replace(CRITICAL, samples=40),  # type: ignore[arg-type]
    )

    def share() -> float:
        file_text = output.write(few, DecodingStrategy(decode="sample"), samples=60, seed=3)
        return float(np.mean(["left" in text for text in file_text]))

    first = share()
    optimizer = learner.optimizer(3e-3)
    for step in range(8):
        loss = sum(learner.losses(np.arange(2), np.random.default_rng(step)).values())
        loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        optimizer.zero_grad()
    assert share() > first + 0.15
    module.load_state_dict(before)


def test_pictures_from_files(tmp_path: Path) -> None:
    references = write_files(tmp_path, 70)
    regions = str(tmp_path / "regions")
    result = file_pictures({**references, "5": ["not there"]}, regions)
    assert len(result) == 70 and result.features == 7
    assert result.references["1003"] == tuple(references["1003"])
    train, held_out = divided(result)
    assert set(train.ids) | set(held_out.ids) == set(references)
    assert len(held_out) >= 1 and not set(train.ids) & set(held_out.ids)
    alone = uncaptioned_pictures(regions, ["1004", "1002"])
    assert alone.ids == ("1004", "1002")
    assert np.array_equal(alone.regions(1)[0], result.regions(2)[0])
    assert len(uncaptioned_pictures(regions)) == 70
    pytest.importorskip("lmdb", reason="an LMDB needs the regions extra")
    pytest.importorskip("msgpack", reason="an LMDB needs the regions extra")
    source = open_regions(regions)
    named = ((f"coco_val2014_{int(name):012d}", source.read(f"{name}.npz")) for name in references)
    write_lmdb_regions(tmp_path / "lmdb", named)
    packed = file_pictures(references, str(tmp_path / "lmdb"))
    assert packed.ids == result.ids and np.allclose(packed.regions(5)[0], result.regions(5)[0])
    shuffled = result.shuffled(3)
    assert shuffled.ids == result.ids and (shuffled.rows != result.rows).all()
    assert sorted(shuffled.rows.tolist()) == result.rows.tolist()


def test_pictures_of_the_made_world_have_what_the_encoder_sees() -> None:
    pytest.importorskip("PIL", reason="pictures need the images extra")
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.scenes import World

    world, encoder = World(split="dev", size=3), load_world_encoder()
    result = world_pictures(world, encoder)
    for number, scene in enumerate(world):
        features, positions = result.regions(number)
        alone = encoder.regions(np.asarray(scene.render()), scene.regions().boxes)
        assert features == pytest.approx(alone, abs=1e-4)
        assert positions[:, :4] == pytest.approx(scene.regions().boxes / 96, abs=1e-6)
        assert len(result.captions[number]) == 5


def test_how_captions_are_prepared() -> None:
    assert prepared("A Dog,  barking!", replace(RECIPE, words=0)) == "a dog barking"
    assert prepared("A Dog,  barking!", replace(RECIPE, words=2, plain=False)) == "A Dog,"


def test_wrong_input_gets_a_sentence(folder: Path, pictures: Any, tmp_path: Path) -> None:
    captioner = Captioner(folder)
    wide = made_pictures(2)
    wide = replace(wide, bank=replace(wide.bank, features=np.ones((4, 9), np.float32)))  # type: ignore[type-var]
    with pytest.raises(InputError, match="9 features each, but this captioner reads 7"):
        captioner.write(wide)
    with pytest.raises(InputError, match="samples=3"):
        captioner.write(wide, DecodingStrategy(decode="beam"), samples=3)
    with pytest.raises(InputError, match="7 features each, but those of held-out pictures 9"):
        train_captioner(pictures, wide, RECIPE, None, tmp_path)
    few = [wide.regions(0), pictures.regions(0)]
    with pytest.raises(InputError, match="some pictures have 7 features each and of others 9"):
        RegionBatch.from_regions(few)
    with pytest.raises(InputError, match="one picture"):
        pictures.take([0]).shuffled()
    with pytest.raises(InputError, match="0 held out"):
        train_captioner(pictures, pictures.take([]), RECIPE, None, tmp_path)
    with pytest.raises(InputError, match="too few"):
        divided(pictures.take([0]))
    write_files(tmp_path, 3)
    with pytest.raises(InputError, match="no image with captions has regions"):
        file_pictures({"x": ["a"]}, str(tmp_path / "regions"))
    with pytest.raises(InputError, match="no caption that is not empty"):
        file_pictures({"1000": ["  "]}, str(tmp_path / "regions"))
    with pytest.raises(InputError, match=r"1 of 2 images have no regions here \(the first: '7'\)"):
        uncaptioned_pictures(str(tmp_path / "regions"), ["1000", "7"])
    for text, message in (("beam search", "beam search"), ("captioner(beams=0)", "beams=0"), ("writer", "expected")):
        with pytest.raises(InputError, match=message):
            parse_decoding(text)
    assert parse_decoding("beam") == DecodingStrategy(decode="beam")
    with pytest.raises(InputError, match="heads"):
        replace(RECIPE, heads=5)


def test_a_checkpoint_that_is_no_captioners_is_refused(folder: Path, tmp_path: Path) -> None:
    good = Checkpoint.read(folder)
    shape = good.parameters["shape"]
    for number, parameters in enumerate(
        (
            {},
            {**good.parameters, "shape": {**shape, "width": 64}},
            {**good.parameters, "shape": {**shape, "heads": 0}},
            {**good.parameters, "segmentation": {"kind": "bpe", "model": "nonsense"}},
            {**good.parameters, "longest": "many"},
        )
    ):
        to = tmp_path / str(number)
        replace(good, parameters=parameters).save(to)
        with pytest.raises(AssetError, match=r"captioner|segmentation"):
            Captioner(to)
    with pytest.raises(AssetError, match="no checkpoint"):
        Captioner(tmp_path / "none")
    head = json.loads((folder / "checkpoint.json").read_text())
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "checkpoint.json").write_text(json.dumps(head)[:-20])
    with pytest.raises(AssetError):
        Captioner(tmp_path / "torn")
