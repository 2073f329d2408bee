"""`capmeter negatives`: captions made worse in the ways of UMIC's training, to read or to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.io import load
from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.writing import save
from capmeter.cli.main import say
from capmeter.cli.options import Columns, Format, OnMissing, Output, References, Seed
from capmeter.cli.output import show
from capmeter.meta.metric_similarity import scores_between
from capmeter.progress import shown
from capmeter.report.tables import Table
from capmeter.transforms.negatives import KINDS, parse_negatives

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def negatives(
    captions: str = typer.Argument(..., help="Captions of at least two images, in any format.", metavar="FILE"),
    references: References = None,
    column: Columns = [],
    recipe: str = typer.Option(
        "paper",
        "--negatives",
        "-n",
        help="paper or released, with parameters: paper(without=permutation), paper(similarity=cider-d).",
    ),
    show_examples: int = typer.Option(3, "--show", help="Print the negatives of so many captions.", min=0),
    output: Output = None,
    on_missing: OnMissing = "keep",
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Draw negatives: what a metric should score below each caption.

    With `--output FILE.jsonl`, writes each caption (system `caption`) and its negatives (a system of each kind).

    **Examples**

    `capmeter negatives captions_val2014.json --show 5`

    `capmeter negatives rows.jsonl -n "released" --output negatives.jsonl`
    """
    chosen = parse_negatives(recipe)
    with shown():
        columns = chosen_columns(column)
        found = load(captions, references, on_missing=on_missing, columns=columns)  # type: ignore[arg-type]
        sampler = chosen.sampler(found, scorer=scores_between)
        drawn = np.random.default_rng(seed).permutation(len(found))[:show_examples]
        rows = []
        for row in drawn.tolist():
            rows.append([found.ids[row], "caption", found.pool[int(found.candidates[row])]])
            random = np.random.default_rng((seed, row))
            rows += [["", kind, sampler.one(kind, row, random)] for kind in KINDS if kind not in chosen.without]
        if output is not None:
            made = CaptionSet.from_captions(
                Caption(f"{each.id}#{kind}", each.image_id, text, each.references, each.image, kind)
                for row, each in enumerate(found)
                for kind, text in {
                    "caption": each.candidate,
                    **sampler.draw(row, np.random.default_rng((seed, row))),
                }.items()
            )
            save(made, Path(output), to="jsonl")
            say(f"wrote {output}: {len(made):,} captions of the systems caption, {', '.join(chosen.kinds)}")
    if rows:
        table = Table("negatives", ["id", "kind", "text"], rows, [False] * 3)
        data = [{"id": id, "kind": kind, "text": text} for id, kind, text in rows]
        show(table, {"negatives": str(chosen), "seed": seed, "examples": data}, format)
