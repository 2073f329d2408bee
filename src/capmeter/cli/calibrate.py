"""`capmeter calibrate`: an encoder's baseline similarities, estimated from captions alone."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.captions.load import load_references
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.options import DeviceOptions, encoder_option, format_option, seed_option
from capmeter.cli.output import show
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import show_progress
from capmeter.metrics.embedding.bertscore import bundled_calibration, find_threshold_metric
from capmeter.metrics.embedding.bertscore import calibrate as estimate_baselines
from capmeter.report.tables import Table

app = Application()


@dataclass(frozen=True, kw_only=True)
class _CalibrateOptions:
    """The captions and the encoder."""

    captions: str = argument(help="Captions of at least two images, in any format.", metavar="FILE")
    encoder: str = encoder_option()
    layer: int | None = option(None, "The layer (default: the last).")
    pairs: int = option(10000, "Number of pairs of captions of different images.", minimum=1)
    seed: int = seed_option()
    load: LoadOptions = option_group(LoadOptions, "split", "columns")
    compute: DeviceOptions = option_group(DeviceOptions, "device")
    format: str = format_option()


@app.command()
def calibrate(options: _CalibrateOptions) -> None:
    """Find TBR's threshold β and BERTScore's baseline for an encoder, without human judgments.

    Both are the mean greedy match between captions of different images: the similarity of unrelated captions.

    **Examples**

    `capmeter calibrate captions_train2014.json --encoder minilm`

    `capmeter calibrate dataset_flickr8k.json --split train --encoder roberta --layer 17 --pairs 2000`
    """
    encoder = options.encoder
    with show_progress():
        references = load_references(options.captions, options=options.load)
        captions = [(image_id, sentence) for image_id, sentences in references.items() for sentence in sentences]
        result = estimate_baselines(
            captions,
            encoder,
            options.layer,
            pairs=options.pairs,
            seed=options.seed,
            settings=options.compute.settings(),
        )
    baseline_values = dict(zip(("beta", "precision", "recall", "f1"), (result.beta, *result.baseline), strict=True))
    labels = (f"{find_threshold_metric()}: beta", *(f"bertscore: baseline {part}" for part in ("P", "R", "F1")))
    table_rows = [
        [label, f"{value:.4f}", "" if bundled is None else f"{bundled:g}"]
        for label, value, bundled in zip(
            labels, baseline_values.values(), bundled_calibration(encoder, result.layer), strict=True
        )
        if value is not None  # of beta where no installed package has TBR
    ]
    pairs = format_count(result.pairs, "pair")
    title = f"{encoder}, layer {result.layer}: {pairs}"
    title += f", standard error of beta {result.error:.4f}" if result.error is not None else ""
    data = {"encoder": encoder, "layer": result.layer, "pairs": result.pairs, "seed": options.seed}
    table = Table(title, ["value", "measured", "bundled"], table_rows, [False, True, True])
    show(table, {**data, "error": result.error, **baseline_values}, options.format)
