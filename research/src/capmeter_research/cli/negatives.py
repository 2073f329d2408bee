"""`capmeter negatives`: captions that a metric should score below the original, as in UMIC's training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.writing import save
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions, output_option
from capmeter.cli.output import refuse_shared_files, show
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.common.options import seed_option
from capmeter_research.papers.smurf.held_out import load_human_captions
from capmeter_research.papers.umic.training.negatives import KINDS, NegativeSampler, parse_negatives

app = Application()


@dataclass(frozen=True, kw_only=True)
class NegativeOptions:
    """The captions, and the negatives."""

    captions: str = argument(help="Captions of at least two images, in any format.", metavar="FILE")
    load: LoadOptions = option_group(LoadOptions, "references", "columns", "on_missing", on_missing="keep")
    negatives: str = option(
        "paper",
        "paper or released, with parameters: paper(without=permutation), paper(similarity=FEATURES.npz).",
        "--negatives",
        "-n",
    )
    show: int = option(3, "Number of captions to print.", minimum=0)
    output: Path | None = output_option()
    seed: int = seed_option()


@app.command()
def negatives(options: NegativeOptions, table: FormatOptions) -> None:
    """Sample negatives: what a metric should score below each caption.

    With `--output FILE.jsonl`, writes each caption (system `caption`) and its negatives (a system of each kind).

    **Examples**

    `capmeter negatives captions_val2014.json --show 5`

    `capmeter negatives rows.jsonl -n "released" --output negatives.jsonl`
    """
    recipe = parse_negatives(options.negatives)
    check_targets(options.output)
    refuse_shared_files([options.captions, *options.load.reference_files], output=options.output)
    table_rows = []
    with show_progress():
        captions = load_human_captions(options.captions, options.load)
        sampler = recipe.sampler(captions)
        caption_order = np.random.default_rng(options.seed).permutation(len(captions))
        for row in caption_order[: options.show].tolist():
            table_rows.append([captions.ids[row], "caption", captions.pool[int(captions.candidates[row])]])
            rng = np.random.default_rng((options.seed, row))
            table_rows += [
                ["", kind, sampler.sample_kind(kind, row, rng)] for kind in KINDS if kind not in recipe.without
            ]
        if options.output is not None:
            all_negatives = CaptionSet.from_captions(_with_negatives(captions, sampler, options.seed))
            save(all_negatives, options.output, to="jsonl")
            kinds = ", ".join(recipe.kinds)
            echo(
                f"wrote {options.output}: {format_count(len(all_negatives), 'caption')} of the systems caption, {kinds}"
            )
    if table_rows:
        examples = [{"id": caption_id, "kind": kind, "text": text} for caption_id, kind, text in table_rows]
        data = {"negatives": str(recipe), "seed": options.seed, "examples": examples}
        show(Table("negatives", ["id", "kind", "text"], table_rows, [False] * 3), data, table.format)


def _with_negatives(captions: CaptionSet, sampler: NegativeSampler, seed: int) -> Iterator[Caption]:
    """Each caption, and its negatives, as captions of systems of their kinds."""
    for row, caption in enumerate(captions):
        text_by_kind = {"caption": caption.candidate, **sampler.sample(row, np.random.default_rng((seed, row)))}
        for kind, text in text_by_kind.items():
            yield Caption(f"{caption.id}#{kind}", caption.image_id, text, caption.references, caption.image, kind)
