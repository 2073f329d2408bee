"""CLIPScore, RefCLIPScore, PAC-S and the SigLIP score against the papers' formulas, and torchmetrics' CLIPScore."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.vision_models import captioned, pictures, tiny_clip, tiny_siglip

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.registry import parse

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image")

SIZES = [(37, 53), (101, 33), (32, 32), (64, 48), (33, 97), (250, 251)]
TEXTS = ["a dog runs", "two cats", "A red kite!", "a dog", "nothing at all", "don't"]
REFERENCES = [("the dog runs", "a dog"), ("cats",), ("a kite", "red", "sky"), ("dog",), ("x",), ("y", "z")]
ON_CPU = Settings(device="cpu", precision="float32", cache=None)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_siglip(tmp_path_factory.mktemp("siglip"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pictures(tmp_path_factory.mktemp("pictures"), SIZES)


def released(folder: str, names: list[str], texts: list[str], prefix: str = "A photo depicts ") -> tuple[Any, Any]:
    """Unit features as the released code makes them: one padded batch through the library's model and processor."""
    model = transformers.CLIPModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    tokens = tokenizer([prefix + text for text in texts], padding=True, return_tensors="pt")
    pixels = processor(images=[Image.open(name).convert("RGB") for name in names], return_tensors="pt")
    with torch.no_grad():
        text = model.get_text_features(**tokens).pooler_output.numpy()
        image = model.get_image_features(**pixels).pooler_output.numpy()
    return (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (text, image))  # type: ignore[return-value]


def items(captions: CaptionSet, metric: str) -> list[float]:
    return list(capmeter.score(captions, [metric], settings=ON_CPU)[metric].items.values())


def test_clipscore_is_the_released_formula_on_the_librarys_features(clip: str, images: list[str]) -> None:
    text, image = released(clip, images, TEXTS)
    cosines = (text * image).sum(axis=1)
    assert cosines.min() < -0.05 and cosines.max() > 0.05 and cosines.std() > 0.05  # or this would compare nothing
    results = items(captioned(images, TEXTS), f'clipscore(encoder="{clip}")')
    assert results == pytest.approx(2.5 * np.clip(cosines, 0, None), abs=1e-6)
    raw = items(captioned(images, TEXTS), f'clipscore(encoder="{clip}",scale=1.0,clamp=false)')
    assert raw == pytest.approx(cosines, abs=1e-6)


def test_refclipscore_is_the_papers_formula(clip: str, images: list[str]) -> None:
    text, image = released(clip, images, TEXTS)
    clips = 2.5 * np.clip((text * image).sum(axis=1), 0, None)
    expected, best = [], []
    for k, references in enumerate(REFERENCES):
        expected_text, _ = released(clip, images[:1], list(references))
        best.append(max(0.0, float((expected_text @ text[k]).max())))
        total = clips[k] + best[k]
        expected.append(2 * clips[k] * best[k] / total if total > 0 else 0.0)
    captions = captioned(images, TEXTS, REFERENCES)
    name = f'refclipscore(encoder="{clip}")'
    results = capmeter.score(captions, [name], settings=ON_CPU)[name]
    assert list(results.items.values()) == pytest.approx(expected, abs=1e-6) and max(expected) > 0.3
    assert list(results.part_items["image"].values()) == pytest.approx(clips, abs=1e-6)
    assert list(results.part_items["references"].values()) == pytest.approx(best, abs=1e-6)


