"""Candidates are matched with their references: by image id, else by the image's file name or COCO number.

A `CaptionLoader` reads candidates and, by `read_references`, references; it completes the candidates with the
references, pictures and events of their images, and makes a `CaptionSet` of them.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import PurePosixPath
from typing import Literal, cast

from capmeter.captions.caption_set import CaptionSet, Events, VideoEvents
from capmeter.captions.clean_texts import clean_chat_artifacts, render_markdown
from capmeter.captions.containers import WHOLE, Span
from capmeter.captions.layouts import suggest_names
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.reading import RowReader, open_rows
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.sources import PictureFiles
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count, list_names, shorten

Notes = dict[str, list[str]]
IMAGE_ID = "image id"
CLEANED = {"chat-artifacts": "cleaned of chat artifacts", "markdown": "read as what its Markdown renders"}
"""The note with the ids of the captions that each kind of `--clean` changed."""
_CLEANERS = {"chat-artifacts": clean_chat_artifacts, "markdown": render_markdown}
_BY_TIME = "events joined by time, which is not their order in the file"
_MORE_EVENTS = "more events than pred_event_count, all of which are read: keep the best of each video to compare"
_ENDING = re.compile(r"(?<=.)\.(?:0|\d?[A-Za-z][^.\s]*\s*)\Z", re.DOTALL)  # .jpg, .7z; not the 5 of "1.5"
_COCO_NUMBER = re.compile(r"(?:COCO_[A-Za-z0-9]+_)?(\d+)(?:\.[A-Za-z]+)?", re.ASCII)
_PATH = re.compile(
    r"(?:[A-Za-z]:)?[\w.\-~/\\%]*\.(?:jsonl?|csv|tsv|txt|parquet|gz|zip|jpe?g|png|gif|webp|bmp|tiff?|npy|npz|pkl|h5)",
    re.IGNORECASE,
)


def _file_name(image: str) -> str:
    image = image.replace("\\", "/").strip()  # of Windows, and of cells of tables
    file_name = PurePosixPath(image).name if "/" in image or image == "." else image
    return file_name if file_name.isascii() else unicodedata.normalize("NFC", file_name)


def file_stem(image: str) -> str:
    """The name of an image without folder and ending."""
    return _ENDING.sub("", _file_name(image))


def _coco_number(image: str) -> str:
    match = _COCO_NUMBER.fullmatch(_file_name(image))
    return match[1].lstrip("0") or "0" if match else ""


KEYS: dict[str, Callable[[str], str]] = {
    "file name": _file_name,
    "file name without its ending": file_stem,
    "COCO number in the file name": _coco_number,
}
"""By what an image of the candidates can equal one of the references if not by its id, in the order of preference."""


@dataclass
class ReferenceTable:
    """The references of all images.

    name, format: those of the source, or of the first of several.
    rows: of each image a row with all of its references, its picture, aliases and split, and the events of each
        reference.
    by_annotator: the references of each image and annotator, where the source names annotators.
    readers: what reads the sources.
    """

    name: str
    format: str = ""
    rows: dict[str, CaptionRow] = field(default_factory=dict)
    by_annotator: defaultdict[tuple[str, str], tuple[str, ...]] = field(default_factory=lambda: defaultdict(tuple))
    readers: list[RowReader] = field(default_factory=list)

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Each image's texts."""
        return {image_id: row.references or () for image_id, row in self.rows.items()}

    @property
    def images(self) -> dict[str, str]:
        """Each image's picture, if the source names it."""
        return {image_id: row.image for image_id, row in self.rows.items() if row.image is not None}

    @property
    def omitted(self) -> dict[str, str]:
        """The images of which a reference is marked as unusable, and by which field."""
        return {image_id: row.omitted for image_id, row in self.rows.items() if row.omitted is not None}

    def add(self, other: ReferenceTable) -> None:
        """Adds the references of another source, image by image."""
        if "list" in (self.format, other.format) and len(self.rows) != len(other.rows):
            raise InputError(
                f"{self.name} has references of {len(self.rows):,} images, {other.name} of {len(other.rows):,}; in "
                "lists the k-th belongs to the k-th: make both equally long"
            )
        self.name += f" and {other.name}"
        self.readers += other.readers
        for image_id, row in other.rows.items():
            earlier = self.rows.setdefault(image_id, row)
            if earlier is not row:
                earlier.references = (*(earlier.references or ()), *(row.references or ()))
                earlier.reference_events += row.reference_events
                earlier.aliases += row.aliases
                earlier.image, earlier.split = earlier.image or row.image, earlier.split or row.split
                earlier.omitted = row.omitted or earlier.omitted
        for key, texts in other.by_annotator.items():
            self.by_annotator[key] += texts


