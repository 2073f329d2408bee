"""An InfoMetIC head: its formula by hand, its predictions for words and regions, and errors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.infometic.infometic import COLUMNS, InfoMetICHead, word_scores
from capmeter_research.papers.infometic.regressor import Regressor
from rich.console import Console
from support.vision_models import captioned, pictures, tiny_blip, tiny_clip, tiny_siglip

import capmeter
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.evidence import Evidence
from capmeter.report.explain import Explanation, explain, render_explanations, to_dicts

torch = pytest.importorskip("torch", reason="needs the vision extra")
pytest.importorskip("transformers", reason="needs the vision extra")
pytest.importorskip("PIL", reason="needs the vision extra")

from capmeter_research.papers.infometic.joint_states import load_state_encoder  # noqa: E402
from capmeter_research.papers.infometic.network import HeadInputs, HeadShape, InfoMetIC  # noqa: E402

from capmeter.encoders.handle import find_joint_encoder  # noqa: E402

pytestmark = pytest.mark.neural
ON_CPU = Settings(device="cpu", precision="float32", cache=None)
TEXTS = ["a dog runs", "two cats, a dog", "", "dog " * 60]


def head(folder: Path, encoder: str, **parameters: object) -> str:
    """A checkpoint of random weights for this encoder, and the metric's name."""
    torch.manual_seed(3)
    network = InfoMetIC(
        HeadShape(*load_state_encoder(find_joint_encoder(encoder), ON_CPU).shape, width=16, layers=1, heads=2)
    )
    specified: dict[str, Any] = {
        "shape": "infometic",
        "encoder": encoder,
        "prefix": "A photo depicts",
        "text_encoder": "",
    }
    specified |= {"encoder_sha256": find_joint_encoder(encoder).sha256, "network": asdict(network.shape)}
    weights = {name: each.numpy() for name, each in network.state_dict().items()}
    Checkpoint("regressor", {**specified, **parameters}, weights).save(folder)
    return f'regressor(checkpoint="{folder}")'


def the_evidence(explanation: Explanation) -> Evidence:
    """Of the only metric."""
    (evidence,) = explanation.evidence.values()
    return evidence


def test_the_formula_by_hand() -> None:
    """Without layers, by numpy."""
    torch.manual_seed(0)
    network = InfoMetIC(HeadShape(3, 5, 4, 6, width=8, layers=1, heads=2)).eval()
    network.together = torch.nn.Identity()  # words and regions do not attend to each other
    network.together.forward = lambda states, src_key_padding_mask: states  # type: ignore[method-assign]
    random = np.random.default_rng(0)
    v, c = random.normal(size=6), random.normal(size=6)
    regions, pieces, projections = (random.normal(size=size) for size in ((3, 5), (4, 4), (4, 5)))
    region_mask, piece_mask = np.array([True, False, True]), np.array([True, True, True, False])
    arrays = {name: each.numpy().astype(np.float64) for name, each in network.state_dict().items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]

    def shares(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
        weights = np.exp(logits) * mask
        return weights / weights.sum()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    picture, sentence = linear("picture", v), linear("sentence", c)
    similarity = np.array([[cosine(t, region) for region in regions] for t in projections])
    u = np.array([shares(10 * row, np.ones(3)) for row in similarity]) @ regions
    states = linear("region", regions) + arrays["place"]
    words = linear("piece", np.concatenate([pieces, projections, u, projections * u], axis=1))
    right = linear("piece_key", words) @ linear("ask_pieces", picture) / np.sqrt(8)
    mentioned = linear("region_key", states) @ linear("ask_regions", sentence) / np.sqrt(8)
    cosines = [
        cosine(sentence, shares(right, piece_mask) @ words),
        cosine(picture, shares(mentioned, region_mask) @ states),
        cosine(v, c),
    ]
    logit = 10 * np.array(cosines) @ arrays["combine.weight"][0] + arrays["combine.bias"][0]
    inputs = v, regions, region_mask, c, pieces, projections, np.zeros((4, 0)), piece_mask
    tensors = (torch.from_numpy((x if x.dtype == bool else x.astype(np.float32))[None]) for x in inputs)
    batch = HeadInputs(*tensors)
    with torch.no_grad():
        output = network(batch)
    assert output.right[0].numpy() == pytest.approx(right, abs=1e-5)
    assert output.mentioned[0].numpy() == pytest.approx(mentioned, abs=1e-5)
    assert output.attended[0].numpy() == pytest.approx(shares(mentioned, region_mask), abs=1e-5)
    assert output.cosines[0].numpy() == pytest.approx(cosines, abs=1e-5)
    assert float(output.score[0]) == pytest.approx(logit, abs=1e-4)


def test_padding_and_other_captions_do_not_matter() -> None:
    torch.manual_seed(1)
    network = InfoMetIC(HeadShape(3, 5, 4, 6, width=8, layers=2, heads=2)).eval()
    both = [torch.randn(2, 6), torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool), torch.randn(2, 6)]
    piece_mask = torch.tensor([[True] * 2 + [False] * 3, [True] * 5])
    words = [torch.randn(2, 5, 4), torch.randn(2, 5, 5), torch.rand(2, 5, 3), piece_mask]
    with torch.no_grad():
        together = network(HeadInputs(*both, *words))
        alone = network(HeadInputs(*(each[:1] for each in both), *(each[:1, :2] for each in words)))
    assert torch.allclose(together.right[:1, :2], alone.right, atol=1e-5)
    assert torch.allclose(together.cosines[:1], alone.cosines, atol=1e-5)
    assert torch.allclose(together.score[:1], alone.score, atol=1e-5)


