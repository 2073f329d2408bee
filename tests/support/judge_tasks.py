"""Judges' tasks on a server that answers by a function of the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.results import Scores
from support.judge_server import JudgeServer, Reply, completion, score

Answers = Callable[[dict[str, Any]], str | None]


def captions_of(texts: dict[str, str], references: tuple[str, ...] = ("a reference",)) -> CaptionSet:
    return CaptionSet.from_captions([Caption(f"c{k}", k, text, references) for k, text in texts.items()])


def run(texts: dict[str, str], name: str, answers: Answers, *, references: tuple[str, ...] = ("a ref",)) -> Scores:
    """The scores of a judge whose server answers by a function of the request; None: an error of the server."""

    def plan(body: dict[str, Any], before: int) -> Reply:
        text = answers(body)
        return Reply(422, b"cannot") if text is None else completion(text)

    with JudgeServer(plan).running() as server:
        full = name.replace("(", f'(model=m,endpoint="{server.url}",', 1).replace(",)", ")")
        return score(captions_of(texts, references), full)


def write(path: Path, rows: Any, lines: bool = False) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) if lines else json.dumps(rows))
    return str(path)