def collect_references(rows: Iterable[CaptionRow], name: str, splits: Collection[str] = ()) -> ReferenceTable:
    """Groups rows of references by image.

    Args:
        rows: rows with references.
        name: the source's name, for messages.
        splits: keeps only the images of these splits, if any.

    Raises:
        InputError: two rows give an image different lists of references or different splits, or there are none.
    """
    table = ReferenceTable(name)
    texts: dict[str, list[str]] = {}  # of images with several rows
    all_splits: set[str] = set()
    for row in rows:
        if row.split is not None:
            all_splits.add(row.split)
        if splits and row.split not in splits:
            continue
        image_id, references = row.image_id, row.references or ()
        first = table.rows.setdefault(image_id, row)
        if row.annotator is not None and row.events is None:
            table.by_annotator[image_id, row.annotator] += references
        if first is row:
            continue
        if row.split is not None and row.split != (first.split or row.split):
            raise InputError(
                f"{row.location}: image {image_id!a} is of the split {row.split!a} here and of {first.split!a} before: "
                "two images with one id; choose one split (split=, --split)"
            )
        first.split, first.omitted = first.split or row.split, row.omitted or first.omitted
        if row.one_of_many or not first.reference_events:
            first.reference_events += row.reference_events
        if row.one_of_many or image_id in texts:
            texts.setdefault(image_id, list(first.references or ())).extend(references)
        elif (first.references or ()) != references:
            raise InputError(
                f"{row.location}: image {image_id!a} has different references here than at {first.location}; give each "
                "image one list of references"
            )
    if absent_splits := [split_name for split_name in splits if split_name not in all_splits]:
        named = list_names(sorted(all_splits)) or "not named"
        raise InputError(f"{name}: no image belongs to the split {absent_splits[0]!a}; the splits are {named}")
    if not table.rows:
        raise InputError(f"{name}: there are no references")
    for image_id, image_texts in texts.items():
        table.rows[image_id].references = tuple(image_texts)
    return table


def read_references(options: LoadOptions) -> ReferenceTable | None:
    """The references of a separate source, or of several files, joined by image; None without any.

    Raises:
        InputError: a file cannot be read, or is named twice.
    """
    if options.references is None:
        return None
    # their own columns, and those of candidates for other fields
    own_columns = dict(options.reference_columns or {})
    columns = {name: field for name, field in (options.columns or {}).items() if field not in own_columns.values()}
    readers = [
        open_rows(each, options.references_format, side="references", columns=columns | own_columns)
        for each in options.reference_files or [options.references]
    ]
    file_paths = [reader.path for reader in readers if reader.path is not None]
    for path_index, file_path in enumerate(file_paths):
        if any(file_path.samefile(earlier_path) for earlier_path in file_paths[:path_index]):
            raise InputError(f"{readers[path_index].name} is named twice as references; name each file once")
    table, *others = (read_table(reader, options.splits) for reader in readers)
    for other in others:
        table.add(other)
    _refuse_paths([text for texts in table.references.values() for text in texts], table.name, "references")
    return table


def read_table(reader: RowReader, splits: Collection[str] = ()) -> ReferenceTable:
    """The references of one source."""
    table = collect_references(reader.rows("references"), reader.name, splits)
    table.format, table.readers = reader.format, [reader]
    return table


@dataclass
class Matching:
    """Which images of the references those of the candidates are.

    key: by what most of them are matched: `IMAGE_ID`, or one of `KEYS`.
    rows: the row of references of each matched image.
    ambiguous: of images that match none because their name could mean several, or several have it: the names, by image.
    """

    key: str
    rows: dict[str, CaptionRow]
    ambiguous: dict[str, list[str]] = field(default_factory=dict)