def test_a_piece_attends_to_the_regions_that_it_mentions() -> None:
    network = InfoMetIC(HeadShape(3, 2, 2, 6, width=8, layers=1, heads=2))
    regions = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]])
    projections, zeros = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]]), torch.zeros(1, 6)
    piece_mask, region_mask = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)

    def shares(grounding: Any) -> np.ndarray:
        sides = (zeros, regions, region_mask, zeros), (projections, projections, grounding, piece_mask)
        with torch.no_grad():
            return network.attention(HeadInputs(*sides[0], *sides[1]))[0].numpy()

    weights = np.exp([10.0, 0.0, -10.0])
    assert shares(torch.zeros(1, 2, 0))[0] == pytest.approx(weights / weights.sum())
    assert shares(torch.tensor([[[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]]])).tolist() == [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]


def test_a_word_is_as_good_as_its_worst_piece() -> None:
    pieces, words = np.array([0.9, 0.3, 0.8, 0.6]), np.array([0, 1, 1, 3])
    assert word_scores(pieces, words, 4).tolist() == [0.9, 0.3, 1.0, 0.6]


@pytest.mark.parametrize("build", [tiny_clip, tiny_siglip, tiny_blip])
def test_it_scores_and_explains_with_every_kind_of_encoder(build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    encoder = build(tmp_path / "encoder")
    name = head(tmp_path / "head", encoder)
    captions = captioned(pictures(tmp_path, [(32, 32), (50, 40), (33, 64), (20, 20)]), TEXTS)
    results = capmeter.score(captions, [name], settings=ON_CPU)[name]
    items = results.items.array
    assert items[2] == 0 and ((items[[0, 1, 3]] > 0) & (items[[0, 1, 3]] < 1)).all()
    assert set(results.parts) == set(COLUMNS[1:]) and "3" in results.notes["truncated"]
    again = capmeter.score(captions.select([1]), [name], settings=ON_CPU)[name]
    assert again.items["1"] == pytest.approx(items[1], abs=1e-6)  # whatever the other captions
    first, second, third, _ = explain(captions, [name], settings=ON_CPU)
    evidence = the_evidence(first)
    assert evidence.candidate == ("a", "dog", "runs") and len(evidence.word_scores) == 3
    assert [mark.start for mark in evidence.marks] == [k for k, each in enumerate(evidence.word_scores) if each < 0.5]
    assert len(the_evidence(second).word_scores) == 4 and the_evidence(third).word_scores == ()
    assert evidence.regions is not None and len(evidence.regions.boxes) == 16
    assert sum(evidence.regions.weights) == pytest.approx(1)
    assert evidence.facts["precision"] == pytest.approx(results.part_items["precision"]["0"])
    (encoded,) = to_dicts([first])[0]["evidence"].values()
    assert encoded["word_scores"] == list(evidence.word_scores)


def test_an_explanation_shows_every_word_and_names_the_wrong_ones(tmp_path: Path) -> None:
    encoder = tiny_clip(tmp_path / "encoder")
    name = head(tmp_path / "head", encoder)
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog runs"])
    (explanation,) = explain(captions, [name], settings=ON_CPU)
    console = Console(width=400)
    with console.capture() as capture:
        console.print(render_explanations([explanation]))
    scores = the_evidence(explanation).word_scores
    assert f"a {scores[0]:.2f}  dog {scores[1]:.2f}  runs {scores[2]:.2f}" in capture.get()
    wrong = [f"{word} ({each:.2f})" for word, each in zip(("a", "dog", "runs"), scores, strict=True) if each < 0.5]
    assert f"wrong words {', '.join(wrong) or 'none'}" in capture.get()


def test_other_weights_and_other_encoders_are_refused(tmp_path: Path) -> None:
    encoder = tiny_clip(tmp_path / "encoder")
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog"])

    def scored(name: str) -> None:
        capmeter.score(captions, [name], settings=ON_CPU)

    with pytest.raises(AssetError, match="was trained on another encoder"):
        scored(head(tmp_path / "other", encoder, encoder_sha256="0" * 64))
    wide = asdict(HeadShape(16, 12, 16, 99, width=16, layers=1, heads=2))
    with pytest.raises(AssetError, match=r"weight picture.weight: expected the shape \[16, 99\], but got \[16, 12\]"):
        scored(head(tmp_path / "shape", encoder, network=wide))
    torch.manual_seed(0)
    network = InfoMetIC(HeadShape(9, 12, 16, 12, width=16, layers=1, heads=2))
    head(tmp_path / "regions", encoder)
    checkpoint = Checkpoint.read(tmp_path / "regions", "regressor")
    parameters = {**checkpoint.parameters, "network": asdict(network.shape)}
    weights = {key: each.numpy() for key, each in network.state_dict().items()}
    Checkpoint("regressor", parameters, weights).save(tmp_path / "regions")
    with pytest.raises(AssetError, match=r"reads 9 regions .* but the encoder gives 16 regions"):
        scored(f'regressor(checkpoint="{tmp_path / "regions"}")')


def test_only_this_shape_explains(tmp_path: Path) -> None:
    encoder = tiny_clip(tmp_path / "encoder")
    spec = {"shape": "pair", "encoder": encoder, "prefix": "", "text_encoder": "", "encoder_sha256": ""}
    Checkpoint("regressor", spec, {"mean": np.zeros(1, np.float32)}).save(tmp_path / "head")
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog"])
    with pytest.raises(InputError, match="cannot explain a score"):
        explain(captions, [f'regressor(checkpoint="{tmp_path / "head"}")'], settings=ON_CPU)


HEAD = {"w-0": (4, 3), "b-0": (3,), "w-1": (3, 1), "b-1": (1,), "mean": (4,), "deviation": (4,), "cosines": (1,)}
SPEC = {"shape": "pair", "encoder": "clip", "prefix": "", "text_encoder": "", "encoder_sha256": ""}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mean": np.zeros(())}, "do not form a head"),
        ({"mean": np.zeros((4, 1)), "deviation": np.ones((4, 1))}, "do not form a head"),
        ({"b-2": np.zeros(1)}, "lacks the arrays b-2, or has too many"),
        ({"w-5": np.zeros((1, 1))}, "lacks the arrays b-2, w-2, w-5, or has too many"),
        ({"cosines": np.zeros(())}, "do not form a head"),
        ({"deviation": np.zeros(4)}, "do not form a head"),
    ],
)
def test_a_head_of_other_arrays_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    weights = {name: np.ones(shape, np.float32) for name, shape in HEAD.items()}
    Checkpoint("regressor", SPEC, weights).save(tmp_path)
    assert 0 < Regressor(checkpoint=str(tmp_path)).head.scores(np.ones((1, 4)))[0] < 1
    Checkpoint("regressor", SPEC, weights | changed).save(tmp_path)
    with pytest.raises(AssetError, match=message):
        _ = Regressor(checkpoint=str(tmp_path)).head


