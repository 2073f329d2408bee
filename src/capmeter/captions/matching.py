"""Candidates are matched with their references: by image id, else by the image's file name or COCO number."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, repeat

from capmeter.captions.caption_columns import CaptionColumns
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.chat_artifacts import CLEANED, clean_row
from capmeter.captions.containers.container import WHOLE, Span
from capmeter.captions.events import Events, VideoEvents
from capmeter.captions.image_files import PictureFiles
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.reading import RowReader, open_rows
from capmeter.captions.references import IMAGE_ID, KEYS, MissingCount, ReferenceTable
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.text_checks import normalise_captions
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count, list_names, shorten

_PATH = re.compile(
    r"(?:[A-Za-z]:)?[\w.\-~/\\%]*\.(?:jsonl?|csv|tsv|txt|parquet|gz|zip|jpe?g|png|gif|webp|bmp|tiff?|npy|npz|pkl|h5)",
    re.IGNORECASE,
)


@dataclass
class Matching:
    """Which references the images of the candidates have.

    table: the references; None: each row of candidates has its own.
    key: by what most images are matched: `IMAGE_ID`, or one of `KEYS`.
    table_ids: the candidates' image ids and those of the table that they match.
    ambiguous: of images that match none because their name could mean several, or several have it: the names, by image.
    """

    table: ReferenceTable | None
    key: str = IMAGE_ID
    table_ids: Mapping[str, str] = field(default_factory=dict)
    ambiguous: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def find(cls, image_ids: Iterable[str], table: ReferenceTable | None) -> Matching:
        """Matches these images by the first key that all of them have in the table, or by that which most have.

        Two images never match the same one: names that could mean several images match none.
        """
        if table is None:
            return cls(table)
        distinct_ids = dict.fromkeys(image_ids)
        best = cls(table, IMAGE_ID, {image_id: image_id for image_id in distinct_ids if image_id in table.references})
        if len(best.table_ids) == len(distinct_ids):
            return best
        ambiguous: dict[str, list[str]] = {}
        for match_key, value_of in KEYS.items():
            reference_ids = table.image_ids_by(match_key)
            candidate_ids: dict[str, list[str]] = {}
            for image_id in distinct_ids:
                if (key_value := value_of(image_id)) in reference_ids:
                    candidate_ids.setdefault(key_value, []).append(image_id)
            pairs = [(ids, reference_ids[key_value]) for key_value, ids in candidate_ids.items()]
            table_ids = {ids[0]: next(iter(images)) for ids, images in pairs if len(ids) == len(images) == 1}
            ambiguous.update(
                (image_id, ids if len(ids) > 1 else sorted(images))
                for ids, images in pairs
                if len(ids) > 1 or len(images) > 1
                for image_id in ids
            )
            if len(table_ids) > len(best.table_ids):
                best = cls(table, match_key, table_ids)
            if len(table_ids) == len(distinct_ids):
                break
        best.ambiguous = {image_id: names for image_id, names in ambiguous.items() if image_id not in best.table_ids}
        return best

    def references(self, row: CaptionRow) -> tuple[str, ...]:
        """The references of this candidate: where annotators are named, those of its own, else all of its image."""
        if self.table is None:
            return row.references or ()
        return self.annotator_references(row) or self.table_references(row.image_id)

    def annotator_references(self, row: CaptionRow) -> tuple[str, ...]:
        """The references by the annotator that this candidate names; empty without any."""
        if self.table is None or row.annotator is None or row.events is not None:
            return ()
        return self.table.by_annotator.get((self.table_ids.get(row.image_id, ""), row.annotator), ())

    def table_references(self, image_id: str) -> tuple[str, ...]:
        """The references of this image in the table."""
        table_id = self.table_ids.get(image_id)
        return () if table_id is None or self.table is None else self.table.references[table_id]

    def table_image(self, image_id: str) -> str | None:
        """The picture of this image in the table."""
        return None if self.table is None else self.table.images.get(self.table_ids.get(image_id, ""))

    def empty_captions(self, image_ids: Sequence[str]) -> CaptionColumns:
        """An empty candidate for each of these images of the table."""
        assert self.table is not None
        references, events = [self.table.references[id] for id in image_ids], map(self.table.events.get, image_ids)
        columns = CaptionColumns(image_ids, image_ids, [""] * len(image_ids), references)
        columns.images = list(map(self.table.images.get, image_ids))
        columns.events = [None if video is None else VideoEvents(Events(), video) for video in events]
        return columns

    def reference_events(self, row: CaptionRow) -> tuple[Events, ...]:
        """The events of each reference of this video."""
        table_id = self.table_ids.get(row.image_id, "")
        return row.reference_events if self.table is None else self.table.events.get(table_id, ())

    def unused_references(self, image_ids: Iterable[str]) -> list[str]:
        """The images with references but no candidate, in the splits that the candidates belong to."""
        if self.table is None:
            return []
        matched_ids = {self.table_ids.get(image_id) for image_id in image_ids}
        splits = {self.table.splits.get(image_id) for image_id in matched_ids if image_id is not None}
        return [
            image_id
            for image_id in self.table.references
            if image_id not in matched_ids and (not splits or self.table.splits.get(image_id) in splits)
        ]

    @property
    def matched_by(self) -> list[str]:
        """The key, for the notes, if it is not the image id."""
        return [] if self.key == IMAGE_ID else [self.key]


class CaptionInputs:
    """Candidates and, if in a separate source, the references of all images.

    reader: what reads the candidates.
    options: how they are read.
    table: the references of a separate source.
    span: which of the reader's records are read, where that is not all of them.
    """

    span: Span = WHOLE

    def __init__(self, reader: RowReader, options: LoadOptions) -> None:
        self.reader, self.options = reader, options
        self.table: ReferenceTable | None = None
        self._used_columns: set[str] = set()
        self._fields = [reader.fields]
        self._pictures = PictureFiles(options.images_root) if options.images_root else None
        if options.references is not None:
            next(self.reader.rows("candidates"), None)  # errors in the candidates are reported first
            reference_readers = open_references(options)
            self.table = ReferenceTable.read(reference_readers, options.splits)
            self._used_columns = set().union(*(reference_reader.fields.used for reference_reader in reference_readers))
            self._fields += [reference_reader.fields for reference_reader in reference_readers]
            reference_texts = list(chain.from_iterable(self.table.references.values()))
            refuse_paths(reference_texts, self.table.name, "references")

    def with_reader(self, reader: RowReader, span: Span) -> CaptionInputs:
        """Some rows of another reader, with the same references."""
        inputs = copy(self)
        inputs.reader, inputs.span, inputs._fields = reader, span, [reader.fields, *self._fields[1:]]
        return inputs

    def rows(self) -> Iterator[CaptionRow]:
        """The candidates, of one system or split if the options choose one."""
        system, splits = self.options.system, self.options.splits if self.table is None else ()
        others, is_empty = set[str](), True
        for caption_row in self.reader.rows("candidates", self.span):
            if system is not None and caption_row.system != system:
                others.add(f"system {caption_row.system}" if caption_row.system else "captions without a system name")
            elif splits and caption_row.split not in splits:
                others.add(f"split {caption_row.split}" if caption_row.split else "captions without a named split")
            else:
                is_empty = False
                if self.options.clean is not None:
                    clean_row(caption_row)
                if caption_row.image is None and self._pictures is not None:
                    caption_row.image = self._pictures.find(caption_row.image_id)
                yield caption_row
        if self.span != WHOLE:
            return
        self._refuse_absent_columns()
        source_name = self.reader.name
        if is_empty:
            selection = " and ".join(
                f"{option_name} {option_value!a}"
                for option_name, option_value in (("system", system), *(("split", split_name) for split_name in splits))
                if option_value
            )
            selection_text = f" of {selection}; it has {list_names(sorted(others), 12)}" if selection and others else ""
            raise InputError(f"{source_name}: there are no candidates{selection_text}")

    @property
    def reading_notes(self) -> dict[str, list[str]]:
        """What was assumed about the rows that were read, for the notes."""
        notes: dict[str, list[str]] = {}
        for fields in self._fields:
            for assumption, details in fields.notes.items():
                notes[assumption] = list(dict.fromkeys([*notes.get(assumption, []), *details]))
        return notes

    def _refuse_absent_columns(self) -> None:
        """Raises if no row, of candidates or of references, has a column that the user named."""
        chosen_columns = {**(self.options.columns or {}), **(self.options.reference_columns or {})}
        absent = [column for column in chosen_columns if column not in self._used_columns | self.reader.fields.used]
        if absent:
            unused_columns = list_names(sorted(self.reader.ignored), 8)
            others = f"the columns that are not used are {unused_columns}" if unused_columns else "all columns are used"
            raise InputError(
                f"{self.reader.name}: no row has the column {list_names(absent)} that was chosen for "
                f"{chosen_columns[absent[0]]}; {others}"
            )

    def make_set(self, captions: CaptionColumns, notes: dict[str, list[str]] | None = None) -> CaptionSet:
        """These captions as a set, whose pictures and regions are where the options say."""
        places = {"images_root": os.fspath(self.options.images_root or ""), "regions": self.options.regions}
        return CaptionSet.from_columns(captions, notes=notes, adjustments=self.options.adjustments, **places)


def open_references(options: LoadOptions) -> list[RowReader]:
    """What reads the separate references: a file, or each of several.

    Raises:
        InputError: a file cannot be read, or is named twice.
    """
    format, columns = options.references_format, options.columns_of_references
    sources = options.reference_sources
    readers = [open_rows(each, format, side="references", columns=columns) for each in sources]
    file_paths = [reader.path for reader in readers if reader.path is not None]
    for path_index, file_path in enumerate(file_paths):
        if any(file_path.samefile(earlier_path) for earlier_path in file_paths[:path_index]):
            raise InputError(f"{readers[path_index].name} is named twice as references; name each file once")
    return readers


def match_captions(
    rows: Sequence[CaptionRow], inputs: CaptionInputs
) -> tuple[Sequence[CaptionRow], CaptionColumns, dict[str, list[str]]]:
    """The candidates that stay, as rows and as captions with their references, and notes on all of them.

    Args:
        rows: the candidates, or those of one system.
        inputs: where they come from.

    Raises:
        InputError: ids are duplicated, candidates lack references, or the sources do not fit each other.
    """
    on_missing = inputs.options.on_missing
    image_counts = Counter([row.image_id for row in rows])
    refuse_mismatch(rows, inputs, image_counts)
    matching = Matching.find(image_counts, inputs.table)
    unused_ids = matching.unused_references(image_counts)
    are_single = len(image_counts) == len(rows)  # one candidate of each image
    caption_ids, reference_lists = final_ids(rows, image_counts), [matching.references(row) for row in rows]
    ids_without = [id for id, reference_texts in zip(caption_ids, reference_lists, strict=True) if not reference_texts]
    refuse_missing(MissingCount.of(rows, reference_lists), inputs, matching, unused_ids)
    if ids_without and on_missing != "keep":
        rows = [row for row, reference_texts in zip(rows, reference_lists, strict=True) if reference_texts]
        caption_ids = [id for id, reference_texts in zip(caption_ids, reference_lists, strict=True) if reference_texts]
        reference_lists = list(filter(None, reference_lists))
    captions = make_columns(rows, caption_ids, reference_lists, repeat(matching, len(rows)))
    scores_absent = inputs.options.on_absent == "empty"
    if scores_absent:
        captions = CaptionColumns.join([captions, matching.empty_captions(unused_ids)])
    normalised_ids = normalise_captions(captions, inputs.options.unicode)
    notes = {
        CLEANED: [id for row, id in zip(rows, caption_ids, strict=True) if row.cleaned],
        f"normalised to Unicode {inputs.options.unicode}": normalised_ids,
        "skipped_without_references" if on_missing == "skip" else "kept_without_references": ids_without,
        "scored_as_empty" if scores_absent else "references_without_candidate": unused_ids,
        "repeated_candidates": [] if are_single else _repeated_candidates(captions),
        "matched_by": matching.matched_by,
        "ambiguous_names": list(matching.ambiguous),
        "compared_with_the_reference_of_the_same_annotator": _ids_with_annotator(rows, caption_ids, matching),
        **inputs.reading_notes,
    }
    return rows, captions, {reason: noted_ids for reason, noted_ids in notes.items() if noted_ids}


def make_columns(
    rows: Sequence[CaptionRow],
    ids: Sequence[str],
    references: Sequence[tuple[str, ...]],
    matchings: Iterable[Matching],
) -> CaptionColumns:
    """Rows under their final ids, with their references, as captions; each is matched by its own `Matching`."""
    image_names = [row.image for row in rows]
    video_events = list[VideoEvents | None]([None]) * len(rows)
    for caption_index, (matching, row) in enumerate(zip(matchings, rows, strict=True)):
        if row.image is None and matching.table is not None and matching.table.images:
            image_names[caption_index] = matching.table_image(row.image_id)
        if row.events is not None:
            video_events[caption_index] = VideoEvents(row.events, matching.reference_events(row))
    return CaptionColumns(
        ids,
        [row.image_id for row in rows],
        [row.candidate or "" for row in rows],
        references,
        image_names,
        [row.system for row in rows],
        [row.human for row in rows],
        video_events,
    )


def final_ids(rows: Sequence[CaptionRow], counts: Mapping[str, int]) -> list[str]:
    """The id of each candidate: its own, else its image's where that is unique, else `image#k` for the k-th.

    Args:
        rows: the candidates.
        counts: number of candidates of each image.
    """
    if len(counts) == len(rows) and all(row.id is None for row in rows):
        return [row.image_id for row in rows]
    image_positions: Counter[str] = Counter()
    caption_ids: list[str] = []
    for row in rows:
        image_id = row.image_id
        of_image = image_id if counts[image_id] == 1 else f"{image_id}#{image_positions[image_id]}"
        caption_ids.append(of_image if row.id is None else row.id)
        image_positions[image_id] += 1
    if len(set(caption_ids)) != len(caption_ids):
        first_rows: dict[str, CaptionRow] = {}
        for caption_id, row in zip(caption_ids, rows, strict=True):
            refuse_repeated_id(row, caption_id, first_rows)
    return caption_ids


def refuse_repeated_id(row: CaptionRow, id: str, first_rows: dict[str, CaptionRow]) -> None:
    """Raises if an earlier row has this id; otherwise adds the row."""
    if id in first_rows:
        raise InputError(
            f"{row.location}: duplicate id {id!a}, also at {first_rows[id].location}; scores are keyed by id: give "
            "each candidate an id of its own, or leave the ids out"
        )
    first_rows[id] = row


def refuse_mismatch(rows: Sequence[CaptionRow], inputs: CaptionInputs, counts: Mapping[str, int]) -> None:
    """Raises for file names instead of captions, lists of different lengths, and swapped candidates and references.

    Args:
        rows: the candidates, or the first of them.
        inputs: where they come from.
        counts: number of candidates of each image.
    """
    reader, table = inputs.reader, inputs.table
    refuse_paths([row.candidate or "" for row in rows], reader.name, "candidates")
    refuse_paths([text for row in rows[:1000] for text in row.references or ()], reader.name, "references")
    if table is None:
        return
    if reader.format == "list" == table.format and len(counts) != len(table.references):
        raise InputError(
            f"there are {len(counts):,} candidates, but {len(table.references):,} lists of references; in lists the "
            "k-th belongs to the k-th: give each candidate a list"
        )
    if reader.format not in ("coco", "pycocoevalcap", "clipscore"):
        return
    # several candidates for every image and one reference each
    if min(counts.values()) > 1 and all(len(reference_texts) == 1 for reference_texts in table.references.values()):
        raise InputError(
            f"{reader.name} has {max(counts.values())} candidates for an image, {table.name} one reference for each; "
            "are the two swapped? If these are samples of a system, give them as rows of JSON lines"
        )


def refuse_paths(captions: Sequence[str], name: str, side: Side) -> None:
    """Raises if most captions look like file names: names were passed instead of the files' contents."""
    file_paths = [text for text in captions if "." in text and " " not in text and _PATH.fullmatch(text)]
    if file_paths and 2 * len(file_paths) > len(captions):
        raise InputError(
            f"{name}: the {side} look like file names, not captions ({list_names(file_paths, 3)}); pass the captions "
            "themselves, or one file of captions as the argument"
        )


