"""Judges with images."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path

import pytest
from support.judge_server import TEXTS, JudgeServer, captions, completion, score

from capmeter.core.errors import InputError

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def picture(tmp_path: Path) -> str:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (20, 10), (200, 30, 40)).save(tmp_path / "red.jpg")
    return str(tmp_path / "red.jpg")


def test_fleur_sends_the_image_and_smooths(tmp_path: Path) -> None:
    chances = {"8": math.log(0.6), "9": math.log(0.4)}
    reply = completion("0.8", [["0", {"0": 0.0}], [".", {".": 0.0}], ["8", chances]])
    with JudgeServer(lambda body, before: reply).running() as server:
        name = f'fleur(model=vlm,endpoint="{server.url}")'
        results = score(captions(TEXTS[:1], image=picture(tmp_path)), name)
        assert results.score == pytest.approx(0.84)
        body = server.received[0]
        assert body["logprobs"] is True and body["top_logprobs"] == 20
        image, text = body["messages"][0]["content"]
        assert text["text"].endswith("Caption: a dog runs\n\nScore(Choose a rating from 0.0 to 1.0):")
        kind, _, data = image["image_url"]["url"].partition(";base64,")
        assert kind == "data:image/jpeg" and base64.b64decode(data) == Path(tmp_path / "red.jpg").read_bytes()
        assert score(captions(TEXTS[:1], image=picture(tmp_path)), name).score == results.score
        assert len(server.received) == 1  # the tokens came from the cache


def test_an_image_with_an_orientation_is_sent_as_decoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    red = image.new("RGB", (20, 10), (200, 30, 40))
    exif = red.getexif()
    exif[0x0112] = 6
    red.save(tmp_path / "turned.jpg", exif=exif)
    with JudgeServer(lambda body, before: completion("0.5")).running() as server:
        name = f'fleur(model=vlm,endpoint="{server.url}")'
        results = score(captions(TEXTS[:1], image=str(tmp_path / "turned.jpg")), name)
        assert results.notes["no probabilities: the number as written"] == ["0"]
        url = server.received[0]["messages"][0]["content"][0]["image_url"]["url"]
        sent = image.open(io.BytesIO(base64.b64decode(url.partition(";base64,")[2])))
        assert sent.format == "PNG" and sent.size == (10, 20)


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_text("no picture")
    with JudgeServer(lambda body, before: completion("0.5")).running() as server:
        name = f'fleur(model=m,endpoint="{server.url}")'
        bad = captions(TEXTS[:1], image=str(tmp_path / "bad.jpg"))
        with pytest.raises(InputError, match=r"bad\.jpg.* of image 'image 0': not an image"):
            score(bad, name)
