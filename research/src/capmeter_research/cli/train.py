"""`capmeter train`: trains the models that capmeter ships, a command for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.common.options import output_option, require_torch
from capmeter_research.networks.caption_writer.train import WriterOptions
from capmeter_research.networks.caption_writer.train import train as train_writer
from capmeter_research.networks.fluency.train import FluencyOptions
from capmeter_research.networks.fluency.train import train as train_fluency
from capmeter_research.networks.own_metric.larger import LargerOptions
from capmeter_research.networks.own_metric.larger import train as train_larger
from capmeter_research.networks.own_metric.train import CapmeterOptions
from capmeter_research.networks.own_metric.train import train as train_capmeter
from capmeter_research.networks.parser.evaluation import ParserScores
from capmeter_research.networks.parser.train import ParserOptions
from capmeter_research.networks.parser.train import train as train_parser
from capmeter_research.networks.scene_graph_parser.train import SceneGraphParserOptions
from capmeter_research.networks.scene_graph_parser.train import train as train_scene_graph_parser
from capmeter_research.networks.text_encoder.train import TextEncoderOptions
from capmeter_research.networks.text_encoder.train import train as train_text_encoder
from capmeter_research.papers.infometic.training.train import RegressorOptions
from capmeter_research.papers.infometic.training.train import train as train_regressor
from capmeter_research.papers.lceval.training.train import LcEvalOptions, NetworkRun
from capmeter_research.papers.lceval.training.train import train as train_lceval
from capmeter_research.papers.leic.training.train import LeicOptions
from capmeter_research.papers.leic.training.train import train as train_leic
from capmeter_research.papers.subicap.train import CaptionerOptions
from capmeter_research.papers.subicap.train import train as train_captioner
from capmeter_research.papers.umic.training.negatives import parse_negatives
from capmeter_research.papers.umic.training.train import UmicOptions
from capmeter_research.papers.umic.training.train import train as train_umic
from capmeter_research.synthetic_scenes.train import (
    AttributeReaderOptions,
    SceneClipOptions,
    SceneEncoderOptions,
    train_attribute_reader,
    train_scene_clip,
    train_scene_encoder,
)

app = Application(no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train the models that capmeter ships."""


