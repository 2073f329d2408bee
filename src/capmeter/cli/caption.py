"""`capmeter caption`: captions of pictures by a trained captioner."""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Regions, Seed, settings_of
from capmeter.printable import printable
from capmeter.progress import shown

_COCO = re.compile(r"(?:coco_(?:train|val|test)\d{4}_)?0*([0-9]+)", re.IGNORECASE)
app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def caption(
    output: Path = typer.Option(..., "--output", "-o", help="Write the captions here, in COCO's results format."),
    captioner: str = typer.Option(..., "--captioner", help="The captioner: a folder of `train captioner`."),
    regions: Regions = "",
    images: str | None = typer.Option(
        None, "--images", help="Caption the images of these captions or references only (any format)."
    ),
    decode: str = typer.Option(
        "beam", "--decode", help="greedy, beam, sample, or captioner(decode=…,beams=5,temperature=1.0)."
    ),
    samples: int = typer.Option(1, help="Captions for each image, with --decode sample.", min=1),
    shuffle: bool = typer.Option(
        False, "--shuffle", help="Caption every image from another's regions: a control, whose scores should collapse."
    ),
    device: Device = None,
    seed: Seed = 0,
) -> None:
    """Caption images from their regions.

    The output is a list of `{"image_id", "caption"}`, for `capmeter score` and COCO's evaluation server; with
    `--samples` an image occurs several times.

    **Examples**

    `capmeter caption --captioner captioner/ --regions made/regions -o results.json`

    `capmeter caption --captioner captioner/ --regions coco/ --images captions_val2014.json --decode greedy
    -o results.json`
    """
    from capmeter.captions.files import check_targets, text_writer
    from capmeter.captions.io import load_references
    from capmeter.encoders.encoder import device_name
    from capmeter.learning.captioner.captioner import Captioner, parse_decoding
    from capmeter.learning.captioner.examples import uncaptioned_pictures

    if not regions:
        raise typer.BadParameter("expected the regions of the images", param_hint="--regions")
    check_targets(output)
    how = parse_decoding(decode)
    made = Captioner(captioner, device=device_name(settings_of(device).device))
    names = None if images is None else list(load_references(images))
    with shown():
        pictures = uncaptioned_pictures(regions, names)
        written = made.write(pictures.shuffled(seed) if shuffle else pictures, how, samples=samples, seed=seed)
    ids = [image for image in pictures.ids for _ in range(samples)]
    rows = [{"image_id": _image_id(image), "caption": text} for image, text in zip(ids, written, strict=True)]
    with text_writer(output) as file:
        file.write(json.dumps(rows, ensure_ascii=False, indent=0) + "\n")
    say(f"{printable(str(output))}: {len(rows):,} captions of {len(pictures):,} images by {made.label}, {how}")


def _image_id(image: str) -> int | str:
    """COCO's ids are numbers: 391895, also of COCO_val2014_000000391895; other names stay."""
    found = _COCO.fullmatch(image)
    return int(found.group(1)) if found else image