@pytest.mark.parametrize("changed", [{"shape": None}, {"shape": "cube"}, {"prefix": ["a"]}, {"encoder": 3}])
def test_a_head_that_does_not_say_what_it_reads_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    Checkpoint("regressor", SPEC | changed, {"mean": np.zeros(1)}).save(tmp_path)
    with pytest.raises(AssetError, match=r"the checkpoint has no text|the checkpoint's shape is 'cube'"):
        _ = Regressor(checkpoint=str(tmp_path)).needs


@pytest.mark.parametrize(
    "sizes", [{"width": 10**9}, {"layers": 10**7}, {"regions": 2**40}, {"heads": 0}, {"width": "8"}]
)
def test_sizes_are_compared_with_the_weights_before_memory_is_taken(tmp_path: Path, sizes: dict[str, Any]) -> None:
    network = InfoMetIC(HeadShape(4, 6, 5, 7, width=8, layers=1, heads=2))
    weights = {name: each.numpy() for name, each in network.state_dict().items()}
    checkpoint = Checkpoint("regressor", {"network": asdict(network.shape) | sizes}, weights)
    with pytest.raises(AssetError, match="expected a whole number from"):
        InfoMetICHead.from_checkpoint(checkpoint, SimpleNamespace(shape=(4, 6, 5, 7)), "x")  # type: ignore[arg-type]
