"""`capmeter study captioner`: Tables A.1 to A.3 of SubICap's appendix, with the paper's values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions, metrics_option
from capmeter.cli.output import show
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse_list
from capmeter_research.common.corpus import read_corpus, split_source_file
from capmeter_research.common.options import (
    device_option,
    device_settings,
    output_option,
    override,
    require_torch,
    seed_option,
    threads_option,
)
from capmeter_research.papers.subicap.experiments import report
from capmeter_research.papers.subicap.recipe import WORLD, WORLD_SELF_CRITICAL
from capmeter_research.papers.subicap.train import SceneOptions, frozen_rewards

app = Application(no_args_is_help=True, help="Studies of the captioner.")
ENTRIES = {"word": 500, "bpe": 500, "unigram": 400, "char": 95}
"""The vocabularies for captions of synthetic scenes, which have some 230 words."""


@dataclass(frozen=True, kw_only=True)
class LengthOptions:
    """The captions to segment."""

    captions: str = argument(
        "coco=pycocoevalcap",
        "Captions as SOURCE=FILE; `coco=pycocoevalcap` has those of COCO 2014 (train and val).",
        metavar="SOURCE=FILE",
    )
    photos: int = option(0, "Number of photos, sampled by the seed (0: all).", minimum=0)
    seed: int = seed_option()


@app.command()
def lengths(options: LengthOptions, table: FormatOptions) -> None:
    """Count how many tokens leave 99 % of the captions unaltered, by vocabulary (Table A.1).

    `capmeter study captioner lengths --photos 20000`
    """
    from capmeter_research.papers.subicap.study import token_lengths

    with show_progress():
        source, file = split_source_file(options.captions)
        photos = read_corpus(source, file, {source: frozenset()}).sample(options.photos, options.seed)
        caption_texts = [text for photo in photos for text in photo.captions]
        echo(f"{source}: {format_count(len(caption_texts), 'caption')} of {format_count(len(photos), 'photo')}")
        length_rows = list(token_lengths(caption_texts))
    show(report.length_table(length_rows), report.length_to_dict(length_rows), table.format)


def _parse_entries(entry_texts: list[str]) -> dict[str, int]:
    """Entries by segmentation, of `KIND` or `KIND=ENTRIES`."""
    entries = {}
    for entry_text in entry_texts:
        segmentation_kind, equals, entry_count = entry_text.partition("=")
        if segmentation_kind not in ENTRIES or (equals and not entry_count.isdecimal()):
            raise InputError(
                f"{entry_text!r} is not one of {', '.join(ENTRIES)}, or one with its entries, such as bpe=500"
            )
        entries[segmentation_kind] = int(entry_count) if equals else ENTRIES[segmentation_kind]
    return entries


@dataclass(frozen=True, kw_only=True)
class SegmentationOptions:
    """The segmentations, and the settings of the captioners."""

    output: Path = output_option("Folder of the captioners; a stopped study is resumed.")
    segmentation: list[str] = option(
        [],
        f"Only this one of {', '.join(ENTRIES)}, or with its entries, such as bpe=500; repeatable (default: all).",
        check=_parse_entries,
    )
    scenes: int = option(1000, "Number of synthetic scenes to train on.", minimum=1)
    synthetic: SceneOptions = SceneOptions()
    epochs: int | None = option(None, "Epochs of cross-entropy (default: as in training).", minimum=1)
    self_critical_epochs: int | None = option(
        None, "Epochs of self-critical training (default: as for cross-entropy).", minimum=1
    )
    metrics: str = metrics_option("bleu-1,bleu-2,bleu-3,bleu-4,meteor,rouge-l,cider-d,spice")
    threads: int = threads_option()
    device: str | None = device_option()
    seed: int = seed_option()


@app.command()
def segmentations(options: SegmentationOptions, table: FormatOptions) -> None:
    """Train captioners of synthetic scenes on words, characters and subwords, and compare them (Tables A.2 and A.3).

    `capmeter study captioner segmentations --scenes 1000 --output segmentations/`
    """
    require_torch(options.threads)
    from capmeter.encoders.batches import device_name
    from capmeter_research.papers.subicap.captioner import Captioner
    from capmeter_research.papers.subicap.run import END_WORD, train_captioner
    from capmeter_research.papers.subicap.study import segmented

    settings = device_settings(options.device)
    device, rewards = device_name(settings.device), frozen_rewards(settings)
    metrics = parse_list(options.metrics)
    recipe = override(WORLD, options, "epochs", "seed")
    self_critical = override(WORLD_SELF_CRITICAL, options, "seed", epochs=options.self_critical_epochs)
    row_by_kind = {}
    with show_progress():
        train, dev, test = options.synthetic.read(options.scenes, options.seed, device)
        for kind, entries in (_parse_entries(options.segmentation) or ENTRIES).items():
            settings_of_kind = replace(recipe, segmentation=kind, pieces=entries)
            folder = options.output / kind
            train_captioner(train, dev, settings_of_kind, self_critical, folder, rewards, end=END_WORD, device=device)
            row_by_kind[kind] = segmented(Captioner(folder, device=device), test, metrics, settings)
            echo(f"{kind}: {', '.join(f'{name} {value:.3f}' for name, value in row_by_kind[kind].scores.items())}")
    show(report.segmentation_table(row_by_kind), report.segmentation_to_dict(row_by_kind), table.format)
