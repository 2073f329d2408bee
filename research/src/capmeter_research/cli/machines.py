"""`capmeter study machines`: statistics of machine captions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse
from capmeter.report.tables import Table
from capmeter_research.common.options import exclusions_option, read_corpora, seed_option
from capmeter_research.networks.caption_writer.system_captions import collect_captions

_DIGITS = {"captions": 0, "perplexity": 1, "words": 1}


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """The systems, and what their captions are compared with."""

    files: list[str] = argument(
        help="Captions of systems with references, as SOURCE=FILE, in any format.", metavar="SOURCE=FILE..."
    )
    corpus: list[str] = option(
        ..., "The writer's training captions, as SOURCE=FILE or `coco=pycocoevalcap`; repeatable."
    )
    exclusions: Path | None = exclusions_option()
    written: list[Path] = option([], "Captions by `capmeter write` for the same photos.")
    critic: list[str] = option(
        [],
        "Also report how well a metric, `METRIC` or `NAME=METRIC`, separates human from machine captions; repeatable.",
    )
    seed: int = seed_option()


def machines(options: MachineOptions, table: FormatOptions) -> None:
    """Compare written captions with those of real systems: perplexity, length, variety, novelty, CIDEr-D.

    Perplexity is per word under a trigram model of the held-out photos of the corpus. CIDEr-D is against all captions
    of a photo but one: the one that was read, or a random one. A critic's value is the share of pairs in which the
    human caption has the higher score: 0.5 by chance.

    **Examples**

    `capmeter study machines coco=coco_karpathy_test_captions.jsonl.gz --written written.jsonl.gz
    --corpus coco=pycocoevalcap --exclusions training_exclusions.json.gz`

    `capmeter study machines coco=coco_karpathy_test_captions.jsonl.gz --corpus coco=pycocoevalcap
    --exclusions training_exclusions.json.gz --critic lceval --critic "of-mrnn=lceval(checkpoint=networks/of-mrnn)"`
    """
    from capmeter_research.networks.caption_writer.measures import ReferenceNgrams, describe

    named_metrics = [(name, parse(metric)) for name, metric in map(_split_name, options.critic)]
    critics = {name or str(metric): metric for name, metric in named_metrics}
    with show_progress():
        captions = collect_captions(options.files, options.written)
        corpora = read_corpora(options.corpus, options.exclusions)
        ngrams = ReferenceNgrams.of([photo for corpus in corpora for photo in corpus.photos])
        statistics = describe(captions.systems, captions.read, captions.photos, ngrams, options.seed, critics)
    values = {system: system_statistics.to_dict() for system, system_statistics in statistics.items()}
    table_rows = [
        [system, *(f"{value:.{_DIGITS.get(measure_name, 3)}f}" for measure_name, value in measures.items())]
        for system, measures in values.items()
    ]
    columns = ["system", *next(iter(values.values()))]
    note = "perplexity: trigrams of held-out photos; cider_d: against all captions of the photo but one"
    content = Table("machine captions", columns, table_rows, [False] + [True] * (len(columns) - 1), note)
    show(content, {"systems": values}, table.format)


def _split_name(text: str) -> tuple[str | None, str]:
    """Name and metric of `NAME=METRIC`; a metric's own parameters are in parentheses."""
    metric_name, equals, metric = text.partition("=")
    return (metric_name, metric) if equals and "(" not in metric_name else (None, text)