def find_matches(image_ids: Collection[str], references: Mapping[str, CaptionRow]) -> Matching:
    """Matches distinct images by the first key that all of them have among the references, or by that which most have.

    Two images never match the same one: names that could mean several images match none.
    """
    best = Matching(IMAGE_ID, {image_id: references[image_id] for image_id in image_ids if image_id in references})
    if len(best.rows) == len(image_ids):
        return best
    ambiguous: dict[str, list[str]] = {}
    names = {image_id: (image_id, *row.aliases) for image_id, row in references.items()}
    for match_key in KEYS:
        reference_ids = index_images(names, match_key)
        candidate_ids = index_images({image_id: (image_id,) for image_id in image_ids}, match_key)
        matched: dict[str, CaptionRow] = {}
        for value in candidate_ids.keys() & reference_ids.keys():
            ids, others = candidate_ids[value], reference_ids[value]
            if len(ids) == len(others) == 1:
                matched[ids[0]] = references[others[0]]
            else:
                ambiguous.update(dict.fromkeys(ids, ids if len(ids) > 1 else sorted(others)))
        if len(matched) > len(best.rows):
            best = Matching(match_key, matched)
        if len(matched) == len(image_ids):
            break
    best.ambiguous = {id: ambiguous[id] for id in image_ids if id in ambiguous and id not in best.rows}
    return best


def index_images(names: Mapping[str, Sequence[str]], key: str) -> dict[str, list[str]]:
    """The images (id → names) by each value of this key (of `KEYS`) that one of their names has."""
    image_ids: dict[str, list[str]] = {}
    for image_id, image_names in names.items():
        for value in dict.fromkeys(map(KEYS[key], image_names)):
            if value:
                image_ids.setdefault(value, []).append(image_id)
    return image_ids


def find_unused_references(matching: Matching, table: ReferenceTable) -> list[str]:
    """The images with references but no candidate, in the splits that the candidates belong to."""
    matched_ids = {row.image_id for row in matching.rows.values()}
    splits = {row.split for row in matching.rows.values()}
    return [id for id, row in table.rows.items() if id not in matched_ids and (not splits or row.split in splits)]


