"""Makes more training data for the caption parser: captions whose photos are in no benchmark, parsed by SPICE's parser.

Needs Java, Stanford CoreNLP (see docs/spice.md) and pycocoevalcap, in whose wheel the captions of COCO lie:

    python scripts/caption_parses.py more.jsonl.gz --known caption_parses.jsonl.gz \
        --flickr30k flickr30k_references.jsonl.gz --exclusions training_exclusions.json.gz --number 100000

Nearly half are as written, nearly half in lower case without punctuation, the rest cut, a word lost, or two words said
twice, as machine captions are. The captions and their order are determined; a longer run begins like a shorter one, and
a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from capmeter_research.common.benchmark_exclusions import identify_photo, read_exclusions

from capmeter.core.assets import package_folder
from capmeter.text.parsing.parsers import CoreNlp

SEED = 20261
COCO_SHARE = 0.62
MOST = 240_000  # captions that are drawn, of which the first are parsed
ANNOTATIONS = ("coco/annotations/captions_train2014.json", "coco/annotations/captions_val2014.json")


class Drawn(NamedTuple):
    """A caption to parse."""

    source: str
    photo: str
    form: str
    caption: str


def coco_captions(excluded: frozenset[str]) -> list[tuple[str, str]]:
    """(photo, caption) of COCO 2014, in the order of its files."""
    folder = package_folder("pycocoevalcap", "spice")
    if folder is None:
        raise SystemExit("the captions of COCO lie in pycocoevalcap: pip install pycocoevalcap")
    with zipfile.ZipFile(folder / "spice-1.0.jar") as archive:
        annotations = [each for name in ANNOTATIONS for each in json.loads(archive.read(name))["annotations"]]
    pairs = [(str(each["image_id"]), " ".join(each["caption"].split())) for each in annotations]
    return [pair for pair in pairs if pair[0] not in excluded]


def flickr_captions(file: Path, excluded: frozenset[str]) -> list[tuple[str, str]]:
    """(photo, caption) of Flickr30k, in the order of the file."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [(identify_photo(row["image_id"], "flickr30k")[1], text) for row in rows for text in row["references"]]
    return [pair for pair in pairs if pair[0] not in excluded]


def in_form(caption: str, draw: random.Random) -> tuple[str, str]:
    """A form, and the caption in it."""
    chance = draw.random()
    if chance < 0.46:
        return "as written", caption
    lower = " ".join(re.sub(r"[^\w\s'$&/-]", "", caption.lower().replace(" - ", " ")).split())
    words = lower.split()
    if chance < 0.89 or len(words) < 4:
        return "lower", lower
    if chance < 0.93:
        return "cut", " ".join(words[: draw.randint(2, len(words) - 1)])
    if chance < 0.965:
        lost = draw.randrange(len(words))
        return "word lost", " ".join(words[:lost] + words[lost + 1 :])
    twice = draw.randrange(len(words) - 1)
    return "repeated", " ".join(words[: twice + 2] + words[twice:])


def drawn(coco: list[tuple[str, str]], flickr: list[tuple[str, str]], excluded: set[str]) -> list[Drawn]:
    """The captions, none of which is excluded or drawn twice."""
    draw = random.Random(SEED)
    draw.shuffle(coco)
    draw.shuffle(flickr)
    of_coco, of_flickr = iter(coco), iter(flickr)
    chosen_captions: list[Drawn] = []
    used = set(excluded)
    while len(chosen_captions) < MOST:
        source = "coco" if draw.random() < COCO_SHARE else "flickr30k"
        photo, caption = next(of_coco if source == "coco" else of_flickr, ("", ""))
        if not photo:
            break
        form, text = in_form(caption, draw)
        if text and text not in used:
            used.add(text)
            chosen_captions.append(Drawn(source, photo, form, text))
    return chosen_captions


def parsed(captions: list[Drawn], done: int) -> Iterator[str]:
    """A JSON line for each caption after the first `done`; those that cannot be parsed have no sentences."""
    parser = CoreNlp()
    for number, each in enumerate(captions[done:], done + 1):
        (parse,) = parser.parse([each.caption])
        yield json.dumps({**each._asdict(), **(parse.to_dict() if parse else {"sentences": []})}) + "\n"
        if number % 1000 == 0:
            print(f"{number:,} of {len(captions):,}", flush=True)
    parser.close()


def main() -> None:
    """Draws the captions, and parses those that the output does not have."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--known", type=Path, required=True, help="parsed captions that are not parsed again")
    arguments.add_argument("--flickr30k", type=Path, required=True, help="rows {image_id, references}")
    arguments.add_argument("--exclusions", type=Path, required=True, help="photos of benchmarks")
    arguments.add_argument("--number", type=int, default=100_000)
    options = arguments.parse_args()
    exclusions = read_exclusions(options.exclusions)
    with gzip.open(options.known, "rt", encoding="utf-8") as lines:
        excluded = {json.loads(line)["caption"] for line in lines}
    captions = drawn(
        coco_captions(exclusions["coco"]), flickr_captions(options.flickr30k, exclusions["flickr30k"]), excluded
    )
    part = options.output.with_name(options.output.name + ".part")
    lines = part.read_text(encoding="utf-8").splitlines(keepends=True) if part.exists() else []
    whole_lines = [line for line in lines if line.endswith("\n")]  # a run may have been stopped within a line
    part.write_text("".join(whole_lines), encoding="utf-8")
    with part.open("a", encoding="utf-8") as file:
        for line in parsed(captions[: options.number], len(whole_lines)):
            file.write(line)
            file.flush()
    options.output.write_bytes(gzip.compress(part.read_bytes(), mtime=0))
    part.unlink()


if __name__ == "__main__":
    main()
