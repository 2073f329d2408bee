"""SODA_c, dense captioning and proposals `as_released`, against the programs' steps written apart from this package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.shared_files import read_rows

import capmeter

Video = dict[str, Any]  # {"timestamps": [[start, end], …], "sentences": […]}
Program = dict[str, Video]


def videos(shared: Path, seed: int) -> tuple[dict[str, Any], list[Program]]:
    """COOT's results on YouCook2 with shifted times, in another order, some videos missing; two annotators, the second
    of half of the videos and with the first one's events shifted. The files as people have them."""
    rng = np.random.default_rng(seed)

    def shift(video: Video, scale: float) -> Video:
        times = np.array(video["timestamps"], float)
        ends = np.sort(np.maximum(times + rng.normal(0, scale, times.shape).round(), 0), axis=1)
        order = rng.permutation(len(times))
        return {
            "timestamps": ends[order].tolist(),
            "sentences": [video["sentences"][k].replace(" a ", " à ") for k in order.tolist()],
        }

    def rows(name: str) -> list[dict[str, Any]]:
        return read_rows(shared / "data" / name)

    first = {
        row["id"]: {"duration": row["duration"], **row["references"][0]}
        for row in rows("dense_captions_youcook2.jsonl.gz")
    }
    second = {id: {**video, **shift(video, 6)} for k, (id, video) in enumerate(first.items()) if k % 2}
    found = {row["image_id"]: row for row in rows("paragraphs_youcook2.jsonl.gz") if row["system"] == "COOT"}
    shifted = {id: shift(found[id], 4) for k, id in enumerate(sorted(found.keys() & first.keys())) if k % 10}
    results = {
        id: [
            {"sentence": text, "timestamp": times}
            for text, times in zip(each["sentences"], each["timestamps"], strict=True)
        ]
        for id, each in shifted.items()
    }
    return {"results": results, "version": "", "external_data": {}}, [first, second]


def iou(one: list[float], other: list[float]) -> float:
    intersection = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    union = min(max(one[1], other[1]) - min(one[0], other[0]), one[1] - one[0] + other[1] - other[0])
    return intersection / (union + 1e-8)


def ascii_of(text: str) -> str:
    return "".join(letter if ord(letter) < 128 else " " for letter in text)


