"""The page: one file that shows what the numbers mean, without a network connection.

`write_page` brings together the table with its intervals, the plots, every caption with its scores, the evidence for
the most extreme captions, and how everything was computed. The page's data is compressed JSON (see `page_data`), its
plots are rendered in the browser by its own script, and a content security policy allows no other script: captions are
treated as hostile.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from capmeter._version import __version__
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.messages import describe, format_count
from capmeter.core.output_files import write_atomic
from capmeter.core.progress import task
from capmeter.core.settings import home_path
from capmeter.evaluation.results import Results, check_results
from capmeter.meta.system_ranking import explain_untested, rank_systems
from capmeter.report.page_data import (
    MAX_CHARACTERS,
    TRUNCATED,
    PackedEvidence,
    PageData,
    collect_evidence,
    extremes,
    is_explainable,
    pack_json,
    page_data,
    score_rows,
    truncated_rows,
)
from capmeter.report.score_table import describe_note, name_items
from capmeter.report.tables import name_metrics
from capmeter.stats.significance import LEVEL, significance_threshold

MODES = ("link", "embed", "none")
_SIDE = 240
_WEB = ("http://", "https://")


def _link_images(image_files: Mapping[str, str], page: Path, root: Path) -> tuple[dict[str, str], str]:
    """A link for each image: URLs unchanged, existing files relative to the page."""
    sources = {}
    missing_files = []
    for image, image_file in image_files.items():
        if image_file.lower().startswith(_WEB):
            sources[image] = image_file
        elif not _is_file(root / image_file):
            missing_files.append(image_file)
        else:
            try:
                relative_path = os.path.relpath(root / image_file, page.resolve().parent)
            except ValueError:  # another drive
                sources[image] = (root / image_file).resolve().as_uri()
            else:
                sources[image] = quote(Path(relative_path).as_posix(), errors="surrogateescape")
    note = ""
    if missing_files:
        note = (
            f"{len(missing_files):,} of {len(image_files):,} images were not found (--images-root names their folder)."
        )
    return sources, note


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null character
        return False


def _embed_images(
    image_files: Mapping[str, str], order: Iterable[str], root: Path, room: int
) -> tuple[dict[str, str], str]:
    """Thumbnails inside the page, in this order of images, until `room` bytes are used."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingBackend(
            "embedding images needs Pillow; install it with: pip install 'capmeter[report]', or use --images link"
        ) from None
    sources: dict[str, str] = {}
    used_bytes, web_count, broken = 0, 0, []
    images = [image for image in dict.fromkeys(order) if image in image_files]
    with task("thumbnails", total=len(images)) as advance:
        for image in images:
            advance(1)
            if image_files[image].lower().startswith(_WEB):
                web_count += 1
                continue
            thumbnail_bytes, image_file = io.BytesIO(), root / image_files[image]
            try:
                if image_file.exists() and not image_file.is_file():  # opening a pipe would wait for ever
                    raise OSError("not a file")
                with Image.open(image_file) as original:
                    original.draft("RGB", (_SIDE, _SIDE))
                    thumbnail = original.convert("RGB")
                    thumbnail.thumbnail((_SIDE, _SIDE))
                    thumbnail.save(thumbnail_bytes, "JPEG", quality=72, optimize=True)
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as problem:
                reason = problem.strerror if isinstance(problem, OSError) else None  # without the error's number
                broken.append(f"{image_files[image]} ({reason or problem})")
                continue
            source = "data:image/jpeg;base64," + base64.b64encode(thumbnail_bytes.getvalue()).decode("ascii")
            if used_bytes + len(source) > room:
                break
            used_bytes += len(source)
            sources[image] = source
    if images and len(broken) == len(images):
        raise InputError(
            f"none of the {len(images)} images could be read, the first: {broken[0]}; relative paths start at {root} "
            "(--images-root names another folder)"
        )
    note = f"{len(sources):,} of {len(images):,} images are embedded as thumbnails"
    reasons = [f"{web_count:,} are on the web and are never downloaded"] if web_count else []
    reasons += [f"{len(broken):,} could not be read (the first: {broken[0]})"] if broken else []
    omitted_count = len(images) - len(sources) - web_count - len(broken)
    reasons += [f"{omitted_count:,} had no room"] if omitted_count else []
    return sources, note + (f"; {', '.join(reasons)}" if reasons else "") + "."