@dataclass
class CaptionLoader:
    """Candidates, and their references, which are read and matched as the same options say.

    reader: of the candidates.
    options: how they are read.
    span: the records to read.
    """

    reader: RowReader
    options: LoadOptions
    span: Span = WHOLE

    @classmethod
    def open(cls, source: Source, options: LoadOptions, keep: tuple[str, ...] | None = None) -> CaptionLoader:
        """Recognises the format of the candidates.

        Args:
            source: a path, a `CaptionSource`, or captions as lists and dicts.
            options: how the candidates are read.
            keep: as in `open_rows`.

        Raises:
            InputError: they cannot be read.
        """
        numbered = options.references is None
        return cls(open_rows(source, options.format, columns=options.columns, keep=keep, numbered=numbered), options)

    def read(self) -> list[CaptionRow]:
        """The candidates, of one system or split if the options choose one.

        Raises:
            InputError: a row is not as expected, or a whole file has no candidates.
        """
        options, reader = self.options, self.reader
        system, splits = options.system, options.splits if options.references is None else ()
        rows: list[CaptionRow] = []
        others = set[str]()
        for row in reader.rows("candidates", self.span):
            if system is not None and row.system != system:
                others.add(f"system {row.system}" if row.system else "captions without a system name")
            elif splits and row.split not in splits:
                others.add(f"split {row.split}" if row.split else "captions without a named split")
            else:
                rows.append(row)
        held_splits = {row.split for row in rows} if splits else set()
        absent_splits = [split_name for split_name in splits if split_name not in held_splits]
        if (absent_splits or not rows) and self.span == WHOLE:
            chosen = [("system", system), *(("split", split_name) for split_name in absent_splits)]
            others.update(f"split {split_name}" for split_name in held_splits)
            selection = " and ".join(f"{option_name} {value!a}" for option_name, value in chosen if value)
            selection_text = f" of {selection}; it has {list_names(sorted(others), 12)}" if selection and others else ""
            left_out = list_names(note.replace("_", " ") for note in reader.fields.notes if note.endswith("left_out"))
            raise InputError(f"{reader.name}: there are no candidates{selection_text}{'; ' * bool(left_out)}{left_out}")
        if options.images_root is not None:
            pictures = PictureFiles(options.images_root)
            for row in rows:
                row.image = pictures.find(row.image_id) if row.image is None else row.image
        return rows

    @cached_property
    def table(self) -> ReferenceTable | None:
        """The references of a separate source; None: each row has its own."""
        return read_references(self.options)

    def match(self, rows: Sequence[CaptionRow]) -> tuple[list[CaptionRow], Notes]:
        """Completes candidates with references, pictures, events and final ids.

        Args:
            rows: the candidates, or those of one system.

        Returns:
            The candidates that stay, and notes on all of them.

        Raises:
            InputError: ids are duplicated, candidates lack references, or the sources do not fit each other.
        """
        options, table = self.options, self.table
        readers = [self.reader, *(table.readers if table is not None else ())]
        if self.span == WHOLE:
            refuse_absent_columns(readers, options)
        cleaned = _change_texts(rows, _CLEANERS[options.clean]) if options.clean is not None else []
        image_counts = Counter([row.image_id for row in rows])
        self._refuse_mismatch(rows, image_counts)
        for row, id in zip(rows, final_ids(rows, image_counts), strict=True):
            row.final_id = id
        matching = Matching(IMAGE_ID, {})
        unused_ids: list[str] = []
        by_annotator: list[CaptionRow] = []
        if table is not None:
            matching = find_matches(image_counts, table.rows)
            unused_ids = find_unused_references(matching, table) if self.span == WHOLE else []
            by_annotator = [row for row in rows if _join(row, matching, table)]
        without = [row for row in rows if not row.references]
        is_skipped = bool(without) and options.on_missing != "keep"
        if is_skipped and (options.on_missing == "error" or (len(without) == len(rows) and self.span == WHOLE)):
            raise self._missing_error([row.image_id for row in without], len(rows), matching, unused_ids)
        kept_rows = [row for row in rows if row.references or not is_skipped]
        if options.on_absent == "empty" and table is not None:
            for image in (table.rows[image_id] for image_id in unused_ids):
                events, id = Events() if image.reference_events else None, image.image_id
                kept_rows.append(
                    replace(image, candidate="", id=None, system=None, human=None, events=events, final_id=id)
                )
        normalised: list[CaptionRow] = []
        if options.unicode is not None:
            unicode_form = cast(Literal["NFC", "NFKC"], options.unicode.upper())
            normalised = _change_texts(kept_rows, partial(unicodedata.normalize, unicode_form), of_references=True)
        notes = {
            CLEANED.get(options.clean or "", ""): _ids(row for row in cleaned if row.references or not is_skipped),
            f"normalised to Unicode {options.unicode}": _ids(normalised),
            "skipped_without_references" if options.on_missing == "skip" else "kept_without_references": _ids(without),
            "scored_as_empty" if options.on_absent == "empty" else "references_without_candidate": unused_ids,
            **_order_events(kept_rows, options.event_order),
            "repeated_candidates": [] if len(image_counts) == len(rows) else _repeated_candidates(kept_rows),
            "matched_by": [] if matching.key == IMAGE_ID else [matching.key],
            "ambiguous_names": list(matching.ambiguous),
            "compared_with_the_reference_of_the_same_annotator": _ids(by_annotator),
        }
        for assumption, details in (note for each in readers for note in each.fields.notes.items()):
            notes[assumption] = list(dict.fromkeys([*notes.get(assumption, []), *details]))
        return kept_rows, {reason: noted_ids for reason, noted_ids in notes.items() if noted_ids}

    def match_systems(self, rows: Iterable[CaptionRow], label: str) -> dict[str, tuple[list[CaptionRow], CaptionSet]]:
        """The candidates of each system that stay, as rows and as a set.

        Args:
            rows: the candidates of all systems.
            label: the system of rows that name none.
        """
        rows_by_system: dict[str, list[CaptionRow]] = {}
        for row in rows:
            rows_by_system.setdefault(row.system or label, []).append(row)
        matched = {system: self.match(system_rows) for system, system_rows in rows_by_system.items()}
        return {system: (kept_rows, self.make_set(kept_rows, notes)) for system, (kept_rows, notes) in matched.items()}

    def make_set(self, rows: Sequence[CaptionRow], notes: Notes) -> CaptionSet:
        """Matched candidates as a set.

        Args:
            rows: the candidates with their references.
            notes: what was adjusted.
        """
        return CaptionSet.from_columns(
            _ids(rows),
            [row.image_id for row in rows],
            [row.candidate or "" for row in rows],
            [row.references or () for row in rows],
            images=[row.image for row in rows],
            systems=[row.system for row in rows],
            humans=[row.human for row in rows],
            events=[None if row.events is None else VideoEvents(row.events, row.reference_events) for row in rows],
            notes=notes,
            images_root=os.fspath(self.options.images_root or ""),
            regions=self.options.regions,
            adjustments=self.options.adjustments,
        )

    def _refuse_mismatch(self, rows: Sequence[CaptionRow], counts: Mapping[str, int]) -> None:
        """Raises for file names instead of captions, lists of different lengths, and candidates for references."""
        reader, table = self.reader, self.table
        _refuse_paths([row.candidate or "" for row in rows], reader.name, "candidates")
        _refuse_paths([text for row in rows[:1000] for text in row.references or ()], reader.name, "references")
        if table is None:
            return
        if reader.format == "list" == table.format and len(counts) != len(table.rows):
            raise InputError(
                f"there are {len(counts):,} candidates, but {len(table.rows):,} lists of references; in lists the k-th "
                "belongs to the k-th: give each candidate a list"
            )
        if (
            reader.format in ("coco", "pycocoevalcap", "clipscore")
            and min(counts.values()) > 1
            and all(len(row.references or ()) == 1 for row in table.rows.values())
        ):
            raise InputError(
                f"{reader.name} has {max(counts.values())} candidates for an image, {table.name} one reference for "
                "each; are the two swapped? If these are samples of a system, give them as rows of JSON lines"
            )

    def _missing_error(self, missing: Sequence[str], total: int, matching: Matching, unused: list[str]) -> InputError:
        """What says that candidates of these images lack references, and what to do."""
        reader, table = self.reader, self.table
        first_images = list(dict.fromkeys(missing))
        have, are_all = "has" if len(missing) == 1 else "have", len(missing) == total and self.span == WHOLE
        message = f"{reader.name}: {len(missing):,} of {total:,} candidates {have} no references"
        skip = "leave these candidates out (on_missing='skip', --on-missing skip)"
        can_skip = self.options.on_missing != "skip" and not are_all
        shown_images = ", ".join(map(shorten, first_images[:5])) + " and more" * (len(first_images) > 5)
        if table is None:
            ignored = list_names(sorted(reader.fields.ignored), 8)
            columns = f"or their column (--column references=NAME; not used: {ignored}), " if ignored else ""
            return InputError(
                f"{message}: {shown_images}. Name a file of references (references=, --references), {columns}"
                f"{f'{skip}, ' * can_skip}or keep them for metrics that need none "
                "(on_missing='keep', --on-missing keep)"
            )
        message += f" in {table.name}: {shown_images}."
        omitted_ids = [id for id in first_images[:5] if id in matching.rows and matching.rows[id].omitted is not None]
        if omitted_ids:
            omitted_count = sum(not table.rows[image_id].references for image_id in table.omitted)
            be, image_count = "is" if omitted_count == 1 else "are", format_count(omitted_count, "image")
            message += (
                f" All references of {list_names(omitted_ids)} are left out, as VizWiz's evaluation does "
                f"({', '.join(sorted(set(table.omitted.values())))}); there {be} {image_count} like that."
            )
        if matching.ambiguous:
            names = ", ".join(map(shorten, next(iter(matching.ambiguous.values()))[:5]))
            message += (
                f" The names of {len(matching.ambiguous):,} of these match ambiguously ({names} could be one image): "
                "use the same ids in both files."
            )
        if unused:
            example_images = ", ".join(map(shorten, unused[:5])) + f" and {len(unused) - 5:,} more" * (len(unused) > 5)
            unused_count = format_count(len(unused), "image there has", "images there have")
            message += f" {unused_count} no candidate: {example_images}."
        if omitted_ids and not are_all:
            return InputError(f"{message} {skip[0].upper()}{skip[1:]}")
        advice = "No caption is left to score: check" if are_all else "Check"
        advice += " that both are of the same split and name the images alike"
        if all(image_id in matching.rows for image_id in first_images):
            advice = "Their lists of references there are empty: fill them"
        return InputError(f"{message} {advice}{f', or {skip}' * can_skip}")


