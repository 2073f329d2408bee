"""A head of InfoMetIC's shape: its formula by hand, what it says of words and regions, and its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from visionmodels import captioned, pictures, tiny_blip, tiny_clip, tiny_siglip

import capmeter
from capmeter.checkpoints import Checkpoint
from capmeter.errors import AssetError, InputError
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.regressor.infometic import COLUMNS, word_scores
from capmeter.report.explain import Explanation, as_text, explain, to_dicts
from capmeter.settings import Settings

torch = pytest.importorskip("torch", reason="needs the vision extra")
pytest.importorskip("transformers", reason="needs the vision extra")
pytest.importorskip("PIL", reason="needs the vision extra")

from capmeter.encoders.models import JOINT_ENCODERS, find_encoder  # noqa: E402
from capmeter.encoders.states import load_states  # noqa: E402
from capmeter.metrics.regressor.infometic import shape_to_dict  # noqa: E402
from capmeter.metrics.regressor.network import Batch, InfoMetIC, NetworkShape  # noqa: E402

pytestmark = pytest.mark.neural
ON_CPU = Settings(device="cpu", precision="float32", cache=None)
TEXTS = ["a dog runs", "two cats, a dog", "", "dog " * 60]


def head(folder: Path, encoder: str, **parameters: object) -> str:
    """A checkpoint of random weights for this encoder, and the metric's name."""
    torch.manual_seed(3)
    network = InfoMetIC(NetworkShape(*load_states(encoder, ON_CPU).shape, width=16, layers=1, heads=2))
    said: dict[str, Any] = {"shape": "infometic", "encoder": encoder, "prefix": "A photo depicts", "text_encoder": ""}
    said |= {"encoder_sha256": find_encoder(encoder, JOINT_ENCODERS).sha256, "network": shape_to_dict(network)}
    weights = {name: each.numpy() for name, each in network.state_dict().items()}
    Checkpoint("regressor", {**said, **parameters}, weights).save(folder)
    return f'regressor(checkpoint="{folder}")'


def the_evidence(found: Explanation) -> Evidence:
    """Of the only metric."""
    (evidence,) = found.evidence.values()
    return evidence


def test_the_formula_by_hand() -> None:
    """Without layers, by numpy."""
    torch.manual_seed(0)
    network = InfoMetIC(NetworkShape(3, 5, 4, 6, width=8, layers=1, heads=2)).eval()
    network.together = torch.nn.Identity()  # words and regions do not read each other
    network.together.forward = lambda states, src_key_padding_mask: states  # type: ignore[method-assign]
    random = np.random.default_rng(0)
    v, c = random.normal(size=6), random.normal(size=6)
    regions, pieces, says = (random.normal(size=size) for size in ((3, 5), (4, 4), (4, 5)))
    there, said = np.array([True, False, True]), np.array([True, True, True, False])
    own = {name: each.numpy().astype(np.float64) for name, each in network.state_dict().items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ own[f"{name}.weight"].T + own[f"{name}.bias"]

    def shares(logits: np.ndarray, among: np.ndarray) -> np.ndarray:
        weights = np.exp(logits) * among
        return weights / weights.sum()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    picture, sentence = linear("picture", v), linear("sentence", c)
    spoken = np.array([[cosine(t, region) for region in regions] for t in says])
    found = np.array([shares(10 * row, np.ones(3)) for row in spoken]) @ regions
    places = linear("region", regions) + own["place"]
    words = linear("piece", np.concatenate([pieces, says, found, says * found], axis=1))
    right = linear("piece_key", words) @ linear("ask_pieces", picture) / np.sqrt(8)
    mentioned = linear("region_key", places) @ linear("ask_regions", sentence) / np.sqrt(8)
    cosines = [
        cosine(sentence, shares(right, said) @ words),
        cosine(picture, shares(mentioned, there) @ places),
        cosine(v, c),
    ]
    logit = 10 * np.array(cosines) @ own["combine.weight"][0] + own["combine.bias"][0]
    arrays = [v[None], regions[None], there[None], c[None], pieces[None], says[None], np.zeros((1, 4, 0)), said[None]]
    batch = Batch(*(torch.from_numpy(each if each.dtype == bool else each.astype(np.float32)) for each in arrays))
    with torch.no_grad():
        told = network(batch)
    assert told.right[0].numpy() == pytest.approx(right, abs=1e-5)
    assert told.mentioned[0].numpy() == pytest.approx(mentioned, abs=1e-5)
    assert told.attended[0].numpy() == pytest.approx(shares(mentioned, there), abs=1e-5)
    assert told.cosines[0].numpy() == pytest.approx(cosines, abs=1e-5)
    assert float(told.score[0]) == pytest.approx(logit, abs=1e-4)


def test_padding_and_what_is_beside_a_caption_do_not_matter() -> None:
    torch.manual_seed(1)
    network = InfoMetIC(NetworkShape(3, 5, 4, 6, width=8, layers=2, heads=2)).eval()
    both = [torch.randn(2, 6), torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool), torch.randn(2, 6)]
    said = torch.tensor([[True] * 2 + [False] * 3, [True] * 5])
    words = [torch.randn(2, 5, 4), torch.randn(2, 5, 5), torch.rand(2, 5, 3), said]
    with torch.no_grad():
        together = network(Batch(*both, *words))
        alone = network(Batch(*(each[:1] for each in both), *(each[:1, :2] for each in words)))
    assert torch.allclose(together.right[:1, :2], alone.right, atol=1e-5)
    assert torch.allclose(together.cosines[:1], alone.cosines, atol=1e-5)
    assert torch.allclose(together.score[:1], alone.score, atol=1e-5)


