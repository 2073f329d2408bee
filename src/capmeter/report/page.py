"""The page: one file that shows what the numbers mean, without a network connection.

`write_page` brings together the table with its intervals, the plots, every caption with its scores, the evidence for
the most extreme captions, and how everything was computed. The page's data is compressed (see `payload`), its plots are
drawn in the browser by its own script, and a content security policy allows no other script: captions are treated as
hostile.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from capmeter._version import __version__
from capmeter.captions.files import write_atomic
from capmeter.errors import InputError, MissingBackend
from capmeter.meta.standing import standings, untested
from capmeter.metrics.scores import Results
from capmeter.report.curves import curves_of
from capmeter.report.page_checks import require_sound
from capmeter.report.page_data import ENDS, PageData, columns, endings
from capmeter.report.page_evidence import LONGEST, EvidenceTable, explainable, extremes, flatten, gather
from capmeter.report.page_table import letters_of, score_rows
from capmeter.report.pictures import MODES, Pictures, embed_pictures, link_pictures
from capmeter.report.system_plot import system_plot
from capmeter.stats.significance import LEVEL, alpha

SCRIPTS = ("data", "chart", "evidence", "list", "plots", "start")
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Written:
    """The written file: its path, its size, and how many captions it explains."""

    path: Path
    size: int
    captions: int
    explained: int


def write_page(
    systems: Mapping[str, Results],
    path: str | Path,
    *,
    title: str = "Caption scores",
    explained: int = 500,
    images: str = "link",
    images_root: str | Path = ".",
    megabytes: float = 5.0,
    human: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    command: str | None = None,
    training: Sequence[str | Path] = (),
) -> Written:
    """Writes the page of these systems' results, whole or not at all.

    Args:
        systems: name → results that hold their captions (`score`, or `read_all` of what `--output` wrote).
        path: the page's file.
        title: its heading.
        explained: for at most how many captions evidence is kept, if it fits.
        images: `link` pictures where paths or addresses were given, `embed` thumbnails of files, or `none`.
        images_root: the folder that relative paths of pictures are resolved against.
        megabytes: the page size up to which explanations and thumbnails are added.
        human: the system that holds human captions, for SMURF's overlap.
        resamples: resamples of images for intervals and comparisons.
        seed: seed of the resamples.
        command: the command line that makes the page, shown on it.
        training: folders of `capmeter train`, whose curves the page shows.
    """
    if images not in MODES:
        raise InputError(f"images is {images!r}; expected one of {', '.join(MODES)}")
    require_sound(systems)
    curves = [each for folder in training for each in curves_of(Path(folder))]
    target = Path(path)
    found = standings(systems, resamples=resamples, seed=seed)
    data = columns(systems, found)
    plot = system_plot(systems, human=human, seed=seed)
    letters = letters_of(list(systems))
    data.payload.head |= {"letters": [letters.get(name, "") for name in systems]}
    data.payload.head |= {"systemPlot": None if plot is None else plot.to_dict(), "pictures": []}
    drawn = sum(len(each.source) for each in curves)
    room = int(megabytes * MEGABYTE) - _fixed_size() - drawn - len(data.payload.text())
    table, kept, silent = _evidence(systems, data, explained, room // 2 if images == "embed" else room)
    data.payload.head["evidence"] = table.to_dict()
    order = [data.images[image] for image in _images_first(systems, data, kept)]
    pictures = Pictures({})
    if images == "link":
        pictures = link_pictures(data.places, target, Path(images_root))
    elif images == "embed":
        spent = _packed(table.to_dict())
        pictures = embed_pictures(data.places, order, Path(images_root), int((room - spent) * 0.95))
    data.payload.head["pictures"] = [pictures.sources.get(image) for image in data.images]
    total = sum(len(results.ids.names) for results in systems.values())
    notes = [*silent, *([pictures.note] if pictures.note else []), *_loading_notes(systems)]
    text = _rendered(
        {
            "title": title,
            "lead": _lead(systems),
            "plot": plot,
            "systems": list(systems),
            "endings": endings(systems),
            "ends": ENDS,
            "explained": _explained(len(kept), total),
            "protocol": _protocol(systems, resamples, seed),
            "commands": [line for line in dict.fromkeys([*(r.command for r in systems.values()), command]) if line],
            "signatures": _signatures(systems, list(found)),
            "notes": notes,
            "curves": curves,
            "linked": images == "link" and bool(pictures.sources),
            **score_rows(systems, found),
        },
        data.payload.text(),
    )
    # a half surrogate in a name has no UTF-8; as a character reference it is at least visible
    content = text.encode("utf-8", "xmlcharrefreplace")
    write_atomic(target, content)
    return Written(target, len(content), total, len(kept))


def _evidence(
    systems: Mapping[str, Results], data: PageData, explained: int, room: int
) -> tuple[EvidenceTable, list[int], list[str]]:
    """The evidence that fits, the rows of the page that it explains, and why some metrics have none."""
    rows = extremes(systems, explained)
    found, silent = gather(systems, rows, data.metrics)
    if long := sum(int((~explainable(results)).sum()) for results in systems.values()):
        noun = "caption is" if long == 1 else "captions are"
        silent.append(f"{long:,} {noun} not explained: the text or a reference has over {LONGEST:,} characters.")
    while True:
        table = EvidenceTable()
        kept: dict[int, None] = {}
        for (system, position), number, one in flatten({row: found[row] for row in rows}):
            kept[data.first_row[system] + position] = None
            table.add(number, data.first_row[system] + position, one)
        size = _packed(table.to_dict())
        if size <= room or not rows:
            return table, list(kept), silent
        rows = rows[: int(len(rows) * min(0.9, max(0.0, room / size) * 0.95))]


def _packed(value: Any) -> int:
    """The approximate size of this JSON value on the page, in bytes."""
    return len(base64.b64encode(gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 6)))


def _images_first(systems: Mapping[str, Results], data: PageData, kept: Sequence[int]) -> list[int]:
    """Images in the order in which thumbnails are made: those of explained captions first."""
    number = {image: k for k, image in enumerate(data.images)}
    of_row = [number[image] for results in systems.values() for image in results.ids.images]
    return list(dict.fromkeys([*(of_row[row] for row in kept), *of_row]))


def _read(name: str) -> str:
    return (files("capmeter.report") / "templates" / name).read_text(encoding="utf-8")


def _scripts() -> list[str]:
    return [_read(f"{name}.js") for name in SCRIPTS]


def _fixed_size() -> int:
    """The size of what every page contains, with allowance for its table and text."""
    return sum(len(script.encode()) for script in [*_scripts(), _read("page.css")]) + 40_000


def _rendered(context: Mapping[str, Any], payload: str) -> str:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingBackend("the page needs jinja2; install it with: pip install 'capmeter[report]'") from None
    # the text between <script> and </script> must equal what was hashed, so it must not contain the closing tag
    scripts = ["\n" + script.replace("</script", "<\\/script") for script in _scripts()]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    sources = "data: file: http: https:" if context["linked"] else "data:"
    environment = Environment(
        loader=FunctionLoader(lambda name: _read(name)), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2").render(
        context,
        version=__version__,
        policy=(
            f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src {sources}; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(_read("page.css")),
        scripts=[Markup(script) for script in scripts],
        payload=payload,
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _lead(systems: Mapping[str, Results]) -> str:
    captions = sum(len(results.ids.names) for results in systems.values())
    images = len({image for results in systems.values() for image in results.ids.images})
    metrics = len({metric for results in systems.values() for metric in results})
    return (
        f"{_many(captions, 'caption')} of {_many(images, 'image')} by {_many(len(systems), 'system')}, "
        f"measured by {_many(metrics, 'metric')}."
    )


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _explained(kept: int, total: int) -> str:
    if kept == 0:
        return "This page has no explanations; `capmeter explain` shows them."
    if kept == total:
        return "Open a caption for its references and for what each metric matched."
    return (
        f"Open a caption for its references. What each metric matched is shown for {kept:,} of the {total:,}: "
        "the worst and the best by each metric in each system, as many as fit on this page; "
        "`capmeter explain` shows the others."
    )


def _protocol(systems: Mapping[str, Results], resamples: int, seed: int) -> list[str]:
    lines = []
    for name, results in systems.items():
        captions = results.captions
        if captions is None:
            continue
        lengths = captions.references.lengths
        few, many = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        references = _many(few, "reference") if few == many else f"{few:,} to {_many(many, 'reference')}"
        lines.append(
            f"{name}: {_many(len(captions), 'caption')} of {_many(len(results.ids.clusters), 'image')}, "
            f"{references} each."
        )
    lines.append(
        f"Intervals: 95%, percentile bootstrap, {resamples:,} resamples of images, each with all its "
        f"captions; seed {seed}; corpus scores computed again in every resample."
    )
    if len(systems) > 1 and not untested(systems):
        lines.append(
            "Significance: paired permutation test, system labels are swapped within an image, two-sided, all pairs of "
            f"systems under one metric Holm-corrected, p <  {alpha(LEVEL):g}."
        )
    lines.append("Scores of captions are shown to three decimals; ranks and plots use five digits.")
    return lines


def _signatures(systems: Mapping[str, Results], metrics: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The signature of each metric, or its signatures with their systems."""
    rows = []
    for metric in metrics:
        users: dict[str, list[str]] = {}
        for name, results in systems.items():
            if metric in set(results):
                users.setdefault(results[metric].signature, []).append(name)
        one = len(users) == 1
        rows.append((metric, [text if one else f"{text} ({', '.join(names)})" for text, names in users.items()]))
    return rows


def _loading_notes(systems: Mapping[str, Results]) -> list[str]:
    """What was left out or renamed while the captions were read, and signatures that differ."""
    lines = []
    for name, results in systems.items():
        for reason, ids in results.notes.items():
            more = f" and {len(ids) - 5:,} more" if len(ids) > 5 else ""
            lines.append(f"{name}: {reason.replace('_', ' ')}: {', '.join(ids[:5])}{more}")
    for metric in dict.fromkeys(metric for results in systems.values() for metric in results):
        if len({results[metric].signature for results in systems.values() if metric in set(results)}) > 1:
            lines.append(f"{metric}: the systems' signatures differ, so their scores may not be comparable.")
    return lines
