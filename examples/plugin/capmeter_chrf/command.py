"""`capmeter characters`: options are the fields of a dataclass."""

from collections import Counter
from dataclasses import dataclass

import capmeter
from capmeter.cli.command import Application
from capmeter.cli.output import write
from capmeter.core.options import argument, option

app = Application()


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    captions: str = argument(help="Captions, in any layout.", metavar="FILE")
    top: int = option(3, "How many to print.", "--top", minimum=1)


@app.command()
def characters(options: CharacterOptions) -> None:
    """Print the most frequent characters of captions."""
    texts = (each.candidate for each in capmeter.load(options.captions, on_missing="keep"))
    for character, count in Counter("".join(texts)).most_common(options.top):
        write(f"{character}\t{count}\n")
