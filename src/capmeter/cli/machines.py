"""`capmeter study machines`: what captions of machines are like."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Format, Seed
from capmeter.cli.output import show
from capmeter.errors import InputError
from capmeter.progress import shown
from capmeter.report.tables import Table


def machines(
    files: list[str] = typer.Argument(
        ..., help="Captions of systems with references, as SOURCE=FILE, in any format.", metavar="SOURCE=FILE..."
    ),
    corpus: list[str] = typer.Option(
        ..., "--corpus", help="What the writer was trained on, as SOURCE=FILE or `coco=pycocoevalcap`; repeatable."
    ),
    exclusions: Path = typer.Option(
        ..., "--exclusions", help="Photos of benchmarks, whose captions are never used (gzipped JSON)."
    ),
    written: list[Path] = typer.Option([], "--written", help="Captions by `capmeter write` for the same photos."),
    critic: list[str] = typer.Option(
        [], "--critic", help="Also how well a metric, `METRIC` or `NAME=METRIC`, tells people's captions; repeatable."
    ),
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Compare written captions with those of real systems: perplexity, length, variety, novelty, CIDEr-D.

    Perplexity is per word under a trigram model of the held-out photos of the corpus. CIDEr-D is against all captions
    of a photo but one: the one that was read, or one that is drawn. A critic's value is the share of pairs in which the
    person's caption has the higher score: 0.5 by chance.

    **Examples**

    `capmeter study machines coco=coco_karpathy_test_captions.jsonl.gz --written written.jsonl.gz
    --corpus coco=pycocoevalcap --exclusions training_exclusions.json.gz`

    `capmeter study machines coco=coco_karpathy_test_captions.jsonl.gz --corpus coco=pycocoevalcap
    --exclusions training_exclusions.json.gz --critic lceval --critic "of-mrnn=lceval(checkpoint=networks/of-mrnn)"`
    """
    from capmeter.captions.io import load_systems
    from capmeter.learning.corpus import Photo, named_file, photo_number, read_corpus
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.writer.machine import read_rows
    from capmeter.learning.writer.measures import Known, describe
    from capmeter.metrics.registry import parse

    named = [(name, parse(metric)) for name, metric in map(_named_metric, critic)]
    critics = {name or str(metric): metric for name, metric in named}
    with shown():
        photos: dict[str, Photo] = {}
        systems: dict[str, dict[str, str]] = {}
        for given in files:
            source, file = named_file(given)
            for system, captions in load_systems(file).items():
                for each in captions:
                    photo = Photo(source, photo_number(source, each.image_id), each.references)
                    key = f"{source} {photo.number}"
                    photos.setdefault(key, photo)
                    systems.setdefault(system, {})[key] = each.candidate
        read: dict[str, dict[str, list[int]]] = {}
        for path in written:
            for row in read_rows(path):
                key = f"{row.source} {row.photo}"
                if key not in photos:
                    raise InputError(
                        f"{path}: photo {row.photo} of {row.source} is in none of the files; write for these"
                    )
                systems.setdefault(row.system, {})[key] = row.candidate
                read.setdefault(row.system, {})[key] = list(row.read)
        common = set(photos).intersection(*systems.values())  # measures of different photos are not comparable
        if not common:
            raise InputError("no photo has captions of all systems; write for the photos of the files")
        if len(common) < len(photos):
            say(f"{len(common):,} of {len(photos):,} photos have captions of all systems; the others are left out")
        systems = {system: {key: texts[key] for key in photos if key in common} for system, texts in systems.items()}
        photos = {key: photo for key, photo in photos.items() if key in common}
        listed = read_exclusions(exclusions)
        known = Known.of([photo for each in corpus for photo in read_corpus(*named_file(each), listed).photos])
        found = describe(systems, read, photos, known, seed, critics)
    digits = {"captions": 0, "perplexity": 1, "words": 1}
    rows = [
        [system, *(f"{value:.{digits.get(name, 3)}f}" for name, value in each.to_dict().items())]
        for system, each in found.items()
    ]
    columns = ["system", *next(iter(found.values())).to_dict()]
    note = "perplexity: trigrams of held-out photos; cider_d: against all captions of the photo but one"
    table = Table("captions of machines", columns, rows, [False] + [True] * (len(columns) - 1), note)
    show(table, {"systems": {system: each.to_dict() for system, each in found.items()}}, format)


def _named_metric(given: str) -> tuple[str | None, str]:
    """Name and metric of `NAME=METRIC`; a metric's own parameters stand in parentheses."""
    name, equals, metric = given.partition("=")
    return (name, metric) if equals and "(" not in name else (None, given)
