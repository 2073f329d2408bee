"""The page: its data, its size, hostile captions, images, and what it says of its method."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from support.page_examples import HOSTILE, candidates, scored, systems

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results, read_all, save_all
from capmeter.evaluation.runner import evaluate, score
from capmeter.report.page import write_page
from capmeter.report.page_data import extremes, pack_json, round_digits


def unpack_json(text: str):  # type: ignore[no-untyped-def]
    return json.loads(gzip.decompress(base64.b64decode(text)))


def data_of(page: Path):  # type: ignore[no-untyped-def]
    result = re.search(r'id="capmeter-data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert result is not None
    return unpack_json(result.group(1))


def test_the_page_holds_every_caption_score_and_reference(tmp_path: Path) -> None:
    inputs = systems()
    file_text = write_page(inputs, tmp_path / "page.html", resamples=50)
    data = data_of(file_text.path)
    assert (file_text.captions, file_text.size) == (180, file_text.path.stat().st_size)
    assert [metric["name"] for metric in data["metrics"]] == list(inputs["exact"])
    row = 60 + 7
    results = inputs["close"]
    assert results.captions is not None
    caption = results.captions["image 7"]
    assert data["systems"][data["system"][row]] == "close"
    assert data["ids"][data["id"][row]] == "image 7"
    assert data["texts"][data["text"][row]] == caption.candidate
    references = data["referenceSets"][data["references"][row]]
    assert [data["texts"][k] for k in references] == list(caption.references)
    for m, metric in enumerate(data["metrics"]):
        assert (metric["low"], metric["high"]) == (min(data["scores"][m]), max(data["scores"][m])), metric["name"]
        shown = data["scores"][m][row]
        assert shown == pytest.approx(results[metric["name"]].items["image 7"], abs=0.5001 * 10 ** -metric["decimals"])


def test_packed_data_survive_and_need_no_escaping() -> None:
    value = {"texts": ["\ud83d", "</script>", "\u2028", "é"], "x": [1, -2.5, None]}
    text = pack_json(value)
    assert unpack_json(text) == value
    assert text.isascii() and not set(text) & set("<>&\"'")
    assert text == pack_json(value)


def test_numbers_have_five_digits_of_the_largest_and_gaps() -> None:
    assert round_digits(np.array([0.123456, np.nan, -0.5])) == [0.12346, None, -0.5]
    assert round_digits(np.array([27.123456, 0.0])) == [27.123, 0.0]
    assert round_digits(np.array([1e6 + 0.4, 0.04])) == [1e6, 0.0] and round_digits(np.array([1.23e-9])) == [1e-9]


def test_equal_results_give_equal_pages(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_page(systems(12), tmp_path / name, resamples=50)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_nothing_of_a_caption_or_name_stands_raw_in_the_file(tmp_path: Path) -> None:
    results = scored(HOSTILE, metrics="bleu-1,rouge-l", prefix="</script><b>")
    results.command = "capmeter score '<script>alert(1)</script>'"
    page = write_page({"</title><script>x</script>\ud83d": results}, tmp_path / "page.html", resamples=50).path
    text = page.read_text(encoding="utf-8")
    opening = re.findall(r"<script[^>]*>", text, re.IGNORECASE)
    data = '<script type="application/octet-stream" id="capmeter-data">'
    # the page's own scripts, which the policy names one by one, its data, and nothing else
    assert opening.count(data) == 1 and set(opening) == {data, "<script>"}
    assert opening.count("<script>") == text.count("&#39;sha256-") == text.lower().count("</script") - 1
    assert "<script>x" not in text and "alert(1)</script" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and policy.group(1).startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe-eval" not in policy.group(1) and policy.group(1).count("unsafe-inline") == 1  # of the styles


def test_every_script_has_the_hash_that_the_policy_names(tmp_path: Path) -> None:
    import base64

    text = write_page(systems(12), tmp_path / "page.html", resamples=50).path.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    named = re.findall(r"&#39;sha256-([^&]*)&#39;", text)
    assert [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts] == named
    assert all("use strict" in script for script in scripts)


def test_the_page_brings_no_foreign_code_and_stays_small(tmp_path: Path) -> None:
    file_text = write_page(systems(12), tmp_path / "page.html", resamples=50)
    assert file_text.size < 110_000
    text = file_text.path.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\(""", text)


def test_explanations_give_way_to_the_size(tmp_path: Path) -> None:
    inputs = systems(400)
    small = write_page(inputs, tmp_path / "small.html", resamples=50, megabytes=0.15, explained=1200)
    large = write_page(inputs, tmp_path / "large.html", resamples=50, explained=1200)
    assert small.size <= 150_000
    assert 0 < small.explained < large.explained == 1200
    none = write_page(inputs, tmp_path / "none.html", resamples=50, explained=0)
    assert none.explained == 0 and data_of(none.path)["evidence"]["records"] == []