SCRIPTS = ("data", "chart", "evidence", "list", "plots", "start")
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class WrittenPage:
    """The written file: its path, its size in bytes, its number of captions, and how many of them it explains."""

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
    megabytes: float = 20.0,
    resamples: int = 1000,
    seed: int = 0,
    command: str | None = None,
) -> WrittenPage:
    """Writes the page of these systems' results, whole or not at all.

    Args:
        systems: name → results that hold their captions (`score`, or `read_all` of what `--output` wrote).
        path: the page's file.
        title: its heading.
        explained: maximum number of captions with evidence, if it fits.
        images: `link` images whose paths or addresses are known, `embed` thumbnails of files, or `none`.
        images_root: the folder that relative paths of images are resolved against.
        megabytes: the page size up to which explanations and thumbnails are added.
        resamples: number of resamples of images for intervals and comparisons.
        seed: seed of the resamples.
        command: the command line that writes the page, shown on it.

    Raises:
        InputError: no results, results without captions, an unknown value of `images`, a wrong size, or no image
            could be read.
    """
    if images not in MODES:
        raise InputError(f"images is {images!r}; expected one of {', '.join(MODES)}")
    sizes_are_numbers = isinstance(explained, int) and isinstance(megabytes, int | float)
    if not (sizes_are_numbers and explained >= 0 and 0 < megabytes < math.inf):
        sizes = f"{describe(explained)} and {describe(megabytes)}"
        raise InputError(f"expected a number of explained captions, 0 or more, and of megabytes, but got {sizes}")
    check_results(systems)
    page_path, folder = home_path(path), home_path(images_root)
    rankings = rank_systems(systems, resamples=resamples, seed=seed)
    data = page_data(systems, rankings)
    fixed_texts = [*_scripts(), _read_template("page.css")]  # of every page; the table and text have an allowance
    fixed_bytes = sum(len(text.encode()) for text in fixed_texts) + 40_000
    free_bytes = int(megabytes * MEGABYTE) - fixed_bytes - len(pack_json(data.values))
    evidence_room = free_bytes // 2 if images == "embed" else free_bytes
    evidence, explained_rows, notes = _fit_evidence(systems, data, explained, evidence_room)
    image_links, image_note = dict[str, str](), ""
    if images == "link":
        image_links, image_note = _link_images(data.image_files, page_path, folder)
    elif images == "embed":  # those of explained captions first
        image_of = [image for results in systems.values() for image in results.ids.images]
        image_order = [*(image_of[row] for row in explained_rows), *image_of]
        room = int((free_bytes - len(pack_json(evidence.to_dict()))) * 0.95)
        image_links, image_note = _embed_images(data.image_files, image_order, folder, room)
    data.values.update(evidence=evidence.to_dict(), imageSources=[image_links.get(image) for image in data.images])
    caption_count = sum(len(results.ids.names) for results in systems.values())
    context = {
        "title": title,
        "explained": _explained(len(explained_rows), caption_count),
        "notes": [*notes, *filter(None, [image_note]), *_loading_notes(systems)],
        "linked": images == "link" and bool(image_links),
        **_method(systems, list(rankings), resamples, seed, command),
        **score_rows(systems, rankings),
    }
    content = _render(context, pack_json(data.values))
    write_atomic(page_path, content)
    return WrittenPage(page_path, len(content), caption_count, len(explained_rows))


def _fit_evidence(
    systems: Mapping[str, Results], data: PageData, explained: int, free_bytes: int
) -> tuple[PackedEvidence, list[int], list[str]]:
    """The evidence that fits, the rows of the page that it explains, and why some metrics or captions have none."""
    selected_captions = extremes(systems, min(explained, sum(len(each.ids.names) for each in systems.values())))
    evidence, notes = collect_evidence(systems, selected_captions, data.metrics)
    if long_count := sum(int((~is_explainable(results)).sum()) for results in systems.values()):
        captions = format_count(long_count, "caption is", "captions are")
        notes.append(f"{captions} not explained: the text or a reference has over {MAX_CHARACTERS:,} characters.")
    while True:
        evidence_table = PackedEvidence()
        page_rows: dict[int, None] = {}
        for system, position in selected_captions:
            page_row = data.first_row[system] + position
            for metric_index, metric_evidence in evidence[system, position]:
                page_rows[page_row] = None
                evidence_table.add(metric_index, page_row, metric_evidence)
        evidence_bytes = len(pack_json(evidence_table.to_dict()))
        if evidence_bytes <= free_bytes or not selected_captions:
            return evidence_table, list(page_rows), notes
        selected_captions = selected_captions[
            : int(len(selected_captions) * min(0.9, max(0.0, free_bytes / evidence_bytes) * 0.95))
        ]


def _read_template(file_name: str) -> str:
    return (files("capmeter.report") / "templates" / file_name).read_text(encoding="utf-8")


def _scripts() -> list[str]:
    return [_read_template(f"{name}.js") for name in SCRIPTS]


