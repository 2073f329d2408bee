"""What captioners write and benchmarks publish: one `Layout` for each program or data set, recognised by its names.

`data/layouts.json` has all of them, the fields as `Layout` declares them; here are the functions for what paths cannot
say, by the layout's name. Records may stand in any file: JSON lines, a JSON document, CSV, TSV, Parquet, a workbook.
`docs/formats.md` cites where each is published.

>>> layout = find_layout([{"videoID": "v7", "enCap": ["a dog runs"], "chCap": []}])
>>> layout.name, dict(layout.fields)
('vatex', {'references': 'enCap'})
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.captions.field_names import OMITTED, SHORT_NAMES, Layout, Record, names_of, resolve_path
from capmeter.captions.rows import ANSWER_NAMES, FailedRequest, answer_text, is_finite, only_item
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json, read_bundled_json
from capmeter.core.messages import describe, list_names

_LANGUAGE = re.compile(r"[a-z]{2,3}")
_CAPTION_NAMES = ("candidate", "caption", "prediction", "hypothesis", "captions", *list(SHORT_NAMES)[:7], "response")
_CODES = ("code", "type", "status", "blockReason")


def _lmms_eval(record: Record, location: str) -> dict[Any, Any]:
    """A sample's entry for a metric has the caption, the references and the image; tasks without one have `target`."""
    for value in record.values():
        if isinstance(value, Mapping) and "pred" in value and "image_id" in value:
            fields = {"image_id": value["image_id"], "candidate": only_item(value["pred"], location, "pred")}
            return fields | ({"answer": value["answer"]} if "answer" in value else {})
    fields = {
        "image_id": record.get("doc_id"),
        "candidate": only_item(record.get("filtered_resps"), location, "filtered_resps"),
    }
    return fields | ({"target": record["target"]} if record.get("target") else {})


def _inspect(record: Record, location: str) -> dict[Any, Any]:
    """A sample of a log: the answer is the output's `completion`, else the content of its first choice."""
    output = record.get("output")
    answer = output.get("completion") if isinstance(output, Mapping) else None
    if not answer and isinstance(output, Mapping) and isinstance(output.get("choices"), list):
        answer = (answer_text(output["choices"][0], location) if output["choices"] else None) or answer
    if not answer and isinstance(record.get("error"), Mapping):
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
    problems = [record.get("error"), record.get("status") or None, fields.get("error")]
    if isinstance(body, Mapping):
        problems.append(body.get("error"))
        if answer is None:
            problems += [body.get("promptFeedback"), resolve_path(body, "candidates[0].finishReason", location)]
    problem = next((each for each in problems if each is not None), None)
    if problem is not None or outcome != "succeeded" or not isinstance(body, Mapping | str):
        details = [str(outcome)] if outcome != "succeeded" else []
        details += [f"status {fields['status_code']}"] if "status_code" in fields else []
        raise FailedRequest.at(location, *details, *_codes(problem))
    image_id = next((record[name] for name in ("custom_id", "key", "recordId") if name in record), None)
    parts = resolve_path(record, "request.contents[0].parts", location) or ()
    files = (resolve_path(part, "fileData.fileUri", location) for part in parts)
    return {"image_id": next(filter(None, files), None) if image_id is None else image_id, "candidate": answer}


def _codes(problem: Any) -> list[str]:
    """The code of a failed request, which programs name differently."""
    while isinstance(problem, Mapping) and isinstance(problem.get("error"), Mapping):
        problem = problem["error"]
    values = [problem.get(name) for name in _CODES] if isinstance(problem, Mapping) else [problem]
    return [value for value in values if isinstance(value, str)][:1]


