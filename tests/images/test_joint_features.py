"""Pictures through a joint encoder: preprocessed as by the model's own processor, each read and encoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.vision_models import captioned, pictures, tiny_blip, tiny_clip, tiny_siglip

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet, ImagePool, ImageRef
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.settings import MemoryCache, Settings
from capmeter.encoders import find_joint_encoder
from capmeter.encoders.joint.encoder import JointEncoder, load_joint_encoder
from capmeter.encoders.preprocessing import Preprocessing
from capmeter.images.joint_features import JointFeatures
from capmeter.images.reading import read_image

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image")

ODD = [(37, 53), (101, 33), (1, 1), (1, 90), (90, 1), (3, 50), (333, 500), (32, 32), (31, 33)]
ON_CPU = Settings(device="cpu", precision="float32", cache=None)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.mark.parametrize(
    ("made", "processor"),
    [
        (tiny_clip, "CLIPImageProcessorPil"),
        (tiny_siglip, "SiglipImageProcessorPil"),
        (tiny_blip, "BlipImageProcessorPil"),
    ],
)
def test_preprocessing_is_the_models_own_to_the_bit(made: Any, processor: str, tmp_path: Path) -> None:
    folder = made(tmp_path)
    local, ours = getattr(transformers, processor).from_pretrained(folder), Preprocessing(Path(folder))
    for mode in ("RGB", "L", "RGBA", "P"):
        for k, name in enumerate(pictures(tmp_path, ODD, seed=3)):
            Image.open(name).convert(mode).save(name)
            expected = local(images=Image.open(name).convert("RGB"), return_tensors="np")["pixel_values"][0]
            result = ours(read_image(ImageRef(name, str(k))).pixels)
            assert result.dtype == np.float32 and np.array_equal(result, expected), (mode, ODD[k])


def test_settings_of_preprocessing_are_part_of_its_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir(), (tmp_path / "c").mkdir()
    same = [Preprocessing(Path(tiny_clip(tmp_path / name))).identity for name in "ab"]
    assert same[0] == same[1] != Preprocessing(Path(tiny_clip(tmp_path / "c", size=24))).identity


class Counted:
    """How many pictures were read and encoded."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.encoded = self.texts = 0
        total, embedded, text = read_image, JointEncoder.encode_images, JointEncoder.encode_text

        def read(location: ImageRef) -> Any:
            self.read.append(Path(location.path).name)
            return total(location)

        def encode(encoder: JointEncoder, inputs: Any) -> Any:
            self.encoded += len(inputs)
            return embedded(encoder, inputs)

        def say(encoder: JointEncoder, ids: Any) -> Any:
            self.texts += len(ids)
            return text(encoder, ids)

        patch.setattr("capmeter.images.joint_features.read_image", read)
        patch.setattr(JointEncoder, "encode_images", encode)
        patch.setattr(JointEncoder, "encode_text", say)


def test_ten_captions_of_a_picture_cost_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_clip(tmp_path, seed=11)
    names = pictures(tmp_path, [(40, 30)] * 4)
    (tmp_path / "copy.png").write_bytes(Path(names[0]).read_bytes())  # the same content under another name
    rows = [
        Caption(f"{k}/{n}", str(k), f"a dog number {n}", ("a dog",), name)
        for n in range(10)
        for k, name in enumerate([*names, str(tmp_path / "copy.png")])
    ]
    load_joint_encoder(find_joint_encoder(folder), ON_CPU)
    counts = Counted(monkeypatch)
    metrics = [
        f'clipscore(encoder="{folder}")',
        f'refclipscore(encoder="{folder}")',
        f'clipscore(encoder="{folder}",scale=1.0)',
    ]
    capmeter.score(CaptionSet.from_captions(rows), metrics, settings=ON_CPU)
    assert counts.encoded == 4 and sorted(counts.read) == ["0.png", "1.png", "2.png", "3.png"]
    assert counts.texts == 11  # ten captions and the reference, whatever the number of metrics


def test_a_second_run_reads_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_clip(tmp_path, seed=12)
    names = pictures(tmp_path, [(40, 30)] * 3)
    turned = Image.open(names[1])
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(names[1], exif=exif)
    captions = captioned(names, ["a", "b", "c"])
    first_run, second_run = (
        Settings(device="cpu", precision="float32", cache=tmp_path / "cache", memory=MemoryCache()) for _ in range(2)
    )
    name = f'clipscore(encoder="{folder}")'
    counts = Counted(monkeypatch)
    first = capmeter.score(captions, [name], settings=first_run)[name]
    assert counts.encoded == 3
    second = capmeter.score(captioned(names, ["a", "b", "c"]), [name], settings=second_run)[name]
    assert counts.encoded == 3 and len(counts.read) == 3
    assert list(second.items.values()) == list(first.items.values())
    assert second.notes == first.notes and first.notes["image: turned as its EXIF says"] == ["1"]


def test_settings_that_move_features_are_kept_apart_in_the_store(tmp_path: Path) -> None:
    folder = tiny_clip(tmp_path, seed=13)
    names = pictures(tmp_path, [(40, 30)])
    pool = captioned(names, ["a"]).image_pool
    features = {
        precision: pool.analyse(
            JointFeatures(
                find_joint_encoder(folder),
                settings=Settings(device="cpu", precision=precision, cache=tmp_path / "store"),
            )
        ).features
        for precision in ("float32", "half")
    }
    assert 1e-4 < np.abs(features["float32"] - features["half"]).max() < 0.1