def _with_curves(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which also draws training curves into the folder of each log, if matplotlib is installed."""

    @wraps(command)
    def run(options: Any, table: Any) -> None:
        command(options, table)
        if options.output is not None and find_spec("matplotlib") is not None:
            from capmeter_research.common.training_curves import save_curves

            for picture in save_curves(options.output):
                echo(f"curves: {picture}")

    return run


def capmeter(options: CapmeterOptions, table: FormatOptions) -> None:
    """Train the metric `capmeter` on captions of similar photos and on perturbed captions.

    An interrupted run is resumed by the same command.

    `capmeter train capmeter coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter/`
    """
    with show_progress():
        scores = train_capmeter(options).scores
    table_rows = [[score_name, f"{100 * value:.1f}"] for score_name, value in scores.items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos"
    data = {"scores": dict(scores), "checkpoint": str(options.output)}
    show(Table(title, ["kind", "%"], table_rows, [False, True]), data, table.format)
    echo(f"capmeter: {options.output}")


def capmeter_large(options: LargerOptions, table: FormatOptions) -> None:
    """Put a larger encoder beside a trained `capmeter`: selects the weight of its logit and calibrates the sum.

    The encoder is adapted before, by `capmeter train text-encoder --reads-references`.

    `capmeter train capmeter-large coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter-large/`

    `capmeter score results.json -r references.json -m "capmeter(size=large)"`
    """
    with show_progress():
        checkpoint = train_larger(options)
    table_rows = [[score_name, f"{100 * value:.1f}"] for score_name, value in checkpoint.scores.items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos; Kendall's τ by weight"
    data = {"scores": dict(checkpoint.scores), "weight": checkpoint.parameters["weight"]}
    show(Table(title, ["kind", "%"], table_rows, [False, True]), data, table.format)
    echo(f"weight of the larger encoder's logit: {checkpoint.parameters['weight']:g}")
    echo(f"capmeter(size=large): {options.output}")


def captioner(options: CaptionerOptions, table: FormatOptions) -> None:
    """Train a captioner: by cross-entropy, then by the reward of a metric (self-critical training).

    SubICap's Transformer (six layers, eight heads, geometric attention), whose sizes are options, takes regions and
    writes subwords. `OUTPUT/cross-entropy` has the captioner after cross-entropy, OUTPUT the final one. An interrupted
    run is resumed. With `--scenes` a small one (two layers of width 128; minutes on one core) is trained on synthetic
    images, and evaluated on others.

    **Examples**

    `capmeter train captioner --scenes 3000 --output captioner/`

    `capmeter train captioner captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --output captioner/ --device cuda --precision bfloat16`

    `capmeter train captioner --scenes 3000 --reward "mean(cider-d,bleu-4)" --output captioner/`
    """
    with show_progress():
        trained = train_captioner(options)
    scores, seconds = trained.scores, trained.seconds
    columns = list(next(iter(scores.values())))
    table_rows = [
        [stage_name, *(f"{stage_scores[measure_name]:.3f}" for measure_name in columns)]
        for stage_name, stage_scores in scores.items()
    ]
    numeric = [False, *(True for _ in columns)]
    data = {"captions": scores, "held_out": trained.held_out, "seconds": seconds}
    show(Table("captions of unseen images", ["captioner", *columns], table_rows, numeric), data, table.format)
    total_seconds = sum(seconds.values())
    if total_seconds:
        echo(f"the reward took {seconds['reward'] / total_seconds:.1%} of the time of self-critical steps")
    echo(f"captioner: {options.output}")


def fluency(options: FluencyOptions, table: FormatOptions) -> None:
    """Train the detector of fluency errors, which FENSE and SPIDEr-FL penalise, on captions with errors made in them.

    Half of the captions are those of photos, half are captions of sounds that a small grammar writes; `--also` adds
    files of human captions of sounds. Takes minutes.

    **Examples**

    `capmeter train fluency coco=pycocoevalcap --exclusions training_exclusions.json.gz --output fluency/`

    `capmeter train fluency coco=pycocoevalcap --also clotho_captions_development.csv --output fluency/`
    """
    with show_progress():
        detector, scores = train_fluency(options)
    table_rows = [[source_name, 100 * value] for source_name, value in scores.items()]
    content = Table("held-out captions, %", ["captions", "area under the ROC curve"], table_rows, [False, True])
    show(content, {"detector": detector.label, "held_out": scores}, table.format)
    echo(f"detector: {detector.label}")


def lceval(options: LcEvalOptions, table: FormatOptions) -> None:
    """Train LCEval or NNEval to distinguish human from machine captions.

    Features are computed once and stored; an interrupted run is resumed. With several networks each has its own folder
    in `--output`; with several runs each seed has one, and the network itself is the run that selection prefers.

    **Examples**

    `capmeter train lceval flickr30k_references.jsonl.gz --machine machine_captions.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz -o lceval/`

    `capmeter train lceval flickr30k_references.jsonl.gz --retrieval 1500 --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz --restarts 16 -o lceval/`

    `capmeter train lceval captions_train2014.json --machine results.json --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz -o networks/ --network study --runs 2`
    """
    with show_progress():
        networks = train_lceval(options)
    table_rows = [
        [
            *(network_name, str(network.examples), "+".join(map(str, network.hidden)) or "0", str(network.epoch)),
            *(_score_text(network, score, options.runs) for score in ("accuracy", "tau")),
        ]
        for network_name, network in networks.items()
    ]
    data = {
        network_name: {
            "epoch": network.epoch,
            "runs": options.runs,
            **{score_name: list(pair) for score_name, pair in network.scores.items()},
        }
        for network_name, network in networks.items()
    }
    note = f"{options.runs} runs: mean ± standard deviation" if options.runs > 1 else ""
    columns = ["network", "examples", "hidden", "epoch", "accuracy", "τ"]
    title = "networks, on held-out photos and selecting judgments"
    show(Table(title, columns, table_rows, [False] + [True] * 5, note), data, table.format)


def _score_text(network: NetworkRun, score_name: str, runs: int) -> str:
    if score_name not in network.scores:
        return "-"
    mean, deviation = network.scores[score_name]
    return f"{mean:.4f} ± {deviation:.4f}" if runs > 1 else f"{mean:.4f}"


def leic(options: LeicOptions, table: FormatOptions) -> None:
    """Train the critic of LEIC to distinguish human captions of an image from others.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed. With several runs
    each seed has a folder in `--output`.

    **Examples**

    `capmeter train leic coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine machine.jsonl.gz
    --samples samples.jsonl.gz -o leic/`

    `capmeter train leic flickr30k=flickr30k_references.jsonl.gz --exclusions training_exclusions.json.gz
    --preset flickr8k -o leic-flickr/`
    """
    with show_progress():
        held_out, scores = train_leic(options)
    several = options.runs > 1
    table_rows = [
        [source_name, f"{mean:.4f}", f"{std:.4f}" if several else "-"] for source_name, (mean, std) in scores.items()
    ]
    title = f"held-out images: s(Θ, D) of human captions and of each source of negatives ({held_out:,} images)"
    columns = ["captions", "s", f"deviation over {options.runs} runs"]
    data = {source_name: {"mean": mean, "deviation": deviation} for source_name, (mean, deviation) in scores.items()}
    show(Table(title, columns, table_rows, [False, True, True]), data, table.format)


def parser(options: ParserOptions, table: FormatOptions) -> None:
    """Train the caption parser on the parses of another parser, or evaluate it on held-out photos.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed.

    **Examples**

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --output parser/`

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --evaluate`
    """
    with show_progress():
        version, scores = train_parser(options)
    scores_by_form = {form_name: asdict(form_scores) for form_name, form_scores in scores.items()}
    columns = ["form", *(field.name for field in fields(ParserScores))]
    table_rows = [[form_name, *score_values.values()] for form_name, score_values in scores_by_form.items()]
    content = Table("held-out captions, %", columns, table_rows, [False] + [True] * (len(columns) - 1))
    show(content, {"parser": version, "held_out": scores_by_form}, table.format)
    echo(f"parser: {version}")


def regressor(options: RegressorOptions, table: FormatOptions) -> None:
    """Train a head on an encoder that predicts human scores, for `regressor(checkpoint=FOLDER)`.

    One image in ten, at least two, is held out and selects the epoch. With --tune the joint encoder is fine-tuned and
    becomes part of the checkpoint. The shape `infometic` also learns which words are wrong, where that is known: on
    synthetic scenes. Without pictures the head reads the texts alone, with the encoder `minilm` (the shape `text`).
    Do not evaluate on a benchmark whose judgments were trained on. An interrupted run is resumed.

    **Examples**

    `capmeter train regressor ratings.jsonl --images-root photos/ --encoder clip --text-encoder minilm -o head/`

    `capmeter train regressor ratings.jsonl --shape text -o head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --output head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --tune 0.1 --output head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --shape infometic --output head/`
    """
    with show_progress():
        outcome = train_regressor(options)
    table_rows = [[score_name, f"{value:.4f}"] for score_name, value in outcome.scores.items()]
    data = {"epoch": outcome.epoch, "held_out": dict(outcome.scores)}
    show(Table("held-out images", ["score", "value"], table_rows, [False, True]), data, table.format)
    echo(f"regressor: {options.output}")


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
        report = train_scene_graph_parser(options)
    score_row = [round(value, 2) for value in report.values.values()]
    content = Table(report.subject, list(report.values), [score_row], [True] * len(score_row))
    show(content, {"parser": report.version, "values": report.values}, table.format)
    echo(f"scene-graph parser: {report.version}")


def scene_encoder(options: SceneEncoderOptions, table: FormatOptions) -> None:
    """Train the encoder of pictures and regions of synthetic scenes; no file is needed.

    An interrupted run is resumed. The defaults take about twenty minutes on one core, and give the bundled encoder.

    **Examples**

    `capmeter train scene-encoder --output scene-encoder/`

    `capmeter train scene-encoder --output large/ --pictures 40000 --epochs 16 --device cuda --workers 8`
    """
    with show_progress():
        outcome = train_scene_encoder(options)
    _show_scores(outcome.epoch, outcome.scores, table.format)
    echo(f"scene encoder: {options.output}")


def attribute_reader(options: AttributeReaderOptions, table: FormatOptions) -> None:
    """Train the reader that turns a picture of a synthetic scene into a table of its objects; no file is needed.

    Its table is the picture's feature for critics of synthetic scenes: `leic(checkpoint=FOLDER,features=world-reader)`.
    It starts from the scene encoder, which is fine-tuned. An interrupted run is resumed. The defaults take about half
    an hour on one core, and give the bundled reader.

    **Examples**

    `capmeter train attribute-reader --output attribute-reader/`

    `capmeter train attribute-reader --encoder scene-encoder/ --output reader/ --pictures 40000`
    """
    with show_progress():
        outcome = train_attribute_reader(options)
    _show_scores(outcome.epoch, outcome.scores, table.format)
    echo(f"attribute reader: {options.output}")


def scene_clip(options: SceneClipOptions, table: FormatOptions) -> None:
    """Train a small CLIP from scratch on synthetic scenes, for `clipscore(encoder=FOLDER)`; no file is needed.

    The image encoder is trained first, as in `capmeter train scene-encoder`; then the text encoder is trained to give
    captions the vectors of their pictures. An interrupted run is resumed.

    **Examples**

    `capmeter train scene-clip --output scene-clip/ --workers 2 --threads 2`

    `capmeter train scene-clip --output scene-clip/ --encoder scene-encoder/ --epochs 10`
    """
    with show_progress():
        outcome, scores = train_scene_clip(options)
    names = dict.fromkeys(name for each in scores.values() for name in each)
    table_rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    content = Table("held-out pictures", ["share of pictures", *scores], table_rows, [False] + [True] * len(scores))
    show(content, {"epoch": outcome.epoch, **scores}, table.format)
    echo(f"CLIP of synthetic scenes: {options.output}")


def _show_scores(epoch: int, scores: Mapping[str, float], format: str) -> None:
    table_rows = [[share_name, value] for share_name, value in scores.items()]
    content = Table("held-out pictures", ["share right", "value"], table_rows, [False, True])
    show(content, {"epoch": epoch, "held_out": dict(scores)}, format)


def text_encoder(options: TextEncoderOptions, table: FormatOptions) -> None:
    """Adapt a text encoder to captions: captions of similar photos get similar vectors. No human judgment is used.

    The folder, or its name in the folder of weights, can then be used as an encoder. An interrupted run is resumed by
    the same command.

    `capmeter train text-encoder coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --output minilm-captions/`

    `capmeter score results.json -r references.json -m "sbert(encoder=minilm-captions,pooling=centroid)"`
    """
    with show_progress():
        scores = train_text_encoder(options).scores
    table_rows = [[score_name, f"{value:.1f}"] for score_name, value in scores.items()]
    data = {"scores": dict(scores), "checkpoint": str(options.output)}
    show(Table("held-out photos, %", ["nearest references", "captions"], table_rows, [False, True]), data, table.format)
    echo(f"encoder: {options.output}")


def umic(options: UmicOptions, table: FormatOptions) -> None:
    """Train UMIC: a UNITER that ranks captions above their negatives.

    Fine-tuning has the paper's settings: margin .2, learning rate 2e-6, 4,000 steps of 64 captions with four negatives
    each, the checkpoint with the lowest loss on 25,000 held-out captions. An interrupted run is resumed. With `--runs`
    the table has mean and standard deviation, and the run with the lowest loss becomes the checkpoint.

    **Examples**

    `capmeter train umic captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --exclusions training_exclusions.json.gz --from uniter-base/ --output umic/ --runs 5`

    `capmeter train umic --scenes 5000 --encoder scene-encoder/ --output umic-scenes/ --workers 2`
    """
    with show_progress():
        scores = train_umic(options)
    table_rows = []
    for kind in scores["all"]:
        pairs = [split_scores[kind] for split_scores in scores.values()]
        cells = [f"{mean:.1f}" + (f" ± {deviation:.1f}" if options.runs > 1 else "") for mean, deviation in pairs]
        table_rows.append([kind, *cells])
    title = "held-out images: pairwise accuracy, true caption vs. its negative, %"
    data = {
        split_name: {kind: {"mean": mean, "spread": deviation} for kind, (mean, deviation) in split_scores.items()}
        for split_name, split_scores in scores.items()
    }
    settings = {"runs": options.runs, "negatives": str(parse_negatives(options.negatives))}
    content = Table(title, ["negative", *scores], table_rows, [False] + [True] * len(scores))
    show(content, {"umic": data, **settings, "output": str(options.output)}, table.format)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The published files, and the folder of the checkpoint."""

    state_dict: Path = argument(help="Published weights: uniter-base.pt, umic.pt …", metavar="FILE")
    vocabulary: Path = option(..., "vocab.txt of bert-base-cased.")
    output: Path = output_option("Write the checkpoint to this folder.")
    config: Path | None = option(None, "The model's JSON file, if its heads are not 64 wide.")


def import_uniter(options: ImportOptions) -> None:
    """Convert the published weights of UNITER or UMIC; nothing in the file is run.

    **Example**

    `capmeter train import-uniter umic.pt --vocabulary vocab.txt --output umic/`
    """
    require_torch()
    from capmeter_research.papers.umic.training.weights import convert_uniter

    checkpoint = convert_uniter(options.state_dict, options.vocabulary, options.output, options.config)
    head_names = [name.removesuffix(".weight") for name in checkpoint.weights if name.endswith("_output.weight")]
    shape = checkpoint.parameters["shape"]
    echo(f"{options.output}: {checkpoint.label}, {shape}, heads {', '.join(head_names) or 'none'}")


def writer(options: WriterOptions, table: FormatOptions) -> None:
    """Train the caption writer, which reads captions of a photo and writes a machine-like caption of it.

    Benchmark photos are left out; three per cent of the others are held out. An interrupted run is resumed.

    **Example**

    `capmeter train writer coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz
    --exclusions training_exclusions.json.gz --output writer/`
    """
    with show_progress():
        label, scores = train_writer(options)
    score_row = [label, *(f"{value:.3f}" for value in scores.values())]
    numeric = [False, *(True for _ in scores)]
    content = Table("held-out captions, per subword", ["writer", *scores], [score_row], numeric)
    show(content, {"writer": label, "held_out": dict(scores)}, table.format)


app.command("import-uniter")(import_uniter)
app.command("fluency")(fluency)
for _command in (
    *(capmeter, capmeter_large, lceval, leic, umic, parser, text_encoder, scene_graph_parser),
    *(writer, regressor, captioner),
    *(scene_encoder, attribute_reader, scene_clip),
):
    app.command(_command.__name__.replace("_", "-"))(_with_curves(_command))
