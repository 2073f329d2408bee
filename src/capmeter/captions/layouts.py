"""Names of fields: one table for every file alike, paths to nested values, and layouts: what one program writes.

`data/layouts.json` has one `Layout` for each program or data set, recognised by its names, in any file; the functions
that it needs, for what paths cannot say, end this module. `docs/formats.md` cites where each is published.

>>> resolve_path({"en": {"caption": ["a dog"]}, "s": [{"raw": "a"}, {"raw": "b"}]}, "en.caption", "row 0")
['a dog']
>>> resolve_path({"turns": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "a dog"}]},
...              "turns[from=gpt].value", "row 0")
['a dog']
>>> suggest_names(["imageid", "score"])
'imageid (image_id?), score'
>>> layout = find_layout([{"videoID": "v7", "enCap": ["a dog runs"], "chCap": []}])
>>> layout.name, dict(layout.fields)
('vatex', {'references': 'enCap'})
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from numbers import Integral
from typing import Any

from capmeter.captions.rows import ANSWER_NAMES, LONGEST_ID, FailedRequest, answer_text, is_finite, only_item
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json, read_bundled_json
from capmeter.core.messages import describe, list_names, shorten

Record = Mapping[Any, Any]
FIELDS = ("id", "image_id", "candidate", "references", "image", "system", "human", "split")
"""The fields of a native row."""
TIMES = ("start", "end")
"""Start and end in seconds of a row that is one event of its video."""
ALL_FIELDS = (*FIELDS, *TIMES, "box", "annotator")
NAMES: dict[str, Any] = read_bundled_json("field_names.json")
"""The names that programs give to fields, and to the lists that hold them."""
OTHER_NAMES: dict[str, str] = NAMES["other"]
"""Other names of fields."""
SHORT_NAMES: dict[str, str] = NAMES["short"]
"""Names that hold a field, as text, where no name of the file's records above does."""
IMAGE_NAMES: list[str] = NAMES["image"]
"""Names of what a caption is of, in the order of preference."""
FIELD_OF = {"candidate": "candidate", "references": "references", **OTHER_NAMES, **SHORT_NAMES, **NAMES["columns"]}
"""Fields by their names in rows, or as columns or captions by image in an object that has candidates and references."""
KNOWN_NAMES = dict.fromkeys((*FIELDS, *OTHER_NAMES, "captions"))
_NUMBER = re.compile(r"(.*?)_?(\d{1,9})")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|[ -]")
LONGEST_NAME = 100
_SEVERAL = ("candidate", "references")  # fields that several columns may hold
OMITTED = "__omitted__"
"""The name by which a layout says why a record's reference is left out."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_CAPTION_NAMES = ("candidate", "caption", "prediction", "hypothesis", "captions", *list(SHORT_NAMES)[:7], "response")
_LISTS = {"annotations", "conversations", "messages", "regions"}
_TEXT_NAMES = {"candidate", "references", "caption_#", *OTHER_NAMES, *SHORT_NAMES, *NAMES["text"], *NAMES["numbered"]}
_CODES = ("code", "type", "status", "blockReason")
FORMAT_OPTION = "--input-format {} (of references --references-format; in Python format=, references_format=)"
IN_PYTHON = '(in Python columns={"NAME": FIELD})'
"""What follows a message that names `--column FIELD=NAME`: functions raise it, too."""


class NamedRecord(dict[Any, Any]):
    """A record with native names; messages list those of the file (`own_names`)."""

    def __init__(self, fields: Record, record: Record) -> None:
        super().__init__(fields)
        self.own_names = list(getattr(record, "own_names", record))


@dataclass(frozen=True)
class Layout:
    """The records of one program or data set.

    name, holds: its short name, and what its files hold.
    marks: the names that its records have; `caption_#` stands for `caption_1`, `caption_02` …
    fields: the path of each of its fields, as in `--column FIELD=PATH`; all others have the names of native rows.
    convert: turns a record, read at a location, into one with native names.
    without: names that its records do not have.
    single: each record holds one of several references of its image.
    are_references: the records hold references and never candidates.
    numbered: records that name no image (clip, video) are numbered.
    only: a name, the pattern of its value in records that are read, and the note on the others, which are left out.
    made: fields that are made of several names, by templates: `{VideoID}_{Start}_{End}`.
    weak: it gives way to every other layout, and to other names of texts and times.
    """

    name: str
    holds: str
    marks: frozenset[str]
    fields: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[Record, str], dict[Any, Any]] | None = None
    without: frozenset[str] = frozenset()
    single: bool = False
    are_references: bool = False
    numbered: bool = False
    only: tuple[str, str, str] | None = None
    made: Mapping[str, str] = field(default_factory=dict)
    weak: bool = False

    def accepts(self, names: frozenset[str]) -> bool:
        """Whether a record with these names, those of numbers as `caption_#`, is of this layout."""
        return self.marks <= names and not self.without & names

    def reads(self, record: Record) -> bool:
        """Whether a record of this layout is read, by `only`."""
        return self.only is None or re.fullmatch(self.only[1], str(record.get(self.only[0]))) is not None


def names_of(record: Record) -> frozenset[str]:
    """The names of a record, but of empty lists of its texts; with `caption_#` for each that ends in a number."""
    empty_names = {name for name in _LISTS & record.keys() if isinstance(record[name], list) and not record[name]}
    names = {name for name in record if isinstance(name, str)} - empty_names
    return frozenset(names | {without_number(name) for name in names if name[-1:].isdigit()})


@lru_cache(maxsize=1024)  # called for every row
def without_number(name: str) -> str:
    """`caption_#` for `caption_1`; a name that ends in no number as it is."""
    match = _NUMBER.fullmatch(name[:LONGEST_NAME])
    return f"{match[1]}_#" if match else name


def resolve_path(record: Any, path: str, location: str) -> Any:
    """The value at a path such as `en.caption`, `sentences[].raw`, `conversations[from=gpt].value` or `choices[0]`.

    Args:
        record: a row as JSON holds it.
        path: names joined by dots; `[]` takes all elements of a list, `[k]` one, `[name=value]` those with this value.
        location: of the row, for messages.

    Returns:
        The value, a list of values where the path takes several elements, or None where the record has no such name.

    Raises:
        InputError: one of several elements lacks a name of the path.
    """
    values, are_many = [record], False
    for name, selector in _STEP.findall(path):
        if name:
            missing = [value for value in values if not isinstance(value, Mapping) or name not in value]
            if missing and are_many:
                raise InputError(f"{location}: {path}: an element has no {name}, it is {describe(missing[0])}")
            values = [] if missing else [value[name] for value in values]
            continue
        lists = [value for value in values if isinstance(value, Sequence) and not isinstance(value, str)]
        if selector.lstrip("-").isdigit():
            lists = [values] if are_many else lists
            position = int(selector)
            values = [each[position] for each in lists if -len(each) <= position < len(each)]
            are_many = False
        else:
            key, equals, wanted_value = selector.partition("=")
            values = [element for each in lists for element in each]
            if equals:
                values = [e for e in values if isinstance(e, Mapping) and str(e.get(key)) == wanted_value]
            are_many = True
    return values if are_many else values[0] if values else None


def path_root(path: str) -> str:
    """The name that a path begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def parse_columns(texts: Sequence[str], flag: str = "--column") -> dict[str, str]:
    """`FIELD=PATH` texts of this option as path → field; `references=PATH,PATH` stands for several columns.

    Several columns of candidates are systems of their names.

    A column that holds both the candidate and the references is, in one file, the candidate, and in the other the
    reference: it is stored as the candidate's, which files of references are read by, too.
    """
    column_mapping: dict[str, str] = {}
    for option_text in texts:
        field, equals, column_names = option_text.partition("=")
        if not equals or not column_names or field not in ALL_FIELDS:
            raise InputError(
                f"{flag} {option_text}: expected FIELD=NAME, such as candidate=output or references=sentences[].raw; "
                f"the fields are {', '.join(ALL_FIELDS)}"
            )
        for column_name in filter(None, column_names.split(",")) if field in _SEVERAL else [column_names]:
            if {field, column_mapping.get(column_name)} == {"candidate", "references"}:
                column_mapping[column_name] = "candidate"
            elif column_name in column_mapping or (field in column_mapping.values() and field not in _SEVERAL):
                raise InputError(
                    f"{flag} {option_text}: {shorten(column_name)} or {field} was given before; give each once"
                )
            else:
                column_mapping[column_name] = field
    return column_mapping