def test_the_extremes_come_first() -> None:
    results = scored(candidates(30, 2), metrics="rouge-l")
    values = results["rouge-l"].items.array
    rows = [position for _, position in extremes({"a": results}, 2)]
    assert set(values[rows]) == {values.min(), values.max()}
    assert len(extremes({"a": results}, 500)) == 30
    assert extremes({"a": results}, 0) == []


def test_systems_scored_by_different_metrics_have_gaps(tmp_path: Path) -> None:
    inputs = {"a": scored(candidates(12, 0), metrics="bleu-1"), "b": scored(candidates(12, 1), metrics="rouge-l")}
    data = data_of(write_page(inputs, tmp_path / "page.html", resamples=50).path)
    assert [metric["name"] for metric in data["metrics"]] == ["bleu-1", "rouge-l"]
    assert set(data["scores"][0][12:]) == {None} and None not in data["scores"][0][:12]


def test_empty_captions_are_listed_under_their_note(tmp_path: Path) -> None:
    data = data_of(write_page({"a": scored(HOSTILE)}, tmp_path / "page.html", resamples=50).path)
    notes = {note["reason"]: note["rows"] for note in data["notes"]}
    assert notes["empty candidate"] == [12, 13]


def test_human_judgments_are_a_column(tmp_path: Path) -> None:
    rows = [Caption(str(k), str(k), "a dog", ("a dog runs",), human=(1.0, k) if k else None) for k in range(3)]
    results = evaluate(CaptionSet.from_captions(rows), parse_list("bleu-1"))
    data = data_of(write_page({"a": results}, tmp_path / "page.html", resamples=50).path)
    assert data["metrics"][1]["name"] == "human judgment" and data["metrics"][1]["human"]
    assert data["scores"][1] == [None, 1.0, 1.5]


