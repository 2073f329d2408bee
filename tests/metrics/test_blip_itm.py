"""BLIP's image-text matching against the library's own model, pair by pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from visionmodels import captioned, pictures, tiny_blip, tiny_clip

import capmeter
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import AssetError, InputError
from capmeter.metrics.registry import parse
from capmeter.settings import Settings

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image")

TEXTS = ["a dog runs", "two cats", "a red kite", "a dog", "nothing"]


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pictures(tmp_path_factory.mktemp("pictures"), [(37, 53), (101, 33), (32, 32)])


def expected(folder: str, name: str, text: str, itm: bool) -> float:
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.BlipImageProcessorPil.from_pretrained(folder)
    said = tokenizer(text, return_tensors="pt", truncation=True, max_length=35)
    seen = processor(images=Image.open(name).convert("RGB"), return_tensors="pt")["pixel_values"]
    ids, mask = said["input_ids"], said["attention_mask"]
    with torch.no_grad():
        found: Any = model(input_ids=ids, attention_mask=mask, pixel_values=seen, use_itm_head=itm)
    return float(found.itm_score.softmax(-1)[0, 1] if itm else found.itm_score[0, 0])


def everything(names: list[str]) -> CaptionSet:
    rows = (
        Caption(f"{k} {text}", str(k), text, (), name) for text in TEXTS for k, name in enumerate(names)
    )  # a picture's captions are far apart
    return CaptionSet.from_captions(rows)


@pytest.mark.parametrize("head", ["itm", "itc"])
def test_every_pair_is_the_models_own_output(blip: str, shown: list[str], head: str) -> None:
    captions = everything(shown)
    name = f'blip-itm(encoder="{blip}",head={head})'
    found = capmeter.score(captions, [name], settings=Settings(device="cpu", cache=None))[name]
    theirs = [expected(blip, each.image or "", each.candidate, head == "itm") for each in captions]
    assert list(found.items.values()) == pytest.approx(theirs, abs=1e-5)
    assert np.std(theirs) > 1e-3


def test_one_pass_per_picture_and_none_from_the_store(
    blip: str, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capmeter.encoders.matching import MatchEncoder

    seen = []
    states = MatchEncoder._states

    def counted(self: MatchEncoder, inputs: Any) -> Any:
        seen.append(len(inputs))
        return states(self, inputs)

    monkeypatch.setattr(MatchEncoder, "_states", counted)
    settings = Settings(device="cpu", cache=tmp_path)
    name = f'blip-itm(encoder="{blip}")'
    first = capmeter.score(everything(shown), [name], settings=settings)[name]
    assert sum(seen) == 3
    again = capmeter.score(everything(shown), [name], settings=settings)[name]
    assert sum(seen) == 3
    assert list(again.items.values()) == list(first.items.values())


def test_a_long_caption_is_cut_and_listed(blip: str, shown: list[str]) -> None:
    long = "abc " * 20
    name = f'blip-itm(encoder="{blip}")'
    found = capmeter.score(captioned(shown[:2], [long, "a"]), [name], settings=Settings(device="cpu", cache=None))[name]
    assert found.notes["cut"] == ["0"]
    assert found.items["0"] == pytest.approx(expected(blip, shown[0], long, True), abs=1e-5)


def test_another_model_is_refused(shown: list[str], tmp_path: Path) -> None:
    other = tiny_clip(tmp_path)
    with pytest.raises(AssetError, match="as BLIP for image-text retrieval"):
        capmeter.score(captioned(shown[:1], ["a"]), [f'blip-itm(encoder="{other}")'])
    with pytest.raises(InputError, match="a length of 3 or more"):
        parse("blip-itm(length=2)")