def known_field(name: str) -> str | None:
    """The field that a name holds in files alike: its own one, another's, or references for `ref1`, `reference_2` …"""
    field_name = name if name in ALL_FIELDS else OTHER_NAMES.get(name)
    return "references" if field_name is None and is_numbered_reference(name) else field_name


def is_numbered_reference(name: str) -> bool:
    """Whether this is the name of one of several columns of references."""
    return name[-1:].isdigit() and without_number(name) in NAMES["numbered"]


def is_known(name: str) -> bool:
    """Whether this is a name of a field, or of one of several columns of captions."""
    is_field = known_field(name) is not None or name in KNOWN_NAMES or name in IMAGE_NAMES or name in SHORT_NAMES
    return is_field or without_number(name) == "caption_#"


def close_name(name: Any) -> str | None:
    """The known name that was probably meant by an unknown one."""
    from difflib import get_close_matches  # which only mistakes need

    if not isinstance(name, str) or (is_known(name) and name not in SHORT_NAMES):
        return None
    return next(iter(get_close_matches(name[:40].strip().lower().replace(" ", "_"), KNOWN_NAMES, 1, 0.75)), None)


def suggest_names(names: Iterable[Any], most: int = 8) -> str:
    """The first names, each unknown one followed by the known name that was probably meant."""
    names, shown_names = list(getattr(names, "own_names", names)), []
    for column_name in names[:most]:
        similar_name = close_name(column_name)
        shown_name = column_name if isinstance(column_name, str) else f"({type(column_name).__name__})"
        shown_names.append(f"{shown_name} ({similar_name}?)" if similar_name else shown_name)
    return list_names([*shown_names, *[""] * (len(names) - most)], most)


