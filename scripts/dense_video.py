"""The table of docs/video.md: released captions of ActivityNet's videos, and one annotator against the other.

    python scripts/dense_video.py dense_captions_activitynet.jsonl.gz paragraphs_activitynet.jsonl.gz

The first file has both annotators' events of each video, the second the captions of MART and COOT, written with the
events that these models were given. Prints scores in per cent as a Markdown table.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet, Events, VideoEvents
from capmeter.captions.event_fields import read_events

OF_EVENTS = (
    *("soda-c", "soda-c(as_released=true)", "soda-c(annotators=mean,as_released=true)"),
    *("dense", "dense(as_released=true)"),
)
OF_PARAGRAPHS = ("repetition", "bleu-4", "meteor", "rouge-l", "cider-d")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def print_row(name: str, videos: Iterable[tuple[str, Events, tuple[Events, ...]]], metrics: tuple[str, ...]) -> None:
    """Scores one system."""
    captions = CaptionSet.from_captions(
        Caption(
            id,
            id,
            events.paragraph,
            tuple(each.paragraph for each in references),
            events=VideoEvents(events, references),
        )
        for id, events, references in videos
    )
    results = capmeter.score(captions, list(metrics))
    cells = [f"{100 * results[each].score:.2f}" if each in metrics else "" for each in (*OF_EVENTS, *OF_PARAGRAPHS)]
    print(f"| {name}, {len(captions):,} videos | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=Path)
    parser.add_argument("paragraphs", type=Path)
    options = parser.parse_args()
    annotators = {
        row["id"]: tuple(read_events(each["timestamps"], each["sentences"], row["id"]) for each in row["references"])
        for row in read_rows(options.events)
    }
    paragraphs = [row for row in read_rows(options.paragraphs) if row["image_id"] in annotators]
    print(f"| system | {' | '.join((*OF_EVENTS, *OF_PARAGRAPHS))} |")
    print("|---|" + "---|" * len((*OF_EVENTS, *OF_PARAGRAPHS)))
    for system in dict.fromkeys(row["system"] for row in paragraphs):
        rows = [row for row in paragraphs if row["system"] == system]
        events = [read_events(row["timestamps"], row["sentences"], row["id"]) for row in rows]
        videos = [(row["image_id"], each, annotators[row["image_id"]]) for row, each in zip(rows, events, strict=True)]
        print_row(system, videos, (*OF_EVENTS, *OF_PARAGRAPHS))
    people = [(id, each[1], each[:1]) for id, each in annotators.items() if len(each) == 2]
    print_row("people: `val_2` against `val_1`", people, OF_EVENTS)


if __name__ == "__main__":
    main()
