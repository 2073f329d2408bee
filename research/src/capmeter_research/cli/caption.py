"""`capmeter caption`: captions of images by a trained captioner."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.load import load_references
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.output import refuse_shared_files
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls, format_count
from capmeter.core.options import option
from capmeter.core.output_files import check_targets, text_writer
from capmeter.core.progress import show_progress
from capmeter_research.common.options import device_option, device_settings, seed_option

_COCO = re.compile(r"(?:coco_(?:train|val|test)\d{4}_)?0*([0-9]+)", re.IGNORECASE)
app = Application()


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """The captioner, the images, and how captions are decoded."""

    output: Path = option(..., "Write the captions to this file, in COCO's results format.", "--output", "-o")
    captioner: str = option(..., "The captioner: a folder of `train captioner`.")
    regions: str = option("", "Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB.")
    images: str | None = option(None, "Caption the images of these captions or references only (any format).")
    decode: str = option("beam", "greedy, beam, sample, or captioner(decode=…,beams=5,temperature=1.0).")
    samples: int = option(1, "Captions for each image, with --decode sample.", minimum=1)
    shuffle: bool = option(
        False, "Caption every image from another's regions: a control, whose scores should collapse."
    )
    device: str | None = device_option()
    seed: int = seed_option()

    def __post_init__(self) -> None:
        if not self.regions:
            raise InputError("expected the regions of the images: --regions")


@app.command()
def caption(options: CaptionOptions) -> None:
    """Caption images from their regions.

    The output is a list of `{"image_id", "caption"}`, for `capmeter score` and COCO's evaluation server; with
    `--samples` an image occurs several times.

    **Examples**

    `capmeter caption --captioner captioner/ --regions scenes/regions -o results.json`

    `capmeter caption --captioner captioner/ --regions coco/ --images captions_val2014.json --decode greedy
    -o results.json`
    """
    from capmeter.encoders.batches import device_name
    from capmeter_research.papers.subicap.captioner import Captioner, parse_decoding
    from capmeter_research.papers.subicap.examples import uncaptioned_pictures

    check_targets(options.output)
    refuse_shared_files([options.images, options.regions], output=options.output)
    decoding = parse_decoding(options.decode)
    settings = device_settings(options.device)
    captioner = Captioner(options.captioner, device=device_name(settings.device))
    image_names = None if options.images is None else list(load_references(options.images))
    with show_progress():
        images = uncaptioned_pictures(options.regions, image_names)
        inputs = images.shuffled(options.seed) if options.shuffle else images
        captions = captioner.write(inputs, decoding, samples=options.samples, seed=options.seed)
    image_ids = [image_id for image_id in images.ids for _ in range(options.samples)]
    caption_rows = [
        {"image_id": _coco_id(image_id), "caption": text} for image_id, text in zip(image_ids, captions, strict=True)
    ]
    with text_writer(options.output) as file:
        file.write(json.dumps(caption_rows, ensure_ascii=False, indent=0) + "\n")
    target = escape_controls(str(options.output))
    count_text = f"{format_count(len(caption_rows), 'caption')} of {format_count(len(images), 'image')}"
    echo(f"{target}: {count_text} by {captioner.label}, {decoding}")


def _coco_id(image_name: str) -> int | str:
    """COCO's ids are numbers: 391895, also of COCO_val2014_000000391895; other names stay."""
    coco_match = _COCO.fullmatch(image_name)
    return int(coco_match.group(1)) if coco_match else image_name