def _ids(rows: Iterable[CaptionRow]) -> list[str]:
    return [row.final_id for row in rows]


def _join(row: CaptionRow, matching: Matching, table: ReferenceTable) -> bool:
    """Gives a candidate what the table has of its image; whether these are the references of its annotator alone."""
    matched = matching.rows.get(row.image_id)
    if matched is None:
        row.references, row.reference_events = (), ()
        return False
    row.references, row.image = matched.references or (), matched.image if row.image is None else row.image
    row.reference_events = matched.reference_events
    if row.annotator is None or row.events is not None:
        return False
    own_references = table.by_annotator.get((matched.image_id, row.annotator), ())
    row.references = own_references or row.references
    return bool(own_references)


def _order_events(rows: Sequence[CaptionRow], event_order: str) -> Notes:
    """Joins events in the order of the file, if asked; notes what has another order, or more events than predicted."""
    notes: Notes = {_BY_TIME: [], _MORE_EVENTS: []}
    for row in rows:
        if row.events is None and not row.reference_events:
            continue
        events, joined = row.events or Events(), {each.paragraph: each.in_file for each in row.reference_events}
        if event_order == "file":
            row.candidate = events.in_file if row.candidate == events.paragraph else row.candidate
            row.references = tuple(joined.get(text, text) for text in row.references or ())
        elif any(by_time != in_file for by_time, in_file in (*joined.items(), (events.paragraph, events.in_file))):
            notes[_BY_TIME].append(row.final_id)
        if len(events.times) > (events.predicted_count or len(events.times)):
            notes[_MORE_EVENTS].append(row.final_id)
    return notes