def own_name(record: Record, name: str, other: str) -> str:
    """What messages call a field: by its name where the file has it, else by other words.

    Args:
        record: with native names.
        name: of the field.
        other: the words.
    """
    return name if record.__class__ is not NamedRecord or path_root(name) in record.own_names else other


def fold_name(name: str) -> str:
    """A name in lower case with underscores, also for `imageId` and `image-id`, unless it is known as it is."""
    return name if name in IMAGE_NAMES else _BETWEEN_WORDS.sub("_", name[:LONGEST_NAME].strip()).casefold()


def number_of(name: str) -> int:
    """The number at the end of a name, -1 without one."""
    match = _NUMBER.fullmatch(name[:LONGEST_NAME])
    return int(match[2]) if match else -1


def can_name_image(value: Any, name: str) -> bool:
    """Whether a value can name an image: any value of `image_id`, else a text or a number that is not a picture."""
    if name == "image_id":
        return value is not None
    if isinstance(value, str):
        return bool(value.strip()) and len(value) <= LONGEST_ID and not value.startswith("data:")
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    return is_whole and type(value) is not bool and abs(value) < 10**LONGEST_ID


def _lmms_eval(record: Record, location: str) -> dict[Any, Any]:
    """A sample's entry for a metric has the caption, the references and the image; tasks without one have `target`."""
    values = [value for value in record.values() if isinstance(value, Mapping) and {"pred", "image_id"} <= value.keys()]
    entries = [{name: value[name] for name in ("image_id", "pred", "answer") if name in value} for value in values]
    if len(set(map(str, entries))) > 1:
        raise InputError(f"{location}: its metrics have different captions, references or images; keep those of one")
    document = {"doc_id": record.get("doc_id")}  # not the image, where other samples name one
    if entries:
        return document | {"candidate": only_item(entries[0].pop("pred"), location, "pred")} | entries[0]
    candidate = only_item(record.get("filtered_resps"), location, "filtered_resps")
    return document | {"candidate": candidate} | ({"target": record["target"]} if record.get("target") else {})


def _inspect(record: Record, location: str) -> dict[Any, Any]:
    """A sample of a log: the answer is the output's `completion`, else the content of its first choice."""
    completion = resolve_path(record, "output.completion", location)
    content = answer_text(resolve_path(record, "output.choices[0]", location), location)
    answer = completion or (completion if content is None else content)
    if not answer and (record.get("error") is not None or resolve_path(record, "output.error", location) is not None):
        raise FailedRequest(
            f"{location}: the sample ended with an error, so there is no caption; run it again, or leave it out"
        )
    return {"image_id": record.get("id"), "candidate": answer, "target": record.get("target")}


