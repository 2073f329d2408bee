"""Judges' tasks on a server that answers by a function of the request, and answers with probabilities."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.results import Scores
from capmeter.metrics.judges.asking import NumberToken
from capmeter.metrics.judges.reading import NoScore, number_probabilities
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


def grade(folder: Path, url: str, needs: str = "") -> str:
    """A judge of one question whose answer is an expectation from 0 to 100; a score is a hundredth of it."""
    (folder / "grade.yaml").write_text(
        f"prompt: 'How good? caption {{candidate}}.'\nneeds: [{needs}]\nread: {{expectation: [0, 100]}}\n"
    )
    return f'judge(model=m,endpoint="{url}",task="{folder / "grade.yaml"}")'


def tokens(*parts: Any) -> tuple[NumberToken, ...]:
    """Tokens with the probabilities of their alternatives; a bare text has only itself."""
    listed: list[NumberToken] = []
    start = 0
    for part in parts:
        text, chances = (part, {part: 1.0}) if isinstance(part, str) else part
        numbers = number_probabilities({other: math.log(chance) for other, chance in chances.items()})
        if text.strip() in numbers:
            listed.append(NumberToken(start, start + len(text), numbers))
        start += len(text)
    return tuple(listed)


def outcome(read: Any, *arguments: Any) -> Any:
    """What is read, or the reason why nothing is."""
    try:
        return read(*arguments)
    except NoScore as reason:
        return str(reason)
