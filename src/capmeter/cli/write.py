"""`capmeter write`: captions by the caption writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Seed
from capmeter.progress import shown

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def write(
    corpora: Annotated[
        list[str],
        typer.Argument(
            help="Captions of photos in any format, as SOURCE=FILE, or `coco=pycocoevalcap`.", metavar="SOURCE=FILE..."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the rows here (JSON lines, .gz: gzipped).")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            help="A way of writing and its name, such as `brief=writer(decode=beam,kept=0.6)`; repeatable. Default: "
            "the systems that stand for machines in training.",
        ),
    ] = None,
    writer: str = typer.Option("writer", "--writer", help="The writer: a name, or the folder of `train writer`."),
    exclusions: Path | None = typer.Option(
        None, "--exclusions", help="Photos of benchmarks, to be left out (gzipped JSON)."
    ),
    photos: int = typer.Option(
        0, help="Write for this many photos of each file, drawn by the seed; 0: for all.", min=0
    ),
    each: int = typer.Option(0, help="Write with this many of the systems for each photo; 0: with all.", min=0),
    style: str | None = typer.Option(None, help="Imitate this source's captions (default: each file's own)."),
    references: bool = typer.Option(
        False, "--references", help="Also write `image_id` and the captions that were not read, as references."
    ),
    device: Device = None,
    seed: Seed = 0,
) -> None:
    """Write captions as machines would, for photos that have captions.

    A row is `{"source", "photo", "system", "candidate", "read"}`. `read` has the places of the captions that the writer
    read; only the photo's other captions may be references.

    **Examples**

    `capmeter write flickr30k=captions.jsonl.gz --exclusions training_exclusions.json.gz -o machine_captions.jsonl.gz`

    `capmeter write coco=captions_val2014.json --system "greedy=writer" --references -o written.jsonl`
    """
    from capmeter.captions.files import check_targets, text_writer
    from capmeter.encoders.encoder import device_name
    from capmeter.learning.corpus import drawn_photos, named_file, read_corpus
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.writer.machine import machine_captions, unread
    from capmeter.learning.writer.writing import named_systems

    check_targets(output)
    systems = named_systems(system or ())
    listed = read_exclusions(exclusions) if exclusions else None
    with shown():
        chosen = []
        for given in corpora:
            source, file = named_file(given)
            corpus = read_corpus(source, file, {source: frozenset()} if listed is None else listed)
            found = drawn_photos(corpus, photos, seed, more_than=max(one.read for one in systems.values()))
            left = f"; {corpus.excluded:,} of benchmarks were left out" if listed else ""
            say(f"{source}: {len(found):,} of {len(corpus.photos):,} photos{left}")
            chosen += found
        known = {(photo.source, photo.number): photo for photo in chosen}
        count = 0
        with text_writer(output) as file_out:
            where = device_name(device or "cpu")
            for row in machine_captions(chosen, systems, writer, each=each, style=style, seed=seed, device=where):
                if references:
                    photo = known[row["source"], row["photo"]]
                    row |= {"image_id": photo.number, "references": unread(photo, row["read"])}
                file_out.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
    say(f"{output}: {count:,} captions of {len(systems)} systems for {len(chosen):,} photos")
