"""`capmeter write`: captions by the caption writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.output import refuse_shared_files
from capmeter.core.messages import format_count
from capmeter.core.options import option
from capmeter.core.output_files import check_targets, text_writer
from capmeter.core.progress import report_progress, show_progress
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.corpus import Photo, read_corpus, split_source_file
from capmeter_research.common.options import corpora_argument, device_option, exclusions_option, seed_option

app = Application()


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The captions to read, and how captions are written."""

    corpora: list[str] = corpora_argument("any source")
    output: Path = option(..., "Write the rows to this file (JSON lines, .gz: gzipped).", "--output", "-o")
    system: list[str] = option(
        [],
        "A decoding configuration, as NAME=CONFIG, such as `brief=writer(decode=beam,kept=0.6)`; repeatable (default: "
        "the configurations used as machine captions in training).",
    )
    writer: str = option("writer", "The writer: a name, or the folder of `train writer`.")
    exclusions: Path | None = exclusions_option()
    photos: int = option(0, "Number of photos of each file, sampled by the seed (0: all).", minimum=0)
    each: int = option(0, "Number of configurations for each photo (0: all).", minimum=0)
    style: str | None = option(None, "Imitate this source's captions (default: each file's own).")
    references: bool = option(False, "Also write `image_id` and the captions that were not read, as references.")
    device: str = device_option("cpu")
    seed: int = seed_option()


@app.command()
def write(options: WriteOptions) -> None:
    """Write machine-like captions for photos that have captions.

    A row is `{"source", "photo", "system", "candidate", "read"}`. `read` has the positions of the captions that the
    writer read; only the photo's other captions may be references.

    **Examples**

    `capmeter write flickr30k=captions.jsonl.gz --exclusions training_exclusions.json.gz -o machine_captions.jsonl.gz`

    `capmeter write coco=captions_val2014.json --system "greedy=writer" --references -o written.jsonl`
    """
    from capmeter_research.networks.caption_writer.writing import named_systems

    check_targets(options.output)
    files = [split_source_file(source_file)[1] for source_file in options.corpora]
    refuse_shared_files([*files, options.exclusions], output=options.output)
    systems = named_systems(options.system)
    row_count = 0
    with show_progress():
        photos = _sample_photos(options, min_captions=1 + max(system.read for system in systems.values()))
        with text_writer(options.output) as file:
            for row in _rows(options, photos, systems):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                row_count += 1
    count_text = f"{format_count(row_count, 'caption')} of {format_count(len(systems), 'system')}"
    echo(f"{options.output}: {count_text} for {format_count(len(photos), 'photo')}")


def _sample_photos(options: WriteOptions, min_captions: int) -> list[Photo]:
    """The sampled photos of all files; reports their numbers."""
    exclusions = read_exclusions(options.exclusions) if options.exclusions else None
    photos = []
    for source_file in options.corpora:
        source, file = split_source_file(source_file)
        corpus = read_corpus(source, file, {source: frozenset()} if exclusions is None else exclusions)
        sampled_photos = corpus.sample(options.photos, options.seed, min_captions=min_captions)
        excluded_note = f"; {corpus.excluded:,} benchmark photos were left out" if exclusions else ""
        report_progress(f"{source}: {len(sampled_photos):,} of {len(corpus.photos):,} photos{excluded_note}")
        photos += sampled_photos
    return photos


def _rows(options: WriteOptions, photos: list[Photo], systems: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of the file: captions by each system."""
    from capmeter.encoders.batches import device_name
    from capmeter_research.networks.caption_writer.machine import machine_captions, unread

    photo_by_id = {photo.id: photo for photo in photos}
    for caption_row in machine_captions(
        photos,
        systems,
        options.writer,
        each=options.each,
        style=options.style,
        seed=options.seed,
        device=device_name(options.device),
    ):
        if options.references:
            photo = photo_by_id[caption_row["source"], caption_row["photo"]]
            caption_row |= {"image_id": photo.number, "references": unread(photo, caption_row["read"])}
        yield caption_row
