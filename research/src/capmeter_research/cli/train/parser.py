"""`capmeter train parser`."""

from __future__ import annotations

from dataclasses import asdict, fields

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.parser.evaluation import ParserScores
from capmeter_research.networks.parser.train import ParserOptions, train


def parser(options: ParserOptions, table: FormatOptions) -> None:
    """Train the caption parser on the parses of another parser, or evaluate it on held-out photos.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed.

    **Examples**

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --output parser/`

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --evaluate`
    """
    with show_progress():
        version, scores = train(options)
    scores_by_form = {form_name: asdict(form_scores) for form_name, form_scores in scores.items()}
    columns = ["form", *(field.name for field in fields(ParserScores))]
    table_rows = [[form_name, *score_values.values()] for form_name, score_values in scores_by_form.items()]
    content = Table("held-out captions, %", columns, table_rows, [False] + [True] * (len(columns) - 1))
    show(content, {"parser": version, "held_out": scores_by_form}, table.format)
    echo(f"parser: {version}")