def _batch_answer(record: Record, location: str) -> dict[Any, Any]:
    """A line of a batch output of OpenAI, vLLM, Gemini, Vertex, Anthropic or Bedrock; failed requests are refused.

    Vertex has no key: the image is the file of the request.
    """
    response = next((record[name] for name in ("response", "result", "modelOutput") if name in record), None)
    fields = response if isinstance(response, Mapping) else {}
    body = response if isinstance(response, str) else fields.get("body")
    if "body" not in fields and fields.keys() & {"candidates", "promptFeedback", *ANSWER_NAMES}:
        body = fields
    answer, outcome = answer_text(body, location), fields.get("type", "succeeded")
    problems = [record.get("error"), None if answer else record.get("status") or None, fields.get("error")]
    if isinstance(body, Mapping):
        problems.append(body.get("error"))
        if answer is None:
            problems += [body.get("promptFeedback"), resolve_path(body, "candidates[0].finishReason", location)]
    problem = next((each for each in problems if each is not None), None)
    if problem is not None or outcome != "succeeded" or not isinstance(body, Mapping | str):
        details = [str(outcome)] if outcome != "succeeded" else []
        details += [f"status {fields['status_code']}"] if "status_code" in fields else []
        raise FailedRequest.at(location, *details, *error_codes(problem))
    image_id = next((record[name] for name in ("custom_id", "key", "recordId") if name in record), None)
    parts = resolve_path(record, "request.contents[0].parts", location) or ()
    files = (resolve_path(part, "fileData.fileUri", location) for part in parts)
    return {"image_id": next(filter(None, files), None) if image_id is None else image_id, "candidate": answer}


def error_codes(problem: Any) -> list[str]:
    """The code of a failed request, which programs name differently; none if it has no code."""
    while isinstance(problem, Mapping) and isinstance(problem.get("error"), Mapping):
        problem = problem["error"]
    values = [problem.get(name) for name in _CODES] if isinstance(problem, Mapping) else [problem]
    texts = [value for value in values if isinstance(value, str)]
    return (texts or [f"code {value}" for value in values if isinstance(value, int)])[:1]


def _ollama(record: Record, location: str) -> dict[Any, Any]:
    """An answer of Ollama, of `generate` or of `chat`."""
    if record.get("error") is not None:
        raise FailedRequest.at(location, *error_codes(record["error"]))
    if record.get("done") is False:
        raise InputError(f'{location}: a part of an answer, as Ollama streams it; ask with "stream": false')
    return _without(record, "response", "message") | {"candidate": record.get("response", record.get("message"))}


def _conversation(record: Record, location: str) -> dict[Any, Any]:
    """A row of training data: the last answer of the model is the caption."""
    turns = record.get("conversations", record.get("messages"))
    answers = [
        turn.get("value", turn.get("content"))
        for turn in (turns if isinstance(turns, list) else [])
        if isinstance(turn, Mapping) and turn.get("from", turn.get("role")) in ("gpt", "assistant")
    ]
    caption = answer_text(answers[-1], location) if answers else None
    return _without(record, "conversations", "messages") | {"caption": caption}


def _vtimellm(record: Record, location: str) -> dict[Any, Any]:
    """A log of VTimeLLM: events as JSON in the answer, with times in hundredths of the video.

    The last hundredth belongs to the event, as in the authors' evaluation.
    """
    events: Any = record.get("answer")
    if isinstance(events, str):  # with other words around the list
        match = re.search(r"\[.*\]", events, re.DOTALL)
        events = decode_json(match[0], f"{location}, answer") if match else None
    events = events if isinstance(events, list) else [events]
    events = [event if isinstance(event, Mapping) else {} for event in events]
    times = [re.fullmatch(r"from (\d\d) to (\d\d)", str(event.get("timestamps"))) for event in events]
    if not all(times):
        raise InputError(f'{location}: answer is not a list of events with timestamps such as "from 00 to 14"')
    duration = record.get("duration")
    if not is_finite(duration):
        raise InputError(
            f"{location}: the times of the answer are hundredths of the video, whose duration the row lacks; add "
            '"duration": seconds to each row (the file of references has it)'
        )
    hundredths = [(int(time[1]), int(time[2]) + 1) for time in times if time is not None]
    spans = [[start * duration / 100, end * duration / 100] for start, end in hundredths]
    return {"image_id": record.get("video_id"), "timestamps": spans, "sentences": [row.get("event") for row in events]}


def _vizwiz(record: Record, location: str) -> dict[Any, Any]:
    """An annotation; the evaluation of VizWiz omits those that are rejected or precanned."""
    marks = ("is_rejected", "is_precanned")
    mark = next((name for name in marks if str(record.get(name)).casefold() in ("true", "1", "1.0")), None)
    fields = _without(record, "is_rejected", "is_precanned", "text_detected")
    return fields if mark is None else _without(fields, "caption") | {"references": [], OMITTED: mark}


