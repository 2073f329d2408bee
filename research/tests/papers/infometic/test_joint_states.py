"""States of regions and word pieces of CLIP, SigLIP, BLIP and the made world's CLIP: the models' own, in one space."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.vision_models import pictures, tiny_blip, tiny_clip, tiny_siglip

from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image", reason="needs the vision extra")

from capmeter_research.papers.infometic.joint_states import StateEncoder, load_state_encoder  # noqa: E402

from capmeter.encoders import find_joint_encoder  # noqa: E402
from capmeter.encoders.joint.encoder import load_joint_encoder  # noqa: E402

pytestmark = pytest.mark.neural
ON_CPU = Settings(device="cpu", precision="float32", cache=None)
TEXTS = ["a dog", "Two  cats, a dog", "a"]


@pytest.fixture(scope="module", params=["clip", "siglip", "blip"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The name of an architecture, and a folder of it."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, {"clip": tiny_clip, "siglip": tiny_siglip, "blip": tiny_blip}[request.param](folder)


def seen(encoder: StateEncoder, names: list[str]) -> np.ndarray:
    """The prepared pictures."""
    return np.stack([encoder.preprocessing(np.asarray(Image.open(name).convert("RGB"))) for name in names])


def test_regions_are_the_models_patches(family: tuple[str, str], tmp_path: Path) -> None:
    kind, folder = family
    encoder = load_state_encoder(find_joint_encoder(folder), ON_CPU)
    names = pictures(tmp_path, [(32, 32), (40, 33), (5, 90)])
    pixels = [np.asarray(Image.open(name).convert("RGB")) for name in names]
    found = encoder.images(3, lambda k: pixels[k])
    model = encoder.encoder.model
    with torch.no_grad():
        states = model.vision_model(pixel_values=torch.from_numpy(seen(encoder, names))).last_hidden_state
        if kind == "clip":
            states = model.visual_projection(model.vision_model.post_layernorm(states))
        elif kind == "blip":
            states = model.vision_proj(states)
    expected = states.numpy() if kind == "siglip" else states[:, 1:].numpy()
    assert found.regions.shape == (3, 16, expected.shape[2])  # 32 pixels in patches of 8
    assert np.abs(found.regions - expected).max() < 1e-5
    assert found.mask.all() and found.boxes[1, 0].tolist() == [0, 0, 0.25, 0.25]
    assert found.boxes[1, 6].tolist() == [0.5, 0.25, 0.75, 0.5]  # the third patch of the second row
    if kind != "blip":
        total = load_joint_encoder(find_joint_encoder(folder), ON_CPU).image_features(
            ["00" * 32, "11" * 32, "22" * 32], lambda k: pixels[k]
        )
        assert np.abs(found.features - total).max() < 1e-5
    assert encoder.shape == (16, expected.shape[2], 16, 12 if kind != "siglip" else 16)


def test_pieces_are_the_models_tokens_and_know_their_words(family: tuple[str, str]) -> None:
    kind, folder = family
    encoder = load_state_encoder(find_joint_encoder(folder), ON_CPU)
    model, tokenizer = encoder.encoder.model, encoder.encoder.tokenizer
    prefix = "See "
    found = encoder.sentences(TEXTS, prefix)
    for row, text in enumerate(TEXTS):
        ids = tokenizer(prefix + text)["input_ids"]
        padded = ids + [tokenizer.pad_token_id] * (24 - len(ids)) if kind == "siglip" else ids
        with torch.no_grad():
            if kind == "blip":
                inputs = torch.tensor([padded])
                states = model.text_encoder(inputs, torch.ones_like(inputs)).last_hidden_state
                says = model.text_proj(states)
            else:
                states = model.text_model(input_ids=torch.tensor([padded])).last_hidden_state
                says = model.text_projection(states) if kind == "clip" else states
        tokens = tokenizer.convert_ids_to_tokens(ids)
        local = [k for k, token in enumerate(tokens) if token not in tokenizer.all_special_tokens]
        before = len(tokenizer(prefix.strip(), add_special_tokens=False)["input_ids"])
        assert found.region_weights[row].shape == (len(found.states[row]), 0)
        for each, remaining in ((states, found.states[row]), (says, found.projections[row])):
            expected = each[0, local[before:]].numpy()
            if kind == "siglip":  # a blank is a piece of its own, and no word's
                assert all(np.abs(expected - one).max(axis=1).min() < 1e-5 for one in remaining)
            else:
                assert np.abs(remaining - expected).max() < 1e-5
        assert sorted(set(found.word_indices[row].tolist())) == list(range(len(text.split())))
    if kind != "blip":
        joint = load_joint_encoder(find_joint_encoder(folder), ON_CPU)
        total = joint.text_features(joint.pieces([prefix + text for text in TEXTS]))
        assert np.abs(found.features - total).max() < 1e-5


def test_a_cut_sentence_keeps_the_words_before_the_cut(tmp_path: Path) -> None:
    encoder = load_state_encoder(find_joint_encoder(tiny_clip(tmp_path / "clip", length=12)), ON_CPU)
    found = encoder.sentences(["a b c d e f g h i j k l m n", ""], "")
    assert found.truncated.tolist() == [True, False]
    assert found.word_indices[0].tolist() == list(range(10)) and len(found.states[0]) == 10  # begin and end take two
    assert len(found.states[1]) == 0


def test_a_picture_that_cannot_be_read_has_no_states(tmp_path: Path) -> None:
    encoder = load_state_encoder(find_joint_encoder(tiny_clip(tmp_path / "clip")), ON_CPU)
    pixels = np.full((32, 32, 3), 90, np.uint8)
    found = encoder.images(3, lambda k: None if k == 1 else pixels)
    assert not found.features[1].any() and not found.mask[1].any()
    assert np.array_equal(found.regions[0], found.regions[2]) and found.regions[0].any()


def test_an_unknown_architecture_and_a_slow_tokenizer_are_refused(tmp_path: Path) -> None:
    folder = Path(tiny_clip(tmp_path / "clip"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "align"}))
    with pytest.raises(AssetError, match="is a align model, which is not supported"):
        load_state_encoder(find_joint_encoder(str(folder)), ON_CPU)
    (folder / "config.json").write_text(json.dumps(config))

    class Slow:
        is_fast = False

    encoder = load_joint_encoder(find_joint_encoder(str(folder)), ON_CPU)
    encoder.tokenizer = Slow()
    with pytest.raises(AssetError, match=r"cannot say where its pieces are .* tokenizer\.json"):
        StateEncoder(encoder)


def test_the_made_worlds_own_architecture_is_made_known_only_when_it_is_asked_for(tmp_path: Path) -> None:
    folder = tiny_clip(tmp_path / "clip")
    code = (
        "import sys; from capmeter.encoders import find_joint_encoder; "
        "from capmeter.encoders.joint.encoder import load_joint_encoder; "
        "from capmeter.core.settings import Settings; "
        f"load_joint_encoder(find_joint_encoder({folder!r}), Settings(device='cpu', cache=None)); "
        "print('capmeter_research.synthetic_scenes.clip.network' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
