"""`capmeter idf`: the document frequencies of a corpus of references, saved for CIDEr."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.output import refuse_shared_files
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import show_progress
from capmeter.metrics.ngram.document_frequencies import read_frequencies

app = Application()


@dataclass(frozen=True, kw_only=True)
class _IdfOptions:
    """The references, and how they are counted."""

    references: list[str] = argument(
        help="A file of references, in any format, or several: joined by image.", metavar="FILE..."
    )
    output: Path = option(..., "The file of the table (.npz).", "--output", "-o")
    n: int = option(4, "The highest n-gram order.", minimum=1, maximum=8)
    load: LoadOptions = option_group(LoadOptions, "columns")
    tokenizer: str = option("ptb", "ptb, or whitespace for text that is already tokenised.")


@app.command()
def idf(options: _IdfOptions) -> None:
    """Save the document frequencies of a reference corpus, so that CIDEr's idf does not depend on the run.

    **Example**

    `capmeter idf captions_train2014.json --output coco-train.npz`

    `capmeter score results.json -r captions_val2014.json -m 'cider-d(idf=coco-train.npz)'`
    """
    output = options.output
    refuse_shared_files(options.references, output=output)
    with show_progress():
        first_file, *other_files = options.references
        table = read_frequencies(first_file, options.n, options.tokenizer, options.load.columns, other_files)
    table.save(output)
    n_grams = f"{format_count(len(table.hashes), 'n-gram')} of {format_count(table.documents, 'document')}"
    echo(f"{output}: {n_grams}; use it as cider-d(idf={output})")