def refuse_missing(missing: MissingCount, inputs: CaptionInputs, matching: Matching, unused: list[str]) -> None:
    """Raises where candidates without references are an error, or where no others are left."""
    source_name, reference_table, on_missing = inputs.reader.name, inputs.table, inputs.options.on_missing
    are_others = missing.count < missing.total or inputs.span != WHOLE
    if not missing.count or on_missing == "keep" or (on_missing == "skip" and are_others):
        return
    first_images = ", ".join(map(shorten, missing.first)) + " and more" * missing.more
    have = "has" if missing.count == 1 else "have"
    message = f"{source_name}: {missing.count:,} of {missing.total:,} candidates {have} no references"
    if reference_table is None:
        ignored = sorted(inputs.reader.ignored)
        columns = f"or their column (--column references=NAME; not used: {list_names(ignored, 8)}), " if ignored else ""
        skip = "leave these out (on_missing='skip', --on-missing skip), " if missing.count < missing.total else ""
        raise InputError(
            f"{message}: {first_images}. Name a file of references (references=, --references), {columns}{skip}or keep "
            "them for metrics that need none (on_missing='keep', --on-missing keep)"
        )
    message += f" in {reference_table.name}: {first_images}."
    omitted = reference_table.omitted
    omitted_ids = [image_id for image_id in missing.first if matching.table_ids.get(image_id) in omitted]
    if omitted_ids:
        image_count = format_count(sum(not reference_table.references[image_id] for image_id in omitted), "image")
        message += (
            f" All references of {list_names(omitted_ids)} are left out, as VizWiz's evaluation does "
            f"({', '.join(sorted(set(omitted.values())))}); there are {image_count} like that."
        )
    if matching.ambiguous:
        names = ", ".join(map(shorten, next(iter(matching.ambiguous.values()))[:5]))
        message += (
            f" The names of {len(matching.ambiguous):,} of these match ambiguously ({names} could be one image): use "
            "the same ids in both files."
        )
    if unused:
        images_have = "image there has" if len(unused) == 1 else "images there have"
        example_images = ", ".join(map(shorten, unused[:5])) + f" and {len(unused) - 5:,} more" * (len(unused) > 5)
        message += f" {len(unused):,} {images_have} no candidate: {example_images}."
    if missing.count == missing.total:
        advice = "No caption is left to score: check"
    elif omitted_ids:
        raise InputError(f"{message} Leave these candidates out (on_missing='skip', --on-missing skip)")
    else:
        advice = "Check"
    advice += " that both are of the same split and name the images alike"
    can_skip = on_missing != "skip" and missing.count < missing.total
    skip = ", or leave these candidates out (on_missing='skip', --on-missing skip)" if can_skip else ""
    raise InputError(f"{message} {advice}{skip}")


def _ids_with_annotator(rows: Sequence[CaptionRow], ids: Sequence[str], matching: Matching) -> list[str]:
    """The ids of the captions that have the references of their annotator alone."""
    if matching.table is None or not matching.table.by_annotator:
        return []
    return [id for id, row in zip(ids, rows, strict=True) if matching.annotator_references(row)]


def _repeated_candidates(captions: CaptionColumns) -> list[str]:
    """The ids of captions that repeat an earlier one of the same image and system, as padded data loaders write."""
    earlier_keys: set[tuple[str, str | None, str]] = set()
    repeated_ids: list[str] = []
    caption_keys = zip(captions.image_ids, captions.systems, captions.candidates, strict=True)
    for caption_id, caption_key in zip(captions.ids, caption_keys, strict=True):
        if caption_key in earlier_keys:
            repeated_ids.append(caption_id)
        earlier_keys.add(caption_key)
    return repeated_ids
