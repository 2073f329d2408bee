"""Rows as files hold them, and the checks that every field of every format passes; texts without fields: lists of
captions, pairs of an image's name and a caption, and lines of either.

A file is read *as* candidates or *as* references: `{"7": ["a dog"]}` can be either. A `CaptionRow` is one entry of a
file; `matching` joins rows of candidates with rows of references.

Lines begin with `NAME#k` before a tab or blank (`Flickr8k.token.txt`, COCO-CN), with a file's name such as `10.jpg`
(before a tab also with blanks and commas, as in Clotho), or are two columns without a heading (ROCO; Oscar, whose
second column is a list in JSON), or all begin with a word of letters and digits (MSVD, `mv89psg6zh4_33_46 a bird ...`).

>>> are_named_lines(["10.jpg#0\tA dog runs .", "10.jpg#1\tIt runs ."]), are_named_lines(["A dog .", "A cat ."])
(True, False)
>>> split_line("COCO_val2014_000000000101#zhm#0 一只狗"), split_line("ROCO_00011\t A scan.")
(('COCO_val2014_000000000101', '一只狗'), ('ROCO_00011', 'A scan.'))
>>> split_line("a dog, far.wav\\tA dog barks."), split_line("10.jpg##A dog runs.")
(('a dog, far.wav', 'A dog barks.'), ('10.jpg', 'A dog runs.'))
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from numbers import Real
from typing import Any, Literal, TypeGuard, TypeVar

from capmeter.captions.caption_set import Events
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, shorten

Side = Literal["candidates", "references"]
Item = TypeVar("Item")
MAX_NUMBER = 1e100  # of ratings and scores: their means, squares and intervals are finite, too
_CALL = r"(?:np\.)?(?:array|str_|frozenset|set|deque|tensor|Series|list|tuple)\(\s*"
_QUOTED = re.compile(rf"(?:{_CALL})?[\[{{][\s\[({{]*(?:{_CALL}|\d+: )?[bru]?['\"“‘]|(?:np\.)?array\(\s*\[|\"\[\\?[\"']")
_OPENINGS = ("[", "{", '"[')
_TUPLE = re.compile(r"\(\s*[bru]?['\"]")
_BEGINNING = re.compile(r"[\[{][^\[\]{}]*[\]}]\s*[^\s\]},)]")  # of a caption, which goes on after the bracket
_ADJACENT = re.compile(r"['\"]\s+[bru]?['\"]")
ANSWER_NAMES = ("choices", "candidates", "output", "message", "content", "parts", "text", "refusal")
"""Names by which the text of a server's answer is found, from the outside in."""
_ENDING = r"\.(?i:jpe?g|png|webp|gif|bmp|tiff?|mp4|avi|mkv|webm|mov|wav|flac|mp3)"
_FILE_NAME = rf"(?:[^\s,|;]{{1,1000}}{_ENDING}|https?://[^\s,|;]{{1,1000}})"
_IMAGE_NAME = re.compile(_FILE_NAME + r"|(?=[^\s\d]*\d)\S{1,1000}")
_MARK = r"(?:#[a-z][a-z0-9]{1,9})?#\d{1,9}"  # #0, or #zhm#0 with the language of COCO-CN and Flickr30k-CN
_MARKED = re.compile(rf"([^\t,|;]{{1,1000}}?){_MARK}\t(.*)|([^\s,|;]{{1,1000}}?){_MARK} (.*)", re.DOTALL)
_SIGNS = r"(?:[\t ]*(?:##+|:|->|=>?)\s*|[\t ]\s*(?:- )?)"
_NAMED = re.compile(rf"({_FILE_NAME}|[^\t]{{1,1000}}{_ENDING}(?=\t)){_SIGNS}(?:\d{{1,9}}\t)?(\S.*)", re.DOTALL)
_CODED = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)([\w.\-/]{4,1000}) +(\S.*)", re.DOTALL)
_COLUMNS = re.compile(r"([^\t]{1,1000})\t([^\t]*)", re.DOTALL)
_CELLS = re.compile(r"([^\t,;|]{1,1000})[\t,;|]\s*(\S.*)", re.DOTALL)
_LONGEST = 10_000  # letters of a line that are looked at
_TO_LIST, _DEPTH = ("tolist", "to_list", "to_pylist"), 6  # of numpy, pandas, torch, polars, pyarrow; and of lists
LONGEST_ID = 1000
"""Letters of an id; a longer text in its place is a picture."""