def _ollama(record: Record, location: str) -> dict[Any, Any]:
    """An answer of Ollama, of `generate` or of `chat`."""
    if record.get("error") is not None:
        raise FailedRequest.at(location, *_codes(record["error"]))
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
    match = re.search(r"\[.*\]", str(record.get("answer")), re.DOTALL)
    events = decode_json(match[0], f"{location}, answer") if match else []
    texts = [event.get("event") if isinstance(event, Mapping) else None for event in events]
    times = [
        re.fullmatch(r"from (\d\d) to (\d\d)", str(event.get("timestamps")))
        for event in events
        if isinstance(event, Mapping)
    ]
    if len(times) < len(texts) or not all(times):
        raise InputError(f'{location}: answer is not a list of events with timestamps such as "from 00 to 14"')
    duration = record.get("duration")
    if not is_finite(duration):
        raise InputError(
            f"{location}: the times of the answer are hundredths of the video, whose duration the row lacks; add "
            '"duration": seconds to each row (the file of references has it)'
        )
    hundredths = [(int(time[1]), int(time[2]) + 1) for time in times if time is not None]
    spans = [[start * duration / 100, end * duration / 100] for start, end in hundredths]
    return {"image_id": record.get("video_id"), "timestamps": spans, "sentences": texts}


def _vizwiz(record: Record, location: str) -> dict[Any, Any]:
    """An annotation; the evaluation of VizWiz omits those that are rejected or precanned."""
    mark = next((name for name in ("is_rejected", "is_precanned") if record.get(name)), None)
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
            f"--reference-column references={languages[0]}.caption (in Python reference_columns="
            f'{{"{languages[0]}.caption": "references"}})'
        )
    return dict(record)


def _msvd(record: Record, location: str) -> dict[Any, Any]:
    """A description of a clip, which is a part of a video."""
    clip = "_".join(str(record[name]) for name in ("VideoID", "Start", "End"))
    return {"image_id": clip, "references": record["Description"]}


def _webdataset(record: Record, location: str) -> dict[Any, Any]:
    """A sample of a tar shard: the fields of its JSON object, and its text as the caption."""
    fields = record.get("json", {})
    if not isinstance(fields, dict):
        raise InputError(
            f"{location}.json: {describe(fields)}, expected an object with the fields of a row; if the archive holds "
            "a file of captions, unpack it"
        )
    text = record.get("txt")
    names = [name for name in _CAPTION_NAMES if name in fields]
    if text is not None and names and fields[names[0]] != text:
        raise InputError(
            f"{location}: two captions under one key, {names[0]} in its .json and another in its .txt; write one"
        )
    caption = {} if text is None or names else {"caption": text}
    key = {} if "image_id" in fields else {"image_id": record.get("__key__")}
    return {**fields, **key, **caption}


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
    "msvd": _msvd,
    "vizwiz": _vizwiz,
    "xm3600": _crossmodal,
}
LAYOUTS = tuple(
    Layout(
        **entry | {"marks": frozenset(entry["marks"]), "without": frozenset(entry.get("without", ()))},
        convert=_CONVERT.get(entry["name"]),
    )
    for entry in read_bundled_json("layouts.json")
)
"""Every layout; of those whose marks a file's records have, the one with most marks is used."""


def find_layout(records: Sequence[Any]) -> Layout | None:
    """The layout of most of these records; None for native rows and any other.

    Raises:
        InputError: two layouts have the same claim.
    """
    names = Counter(names_of(record) for record in records if isinstance(record, Mapping))
    claims: dict[tuple[int, int], list[Layout]] = {}
    for layout in LAYOUTS:
        count = sum(number for each, number in names.items() if layout.accepts(each))
        if count and 2 * count >= names.total():
            claims.setdefault((count, len(layout.marks)), []).append(layout)
    best = claims[max(claims)] if claims else []
    if len({layout.name for layout in best}) > 1:
        raise InputError(
            f"the rows could be {' or '.join(layout.holds for layout in best)}; choose one: --input-format "
            f"{' or '.join(layout.name for layout in best)}"
        )
    return best[0] if best else None


def is_results(document: Any) -> bool:
    """Whether this JSON claims to be a results file of capmeter (`capmeter.evaluation.results`)."""
    return isinstance(document, Mapping) and "capmeter" in document and isinstance(document.get("systems"), Mapping)
