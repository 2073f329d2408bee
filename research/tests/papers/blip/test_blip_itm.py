"""BLIP's image-text matching against the library's own model, pair by pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.vision_models import captioned, pictures, tiny_blip, tiny_clip

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import MemoryCache, Settings
from capmeter.evaluation.registry import parse

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image")

TEXTS = ["a dog runs", "two cats", "a red kite", "a dog", "nothing"]


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pictures(tmp_path_factory.mktemp("pictures"), [(37, 53), (101, 33), (32, 32)])


def expected(folder: str, name: str, text: str, itm: bool) -> float:
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.BlipImageProcessorPil.from_pretrained(folder)
    tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=35)
    pixels = processor(images=Image.open(name).convert("RGB"), return_tensors="pt")["pixel_values"]
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    with torch.no_grad():
        results: Any = model(input_ids=ids, attention_mask=mask, pixel_values=pixels, use_itm_head=itm)
    return float(results.itm_score.softmax(-1)[0, 1] if itm else results.itm_score[0, 0])


def everything(names: list[str]) -> CaptionSet:
    rows = (
        Caption(f"{k} {text}", str(k), text, (), name) for text in TEXTS for k, name in enumerate(names)
    )  # a picture's captions are far apart
    return CaptionSet.from_captions(rows)


@pytest.mark.parametrize("head", ["itm", "itc"])
def test_every_pair_is_the_models_own_output(blip: str, images: list[str], head: str) -> None:
    captions = everything(images)
    name = f'blip-itm(encoder="{blip}",head={head})'
    results = capmeter.score(captions, [name], settings=Settings(device="cpu", cache=None))[name]
    published = [expected(blip, each.image or "", each.candidate, head == "itm") for each in captions]
    assert list(results.items.values()) == pytest.approx(published, abs=1e-5)
    assert np.std(published) > 1e-3


def test_one_pass_per_image_and_none_from_the_cache(blip: str, images: list[str], tmp_path: Path) -> None:
    from torch.nn.modules.module import register_module_forward_hook

    encoded: list[int] = []

    def count_images(module: Any, inputs: Any, output: Any) -> None:
        if type(module).__name__ == "BlipVisionModel":
            encoded.append(len(output.last_hidden_state))

    settings = Settings(device="cpu", cache=tmp_path, memory=MemoryCache())  # without features from other tests
    name = f'blip-itm(encoder="{blip}")'
    hook = register_module_forward_hook(count_images)
    try:
        first = capmeter.score(everything(images), [name], settings=settings)[name]
        assert sum(encoded) == 3
        again = capmeter.score(everything(images), [name], settings=settings)[name]
        assert sum(encoded) == 3
    finally:
        hook.remove()
    assert list(again.items.values()) == list(first.items.values())


def test_a_long_caption_is_truncated_and_listed(blip: str, images: list[str]) -> None:
    long = "abc " * 20
    name = f'blip-itm(encoder="{blip}")'
    results = capmeter.score(captioned(images[:2], [long, "a"]), [name], settings=Settings(device="cpu", cache=None))[
        name
    ]
    assert results.notes["truncated"] == ["0"]
    assert results.items["0"] == pytest.approx(expected(blip, images[0], long, True), abs=1e-5)


def test_another_model_is_refused(images: list[str], tmp_path: Path) -> None:
    other = tiny_clip(tmp_path)
    with pytest.raises(AssetError, match="as BLIP for image-text retrieval"):
        capmeter.score(captioned(images[:1], ["a"]), [f'blip-itm(encoder="{other}")'])
    with pytest.raises(InputError, match="a length of 3 or more"):
        parse("blip-itm(length=2)")