def test_torchmetrics_clipscore_is_this_with_other_parameters(clip: str, images: list[str]) -> None:
    multimodal = pytest.importorskip("torchmetrics.functional.multimodal", reason="needs torchmetrics")
    model = transformers.CLIPModel.from_pretrained(clip)

    class Wrapped(torch.nn.Module):  # type: ignore[misc,name-defined]
        """Version 5 of transformers wraps features, which torchmetrics 1.9 does not expect."""

        config = model.config

        def get_image_features(self, pixels: Any) -> Any:
            return model.get_image_features(pixels).pooler_output

        def get_text_features(self, ids: Any, mask: Any) -> Any:
            return model.get_text_features(ids, mask).pooler_output

    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(clip)

    def both(text: Any = None, images: Any = None, **how: Any) -> Any:
        return tokenizer(text, **how) if text is not None else processor(images=images, return_tensors="pt")

    captions = captioned(images, TEXTS)
    name = f'clipscore(encoder="{clip}",scale=100.0,prefix="",clamp=false)'
    ours = capmeter.score(captions, [name], settings=ON_CPU)[name]
    tensors = [torch.from_numpy(np.array(Image.open(each).convert("RGB"))).permute(2, 0, 1) for each in images]
    for k, (tensor, text) in enumerate(zip(tensors, TEXTS, strict=True)):
        with torch.no_grad():
            expected_text = multimodal.clip_score([tensor], [text], lambda: (Wrapped(), both))
        assert float(expected_text) == pytest.approx(max(ours.items[str(k)], 0), abs=1e-4)
    with torch.no_grad():
        corpus_score = multimodal.clip_score(tensors, TEXTS, lambda: (Wrapped(), both))
    assert float(corpus_score) == pytest.approx(max(ours.score, 0), abs=1e-4)


