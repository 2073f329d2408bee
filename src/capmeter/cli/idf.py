"""`capmeter idf`: the document frequencies of a corpus of references, saved for CIDEr."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.files import check_targets
from capmeter.cli.main import say
from capmeter.cli.options import Columns
from capmeter.metrics.document_frequencies import from_file
from capmeter.progress import shown

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def idf(
    references: str = typer.Argument(..., help="A file of references, in any format.", metavar="FILE"),
    output: Path = typer.Option(..., "--output", "-o", help="Where to save the table (.npz)."),
    n: int = typer.Option(4, help="The highest n-gram order.", min=1, max=8),
    column: Columns = [],
    tokenizer: str = typer.Option("ptb", help="ptb, or whitespace for text that is already tokenised."),
) -> None:
    """Save the document frequencies of a reference corpus, so that CIDEr's idf does not depend on the run.

    **Example**

    `capmeter idf captions_train2014.json --output coco-train.npz`

    `capmeter score results.json -r captions_val2014.json -m 'cider-d(idf=coco-train.npz)'`
    """
    check_targets(output)
    with shown():
        table = from_file(references, n, tokenizer, chosen_columns(column))
    table.save(output)
    say(f"{output}: {len(table.hashes):,} n-grams of {table.documents:,} documents; use it as cider-d(idf={output})")
