"""`capmeter standardize`: the mean and spread of SMURF's components on human captions, for any encoder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import input_files
from capmeter.cli.options import DeviceOptions, encoder_option, format_option
from capmeter.cli.output import refuse_shared_files, show
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.papers.smurf.held_out import hold_out_candidates, load_human_captions
from capmeter_research.papers.smurf.normalisation import estimate_normalisation

app = Application()


@dataclass(frozen=True, kw_only=True)
class StandardizeOptions:
    """The human captions, and the encoder."""

    human: str = argument(help="Human captions, with other captions of the same images as references.", metavar="FILE")
    output: Path = option(..., "The file of the constants (JSON).", "--output", "-o")
    encoder: str = encoder_option()
    hold_out: bool = option(False, "Remove each caption from its own references.")
    load: LoadOptions = option_group(LoadOptions, "references", "system", "split", "columns")
    source: str | None = option(None, "The recorded source of the constants (default: the file's name).")
    compute: DeviceOptions = DeviceOptions()
    format: str = format_option()


@app.command()
def standardize(options: StandardizeOptions) -> None:
    """Estimate SMURF's normalisation constants from human captions, and save them.

    Then use it: `capmeter score FILE -m "smurf(encoder=NAME,standard=FILE.json)"`.

    **Examples**

    `capmeter standardize human.jsonl --encoder minilm --output mine.json`

    `capmeter standardize val2014.json -r val2014.json --hold-out -e distilbert+distilroberta -o mine.json`
    """
    check_targets(options.output)
    refuse_shared_files(input_files([options.human], options.load), output=options.output)
    encoder = options.encoder
    mima_encoder, plus, spurts_encoder = encoder.partition("+")
    with show_progress():
        captions = load_human_captions(options.human, options.load)
        if options.hold_out:
            captions = hold_out_candidates(captions)
        constants = estimate_normalisation(
            captions,
            mima_encoder,
            spurts_encoder if plus else mima_encoder,
            source=options.source or Path(options.human).name,
            settings=options.compute.settings(),
        )
    constants.save(options.output)
    component_values = {name: asdict(getattr(constants, name)) for name in ("sparcs", "mima", "spurts")}
    table_rows = [[name, *(f"{value:.6f}" for value in scale.values())] for name, scale in component_values.items()]
    title = f"{format_count(constants.captions, 'human caption')}; {encoder}; written to {options.output}"
    table = Table(title, ["component", "mean", "deviation"], table_rows, [False, True, True])
    source_facts = {"captions": constants.captions, "source": constants.source, "encoder": encoder}
    show(table, {**source_facts, **component_values}, options.format)
