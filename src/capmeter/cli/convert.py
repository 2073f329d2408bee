"""`capmeter convert`: captions from one format to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from capmeter.captions.load_options import LoadOptions
from capmeter.captions.rows import Side
from capmeter.captions.writing import TARGETS
from capmeter.captions.writing import convert as convert_captions
from capmeter.cli.command import Application
from capmeter.cli.inputs import input_files
from capmeter.cli.main import echo
from capmeter.cli.options import side_option
from capmeter.cli.output import refuse_shared_files, write
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls, format_count
from capmeter.core.options import argument, option, option_group
from capmeter.report.score_table import describe_note

app = Application()


@dataclass(frozen=True, kw_only=True)
class _ConvertOptions:
    """The files, and their formats."""

    source: str = argument(help="The captions to convert, in any format.", metavar="IN")
    target: str = argument(help="The file to write; a name that ends in .gz is gzipped.", metavar="OUT")
    to: str | None = option(
        None,
        f"The format to write: {', '.join(TARGETS)} (default: what OUT ends in).",
        "--to",
        "-t",
        choices=tuple(TARGETS),
        metavar="FORMAT",
    )
    references_out: str | None = option(
        None, "Where to write the references, if the format keeps them separate (coco, pycocoevalcap, clipscore)."
    )
    side: str | None = side_option()
    load: LoadOptions = option_group(LoadOptions, without=("on_missing", "on_absent", "images_root", "regions"))


@app.command()
def convert(options: _ConvertOptions) -> None:
    """Convert captions from one format to another, reporting what the new format cannot hold.

    **Examples**

    `capmeter convert results.json rows.jsonl --references captions_val2014.json`

    `capmeter convert dataset_coco.json test.json --to coco --split test`

    `capmeter convert rows.parquet results.json --to coco --references-out captions.json --system blip2`
    """
    source, to = options.source, options.to or Path(options.target.removesuffix(".gz")).suffix[1:].lower()
    if to not in TARGETS:
        raise InputError(f"{options.target}: its name does not end in a format; name one: --to {', '.join(TARGETS)}")
    input_paths = input_files([source], options.load)
    refuse_shared_files(input_paths, OUT=options.target, references_out=options.references_out)
    summary = convert_captions(
        source,
        options.target,
        to=to,
        references_path=options.references_out,
        side=cast("Side | None", options.side),
        options=options.load,
    )
    echo(f"note: read {source} as {summary.source_format} ({summary.side})")
    for path, (content_noun, count) in summary.files.items():
        singular_noun = "image's references" if content_noun == "images' references" else content_noun.removesuffix("s")
        write(f"{escape_controls(str(path))}: {format_count(count, singular_noun, content_noun)}\n")
    for dropped_field, count in summary.dropped.items():
        echo(f"note: {to} cannot hold {dropped_field}: dropped from {format_count(count, 'row')}")
    for reason, entries in summary.notes.items():
        if reason != "kept_without_references":
            echo(f"note: {describe_note(reason, entries)}")
    if summary.ignored:
        echo(f"note: unknown fields were dropped: {', '.join(summary.ignored)}")