def test_a_long_caption_is_truncated_before_the_end_token(clip: str, images: list[str]) -> None:
    long = "abcdefgh " * 10
    captions = captioned(images[:2], [long, "a dog"])
    name = f'clipscore(encoder="{clip}",scale=1.0,clamp=false)'
    results = capmeter.score(captions, [name], settings=ON_CPU)[name]
    assert results.notes["truncated"] == ["0"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    model = transformers.CLIPModel.from_pretrained(clip)
    ids = tokenizer("A photo depicts " + long)["input_ids"]
    assert len(ids) > 40
    with torch.no_grad():
        text = model.get_text_features(torch.tensor([[*ids[:39], ids[-1]]])).pooler_output.numpy()[0]
    _, image = released(clip, images[:1], ["a"])
    assert results.items["0"] == pytest.approx(float(image[0] @ text / np.linalg.norm(text)), abs=1e-6)


def test_an_empty_candidate_scores_0_and_is_listed(clip: str, images: list[str]) -> None:
    names = [f'clipscore(encoder="{clip}",clamp=false)', f'refclipscore(encoder="{clip}")']
    results = capmeter.score(captioned(images[:2], [" ", "a dog"], [("a",), ("b",)]), names, settings=ON_CPU)
    for name in names:
        assert results[name].items["0"] == 0.0 and results[name].notes["empty candidate"] == ["0"]


def test_parts_and_order_make_no_difference(clip: str, images: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    captions = captioned(images, TEXTS, REFERENCES)
    name = f'refclipscore(encoder="{clip}")'
    corpus_score = capmeter.score(captions, [name], settings=ON_CPU)[name]
    backwards = capmeter.score(captions.select(range(5, -1, -1)), [name], settings=ON_CPU)[name]
    monkeypatch.setattr("capmeter.metrics.vision.clipscore.ImageTextScore.PART_SIZE", 2)
    parts = capmeter.score(captions, [name], settings=ON_CPU)[name]
    for id, value in corpus_score.items.items():
        assert backwards.items[id] == pytest.approx(value, abs=1e-6)
        assert parts.items[id] == pytest.approx(value, abs=1e-6)


def test_the_signature_names_what_affects_the_score(clip: str, images: list[str]) -> None:
    name = f'clipscore(encoder="{clip}")'
    signature = capmeter.score(captioned(images[:1], ["a"]), [name], settings=ON_CPU)[name].signature
    for part in ("scale:2.5", "prefix:A photo depicts", "precision:float32", "weights:", "preprocessing:", "pillow "):
        assert part in signature
    half = capmeter.score(captioned(images[:1], ["a"]), [name], settings=Settings(device="cpu", precision="half"))
    assert "precision:bfloat16" in half[name].signature


def test_a_metric_on_pictures_says_which_captions_have_none(clip: str, images: list[str]) -> None:
    rows = [Caption("a", "1", "a dog", (), images[0]), Caption("b", "2", "a cat")]
    with pytest.raises(InputError, match=r"1 caption names no picture \(the first: b\), but clipscore"):
        capmeter.score(CaptionSet.from_captions(rows), [f'clipscore(encoder="{clip}")'])


def test_a_scale_that_is_not_above_0_is_refused() -> None:
    with pytest.raises(InputError, match="expected a scale above 0"):
        parse("clipscore(scale=0)")


def test_the_siglip_score_is_the_models_own_probability(siglip: str, images: list[str]) -> None:
    model = transformers.SiglipModel.from_pretrained(siglip)
    tokenizer = transformers.AutoTokenizer.from_pretrained(siglip)
    processor = transformers.SiglipImageProcessorPil.from_pretrained(siglip)
    tokens = tokenizer(TEXTS, padding="max_length", max_length=24, return_tensors="pt")["input_ids"]
    pixels = processor(images=[Image.open(each).convert("RGB") for each in images], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = torch.sigmoid(model(input_ids=tokens, pixel_values=pixels).logits_per_image.diagonal()).numpy()
    assert expected.std() > 0.01
    assert items(captioned(images, TEXTS), f'siglip-score(encoder="{siglip}")') == pytest.approx(expected, abs=1e-6)
    cosines = np.array(items(captioned(images, TEXTS), f'siglip-score(encoder="{siglip}",value=cosine)'))
    assert 1 / (1 + np.exp(-(np.exp(2.0) * cosines - 1.5))) == pytest.approx(expected, abs=1e-6)


def test_the_siglip_score_refuses_a_clip(clip: str, images: list[str]) -> None:
    with pytest.raises(InputError, match="has no trained offset, so it is not a SigLIP model"):
        items(captioned(images[:1], ["a"]), f'siglip-score(encoder="{clip}")')


def openai_layout(folder: str) -> dict[str, Any]:
    """The model's weights under the names of OpenAI's code, as far as the checkpoint's check looks at them."""
    state = transformers.CLIPModel.from_pretrained(folder).state_dict()
    vision, text = "vision_model.", "text_model."
    return {
        "visual.proj": state["visual_projection.weight"].T.clone(),
        "text_projection": state["text_projection.weight"].T.clone(),
        "visual.conv1.weight": state[f"{vision}embeddings.patch_embedding.weight"],
        "visual.positional_embedding": state[f"{vision}embeddings.position_embedding.weight"],
        "token_embedding.weight": state[f"{text}embeddings.token_embedding.weight"],
        "ln_final.weight": state[f"{text}final_layer_norm.weight"],
    }


def trained(folder: str, path: Path) -> dict[str, Any]:
    """A checkpoint as PAC-S's: the same backbone (rounded to half precision), other projections."""
    weights = {name: each.half().float() for name, each in openai_layout(folder).items()}
    torch.manual_seed(7)
    for name in ("visual.proj", "text_projection"):
        weights[name] = weights[name] + 0.3 * torch.randn_like(weights[name])
    torch.save({"state_dict": weights, "epoch": 3}, path)
    return weights


def test_pac_s_uses_the_checkpoints_projections(clip: str, images: list[str], tmp_path: Path) -> None:
    weights = trained(clip, tmp_path / "pacs.pth")
    model = transformers.CLIPModel.from_pretrained(clip)
    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(clip)
    tokens = tokenizer(["A photo depicts " + text for text in TEXTS], padding=True, return_tensors="pt")
    pixels = processor(images=[Image.open(each).convert("RGB") for each in images], return_tensors="pt")
    with torch.no_grad():
        text = (model.text_model(**tokens).pooler_output @ weights["text_projection"]).numpy()
        image = (model.vision_model(**pixels).pooler_output @ weights["visual.proj"]).numpy()
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    image /= np.linalg.norm(image, axis=1, keepdims=True)
    expected = 2.0 * np.clip((text * image).sum(axis=1), 0, None)
    captions = captioned(images, TEXTS, [(each,) for each in TEXTS])
    inside = f'encoder="{clip}",checkpoint="{tmp_path / "pacs.pth"}"'
    names = [f"pac-s({inside})", f"refpac-s({inside})", f'clipscore(encoder="{clip}",scale=2.0)']
    results = capmeter.score(captions, names, settings=ON_CPU)
    assert list(results[names[0]].items.values()) == pytest.approx(expected, abs=1e-6)
    harmonic = 2 * expected / (expected + 1)  # the candidate is its own reference: its best cosine is 1
    assert list(results[names[1]].items.values()) == pytest.approx(harmonic, abs=1e-6)
    assert (
        np.abs(np.array(list(results[names[2]].items.values())) - expected).max() > 0.01
    )  # unlike with CLIP's own projections
    assert "projection:" in results[names[0]].signature


def test_a_wrong_checkpoint_of_pac_s_is_refused(clip: str, images: list[str], tmp_path: Path) -> None:
    def scored(weights: Any, how: str = "w.pth") -> None:
        torch.save(weights, tmp_path / how)
        items(captioned(images[:1], ["a"]), f'pac-s(encoder="{clip}",checkpoint="{tmp_path / how}")')

    good = openai_layout(clip)
    with pytest.raises(AssetError, match="PAC-S would be CLIPScore"):
        scored({"state_dict": good}, "own.pth")
    with pytest.raises(AssetError, match="has no text_projection"):
        scored({"visual.proj": good["visual.proj"]}, "lacks.pth")
    with pytest.raises(AssetError, match="LoRA"):
        scored({"visual.conv1.lora_a": good["visual.proj"]}, "lora.pth")
    with pytest.raises(AssetError, match=r"has the shape \(5, 16\), but"):
        scored(good | {"visual.proj": torch.randn(16, 5)}, "shape.pth")
    other = torch.randn_like(good["visual.conv1.weight"])
    with pytest.raises(AssetError, match="was trained from another model, or changes more"):
        scored(good | {"visual.conv1.weight": other, "visual.proj": good["visual.proj"] + 1}, "other.pth")
    (tmp_path / "broken.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(AssetError, match=r"broken\.pth"):
        items(captioned(images[:1], ["a"]), f'pac-s(encoder="{clip}",checkpoint="{tmp_path / "broken.pth"}")')
    for path, message in ((tmp_path / "absent.pth", "No such file"), (tmp_path, "a folder"), ("/dev/zero", "a device")):
        with pytest.raises(InputError, match=message):
            items(captioned(images[:1], ["a"]), f'pac-s(encoder="{clip}",checkpoint="{path}")')


class Harmful:
    """A pickle that would run a command."""

    def __reduce__(self) -> Any:
        return (print, ("this must never be printed",))


def test_a_pickle_of_more_than_numbers_is_never_run(
    clip: str, images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "harmful.pth"
    path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(AssetError, match=r"harmful\.pth"):
        items(captioned(images[:1], ["a"]), f'pac-s(encoder="{clip}",checkpoint="{path}")')
    torch.save({"state_dict": Harmful()}, path)
    with pytest.raises(AssetError, match="more than numbers"):
        items(captioned(images[:1], ["a"]), f'pac-s(encoder="{clip}",checkpoint="{path}")')
    assert "never be printed" not in capsys.readouterr().out


def test_pac_s_without_its_checkpoint_says_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPMETER_DATA", str(tmp_path))
    monkeypatch.delenv("CAPMETER_PACS", raising=False)
    with pytest.raises(AssetError, match=r"github\.com/aimagelab/pacscore"):
        _ = parse("pac-s").projection  # type: ignore[attr-defined]