def final_ids(rows: Sequence[CaptionRow], counts: Mapping[str, int]) -> list[str]:
    """The id of each candidate: its own, else its image's where that is unique, else `image#k` for the k-th.

    Args:
        rows: the candidates.
        counts: number of candidates of each image.
    """
    if len(counts) == len(rows) and all(row.id is None for row in rows):
        return [row.image_id for row in rows]
    positions: Counter[str] = Counter()
    ids: list[str] = []
    for row in rows:
        of_image = row.image_id if counts[row.image_id] == 1 else f"{row.image_id}#{positions[row.image_id]}"
        ids.append(of_image if row.id is None else row.id)
        positions[row.image_id] += 1
    if len(set(ids)) != len(ids):
        first_rows: dict[str, CaptionRow] = {}
        for id, row in zip(ids, rows, strict=True):
            if (first := first_rows.setdefault(id, row)) is not row:
                raise InputError(
                    f"{row.location}: duplicate id {id!a}, also at {first.location}; scores are keyed by id: give each "
                    "candidate an id of its own, or leave the ids out"
                )
    return ids


def _change_texts(
    rows: Sequence[CaptionRow], change: Callable[[str], str], *, of_references: bool = False
) -> list[CaptionRow]:
    """Changes the texts of candidates and their events, and of references if asked; the rows whose texts differ."""
    change_all = lru_cache(maxsize=None)(lambda texts: tuple(map(change, texts)))  # images share their references
    changed_rows = []
    for row in rows:
        candidate, events = row.candidate or "", row.events
        before = candidate, events, row.references or (), row.reference_events
        row.candidate = change(candidate)
        if events is not None:
            row.events = events.map(change)
            row.candidate = row.events.paragraph if candidate == events.paragraph else row.candidate
        if of_references:
            row.references = change_all(row.references or ())
            row.reference_events = tuple(each.map(change) for each in row.reference_events)
        if before != (row.candidate, row.events, row.references or (), row.reference_events):
            changed_rows.append(row)
    return changed_rows


def _repeated_candidates(rows: Sequence[CaptionRow]) -> list[str]:
    """The ids of captions that repeat an earlier one of the same image and system, as padded data loaders write."""
    keys = [(row.image_id, row.system, row.candidate) for row in rows]
    first_rows = dict(zip(reversed(keys), reversed(rows), strict=True))
    return _ids(row for key, row in zip(keys, rows, strict=True) if first_rows[key] is not row)


def _refuse_paths(captions: Sequence[str], name: str, side: Side) -> None:
    """Raises if most captions look like file names: names were passed instead of the files' contents."""
    file_paths = [text for text in captions if "." in text and " " not in text and _PATH.fullmatch(text)]
    if file_paths and 2 * len(file_paths) > len(captions):
        raise InputError(
            f"{name}: the {side} look like file names, not captions ({list_names(file_paths, 3)}); pass the captions "
            "themselves, or one file of captions as the argument"
        )


def refuse_absent_columns(readers: Sequence[RowReader], options: LoadOptions) -> None:
    """Raises if no row, of candidates or of references, has a column that the user named."""
    if options.reference_columns and len(readers) == 1:
        raise InputError("--reference-column (reference_columns=) is for a file of references, and none is named")
    for files, columns in ((readers, options.columns or {}), (readers[1:], options.reference_columns or {})):
        used = set[str]().union(*(each.fields.used for each in files))
        if absent := [column for column in columns if column not in used]:
            raise InputError(
                f"{files[0].name}: no row has the column {list_names(absent)} that was chosen for "
                f"{columns[absent[0]]}; it has {suggest_names(sorted(files[0].fields.all_names)) or 'none'}"
            )