class NotCandidates(InputError):
    """Rows read as candidates have the form of references, and may be read as such."""


class FailedRequest(InputError):
    """A row has no caption, since the program that was asked for it failed."""

    @classmethod
    def at(cls, location: str, *details: str) -> FailedRequest:
        """The error of the row here, with what is known of its cause."""
        cause = f" ({', '.join(details)})" if details else ""
        return cls(
            f"{location}: the request failed{cause}, so there is no caption; ask for it again, or leave the row out"
        )


@dataclass(slots=True)
class CaptionRow:
    """One entry of a file: a candidate, the references of an image, or both.

    location: the file and the entry's position in it, for messages.
    aliases: other names of the image.
    one_of_many: the image has more references, in other rows.
    events: the events that the candidate, or in a row of references the one reference, describes.
    reference_events: the same of the references, in a row that also has a candidate.
    single_event: the row is one of several events of its video.
    annotator: who described the video's events, or wrote the one reference.
    omitted: the field by which the source marks its reference as unusable (VizWiz), if it does.
    number, kept: the row's number in its file, and its values of the columns that are carried through
        (`FieldMap.keep`), if there are any.
    final_id: of a candidate, after `CaptionLoader.match`: its own id, or the one that its image gives it.
    """

    location: str
    image_id: str
    candidate: str | None = None
    references: tuple[str, ...] | None = None
    id: str | None = None
    image: str | None = None
    system: str | None = None
    human: tuple[float, ...] | None = None
    aliases: tuple[str, ...] = ()
    split: str | None = None
    one_of_many: bool = False
    events: Events | None = None
    reference_events: tuple[Events, ...] = ()
    single_event: bool = False
    annotator: str | None = None
    omitted: str | None = None
    number: int | None = None
    kept: tuple[Any, ...] = ()
    final_id: str = ""


