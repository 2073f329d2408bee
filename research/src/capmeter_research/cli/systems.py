"""`capmeter systems`: captioning systems compared with human captions, with a plot of meaning and style."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import load_named_systems
from capmeter.cli.main import echo
from capmeter.cli.options import DeviceOptions, format_option, plot_option, seed_option, systems_argument
from capmeter.cli.output import show
from capmeter.core.named import parameters_of
from capmeter.core.options import option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.report.figures import save_figures
from capmeter_research.papers.smurf import systems as comparison
from capmeter_research.papers.smurf.held_out import hold_out_human_captions
from capmeter_research.papers.smurf.smurf import Smurf
from capmeter_research.papers.smurf.system_figure import system_figure, system_table, systems_to_dict

app = Application()
_PARAMETERS = parameters_of(Smurf)


@dataclass(frozen=True, kw_only=True)
class SystemsOptions:
    """The systems, the human captions, and what is printed."""

    files: list[str] = systems_argument()
    human: str = option(..., "Human captions: a file, or the name of a system in the files.", "--human", "-H")
    load: LoadOptions = option_group(LoadOptions, "references", "columns")
    hold_out: bool = option(False, "Remove each image's human caption from the references, for all systems.")
    encoder: str = option("distilbert+distilroberta", f"{_PARAMETERS['encoder'].help}.", "--encoder", "-e")
    standard: str | None = option(None, f"{_PARAMETERS['standard'].help}.")
    plot: list[Path] = plot_option()
    sample: int = option(100, "Number of images to sample for the points of the plot.", minimum=1)
    seed: int = seed_option()
    compute: DeviceOptions = DeviceOptions()
    format: str = format_option()


@app.command()
def systems(options: SystemsOptions) -> None:
    """Compare systems with human captions: meaning, style, overlap, grammar.

    **Examples**

    `capmeter systems a.json b.json --human human.json -r refs.json -e minilm --plot systems.png --plot systems.svg`

    `capmeter systems rows.jsonl --human people --hold-out -e minilm --sample 200 --seed 7`
    """
    check_targets(*options.plot)
    metric = Smurf(encoder=options.encoder, standard=options.standard)
    constants = metric.constants
    with show_progress():
        components, human = _components(options, metric)
        summaries = comparison.summarise_systems(components, human, constants)
        if options.plot:
            points = comparison.sample_points(summaries, options.sample, options.seed)
            save_figures(system_figure(summaries, points), options.plot)
    show(system_table(summaries), {"human": human, "by_system": systems_to_dict(summaries)}, options.format)
    echo(f"note: constants: {constants.label} ({constants.source})")


def _components(options: SystemsOptions, metric: Smurf) -> tuple[dict[str, comparison.Components], str]:
    """SMURF's components of each system, and the name of the system of human captions."""
    system_files, human = list(options.files), options.human
    human_file = Path(human).exists() or "=" in human
    if human_file:
        system_files.append(human)
    captions = load_named_systems(system_files, options.load)
    human = list(captions)[-1] if human_file else human
    comparison.require_human_system(captions, human)
    if options.hold_out:
        captions = hold_out_human_captions(captions, human)
    _, mima, spurts = (member.parameters().get("encoder", "") for member in metric.required_metrics())
    return comparison.measure_components(captions, mima, spurts, options.compute.settings()), human