def test_a_piece_finds_the_regions_that_it_speaks_of() -> None:
    network = InfoMetIC(NetworkShape(3, 2, 2, 6, width=8, layers=1, heads=2))
    regions = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]])
    says, nothing = torch.tensor([[[3.0, 0.0], [0.0, 1.0]]]), torch.zeros(1, 6)
    said, there = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)

    def shares(about: Any) -> np.ndarray:
        with torch.no_grad():
            return network.shares(Batch(nothing, regions, there, nothing, says, says, about, said))[0].numpy()

    weights = np.exp([10.0, 0.0, -10.0])
    assert shares(torch.zeros(1, 2, 0))[0] == pytest.approx(weights / weights.sum())
    assert shares(torch.tensor([[[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]]])).tolist() == [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]


def test_a_word_is_as_good_as_its_worst_piece() -> None:
    pieces, words = np.array([0.9, 0.3, 0.8, 0.6]), np.array([0, 1, 1, 3])
    assert word_scores(pieces, words, 4).tolist() == [0.9, 0.3, 1.0, 0.6]


@pytest.mark.parametrize("made", [tiny_clip, tiny_siglip, tiny_blip])
def test_it_scores_and_explains_with_every_kind_of_encoder(made, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    encoder = made(tmp_path / "encoder")
    name = head(tmp_path / "head", encoder)
    captions = captioned(pictures(tmp_path, [(32, 32), (50, 40), (33, 64), (20, 20)]), TEXTS)
    found = capmeter.score(captions, [name], settings=ON_CPU)[name]
    items = found.items.array
    assert items[2] == 0 and ((items[[0, 1, 3]] > 0) & (items[[0, 1, 3]] < 1)).all()
    assert set(found.parts) == set(COLUMNS[1:]) and "3" in found.notes["cut"]
    again = capmeter.score(captions.select([1]), [name], settings=ON_CPU)[name]
    assert again.items["1"] == pytest.approx(items[1], abs=1e-6)  # whatever is beside it
    first, second, third, _ = explain(captions, [name], settings=ON_CPU)
    seen = the_evidence(first)
    assert seen.candidate == ("a", "dog", "runs") and len(seen.word_scores) == 3
    assert [mark.start for mark in seen.marks] == [k for k, each in enumerate(seen.word_scores) if each < 0.5]
    assert len(the_evidence(second).word_scores) == 4 and the_evidence(third).word_scores == ()
    assert seen.regions is not None and len(seen.regions.boxes) == 16
    assert sum(seen.regions.weights) == pytest.approx(1)
    assert seen.facts["precision"] == pytest.approx(found.part_items["precision"]["0"])
    (said,) = to_dicts([first])[0]["evidence"].values()
    assert said["word_scores"] == list(seen.word_scores)


def test_an_explanation_shows_every_word_and_names_the_wrong_ones(tmp_path: Path) -> None:
    from rich.console import Console

    encoder = tiny_clip(tmp_path / "encoder")
    name = head(tmp_path / "head", encoder)
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog runs"])
    (found,) = explain(captions, [name], settings=ON_CPU)
    console = Console(width=400)
    with console.capture() as said:
        console.print(as_text([found]))
    scores = the_evidence(found).word_scores
    assert f"a {scores[0]:.2f}  dog {scores[1]:.2f}  runs {scores[2]:.2f}" in said.get()
    wrong = [f"{word} ({each:.2f})" for word, each in zip(("a", "dog", "runs"), scores, strict=True) if each < 0.5]
    assert f"wrong words {', '.join(wrong) or 'none'}" in said.get()


def test_other_weights_and_other_encoders_are_refused(tmp_path: Path) -> None:
    encoder = tiny_clip(tmp_path / "encoder")
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog"])

    def scored(name: str) -> None:
        capmeter.score(captions, [name], settings=ON_CPU)

    with pytest.raises(AssetError, match="was trained on another encoder"):
        scored(head(tmp_path / "other", encoder, encoder_sha256="0" * 64))
    wide = shape_to_dict(InfoMetIC(NetworkShape(16, 12, 16, 99, width=16, layers=1, heads=2)))
    with pytest.raises(AssetError, match="are not those of its shape"):
        scored(head(tmp_path / "shape", encoder, network=wide))
    torch.manual_seed(0)
    network = InfoMetIC(NetworkShape(9, 12, 16, 12, width=16, layers=1, heads=2))
    head(tmp_path / "regions", encoder)
    known = Checkpoint.read(tmp_path / "regions", "regressor")
    parameters = {**known.parameters, "network": shape_to_dict(network)}
    weights = {key: each.numpy() for key, each in network.state_dict().items()}
    Checkpoint("regressor", parameters, weights).save(tmp_path / "regions")
    with pytest.raises(AssetError, match=r"reads 9 regions .* but the encoder gives 16 regions"):
        scored(f'regressor(checkpoint="{tmp_path / "regions"}")')


def test_only_this_shape_explains(tmp_path: Path) -> None:
    encoder = tiny_clip(tmp_path / "encoder")
    said = {"shape": "pair", "encoder": encoder, "prefix": "", "text_encoder": "", "encoder_sha256": ""}
    Checkpoint("regressor", said, {"mean": np.zeros(1, np.float32)}).save(tmp_path / "head")
    captions = captioned(pictures(tmp_path, [(32, 32)]), ["a dog"])
    with pytest.raises(InputError, match="cannot explain a score"):
        explain(captions, [f'regressor(checkpoint="{tmp_path / "head"}")'], settings=ON_CPU)