def _render(context: Mapping[str, Any], data: str) -> bytes:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingBackend("the page needs jinja2; install it with: pip install 'capmeter[report]'") from None
    # the text between <script> and </script> must equal what was hashed, so it must not contain the closing tag
    scripts = ["\n" + script.replace("</script", "<\\/script") for script in _scripts()]
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii") for script in scripts)
    script_hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    image_sources = "data: file: http: https:" if context["linked"] else "data:"
    environment = Environment(loader=FunctionLoader(_read_template), autoescape=True, undefined=StrictUndefined)
    page_text = environment.get_template("page.html.j2").render(
        context,
        version=__version__,
        policy=(
            f"default-src 'none'; script-src {script_hashes}; style-src 'unsafe-inline'; img-src {image_sources}; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(_read_template("page.css")),
        scripts=[Markup(script) for script in scripts],
        data=data,
    )
    # a half surrogate in a name has no UTF-8; as a character reference it is at least visible
    return page_text.encode("utf-8", "xmlcharrefreplace")


def _method(
    systems: Mapping[str, Results], metrics: Sequence[str], resamples: int, seed: int, command: str | None
) -> dict[str, Any]:
    """What the page says of its captions and of how the scores were computed."""
    commands = dict.fromkeys(map(str, filter(None, [*(results.command for results in systems.values()), command])))
    return {
        "lead": _lead(systems),
        "systems": list(systems),
        "truncated": truncated_rows(systems),
        "truncated_note": TRUNCATED,
        "protocol": _protocol(systems, resamples, seed),
        "commands": list(commands),
        "signatures": _signatures(systems, metrics),
    }


def _lead(systems: Mapping[str, Results]) -> str:
    caption_count = sum(len(results.ids.names) for results in systems.values())
    image_count = len({image for results in systems.values() for image in results.ids.images})
    metric_count = len({metric for results in systems.values() for metric in results})
    return (
        f"{format_count(caption_count, 'caption')} of {format_count(image_count, name_items(systems.values()))} by "
        f"{format_count(len(systems), 'system')}, measured by {format_count(metric_count, 'metric')}."
    )


def _explained(explained: int, total: int) -> str:
    if explained == 0:
        return "This page has no explanations; `capmeter explain` shows them."
    if explained == total:
        return "Open a caption for its references and for what each metric matched."
    return (
        f"Open a caption for its references. What each metric matched is shown for {explained:,} of the {total:,}: "
        "the worst and the best by each metric in each system, as many as fit on this page; "
        "`capmeter explain` shows the others."
    )


def _protocol(systems: Mapping[str, Results], resamples: int, seed: int) -> list[str]:
    lines, noun = [], name_items(systems.values())
    for name, results in systems.items():
        captions = results.captions
        if captions is None:
            continue
        lengths = captions.references.lengths
        fewest, most = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        references = (
            format_count(fewest, "reference") if fewest == most else f"{fewest:,} to {format_count(most, 'reference')}"
        )
        lines.append(
            f"{name}: {format_count(len(captions), 'caption')} of {format_count(len(results.ids.clusters), noun)}, "
            f"{references} each."
        )
    lines.append(
        f"Intervals: 95%, percentile bootstrap, {resamples:,} resamples of {noun}s, each with all its "
        f"captions; seed {seed}; corpus scores computed again in every resample."
    )
    if len(systems) > 1 and not explain_untested(systems):
        lines.append(
            f"Significance: paired permutation test, system labels are swapped by {noun}, two-sided, all pairs of "
            f"systems under one metric Holm-corrected, p <  {significance_threshold(LEVEL):g}."
        )
    lines.append("Scores of captions are shown to three decimals; ranks and plots use five digits.")
    return lines


def _signatures(systems: Mapping[str, Results], metrics: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Each metric's short and full name, with its signature, or its signatures with their systems."""
    signature_rows: list[tuple[str, str, list[str]]] = []
    for metric, short in name_metrics(metrics).items():
        signature_users: dict[str, list[str]] = {}
        for system_name, results in systems.items():
            if metric in set(results):
                signature_users.setdefault(results[metric].signature, []).append(system_name)
        texts = [f"{text} ({', '.join(names)})" for text, names in signature_users.items()]
        signature_rows.append((short, metric, texts if len(texts) > 1 else list(signature_users)))
    return signature_rows


def _loading_notes(systems: Mapping[str, Results]) -> list[str]:
    """What was skipped or renamed while the captions were read, and signatures that differ."""
    lines = []
    for system_name, results in systems.items():
        for reason, ids in results.notes.items():
            lines.append(f"{system_name}: {describe_note(reason, ids, results.ids.positions)}")
    for metric in dict.fromkeys(metric for results in systems.values() for metric in results):
        if len({results[metric].signature for results in systems.values() if metric in set(results)}) > 1:
            lines.append(f"{metric}: the systems' signatures differ, so their scores may not be comparable.")
    return lines
