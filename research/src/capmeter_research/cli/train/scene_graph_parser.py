"""`capmeter train scene-graph-parser`."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.scene_graph_parser.train import SceneGraphParserOptions, train


def scene_graph_parser(options: SceneGraphParserOptions, table: FormatOptions) -> None:
    """Train the scene-graph parser on human-written scene graphs (FACTUAL), or evaluate it on the split `dev`.

    Its encoder is initialised from `minilm` (`capmeter[neural]`). One of forty training captions is held out for
    selection. An interrupted run is resumed.

    **Examples**

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --parses caption_parses.jsonl.gz
    --exclusions training_exclusions.json.gz --output scene-graph-parser/`

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --evaluate`

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --documents discosg_graphs.jsonl.gz --folds 3
    --output folds/`
    """
    with show_progress():
        report = train(options)
    score_row = [round(value, 2) for value in report.values.values()]
    content = Table(report.subject, list(report.values), [score_row], [True] * len(score_row))
    show(content, {"parser": report.version, "values": report.values}, table.format)
    echo(f"scene-graph parser: {report.version}")