def meteor_of(pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    distinct = list(dict.fromkeys(pairs))
    scores = capmeter.score(
        candidates=[pair[0] for pair in distinct], references=[[pair[1]] for pair in distinct], metrics="meteor"
    )
    return dict(zip(distinct, scores["meteor"].items.values(), strict=True))


def run_soda(results: dict[str, Any], annotators: list[Program], multi_reference: bool) -> dict[str, float]:
    """The F-measure of each video with results."""
    ids = sorted(set(results["results"]) & set().union(*annotators))
    truths = annotators
    if not multi_reference:
        merged: Program = {}
        for id in ids:
            events = [
                pair
                for each in annotators
                if id in each
                for pair in zip(each[id]["timestamps"], each[id]["sentences"], strict=True)
            ]
            events.sort(key=lambda event: event[0][0])
            merged[id] = {"timestamps": [times for times, _ in events], "sentences": [text for _, text in events]}
        truths = [merged]
    found = {id: sorted(results["results"][id], key=lambda event: event["timestamp"][0]) for id in ids}
    pairs = [
        (ascii_of(text), ascii_of(event["sentence"]))
        for truth in truths
        for id in ids
        if id in truth
        for text in truth[id]["sentences"]
        for event in found[id]
    ]
    meteor = meteor_of(pairs)  # the hypothesis is the reference's sentence
    values = {}
    for id in ids:
        best = -1.0
        for truth in truths:
            if id not in truth:
                continue
            times, texts = truth[id]["timestamps"], truth[id]["sentences"]

            def weight(g: int, p: int, times: Any = times, texts: Any = texts, id: str = id) -> float:
                event = found[id][p]
                return iou(event["timestamp"], times[g]) * meteor[ascii_of(texts[g]), ascii_of(event["sentence"])]

            @cache
            def best_sum(g: int, p: int, weight: Any = weight) -> float:
                if g < 0 or p < 0:
                    return 0.0
                return max(best_sum(g - 1, p), best_sum(g, p - 1), best_sum(g - 1, p - 1) + weight(g, p))

            matched = best_sum(len(times) - 1, len(found[id]) - 1)
            precision, recall = matched / len(found[id]), matched / len(times)
            best = max(best, 2 * precision * recall / (precision + recall) if matched > 0 else 0.0)
        values[id] = best
    return values


def load(results: dict[str, Any], annotators: list[Program], folder: Path) -> capmeter.CaptionSet:
    """The captions as they are read from files."""
    paths = [folder / name for name in ("results.json", "val_1.json", "val_2.json")]
    for path, content in zip(paths, [results, *annotators], strict=True):
        path.write_text(json.dumps(content))
    return capmeter.load(paths[0], references=paths[1:])


def test_soda(shared: Path, meteor_index: Path, tmp_path: Path) -> None:
    """By default and with -mr, and by each annotator as PDVC's evaluation calls it: no video differs."""
    results, annotators = videos(shared, 0)
    names = [f"soda-c({name}as_released=true)" for name in ("", "annotators=best,", "annotators=mean,")]
    scores = capmeter.score(load(results, annotators, tmp_path), names)
    by_annotator = [run_soda(results, [each], False) for each in annotators]
    mean = {
        id: float(np.mean([values[id] for values in by_annotator if id in values])) for id in set().union(*by_annotator)
    }
    for name, expected in zip(
        names, (run_soda(results, annotators, False), run_soda(results, annotators, True), mean), strict=True
    ):
        items = dict(scores[name].items)
        assert len(items) > 190 and {id: items[id] - expected[id] for id in items if items[id] != expected[id]} == {}
        assert scores[name].score == pytest.approx(np.mean(list(expected.values())), abs=1e-15)


def test_dense_and_proposals(shared: Path, meteor_index: Path, tmp_path: Path) -> None:
    """Every reference video counts; a video is a corpus of METEOR."""
    results, annotators = videos(shared, 1)
    ids = sorted(set().union(*annotators))
    scores = capmeter.score(load(results, annotators, tmp_path), "dense(as_released=true),proposals(as_released=true)")
    assert len(scores["proposals(as_released=true)"].notes["without results, and counted 0"]) == 23 and len(ids) == 222
    for threshold in (0.3, 0.7):
        meteor, precision, recall = [], [], []
        for id in ids:
            found, pairs, best = results["results"].get(id, []), list[tuple[str, str]](), [0.0, 0.0]
            for event in found:
                matches = [
                    ascii_of(text)
                    for each in annotators
                    if id in each
                    for times, text in zip(each[id]["timestamps"], each[id]["sentences"], strict=True)
                    if iou(event["timestamp"], times) >= threshold
                ]
                pairs += [(ascii_of(event["sentence"]), text) for text in matches or ["qzxqzxqzxq"]]
            for each in annotators:
                if id in each:
                    times = each[id]["timestamps"]
                    hits = [[iou(event["timestamp"], other) > threshold for other in times] for event in found]
                    best[0] = max(best[0], sum(map(any, hits)) / max(len(found), 1))
                    best[1] = max(best[1], sum(map(any, zip(*hits, strict=True))) / len(times))
            sides = [pair[0] for pair in pairs], [[pair[1]] for pair in pairs]
            meteor.append(
                capmeter.score(candidates=sides[0], references=sides[1], metrics="meteor")["meteor"].score
                if pairs
                else 0
            )
            precision.append(best[0])
            recall.append(best[1])
        exact = {"abs": 1e-12, "rel": 0}
        assert scores["dense(as_released=true)"].parts[f"iou {threshold:g}"] == pytest.approx(np.mean(meteor), **exact)
        proposals = scores["proposals(as_released=true)"].parts
        assert proposals[f"precision at {threshold:g}"] == pytest.approx(np.mean(precision), **exact)
        assert proposals[f"recall at {threshold:g}"] == pytest.approx(np.mean(recall), **exact)
