"""Flickr8k-Expert and Flickr8k-CF (Hodosh, Young and Hockenmaier 2013): captions of other images, rated.

Expert: 5,822 image-caption pairs, three experts each, 1 (unrelated) to 4 (no error). CF: 47,830 pairs, at least three
yes/no votes each. All candidates are human captions, mostly of another image.

Layouts besides JSON lines:
* the folder of the original distribution (Flickr8k_text.zip): ExpertAnnotations.txt or CrowdFlowerAnnotations.txt
  with Flickr8k.token.txt, as its readme describes them;
* the json that CLIPScore's flickr8k_example writes (flickr8k.json, crowdflower_flickr8k.json): image → `ground_truth`
  and `human_judgement` [{caption, rating}]. Own captions are already excluded there, and each expert is one entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capmeter.captions.sources import read_text, text_lines
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_rated
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow

TOKENS = "Flickr8k.token.txt"


def _captions(folder: Path) -> dict[str, str]:
    """Caption id (image#k) → caption."""
    captions_by_id = {}
    for line_number, line in text_lines(folder / TOKENS):
        caption_id, tab, caption_text = line.rstrip("\n").partition("\t")
        if not tab:
            raise InputError(f"{folder / TOKENS}, line {line_number}: expected an id, a tab and a caption")
        captions_by_id[caption_id] = caption_text
    return captions_by_id


def _folder(annotation_file: str, crowd: bool) -> LayoutReader:
    def read(folder: Path) -> list[JudgmentRow]:
        captions = _captions(folder)
        images: dict[str, list[str]] = {}
        for caption_id, caption_text in captions.items():
            images.setdefault(caption_id.split("#")[0], []).append(caption_text)
        rows = []
        for line_number, line in text_lines(folder / annotation_file):
            if not line.strip():
                continue
            location = f"{folder / annotation_file}, line {line_number}"
            image, caption_id, *rating_texts = line.split()
            if caption_id not in captions or image not in images:
                raise InputError(f"{location}: {TOKENS} has no caption {caption_id!r} or no image {image!r}")
            try:
                values = [float(value) for value in rating_texts]
                ratings = [1] * int(values[1]) + [0] * int(values[2]) if crowd else [int(value) for value in values]
            except (ValueError, IndexError):
                expected_ratings = "share, yes and no votes" if crowd else "three ratings"
                raise InputError(f"{location}: expected an image, a caption id and {expected_ratings}") from None
            row_fields: dict[str, Any] = {
                "image_id": image,
                "candidate": captions[caption_id],
                "references": images[image],
                "human": ratings,
                "candidate_in_references": caption_id.split("#")[0] == image or captions[caption_id] in images[image],
            }
            rows.append(JudgmentRow(row_fields, location))
        return rows

    return LayoutReader(
        what=f"the folder with {annotation_file} and {TOKENS}",
        accepts=lambda path: path.is_dir() and (path / annotation_file).is_file() and (path / TOKENS).is_file(),
        read=read,
    )


def _clipscore_json(path: Path) -> list[JudgmentRow]:
    image_entries = decode_json(read_text(path), str(path))
    if not isinstance(image_entries, dict):
        raise InputError(f"{path}: expected an object of images, as CLIPScore's download script writes it")
    rows = []
    for image_id, image_entry in image_entries.items():
        try:
            references = list(image_entry["ground_truth"])
            ratings_by_caption: dict[str, list[float]] = {}
            for judgment in image_entry["human_judgement"]:
                if judgment["rating"] == judgment["rating"]:  # some copies write nan where no expert answered
                    ratings_by_caption.setdefault(judgment["caption"], []).append(float(judgment["rating"]))
        except (TypeError, KeyError, ValueError):
            raise InputError(f"{path}, image {image_id!r}: expected ground_truth and human_judgement") from None
        for caption, caption_ratings in ratings_by_caption.items():
            fields = {"image_id": image_id, "candidate": caption, "references": references, "human": caption_ratings}
            rows.append(
                JudgmentRow({**fields, "candidate_in_references": caption in references}, f"{path}, image {image_id!r}")
            )
    return rows


CLIPSCORE_JSON = LayoutReader(
    what="the json of CLIPScore's flickr8k_example",
    accepts=lambda path: path.is_file() and path.suffix == ".json",
    read=_clipscore_json,
)

EXPERT = Benchmark(
    name="flickr8k-expert",
    title="Flickr8k-Expert: 5,822 captions, three experts each (1-4)",
    source="Hodosh et al. 2013, Flickr8k_text.zip: ExpertAnnotations.txt",
    rows=5822,
    fits=lambda row: len(row.numbers("human")) == 3 and all(1 <= value <= 4 for value in row.numbers("human")),
    looks="three ratings from 1 to 4",
    build=build_rated,
    readers=(_folder("ExpertAnnotations.txt", crowd=False), CLIPSCORE_JSON),
    protocols={
        "clipscore2021": Protocol(
            name="clipscore2021", leave_out=("own-captions",), ratings="flatten", statistic="tau-c", expect=16992
        ),
        # Eq. 12: all pairs of a rating and a score; own captions left out as in SPICE's procedure, which it follows
        "cui2018": Protocol(
            name="cui2018", leave_out=("own-captions",), ratings="flatten", statistic="tau-b", expect=16992
        ),
        # "5664 samples"; it says neither which τ nor how ratings were combined: this gives the value of its own metric
        "yi2020": Protocol(name="yi2020", leave_out=("own-captions",), ratings="mean", statistic="tau-b", expect=5664),
        "averaged": Protocol(
            name="averaged", leave_out=("own-captions",), ratings="mean", statistic="tau-b", expect=5664
        ),
        "lceval": Protocol(name="lceval", ratings="mode", statistic="tau-b", expect=5822),
        # "average score among the five references except for BERTScore where we use maximum" (section 5.2); it does not
        # say which τ, nor how ratings are combined: τc and the ratings flattened give its table to the digit
        "umic": Protocol(
            name="umic",
            leave_out=("own-captions",),
            references="mean-of-single",
            maximum_for=("bertscore",),
            ratings="flatten",
            statistic="tau-c",
            expect=16992,
        ),
    },
)

CF = Benchmark(
    name="flickr8k-cf",
    title="Flickr8k-CF: 47,830 captions, three or more yes/no votes each",
    source="Hodosh et al. 2013, Flickr8k_text.zip: CrowdFlowerAnnotations.txt",
    rows=47830,
    fits=lambda row: len(row.numbers("human")) >= 3 and set(row.numbers("human")) <= {0.0, 1.0},
    looks="three or more votes of 0 or 1",
    build=build_rated,
    readers=(_folder("CrowdFlowerAnnotations.txt", crowd=True), CLIPSCORE_JSON),
    protocols={
        "clipscore2021": Protocol(
            name="clipscore2021", references="without-candidates", ratings="mean", statistic="tau-b", expect=47830
        ),
        "cui2018": Protocol(name="cui2018", ratings="mean", statistic="tau-b", expect=47830),
        "averaged": Protocol(
            name="averaged", leave_out=("own-captions",), ratings="mean", statistic="tau-b", expect=47107
        ),
    },
)
