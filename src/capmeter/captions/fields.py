"""How a record becomes rows of captions: which of its names or paths hold which field, and the checks of every field.

The native row is `{"id"?, "image_id", "candidate", "references": [...], "image"?, "system"?, "human"?, "split"?}`. The
user's names (`--column FIELD=PATH`) come first, then those of a `Layout`, then `OTHER_NAMES` and `IMAGE_NAMES`, and
`SHORT_NAMES` where no other name holds the field.

>>> fields, record = FieldMap({"s[].raw": "references"}), {"video_id": 7, "s": [{"raw": "a"}, {"raw": "b"}]}
>>> fields.learn([record])
>>> [(row.image_id, row.references) for row in fields.rows(record, "row 0", "references", 0)]
[('7', ('a', 'b'))]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capmeter.captions import event_fields, layouts
from capmeter.captions.event_fields import EVENT_NAMES, EVENT_TEXTS, TIME_NAMES, event_time, read_events, time_names
from capmeter.captions.layouts import (
    IMAGE_NAMES,
    NAMES,
    SHORT_NAMES,
    Layout,
    NamedRecord,
    Record,
    fold_name,
    own_name,
    path_root,
    suggest_names,
)
from capmeter.captions.rows import (
    CaptionRow,
    FailedRequest,
    NotCandidates,
    Side,
    candidate_text,
    decode_texts,
    holds_text,
    human_ratings,
    image_key,
    is_null,
    nested_names,
    optional_text,
    picture_path,
    reference_field,
    reference_list,
    system_rows,
)
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names, shorten

RECORDINGS = {"audio", "video"}  # as {bytes, path} alone
PICTURES = ("image", "img", "images", *sorted(RECORDINGS))  # names that may hold a picture, whose path is the image
_BY_VALUE = ("caption", "captions")  # names whose field depends on the value


@dataclass
class FieldMap:
    """Which name or path of a file's records holds which field.

    mapping: the user's paths and their fields, which come before all others.
    name: the file, for messages.
    numbered: whether rows with a candidate and references, but without an image, are numbered.
    ids_are_other: `id` is not the caption's: in lists of COCO's results it is a running number. Each has one caption.
    ignored: the unknown names met so far.
    used: the paths of `mapping` met so far.
    notes: what was assumed about the records, for the notes of the captions.
    layout: the layout of the records, if it is one of a program.
    image_name: the name that holds what the captions are of; "" if rows are numbered.
    forced_layout: the layout that the user named.
    paths: the paths to nested values among the chosen names, and the name that each begins with.
    aliases: other names of what the captions are of, by which references may be found.
    keep: the columns whose values are carried through with the rows; None: neither values nor numbers are.
    names: with `keep`, the names of all columns met so far.
    all_names: the names of a sample of the records.
    event_lists: those that hold lists of objects with times, the events of a video.
    finds_short: whether a part of a document is taken for captions by `SHORT_NAMES` alone.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    numbered: bool = True
    ids_are_other: bool = False
    ignored: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    notes: dict[str, dict[str, None]] = field(default_factory=dict)
    layout: Layout | None = None
    image_name: str | None = None
    keep: tuple[str, ...] | None = None
    forced_layout: Layout | None = None
    paths: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    names: dict[str, None] = field(default_factory=dict)
    finds_short: bool = True
    _fields: dict[str, str | None] = field(default_factory=dict)
    all_names: set[str] = field(default_factory=set)
    event_lists: set[str] = field(default_factory=set)
    _chosen: dict[str, str] = field(default_factory=dict)
    _lists: set[str] = field(default_factory=set)
    _short: set[str] = field(default_factory=set)
    _image_field: str | None = None
    _plain_names: frozenset[str] = frozenset()
    _are_timed: bool = False
    _lone_time: str = ""
    _times_of: dict[tuple[str, str], str] = field(default_factory=dict)
    _nested: set[str] = field(default_factory=set)

    def learn(
        self, records: Sequence[Any], layout: Layout | None = None, header: Iterable[str] = (), *, short: bool = True
    ) -> None:
        """Decides by a sample of the records which name holds what; of the user's names those that this file has.

        Args:
            records: the sample.
            layout: the layout that they have.
            header: names that all records have, of tables.
            short: whether `SHORT_NAMES` may hold fields.
        """
        self.layout, self._fields = layout, {}
        records = [record for record in records if isinstance(record, Mapping)]
        self.all_names = {name for record in records for name in record if isinstance(name, str)} | set(header)
        folded = {each for name in self.all_names if self.mapping for each in (name.casefold(), fold_name(name))}
        chosen = [p for p in self.mapping if path_root(p) in self.all_names or p.casefold() in folded]
        self._chosen = {path: self.mapping[path] for path in chosen}
        for field_name, layout_paths in (layout.fields if layout else {}).items():
            hidden = self.all_names & {field_name} - {"image", "image_id"} if layout_paths else ()
            if field_name not in self._chosen.values() and not hidden:
                paths = [path for path in layout_paths.split(",") if path not in self._chosen]
                self._chosen |= dict.fromkeys(paths, field_name)
        self.paths = {p: path_root(p) for p in self._chosen if p not in self.all_names and ("." in p or "[" in p)}
        self._nested = nested_names(records, {} if layout and layout.convert else self._chosen or layouts.FIELD_OF)
        records = [decode_texts(record, self._nested) for record in records] if self._nested else records
        if layout is not None:
            records = [self._convert(record) for record in records if layout.reads(record)]
        names = {name for record in records for name in record if isinstance(name, str)}
        by_fold = {fold_name(name): name for name in self.all_names}
        if layout is None and (of_times := time_names(by_fold)) and time_names(names) is None:  # in other cases
            self._chosen = dict(zip(map(by_fold.__getitem__, of_times), layouts.TIMES, strict=True)) | self._chosen
        captions = [record["caption"] for record in records if "caption" in record]
        lengths = [len(each) for each in captions if isinstance(each, list | tuple)]
        self._lists = {"caption"} if any(n != 1 for n in lengths) and 2 * len(lengths) >= len(captions) else set()
        self._short = self._find_short(records, names.union(header)) if short else set()
        self._choose_image(records, names)
        timed = [] if names.isdisjoint(event_fields.TIMED_NAMES) and "start" not in self._chosen.values() else records
        texts = [name for name in names if self.field(name, "") in ("candidate", "references")] if timed else []
        found = [(each, event_fields.find_lists(each, (), texts)) for each in timed]
        self.event_lists = {lists[2][0] for _, lists in found if lists is not None and not lists[2][1]}
        if layout is not None and not layout.fields:
            self.event_lists |= layout.marks & EVENT_NAMES - set(self.paths.values())
        are_timed = (lists or event_time(each) or set(layouts.TIMES) <= self.find_fields(each) for each, lists in found)
        self._are_timed = 2 * sum(map(bool, are_timed)) >= len(records) > 0
        self._lone_time = "" if self._are_timed else event_fields.lone_time(timed)
        is_plain = not (layout or self._chosen or self._are_timed or "caption" in self._nested)
        is_plain = is_plain and self.keep is None and self.image_name == "image_id" and not self._lone_time
        known_names = EVENT_NAMES.union(self.aliases, self.event_lists)
        unused_names = {name for name in names if self.field(name) is None} - known_names
        if layout is None or layout.convert is None:  # lists of references are decoded where they are read
            self._nested -= {name for name in self._nested if self.field(name, "") == "references"}
            self._nested -= unused_names - set(map(path_root, self.paths))
        self._plain_names = frozenset(unused_names | {"image_id", "caption"}) if is_plain else frozenset()
        self.ignored |= unused_names - {"id"} if is_plain else set()

    def _find_short(self, records: Sequence[Record], names: Iterable[str]) -> set[str]:
        """The short names, in lower case, that hold a field that no other name does, as texts."""
        folded_names = {fold_name(name): name for name in sorted(names)}  # a name in lower case comes last
        if SHORT_NAMES.keys().isdisjoint(folded_names):
            return set()
        by_name = map(layouts.known_field, folded_names.keys() - set(_BY_VALUE))
        held: set[str | None] = {*self._chosen.values(), *by_name}
        held |= {self.field(name, record[name]) for record in records for name in _BY_VALUE if name in record}
        if not EVENT_NAMES.isdisjoint(folded_names) or time_names(folded_names):
            held |= {"candidate"} if set(names).intersection(event_fields.TEXT_NAMES) else set()
        short_names = set()
        for name in SHORT_NAMES.keys() & folded_names.keys():
            values = [value for record in records if (value := record.get(folded_names[name])) is not None]
            is_text = not records or any(holds_text(value, SHORT_NAMES[name]) for value in values)
            if is_text and SHORT_NAMES[name] not in held and (name != "description" or "references" not in held):
                short_names.add(name)
        return short_names

    def _choose_image(self, records: Sequence[Record], names: set[str]) -> None:
        """Chooses the name of what the captions are of: the first that most records have, else the first that any has.

        Sets the field that it holds: `image_id`, `image` (which names the picture, too) or `id`.
        """
        self.image_name = self._image_field = None
        self.aliases = tuple(name for name in NAMES["alias"] if name in names and name not in self._chosen)
        if "image_id" in self._chosen.values():
            self.image_name = next(path for path, field_name in self._chosen.items() if field_name == "image_id")
            self._image_field = "image_id"
            return
        folded_names = {fold_name(name): name for name in sorted(names, key=IMAGE_NAMES.__contains__)}  # known last
        others = {name for name, field_name in self._chosen.items() if field_name not in ("image", "id")}
        candidates = [name for name, f in self._chosen.items() if f == "image" and name in self.mapping]
        candidates += [folded_names[name] for name in IMAGE_NAMES if name in folded_names]
        candidates += [name for name, field_name in self._chosen.items() if field_name == "id"]
        candidates = [name for name in candidates if name not in others]
        counts = {n: sum(layouts.can_name_image(self._value(r, n), fold_name(n)) for r in records) for n in candidates}
        known = [name for name in candidates if counts[name] or fold_name(name) == "image_id"]
        chosen = next((name for name in known if 2 * counts[name] >= len(records) > 0), next(iter(known), None))
        if chosen is None:
            values = {name: [record.get(name) for record in records] for name in PICTURES if name not in others}
            values |= {name: [v for v in values[name] if isinstance(v, Mapping)] for name in values.keys() & RECORDINGS}
            counts = {name: sum(picture_path(v) is not None for v in held) for name, held in values.items()}
            chosen = next((name for name, count in counts.items() if 2 * count >= len(records) > 0), None)
        if chosen is None:
            has_both = 2 * sum({"candidate", "references"} <= self.find_fields(r) for r in records) >= len(records) > 0
            are_numbered = self.layout is not None and self.layout.numbered
            meant = (layouts.close_name(each) == "image_id" for each in list(names)[:100])
            if are_numbered or (self.numbered and has_both and not any(meant)):
                self.image_name = self._image_field = ""
                self.note("rows_without_image", "each row is an image of its own; --column image_id=NAME names it")
            return
        self.image_name = chosen
        folded_name = fold_name(chosen)
        own_field = "image" if folded_name in NAMES["picture"] else "id" if folded_name == "id" else "image_id"
        self._image_field = self._chosen.get(chosen, own_field)
        if chosen not in self._chosen and folded_name != "image_id" and self.layout is None:
            self.note("images_by", chosen)
        self.aliases = tuple(name for name in self.aliases if name != chosen)

    def image_of(self, record: Record) -> str | None:
        """The image that a record of a sample names; None if it names none."""
        if not isinstance(record, Mapping) or not self._image_field:
            return None
        value = self._value(self._convert(decode_texts(record, self._nested)), self.image_name or "")
        return str(value) if layouts.can_name_image(value, "") else picture_path(value)

    def _value(self, record: Record, name: str) -> Any:
        return layouts.resolve_path(record, name, self.name) if name in self.paths else record.get(name)

    def find_fields(self, record: Record) -> set[str | None]:
        """The fields that a record of the sample has."""
        fields = {self.field(name, record[name]) for name in record if isinstance(name, str)}
        return fields | {self._chosen[path] for path in self.paths}

    def field(self, name: str, value: Any = None) -> str | None:
        """The field that a name holds; None where the name is not known. Lists of captions are references."""
        if name in _BY_VALUE and name not in self._chosen:
            if self.paths and name in self.paths.values():
                return None
            if name == "captions":
                is_text = isinstance(value, str) and value[:1] != "["
                return "candidate" if is_text or isinstance(value, Mapping | None) else "references"
            if name in self._lists and not isinstance(value, str):
                return "references"
        if name not in self._fields:
            self._fields[name] = self._find_field(name)
        return self._fields[name]

    def _find_field(self, name: str) -> str | None:
        for known_name in (name, *self._equal_without_case(name)):
            field_name = self._chosen.get(known_name) or self._chosen.get(layouts.without_number(known_name))
            field_name = field_name or self.mapping.get(known_name)
            if field_name is not None:
                self.used.update({known_name} & self.mapping.keys())
            elif known_name == self.image_name and self._image_field:
                field_name = self._image_field
            else:
                field_name = SHORT_NAMES[known_name] if known_name in self._short else layouts.known_field(known_name)
                field_name = None if field_name in self._chosen.values() else field_name
                is_other = known_name == "image" and self._image_field == "image" and self.image_name != "image"
                if is_other or (field_name == "id" and self.ids_are_other):
                    return None
            if field_name is not None:
                if known_name != name:
                    self.note("headings_read_without_case", f"{shorten(name)[1:-1]} as {known_name}")
                return field_name
        return None

    def _equal_without_case(self, name: str) -> list[str]:
        """The known names that this one equals but for its case, unless the records have these names, too."""
        if len(name) > layouts.LONGEST_NAME:
            return []
        folded_name = fold_name(name)
        names = [n for n in self._chosen if n.casefold() in (folded_name, name.casefold())]
        holds_field = folded_name in self._short or layouts.known_field(folded_name) is not None
        names += [folded_name] if name not in layouts.KNOWN_NAMES and holds_field else []
        return [n for n in names if n != name and n not in self.all_names]

    def note(self, assumption: str, detail: str) -> None:
        """Adds a note, once."""
        self.notes.setdefault(assumption, {})[detail] = None

    def ignore(self, document: Record, kept: Collection[Any]) -> None:
        """Notes the keys of a document that are not read: all but these."""
        self.ignored.update(key for key in document if isinstance(key, str) and key not in kept)

    def holds_captions(self, record: Any) -> bool:
        """Whether a record of the sample has a caption, references or events."""
        if not isinstance(record, Mapping):
            return False
        is_of_layout = self.layout is not None and self.layout.accepts(layouts.names_of(record))
        is_known = is_of_layout or event_fields.is_video(record) is True
        return is_known or not self.find_fields(record).isdisjoint(("candidate", "references"))

    def read(self, records: Iterable[tuple[str, Any]], side: Side, start: int = 0) -> Iterator[CaptionRow]:
        """The rows of records.

        Args:
            records: location, for messages, and content of each.
            side: what the records are read as.
            start: the number of the first record in its file.

        Raises:
            InputError: a record has a mistake; of failed requests all are named.
        """
        failed: dict[str, FailedRequest] = {}
        for number, (location, record) in enumerate(records, start):
            pair = self.plain_pair(record) if side == "candidates" else None
            if pair is not None:
                yield CaptionRow(location, *pair)
                continue
            try:
                yield from self.rows(record, location, side, number)
            except FailedRequest as error:
                failed[location.removeprefix(f"{self.name}, ")] = error
        if failed:
            first, *others = failed
            more = f" ({len(others):,} more failed: {list_names(others, 12)})" if others else ""
            raise InputError(f"{failed[first]}{more}")

    def plain_pair(self, record: Any) -> tuple[str, str] | None:
        """The image and the caption of a record that has nothing else and needs no check, as most of COCO's have.

        None: `rows` reads it. Files have tens of thousands of these, and this takes a fifth of the time.
        """
        if type(record) is not dict or not record.keys() <= self._plain_names:
            return None
        image_id, caption = record.get("image_id"), record.get("caption")
        if type(image_id) is int and image_id < 1 << 63 and type(caption) is str and caption.isascii():
            return str(image_id), caption
        return None

    def rows(self, record: Any, location: str, side: Side, number: int) -> list[CaptionRow]:
        """The rows that a record holds: one, or one for each system; none if the layout leaves the record out.

        Args:
            record: as JSON holds it.
            location: for messages.
            side: what the record is read as.
            number: of the record in its file, from 0.

        Raises:
            InputError: the record is not an object, or a field has a mistake.
        """
        if type(record) is not dict and not isinstance(record, Mapping):
            raise InputError(
                f"{location}: {describe(record)}, expected an object with image_id, candidate and references"
            )
        fields = decoded = decode_texts(record, self._nested) if self._nested else record
        if self.layout is not None:
            if self.layout.are_references and side == "candidates":
                raise NotCandidates(
                    f"{location}: {self.layout.holds} hold references, where candidates were expected; are the two "
                    "files swapped?"
                )
            if self.layout.only is not None and not self.layout.reads(record):
                self.note(self.layout.only[2], str(record.get("id", location)))
                return []
            fields = self._convert(decoded, location)
        if self.paths:
            values = {path: layouts.resolve_path(decoded, path, location) for path in self.paths}
            resolved = {path: value for path, value in values.items() if value is not None}
            self.used.update(resolved.keys() & self.mapping.keys())
            fields = NamedRecord({**fields, **resolved}, record)
        caption_rows = self._make_rows(fields, location, side, number)
        if self.keep is not None:
            self.names.update(dict.fromkeys(record))
            for row in caption_rows:
                row.number, row.kept = number, tuple(record.get(column_name) for column_name in self.keep)
        return caption_rows

    def _convert(self, record: Record, location: str = "") -> Record:
        """The record with native names, beside those that the user named; of the sample, as it is with a mistake."""
        if self.layout is None or self.layout.convert is None:
            return record
        named_fields = {name: record[name] for name in self.mapping if name in record}
        try:
            fields = self.layout.convert(record, location)
        except InputError:
            if location and not named_fields and not self.paths:
                raise
            return record
        return NamedRecord({**fields, **named_fields}, fields if isinstance(fields, NamedRecord) else record)

    def _make_rows(self, record: Record, location: str, side: Side, number: int) -> list[CaptionRow]:
        values, candidate_names, reference_names = self._sort_fields(record, location)
        row = CaptionRow(location, self._image_id(values, record, location, number))
        listed = texts if isinstance(texts := record.get("references"), list | tuple) else ()
        if listed and all(isinstance(entry, Mapping) and "timestamps" in entry for entry in listed):
            row.reference_events = tuple(
                read_events(entry.get("timestamps"), entry.get("sentences"), f"{location}, references[{k}]")
                for k, entry in enumerate(listed)
            )
            record = {**record, "references": [events.paragraph for events in row.reference_events]}
        has_events = not EVENT_NAMES.isdisjoint(record) or "box" in values or "start" in values or time_names(record)
        if has_events or self._are_timed or self.event_lists:
            self._read_events(row, record, values, candidate_names, reference_names, side)
        if lone := self._lone_time:
            time, key = str(record.get(lone)), (row.image_id, str(values.get("system")))
            if self._times_of.setdefault(key, time) != time:
                self.note(f"captions of a video differ in {lone}, not read without start and end", row.image_id)
        row.references = self._references(record, reference_names, location) if reference_names else None
        for field_name in [name for name in ("id", "image", "system", "split", "annotator") if name in values]:
            setattr(row, field_name, optional_text(values[field_name], location, field_name))
        if "human" in values:
            row.human = human_ratings(values["human"], location)
        row.omitted = record.get(layouts.OMITTED) if self.layout is not None else None
        if side == "candidates":
            return self._candidate_rows(row, record, candidate_names)
        if self.aliases or row.image is not None:
            names = (row.image, *(picture_path(record.get(name)) for name in self.aliases))
            row.aliases = tuple(dict.fromkeys(name for name in names if name and name != row.image_id))
        is_single = self.layout is not None and self.layout.single
        is_one = len(reference_names) == 1 and isinstance(record[reference_names[0]], str | Mapping)
        row.one_of_many = is_single or (not candidate_names and is_one and len(row.references or ()) == 1)
        return [self._reference_row(row, record, candidate_names)]

    def _sort_fields(self, record: Record, location: str) -> tuple[dict[str, Any], list[str], list[str]]:
        """The values of fields that occur once, and the names of the candidates and of the references."""
        values: dict[str, Any] = {}
        names: dict[str, str] = {}
        unknown_names: list[str] = []
        text_names: dict[str | None, list[str]] = {"candidate": [], "references": []}
        known_fields = self._fields
        for name, value in record.items():
            if name in known_fields and name not in _BY_VALUE:  # nearly always
                field_name = known_fields[name]
            elif isinstance(name, str):
                field_name = self.field(name, value)
            else:
                self.ignored.add(f"({type(name).__name__})")
                continue
            if field_name in text_names:
                text_names[field_name].append(name)
            elif field_name is None:
                unknown_names += () if name in self.ignored else [name]
            elif names.setdefault(field_name, name) != name:
                raise InputError(
                    f"{location}: both {names[field_name]} and {name} are given for {field_name}; keep one of the two"
                )
            else:
                values[field_name] = value
        if unknown_names:
            times = time_names(record) or {"timestamps"} & record.keys()
            known_names = {*EVENT_NAMES, *times, *(EVENT_TEXTS if times else ()), *self.aliases, layouts.OMITTED}
            self.ignored.update(name for name in unknown_names if name not in known_names)
        if "image" in values and not isinstance(values["image"], str | int | None):
            values["image"] = picture_path(values["image"])
        if self.image_name in RECORDINGS and isinstance(values.get("image_id"), Mapping):
            values["image_id"] = picture_path(values["image_id"])
        return values, text_names["candidate"], text_names["references"]

    def _image_id(self, values: dict[str, Any], record: Record, location: str, number: int) -> str:
        """The row's image; rows with a candidate and references may be numbered."""
        name = self._image_field
        if name == "" and "image_id" not in values:
            return str(number)
        if name in ("image", "id", "") and values.get("image_id") is not None:
            raise InputError(
                f"{location}: image_id is given, but not in the first rows, where {name or 'nothing'} names the image; "
                "give image_id in every row or in none"
            )
        if name and values.get(name) is not None:
            is_own = self.image_name in self.all_names or self.image_name in self.paths
            value = values.pop("id") if name == "id" else values[name]
            return image_key(value, location, (self.image_name or name) if is_own else "the id")
        value = record.get(self.image_name or "image")
        found = "missing" if value is None else describe(value)
        advice = "correct or leave out the row" + ", or the format that was named" * (self.forced_layout is not None)
        if self.image_name is None:
            advice = f"--column image_id=NAME {layouts.IN_PYTHON} says which field it is"
            advice += "; rows with both --column candidate=NAME --column references=NAME need none" * self.numbered
            found = f"missing (image is {found})" if value is not None else found
        raise InputError(
            f"{location}: {own_name(record, self.image_name or 'image_id', 'the id')} is {found}, expected the id of "
            f"the image that the caption is of (the fields are {suggest_names(record) or 'none'}); {advice}"
        )

    def _read_events(
        self,
        row: CaptionRow,
        record: Record,
        values: Mapping[str, Any],
        candidate_names: list[str],
        reference_names: list[str],
        side: Side,
    ) -> None:
        """Reads the row's events, if it has any, and takes the names of their texts out of both lists of names."""
        location, texts = row.location, reference_names if side == "references" else []
        found = event_fields.find_events(record, values, candidate_names, texts, self.event_lists, location)
        if found is None:
            has_time = event_time(record) or {*layouts.TIMES} <= values.keys() or row.reference_events
            if self._are_timed and not has_time:
                raise InputError(
                    f"{location}: it has no time, which the other rows have (the fields are {suggest_names(record)}); "
                    "give it [start, end], or leave out the row"
                )
            return
        row.events, row.single_event, event_names = found
        for names in (candidate_names, reference_names):
            names[:] = [name for name in names if name not in event_names]

    def _references(self, record: Record, names: list[str], location: str) -> tuple[str, ...] | None:
        """The references under these names: one list (or its text), one text, or a column for each text."""
        names = [name for name in names if not is_null(record[name])]
        if not names:
            return None
        if len(names) == 1 and not layouts.is_numbered_reference(names[0]):
            return reference_field(record[names[0]], location, names[0])
        order = {path: position for position, path in enumerate(self._chosen)}
        ranks = {name: order.get(name, order.get(layouts.without_number(name), -1)) for name in names}
        names.sort(key=lambda name: (ranks[name], layouts.number_of(name)))
        if -1 in ranks.values() and not layouts.is_numbered_reference(names[0]):
            raise InputError(
                f"{location}: both {names[0]} and {names[1]} are given; keep one of the two, or say which holds the "
                f'references: --column references={names[0]} (in Python columns={{"{names[0]}": "references"}})'
            )
        values = {name: record[name] for name in names if not isinstance(record[name], str) or record[name]}
        return tuple(text for name, value in values.items() for text in reference_field(value, location, name))

    def _candidate_rows(self, row: CaptionRow, record: Record, names: list[str]) -> list[CaptionRow]:
        location = row.location
        if row.events is not None and (len(names) > 1 or any(isinstance(record[name], Mapping) for name in names)):
            raise InputError(
                f"{location}: captions of several systems beside one list of events; give each system a row with "
                "timestamps and sentences of its own, and its name as system"
            )
        if len(names) > 1 and all(name in self.mapping for name in names):
            texts = {name: candidate_text(record[name], location, name) for name in names}
            return [replace(row, candidate=text, id=None, system=name) for name, text in texts.items()]
        if len(names) > 1:
            raise InputError(
                f"{location}: {' and '.join(names)} are all given, and any could be the candidate; keep one, or say "
                f'which it is: --column candidate={names[0]} (in Python columns={{"{names[0]}": "candidate"}})'
            )
        if row.events is not None and (not names or row.single_event or isinstance(record[names[0]], list)):
            row.candidate = row.events.paragraph
            return [row]
        if record.get("error") and all(record[name] is None for name in names):
            raise FailedRequest.at(location, *layouts.error_codes(record["error"]))
        if not names:
            hint = self._hint(row, record, ("candidate",))
            raise NotCandidates(f"{location}: candidate is missing, expected a caption as text; {hint}")
        if names[0] != "captions" or isinstance(record["captions"], str):
            row.candidate = candidate_text(record[names[0]], location, own_name(record, names[0], "the caption"))
            return [row]
        return system_rows(row, record["captions"])

    def _hint(self, row: CaptionRow, record: Record, wanted: Collection[str] = ("references", "candidate")) -> str:
        """What to do with a row that lacks the wanted fields."""
        if (time := next((name for name in TIME_NAMES if isinstance(record.get(name), list)), None)) is not None:
            return f"its {time} is {describe(record[time])}, expected [start, end] in seconds"
        if "candidate_a" in record:
            return "it holds pairs (candidate_a, candidate_b), as benchmarks of human judgment do: see `capmeter meta`"
        fields = f"the fields are {suggest_names(record) or 'none'}"
        if absent := sorted(self.mapping.keys() & self.paths.keys() - self.used):
            return f"{fields}, none is {absent[0]}, which was chosen for {self.mapping[absent[0]]}"
        held = next(
            (name for name, of in sorted(self._fields.items()) if of in wanted and record.get(name) is None), None
        )
        only = "it holds references only: " * (row.references is not None)
        if held is not None:
            return f"{only}correct or leave out the row, which has no {own_name(record, held, 'caption')}; {fields}"
        if row.references is None:
            return f"{fields}; --column candidate=NAME or references=NAME {layouts.IN_PYTHON} says which"
        hint = "name the file as references, beside one of candidates" if self.numbered else "swap the two files"
        say = f"say which field is the candidate: --column candidate=NAME {layouts.IN_PYTHON}"
        return f"{only}{hint}, or {say} ({fields})"

    def _reference_row(self, row: CaptionRow, record: Record, candidates: list[str]) -> CaptionRow:
        """The row read as references: its caption is one of them if it has no others."""
        if row.references is None and row.events is not None:
            described = (row.events,) if row.events.times else ()
            row.references, row.one_of_many = tuple(events.paragraph for events in described), True
            row.reference_events = described
        if row.references is not None:
            return row
        name = candidates[0] if len(candidates) == 1 else ""
        if name and (name.casefold() in NAMES["either_side"] or name in self.mapping):
            value, field_name = record[name], own_name(record, name, "the caption")
            is_one = isinstance(value, str) and (value == "[]" or self.ids_are_other)
            row.references = (reference_list if is_one else reference_field)(value, row.location, field_name)
            row.one_of_many = True
            return row
        if candidates:
            raise InputError(
                f"{row.location}: references are missing: it holds candidates only: are the two files swapped? (the "
                f"fields are {suggest_names(record)})"
            )
        raise InputError(f"{row.location}: neither a candidate (caption) nor references; {self._hint(row, record)}")