def _crossmodal(record: Record, location: str) -> dict[Any, Any]:
    """An image of XM3600, whose captions are under the name of their language."""
    languages = [name for name, value in record.items() if _LANGUAGE.fullmatch(name) and isinstance(value, Mapping)]
    if len(languages) == 1:
        return {**record, "references": record[languages[0]].get("caption")}
    if location and languages:
        raise InputError(
            f"{location}: captions in {len(languages)} languages ({list_names(languages, 40)}); choose one, such as "
            f"--column references={languages[0]}.caption (in Python columns="
            f'{{"{languages[0]}.caption": "references"}})'
        )
    return dict(record)


def _fill(templates: Mapping[str, str], record: Record, location: str) -> dict[Any, Any]:
    """The record with fields that are made of several others: a clip of its video and times."""
    values = {name: value for name, value in record.items() if isinstance(value, str | int | float)}
    try:
        made = {name: template.format_map(values) for name, template in templates.items()}
    except KeyError as error:
        value = describe(record.get(error.args[0]))
        raise InputError(f"{location}: {error.args[0]} is {value}, expected a text or a number") from None
    return _without(record, *re.findall(r"{(.+?)}", "".join(templates.values()))) | made


def _webdataset(record: Record, location: str) -> dict[Any, Any]:
    """A sample of a tar shard: the fields of its JSON object, and its text as the caption."""
    fields = record.get("json", _without(record, "__key__", "txt"))
    if not isinstance(fields, dict):
        raise InputError(
            f"{location}.json: {describe(fields)}, expected an object with the fields of a row; if the archive holds "
            "a file of captions, unpack it"
        )
    text = record.get("txt")
    names = [name for name in _CAPTION_NAMES if fields.get(name) is not None]
    if text is not None and names and fields[names[0]] != text:
        raise InputError(
            f"{location}: two captions under one key, {names[0]} in its .json and another in its .txt; choose one: "
            f"--column candidate={names[0]} or candidate=txt {IN_PYTHON}"
        )
    caption = {} if text is None or names else {"caption": text}
    key = {} if "image_id" in fields else {"image_id": record.get("__key__")}
    return NamedRecord({**fields, **key, **caption}, record if text is not None else fields)


def _without(record: Record, *names: str) -> dict[Any, Any]:
    return {field_name: value for field_name, value in record.items() if field_name not in names}


_CONVERT = {
    "webdataset": _webdataset,
    "lmms-eval": _lmms_eval,
    "inspect": _inspect,
    "batch": _batch_answer,
    "ollama": _ollama,
    "vtimellm": _vtimellm,
    "llava-training": _conversation,
    "vizwiz": _vizwiz,
    "xm3600": _crossmodal,
}


def _layout(entry: dict[str, Any]) -> Layout:
    """The layout of an entry of `layouts.json`."""
    marks, without = frozenset(entry["marks"]), frozenset(entry.get("without", ()))
    if entry.get("weak"):
        without |= {*_TEXT_NAMES, *NAMES["time"], *NAMES["start"], *NAMES["end"], "box"} - marks - {"annotator_id"}
    convert = partial(_fill, entry["made"]) if "made" in entry else _CONVERT.get(entry["name"])
    return Layout(**entry | {"marks": marks, "without": without}, convert=convert)


LAYOUTS = tuple(map(_layout, read_bundled_json("layouts.json")))
"""Every layout; of those whose marks a file's records have, the one with most marks is used."""


def find_layout(records: Sequence[Any]) -> Layout | None:
    """The layout of most of these records; None for native rows and any other.

    Raises:
        InputError: two layouts have the same claim.
    """
    names = Counter(names_of(record) for record in records if isinstance(record, Mapping))
    claims: dict[tuple[bool, int, int], list[Layout]] = {}
    for layout in LAYOUTS:
        count = sum(number for each, number in names.items() if layout.accepts(each))
        if count and 2 * count >= names.total():
            claims.setdefault((not layout.weak, count, len(layout.marks)), []).append(layout)
    best = claims[max(claims)] if claims else []
    if len({layout.name for layout in best}) > 1:
        raise InputError(
            f"the rows could be {' or '.join(layout.holds for layout in best)}; choose one: "
            f"{FORMAT_OPTION.format(' or '.join(layout.name for layout in best))}"
        )
    return best[0] if best else None


def is_results(document: Any) -> bool:
    """Whether this JSON claims to be a results file of capmeter (`capmeter.evaluation.results`)."""
    return isinstance(document, Mapping) and "capmeter" in document and isinstance(document.get("systems"), Mapping)