def unusual(folder: Path) -> dict[str, str]:
    """Pictures in every unusual way that can still be read."""
    red = Image.new("RGB", (40, 30), (200, 30, 40))
    red.save(folder / "animated.gif", save_all=True, append_images=[Image.new("RGB", (40, 30), (0, 0, 255))])
    Image.new("CMYK", (40, 30), (0, 255, 255, 0)).save(folder / "cmyk.jpg")
    Image.fromarray(np.full((30, 40), 40000, np.uint16)).save(folder / "sixteen.png")
    exif = red.getexif()
    exif[0x0112] = 8
    red.save(folder / "turned.jpg", exif=exif)
    Image.new("RGBA", (40, 30), (9, 9, 9, 0)).save(folder / "clear.png")
    Image.new("RGB", (1, 1), (9, 200, 9)).save(folder / "one.png")
    return {
        "animated.gif": "first frame of an animation",
        "cmyk.jpg": "CMYK converted to RGB",
        "sixteen.png": "16 bits scaled to 8",
        "turned.jpg": "turned as its EXIF says",
        "clear.png": "transparency dropped",
        "one.png": "one pixel wide or high",
    }


def test_unusual_pictures_are_scored_and_listed(clip: str, tmp_path: Path) -> None:
    notes = unusual(tmp_path)
    name = f'clipscore(encoder="{clip}",scale=1.0,clamp=false)'
    captions = captioned([str(tmp_path / each) for each in notes], ["a dog"] * len(notes))
    result = capmeter.score(captions, [name], settings=ON_CPU)[name]
    for k, note in enumerate(notes.values()):
        assert result.notes[f"image: {note}"] == [str(k)]
    red = Image.open(tmp_path / "animated.gif").convert("RGB")
    red.save(tmp_path / "plain.png")
    alone = capmeter.score(captioned([str(tmp_path / "plain.png")], ["a dog"]), [name], settings=ON_CPU)[name]
    assert result.items["0"] == pytest.approx(alone.items["0"], abs=1e-6)  # of the first frame, as a still picture


def test_bad_pictures_are_named_together(clip: str, tmp_path: Path) -> None:
    good = pictures(tmp_path, [(40, 30)])
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "cut.png").write_bytes(Path(good[0]).read_bytes()[:60])
    Image.new("RGB", (1, 4000)).save(tmp_path / "thin.png")
    names = [good[0], str(tmp_path / "text.png"), str(tmp_path / "cut.png"), str(tmp_path / "thin.png")]
    with pytest.raises(InputError) as problem:
        capmeter.score(captioned(names, ["a"] * 4), [f'clipscore(encoder="{clip}")'], settings=ON_CPU)
    text = str(problem.value)
    assert text.startswith("2 of 4 images cannot be read: ")
    assert "of image 'image 1': not an image" in text and "of image 'image 2': " in text
    absent = captioned([str(tmp_path / f"{k}.jpg") for k in range(5)], ["a"] * 5)
    with pytest.raises(InputError, match=r"5 of 5 images cannot be read: .*'image 0': file not found.* and 2 more"):
        capmeter.score(absent, [f'clipscore(encoder="{clip}")'], settings=ON_CPU)


@pytest.mark.parametrize(
    ("mode", "size", "message"),
    [
        ("RGB", (1, 4000), r"'image 0': 1 x 4,000 pixels; .*would not fit into memory; crop"),
        ("1", (10_000, 10_000), r"'image 0': 10,000 x 10,000 pixels, more than the 89 megapixels"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(
    tmp_path: Path, mode: str, size: tuple[int, int], message: str
) -> None:
    name = f'clipscore(encoder="{tiny_clip(tmp_path, size=224)}")'
    Image.new(mode, size).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=message):
        capmeter.score(captioned([str(tmp_path / "large.png")], ["a"]), [name], settings=ON_CPU)


def test_half_precision_is_near_and_threads_change_nothing(clip: str, tmp_path: Path) -> None:
    captions = captioned(pictures(tmp_path, [(40, 30)] * 9), ["a dog"] * 9)
    name = f'clipscore(encoder="{clip}",scale=1.0,clamp=false)'
    one = capmeter.score(captions, [name], settings=Settings(device="cpu", threads=1, cache=None, tokens=34))[name]
    two_threads = Settings(device="cpu", threads=2, cache=None, tokens=34, memory=MemoryCache())
    two = capmeter.score(captions, [name], settings=two_threads)[name]
    assert list(two.items.values()) == pytest.approx(list(one.items.values()), abs=1e-6)
    half = capmeter.score(captions, [name], settings=Settings(device="cpu", precision="half", cache=None))[name]
    assert list(half.items.values()) == pytest.approx(list(one.items.values()), abs=0.05)


def test_an_encoder_that_is_not_joint_is_refused(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(AssetError, match="it is a bert model; expected one of the CLIP or SigLIP kind"):
        load_joint_encoder(find_joint_encoder(str(tmp_path)), ON_CPU)


def test_a_model_that_is_not_here_says_how_to_fetch_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AssetError, match=r"hf download openai/clip-vit-base-patch32 .* name one of clip, siglip, blip"):
        load_joint_encoder(find_joint_encoder("clip"), ON_CPU)


def test_without_pillow_the_extra_is_named(clip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingBackend, match=r"capmeter\[images\]"):
        Preprocessing(Path(clip))


def test_an_empty_pool_has_no_features(clip: str) -> None:
    assert ImagePool([]).analyse(JointFeatures(find_joint_encoder(clip), settings=ON_CPU)).features.shape[0] == 0