def caption_text(value: Any, location: str, field: str) -> str:
    """A caption: any text, the empty one too, that can be written as UTF-8.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: the value is not a text, or holds half of a surrogate pair.
    """
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise InputError(
            f"{location}: {field} is {describe(value)}, expected a caption as text; correct or leave out the row"
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{location}: {field} holds {value[error.start]!a}, half of a surrogate pair, which is not text (an emoji "
            "was split?); correct the program that wrote it, or replace it with U+FFFD"
        ) from None
    return str(value)


def candidate_text(value: Any, location: str, field: str) -> str:
    """A candidate: a caption, also as the only item of a list, as decoders of batches write it, or in an object there;
    or the answer of a server.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: as in `caption_text`, or a list of another length.
    """
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise InputError(
                f"{location}: {field} is a list of {len(value)}, expected one caption; several candidates of an image "
                "come in a row each"
            )
        value = value[0].get("caption", value[0].get("generated_text")) if isinstance(value[0], Mapping) else value[0]
    if is_answer(value):
        value = answer_text(value, location)
    return caption_text(value, location, field)


def is_answer(value: Any) -> bool:
    """Whether this is an answer of OpenAI, Gemini, Anthropic or Ollama."""
    return isinstance(value, Mapping) and not value.keys().isdisjoint(("choices", "candidates", "message", "content"))


def holds_text(value: Any, field: str) -> bool:
    """Whether a value is a text, an answer of a server, or a list of texts or, as references, of COCO's objects."""
    if isinstance(value, list):
        return all(isinstance(each, str | Mapping if field == "references" else str) for each in value)
    return isinstance(value, str) or is_answer(value)


def answer_text(answer: Any, location: str) -> Any:
    """The text of an answer: of the message of its only choice or candidate, as text or in parts, without thoughts."""
    for _ in ANSWER_NAMES:
        if not isinstance(answer, Mapping):
            break
        named = [each for each in ANSWER_NAMES if each in answer]
        name = next((each for each in named if answer[each]), named[0] if named else "text")
        answer = answer.get(name)
        if name in ("choices", "candidates"):
            answer = only_item(answer, location, name)
            answer = answer if isinstance(answer, Mapping) else None
        if name == "output" and isinstance(answer, list):  # OpenAI's responses: reasoning, calls of tools, messages
            messages = (item for item in answer if isinstance(item, Mapping) and item.get("type") == "message")
            answer = next(messages, None)
    if isinstance(answer, list) and all(isinstance(part, Mapping | str) for part in answer):
        parts = [part if isinstance(part, str) else not part.get("thought") and part.get("text") for part in answer]
        texts = [text for text in parts if isinstance(text, str)]
        return "".join(texts) if texts or not answer else None
    return answer


def only_item(value: Any, location: str, field: str) -> Any:
    """The only item of a list, of lists of lists too: a model's answers, of which a captioner gives one.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: a list of another length.
    """
    item = value
    for _ in range(3):
        if isinstance(item, Sequence) and not isinstance(item, str):
            if len(item) != 1:
                raise InputError(
                    f"{location}: {field} is {describe(value)}, expected the one caption that the model gave"
                )
            item = item[0]
    return item


def image_key(value: Any, location: str, field: str = "image_id") -> str:
    """The text form of an id: text, or a whole number.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: the value is empty, or neither a text nor a whole number.
    """
    try:
        if type(value) is int:
            return str(value)
        if isinstance(value, str):
            if value.strip():
                return caption_text(value, location, field)
            raise InputError(f"{location}: {field} is empty, expected the image's id; correct or leave out the row")
        if isinstance(value, Real) and is_finite(value) and value == int(value):
            return str(int(value))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        raise InputError(f"{location}: {field} is a whole number of thousands of digits, which is not an id") from None
    raise InputError(f"{location}: {field} is {describe(value)}, expected the id as text or a whole number; correct it")


def reference_list(value: Any, location: str, field: str) -> tuple[str, ...]:
    """The references of one image: a list of captions, each text, COCO's `{"caption": text}` or Karpathy's
    `{"raw": text}`; or one text.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: the value is not a list of captions.
    """
    if type(value) is list and set(map(type, value)) == {str} and "".join(value).isascii():
        return tuple(value)  # nearly all lists; the general case takes six times as long
    if isinstance(value, str):
        return (caption_text(value, location, field),)
    items = value if isinstance(value, list | tuple) else plain_value(value)
    if isinstance(items, bytes | bytearray | memoryview | range) or not isinstance(items, Sequence):
        raise InputError(f"{location}: {field} is {describe(value)}, expected a list of captions; correct it")
    names = ("caption", "raw", "text", "sentence")
    texts = (next((each[n] for n in names if n in each), each) if isinstance(each, Mapping) else each for each in items)
    return tuple(caption_text(text, location, f"{field}[{k}]") for k, text in enumerate(texts))


def holds_arrays(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value is an array, a tensor or a column of a data frame, or holds one in a sample of its entries."""
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    is_array = any(hasattr(value, name) for name in _TO_LIST)
    return is_array or (depth > 0 and any(holds_arrays(each, depth - 1) for each in spread(entries, 30)))


def plain_value(value: Any, depth: int = _DEPTH) -> Any:
    """The lists, texts and numbers that the arrays, tensors and columns of data frames in a value hold."""
    to_list = next((getattr(value, name) for name in _TO_LIST if hasattr(value, name)), None)
    value = value if to_list is None else to_list()
    if isinstance(value, dict) and depth > 0:
        return {key: plain_value(each, depth - 1) for key, each in value.items()}
    return [plain_value(each, depth - 1) for each in value] if isinstance(value, list | tuple) and depth > 0 else value


def decode_list(text: str, location: str, field: str) -> Any:
    """The list of texts or objects that a text is, as JSON or Python writes it, else the text: `[1, 2]` is a caption.

    >>> decode_list('["a dog", "a cat"]', "row 0", "answer"), decode_list("[music] a man sings", "row 0", "answer")
    (['a dog', 'a cat'], '[music] a man sings')

    Args:
        text: of the field.
        location, field: of the text, for messages.

    Raises:
        InputError: quoted texts in brackets that are neither JSON nor Python, such as numpy writes them.
    """
    stripped_text = text.strip()
    is_tuple = _TUPLE.match(stripped_text) is not None and stripped_text.endswith(")") and "," in stripped_text
    if is_tuple and isinstance(value := _python_list(stripped_text), tuple):
        return list(value)
    if stripped_text == "[]":
        return []
    if _QUOTED.match(stripped_text) is None:
        return text
    try:
        value = decode_json(stripped_text, location)
    except InputError:
        if _BEGINNING.match(stripped_text) is not None:
            return text
        value = _python_list(stripped_text)
    if isinstance(value, str):  # written twice
        return decode_list(value, location, field)
    if isinstance(value, list | dict):
        return value if isinstance(value, list) else [value]
    raise InputError(
        f"{location}: {field} is the text {shorten(text)}, expected a list of captions as JSON or Python writes it, "
        "with commas (of a numpy array, write .tolist()): write it with json.dumps"
    )


def nested_value(text: str) -> Any:
    """The list of texts or the object that a text is, as JSON or Python writes it; None for any other."""
    with suppress(InputError):
        if (start := text.lstrip()).startswith(_OPENINGS) and isinstance(values := decode_list(text, "", ""), list):
            return values[0] if start[0] == "{" else values
    return None


def nested_names(records: Sequence[Mapping[Any, Any]], fields: Mapping[str, str]) -> set[str]:
    """The names whose texts in a sample are all lists or objects, as JSON or Python writes them.

    Args:
        records: the sample.
        fields: of names; objects of candidates are captions if they are no answers of a server.
    """
    names = {n for each in records for n, t in each.items() if type(n) is type(t) is str and t.startswith(_OPENINGS)}
    for name in list(names):
        values = [nested_value(record[name]) for record in records if type(record.get(name)) is str and record[name]]
        is_object = isinstance(values[0], dict) and not is_answer(values[0])
        if None in values or not any(values) or (is_object and fields.get(name) == "candidate"):
            names.remove(name)
    return names


def decode_texts(record: Mapping[Any, Any], names: Iterable[str]) -> Mapping[Any, Any]:
    """The record with lists and objects in place of their texts under these names, as tables hold them."""
    texts = [(name, record[name]) for name in names if isinstance(record.get(name), str)]
    return {**record, **{name: value for name, text in texts if (value := nested_value(text)) is not None}}


@lru_cache(maxsize=2)  # a long text is read by the layout's sample, too
def _python_list(text: str) -> Any:
    """What a text is as a Python literal; None if it is none, or has texts without a comma, which Python would join."""
    try:
        value = ast.literal_eval(text)
        if _ADJACENT.search(text) is not None:
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            kinds = [token.type for token in tokens if token.type != tokenize.NL]
            if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
                return None
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    return value


def human_ratings(value: Any, location: str) -> tuple[float, ...] | None:
    """The human scores: a number or a list of numbers, or in tables the text of either."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip()[:1] in tuple("[-0123456789"):
        value = decode_json(value, f"{location}, column human")
    value = plain_value(value)
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for rating in values:
        if not is_finite(rating, MAX_NUMBER):
            raise InputError(
                f"{location}: human holds {describe(rating)}, expected a number or a list of numbers up to 1e100"
            )
    return tuple(float(rating) for rating in values)


def is_finite(value: Any, largest: float = math.inf) -> TypeGuard[float]:
    """Whether this is a finite number that fits a float: JSON may have NaN, Infinity and integers of any length."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value) and abs(float(value)) <= largest
    except OverflowError:  # a whole number too large for a float
        return False


def is_null(value: Any) -> bool:
    """Whether a cell is empty: None, or what pandas has in its place (NaN, NaT and NA, which do not equal themselves).

    >>> is_null(None), is_null(float("nan")), is_null(""), is_null(0)
    (True, True, False, False)
    """
    return value is None or (type(value) not in (str, list) and str(value == value) != "True")


def optional_text(value: Any, location: str, field: str) -> str | None:
    """A name as `image_key` reads it; None for an absent or empty one.

    Args:
        value: of the field.
        location, field: of the value, for messages.
    """
    return None if is_null(value) or value == "" else image_key(value, location, field)


def system_rows(row: CaptionRow, captions: Any) -> list[CaptionRow]:
    """A row for each system of `captions: {system: text}`."""
    location = row.location
    if not isinstance(captions, Mapping) or not captions:
        raise InputError(
            f'{location}: captions is {describe(captions)}, expected {{"system": "caption", ...}}; a list of human '
            "captions is called references"
        )
    system_texts = {image_key(name, location, "the system's name"): text for name, text in captions.items()}
    if len(system_texts) < len(captions):
        raise InputError(f"{location}: captions names a system twice, as number and as text; name each system once")
    return [
        replace(
            row,
            candidate=caption_text(text, location, f"captions[{system!a}]"),
            id=row.id if len(captions) == 1 else None,
            system=system,
        )
        for system, text in system_texts.items()
    ]


def picture_path(value: Any) -> str | None:
    """The file of a picture that a field holds as a path, as {bytes, path}, or as a list of one of these."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("path")
    is_path = isinstance(value, str) and value.strip() and len(value) <= LONGEST_ID and not value.startswith("data:")
    return value if is_path else None


def reference_field(value: Any, location: str, field: str) -> tuple[str, ...]:
    """The references of a field: a list, the text of a list, one text, or either as `raw`, as COCO's on Hugging Face.

    Args:
        value: of the field.
        location, field: of the value, for messages.

    Raises:
        InputError: as in `decode_list` and `reference_list`.
    """
    value = decode_list(value, location, field) if isinstance(value, str) else value
    only = value[0] if isinstance(value, list) and len(value) == 1 else value
    return reference_list(only.get("raw", [only]) if isinstance(only, Mapping) else value, location, field)


def spread(items: Iterable[Item], most: int = 100) -> list[Item]:
    """Every item, or every second, fourth, eighth … so that there are at most so many.

    >>> spread(range(10), most=4)
    [0, 4, 8]
    """
    chosen: list[Item] = []
    step = 1
    for position, item in enumerate(items):
        if position % step == 0:
            chosen.append(item)
            if len(chosen) > most:
                chosen, step = chosen[::2], 2 * step
    return chosen


def split_line(line: str, are_columns: bool = True) -> tuple[str, str] | None:
    """The name and the caption of a line; None if it has no name."""
    match = _MARKED.fullmatch(line) or _NAMED.fullmatch(line)
    if match is None and are_columns:
        match = _COLUMNS.fullmatch(line) or _CODED.fullmatch(line)
    if match is None:
        return None
    name, caption = (group.strip() for group in match.groups() if group is not None)
    if are_columns and " " in name and " " not in caption:  # Conceptual Captions: the caption, then the picture
        return caption, name
    return name, caption


def are_named_lines(lines: Sequence[str]) -> bool:
    """Whether lines that are not blank begin with the names of images, or have them in one of two columns."""
    lines = [line.rstrip("\r\n")[:_LONGEST] for line in lines]
    marked = sum(_MARKED.fullmatch(line) is not None for line in lines)
    file_named = [line for line in lines if _MARKED.fullmatch(line) is None and _NAMED.fullmatch(line)]
    count, has_tabs = 2 * (marked + len(file_named)), all("\t" in line for line in file_named)
    if lines and (2 * marked >= len(lines) or count > len(lines) or (file_named and has_tabs and count >= len(lines))):
        return True
    uncommented = [line for line in lines if not line.startswith("#")]
    if len(uncommented) > 2 and all(map(_CODED.fullmatch, uncommented)):
        return True
    columns = [split_line(line) for line in lines if _COLUMNS.fullmatch(line)]
    names = [column[0] for column in columns if column is not None]
    return len(names) == len(lines) > 0 and all(map(_IMAGE_NAME.fullmatch, names))


def split_lines(
    lines: Iterable[tuple[int, str]], source_name: str, are_columns: bool, is_named: bool = False
) -> Iterator[tuple[str, str, Any]]:
    """The location of each line that is not blank, the name of its image and its caption, or a list of captions.

    Args:
        lines: number, from 1, and text of each.
        source_name: of the file, for messages.
        are_columns: whether name and caption may also be in two columns, separated by a tab.
        is_named: whether the user said so, so that commas, semicolons and bars separate the two as well.

    Raises:
        InputError: a line is not of this form.
    """
    for line_number, line in lines:
        location = f"{source_name}, line {line_number}"
        if not line.strip():
            continue
        parts = split_line(line.rstrip("\r\n"), are_columns)
        if parts is None and is_named and (match := _CELLS.fullmatch(line.strip())) is not None:
            parts = match[1].strip(), match[2].removeprefix('"').removesuffix('"').replace('""', '"')
        if parts is None and line.startswith("#"):  # a comment, as in MSVD's file
            continue
        if parts is None or "\t" in parts[1] or re.match(r"[\d.]+ [\d.]+##", parts[1]):  # Charades-STA, with times
            raise InputError(
                f"{location}: {describe(line.strip())}, expected NAME#0, a tab and a caption, or NAME.jpg and a caption"
            )
        name, caption = parts
        yield location, name, caption if _MARKED.match(line) else decode_list(caption, location, "the caption")


def read_pairs(pairs: Iterable[tuple[str, Any, Any]], side: Side) -> Iterator[CaptionRow]:
    """A row for each image's name and its caption, or list of captions.

    Args:
        pairs: location, name and caption each.
        side: whether captions are candidates or references.
    """
    for location, name, caption in pairs:
        row = CaptionRow(location, image_key(name, location, "the name"), one_of_many=True)
        if side == "candidates":
            row.candidate = candidate_text(caption, location, "the caption")
        else:
            row.references = reference_list(caption, location, "the caption")
        yield row


def read_list(entries: Iterable[tuple[str, Any]], side: Side) -> Iterator[CaptionRow]:
    """A row for each entry of a list, or line, whose position is its image: a candidate, or the image's references.

    Args:
        entries: locations, and texts or lists of texts.
        side: what the entries are read as.

    Raises:
        InputError: an entry of another form; `NotCandidates` if it is a list where a candidate was expected.
    """
    for number, (location, entry) in enumerate(entries):
        if side == "references":
            yield CaptionRow(location, str(number), references=reference_list(entry, location, "the entry"))
            continue
        if not isinstance(entry, str) and isinstance(entry, Sequence):
            if entry and isinstance(entry[0], Mapping):
                raise InputError(
                    f"{location}: a list of objects where one row was expected; join the lists, such as the batches of "
                    "a data loader, to one list of rows"
                )
            raise NotCandidates(
                f"{location}: {describe(entry)} where one candidate caption was expected; are candidates and "
                "references swapped? Several candidates of an image come as a dict {id: [caption, ...]} or as rows"
            )
        yield CaptionRow(location, str(number), candidate=caption_text(entry, location, "the entry"))


def are_named_pairs(items: Any) -> bool:
    """Whether every item of a list is a pair of an image's number, or name, and a caption.

    A name is a file's, or one word with a digit in it; a list of two references is not taken for one unless that holds
    of every first one, and every second one has several words.
    """
    return all(
        isinstance(item, Sequence)
        and not isinstance(item, str)
        and len(item) == 2
        and (type(item[0]) is int or (isinstance(item[0], str) and _IMAGE_NAME.fullmatch(item[0]) is not None))
        and isinstance(item[1], str)
        and len(item[1].split(maxsplit=1)) == 2
        for item in items
    )
