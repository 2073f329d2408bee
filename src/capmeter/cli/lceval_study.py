"""`capmeter study lceval`: the experiments of the LCEval paper, each beside its values."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.options import Device, Format, Plots, Precision, settings_of
from capmeter.cli.output import show
from capmeter.errors import InputError
from capmeter.meta.studies.lceval import PARTS, Networks, Study
from capmeter.progress import shown
from capmeter.report.figures import save_figures
from capmeter.report.lceval_study import part_figure, part_table, part_to_dict


def lceval(
    part: str = typer.Argument(..., help=f"One of {', '.join(PARTS)}.", metavar="PART"),
    data: Path = typer.Option(..., "--data", help="The file of the benchmark that the part uses."),
    networks: Path | None = typer.Option(
        None, "--networks", help="Folder of `capmeter train lceval --network study`; default: the networks that ship."
    ),
    protocol: str | None = typer.Option(None, "--protocol", help="Another protocol of the benchmark."),
    sample: bool = typer.Option(False, "--sample", help="The file is a subset of the benchmark."),
    device: Device = None,
    precision: Precision = None,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Repeat an experiment of the LCEval paper: architectures, features, agreement, accuracy, references, time.

    composite: architectures (Table 7.2), embeddings (7.3), main (7.4), groups (7.5, B.2), hwcm (7.6), accuracy (Figure
    7.8), machines (7.10), features (LCEval against each of its features). pascal50s: pascal (7.7), references (Figures
    7.10, B.1), machines-pairs (7.11), timing (7.12). abstract50s: abstract (7.8), references-abstract. distractions:
    distractions (7.9). wmt16: wmt16 (B.1). Table 7.13 is `capmeter meta --benchmark coco2015`.

    `capmeter study lceval main --data composite.jsonl.gz`

    `capmeter study lceval main --data composite.jsonl.gz --protocol clipscore2021`

    `capmeter study lceval architectures --data composite.jsonl.gz --networks networks/`
    """
    if part not in PARTS:
        raise InputError(f"there is no part {part!r} of this study; expected one of {', '.join(PARTS)}")
    with shown():
        study = Study(data, Networks(networks), protocol, sample, settings_of(device, precision))
        found = PARTS[part][1](study)
    if plot:
        save_figures(part_figure(found), plot)
    show(part_table(found), part_to_dict(found), format)