def test_pictures_are_linked_embedded_or_left_out(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs Pillow")
    (tmp_path / "pictures").mkdir()
    pil.fromarray(np.zeros((300, 500, 3), np.uint8)).save(tmp_path / "pictures" / "a #1.png")
    inputs = {"a": scored(candidates(3, 0), image="a #1.png")}
    (tmp_path / "pages").mkdir()
    page = tmp_path / "pages" / "page.html"
    root = tmp_path / "pictures"
    write_page(inputs, page, resamples=50, images="link", images_root=root)
    assert data_of(page)["imageSources"] == ["../pictures/a%20%231.png"] * 3
    assert "img-src data: file:" in page.read_text(encoding="utf-8")
    write_page(inputs, page, resamples=50, images="embed", images_root=root)
    assert all(each.startswith("data:image/jpeg;base64,") for each in data_of(page)["imageSources"])
    assert "img-src data:;" in page.read_text(encoding="utf-8")
    write_page(inputs, page, resamples=50, images="none")
    assert data_of(page)["imageSources"] == [None] * 3
    with pytest.raises(InputError, match=r"none of the 3 images could .*\(No such file or directory\).*--images-root"):
        write_page(inputs, page, resamples=50, images="embed", images_root=tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_a_picture_is_not_waited_for(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="needs Pillow")
    os.mkfifo(tmp_path / "pipe.png")
    inputs = {"a": scored(candidates(3, 0), image="pipe.png")}
    with pytest.raises(InputError, match=r"none of the 3 images could be read, the first: pipe.png \(not a file\)"):
        write_page(inputs, tmp_path / "page.html", resamples=50, images="embed", images_root=tmp_path)


def test_captions_without_references_are_not_explained_by_metrics_that_need_some(tmp_path: Path) -> None:
    """A results file that was changed: the page says what cannot be explained, without a traceback."""
    source = tmp_path / "results.json"
    save_all({"one": scored(candidates(3, 0), metrics="rouge-l")}, source)
    saved = json.loads(source.read_text(encoding="utf-8"))
    references = saved["systems"]["one"]["captions"]["references"]
    references[next(iter(references))] = []
    source.write_text(json.dumps(saved), encoding="utf-8")
    page = write_page(read_all(source), tmp_path / "page.html", resamples=50).path
    expected = "rouge-l could not be explained: 1 caption has no reference (the first: image 0), but rouge-l needs"
    assert expected in page.read_text(encoding="utf-8")


def test_pictures_that_are_not_there_are_said_and_not_linked(tmp_path: Path) -> None:
    inputs = {"a": scored(candidates(3, 0), image="nowhere.png")}
    page = write_page(inputs, tmp_path / "page.html", resamples=50, images_root=tmp_path).path
    assert data_of(page)["imageSources"] == [None] * 3
    text = page.read_text(encoding="utf-8")
    assert "3 of 3 images were not found" in text and "img-src data:;" in text
    write_page({"a": scored(candidates(2, 0), image="https://example.org/a.jpg")}, page, resamples=50)
    assert data_of(page)["imageSources"] == ["https://example.org/a.jpg"] * 2


@pytest.mark.parametrize("place", ["a\0b", "x" * 5000, "javascript:alert(1)", "data:text/html,x", "JavaScript:x"])
def test_pictures_are_no_way_in_for_scripts(tmp_path: Path, place: str) -> None:
    page = write_page({"a": scored(candidates(2, 0), image=place)}, tmp_path / "page.html", resamples=50).path
    assert data_of(page)["imageSources"] == [None, None]


def text_of(page: Path) -> str:
    """What the page's HTML says before any script runs, without markup."""
    text = re.sub(r"<(style|script).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def test_one_reference_is_singular(tmp_path: Path) -> None:
    def said(*counts: int) -> str:
        rows = [
            Caption(str(k), str(k), "a dog runs", ("a dog runs", "a dog", "dogs")[:many])
            for k, many in enumerate(counts)
        ]
        results = evaluate(CaptionSet.from_captions(rows), parse_list("bleu-1"))
        return text_of(write_page({"a": results}, tmp_path / "page.html", resamples=10).path)

    assert "2 captions of 2 images, 1 reference each." in said(1, 1)
    assert "2 captions of 2 images, 2 references each." in said(2, 2)
    assert "2 captions of 2 images, 1 to 3 references each." in said(1, 3)


def test_disagreement_claims_no_more_than_is_known(tmp_path: Path) -> None:
    text = text_of(write_page(systems(6), tmp_path / "page.html", resamples=10).path)
    assert "Where two metrics disagree, at least one misses something" in text and "is wrong" not in text


def test_notes_stand_beside_the_scores_that_they_concern(tmp_path: Path) -> None:
    inputs = {"copies": scored(candidates(12, 0)), "empty": scored(["a cow lies here"] * 11 + [""])}
    page = write_page(inputs, tmp_path / "page.html", resamples=10).path
    rows = re.findall(r"<tr>(.*?)</tr>", page.read_text(encoding="utf-8").split("<tbody>")[1], re.DOTALL)
    local = "candidate is one of its own references"
    for row, (mark, what) in zip(
        rows[:2], (("†", f"{local}: 12 of 12 captions"), ("‡", "empty candidate: 1 of 12 captions")), strict=True
    ):
        cells = re.findall(r"<td(.*?)</td>", row, re.DOTALL)
        assert len(cells) == 4
        for cell in cells:
            assert re.search(rf'title="{what}"[^>]*>{re.escape(mark)}</span>\s*<span class="value">', cell)
    assert f"† {local}: copies 12 of 12 captions. ‡ empty candidate: empty 1 of 12 captions." in text_of(page)


def test_cut_off_captions_are_counted_with_examples(tmp_path: Path) -> None:
    cut = ["a room with a bed and a", "two dogs on the", *candidates(10, 0)]
    page = write_page(
        {"cut": scored(cut), "finished": scored(candidates(12, 1))}, tmp_path / "page.html", resamples=10
    ).path
    text = text_of(page)
    assert "cut 2 of 12 (16.7%) … room with a bed and a; two dogs on the" in text
    assert "finished" not in text.partition("How they end")[2].partition("Method")[0]
    notes = {note["reason"]: note["rows"] for note in data_of(page)["notes"]}
    assert notes["ends in a function word"] == [0, 1]
    total = write_page({"finished": scored(candidates(12, 1))}, tmp_path / "page.html", resamples=10).path
    assert "function word" not in text_of(total)


def test_long_captions_are_listed_but_not_explained(tmp_path: Path) -> None:
    inputs = {"a": scored(["a dog " * 800, *candidates(5, 0)])}
    file_text = write_page(inputs, tmp_path / "page.html", resamples=10)
    assert (file_text.captions, file_text.explained) == (6, 5)
    assert {row for _, row, *_ in data_of(file_text.path)["evidence"]["records"]} == {1, 2, 3, 4, 5}
    assert "1 caption is not explained: the text or a reference has over 4,000 characters." in text_of(file_text.path)


def test_results_without_captions_are_refused(tmp_path: Path) -> None:
    results = score(candidates=["a dog"], references=[["a dog"]], metrics="rouge-l")
    saved = results.to_dict("a")
    del saved["systems"]["a"]["captions"]
    with pytest.raises(InputError, match=r"contain no captions.*score them again"):
        write_page({"a": Results.from_dict(saved)}, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(InputError, match=r"expected results by system.* an empty object"):
        write_page({}, tmp_path / "page.html")
    for wrong in ({"explained": -1}, {"explained": 0.5}, {"megabytes": float("nan")}, {"megabytes": 0}):
        with pytest.raises(InputError, match="expected a number of explained captions, 0 or more, and of megabytes"):
            write_page({"a": results}, tmp_path / "page.html", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="images is 'all'"):
        write_page({"a": results}, tmp_path / "page.html", images="all")
