"""Hostile answers of judges: completions are changed, and read as those of a server, of a cache, and by every judge.

    python tests/fuzz/answers.py --inputs 20000 --seed 1

An answer gives values in the judge's range, or a reason why there are none.
"""

from __future__ import annotations

import functools
import json
import math
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.hostile_values import Found, as_json, hostile, main, mutated

from capmeter.core.settings import JudgeLimits
from capmeter.evaluation.registry import parse
from capmeter.metrics.judges.asking import Answer, Failure, JudgedCaption, Question, Verdict
from capmeter.metrics.judges.client import ServerJudge
from capmeter.metrics.judges.judge import Judge
from capmeter.metrics.judges.reading import NoScore
from capmeter.metrics.judges.server import ApiKey

KEY = ApiKey("sk-live-0123456789")
SERVER = ServerJudge("http://127.0.0.1:1/v1", "m", KEY, JudgeLimits())
CAPTION = JudgedCaption("a", "a", "a dog runs on the grass", ("the dog is running", "a dog"))
TEXTS = (
    *('{"score": 85, "reason": "both say so"}', "0.83", "1", "$87$", "$$5$$", "A", "(B)", "\\boxed{C}", "Answer: D"),
    *("yes", "no", "Not mentioned.", "I'm sorry, but I cannot", "<think>8</think> 0.9", "</think>", "\u0130", "\u017f"),
    *('{"facts": [{"fact": "a dog runs", "descriptive": 1}]}', '{"verdicts": [{"id": 0, "true": 1}]}'),
    *('{"matches": [{"id": 0, "oracle": 0}]}', '{"events": ["a dog runs", "a dog"]}', "{'pred': 'yes', 'score': 4}"),
    *('{"relationship": ["entailment", "neutral"]}', '["a dog", "runs"]', "1. yes\n2. no", "Caption 1", "tie"),
    *("9" * 5000, "{" * 4000, "[" * 4000, "0." + "9" * 400, "1e999", '{"score": NaN}', '{"score": 1e400}'),
)  # fmt: skip
PIECES = ("8", "8 ", " 8", "85", "1", "0", ".", "$", "A", "yes", "\u0668", "٨", "²", "", "Infinity")
LOGS = (0.0, -0.1, -5, -1e308, 3, 1e308, math.inf, -math.inf, math.nan, None, "0", True, 10**400)


def judges(folder: Path) -> list[Judge]:
    """Every judge that can ask about a caption without an image, with questions where it needs some."""
    questions = folder / "questions.json"
    rows = [{"question": "is there a dog?", "answer": "yes"}, {"question": "what does it do?", "answer": "it runs"}]
    questions.write_text(json.dumps({"a": rows}))
    choices = folder / "choices.json"
    choices.write_text(json.dumps({"a": [{"question": "what?", "answer": "a dog", "choices": ["a cat", "a dog"]}]}))
    checklist = folder / "checklist.json"
    checklist.write_text(json.dumps({"a": ["a dog runs", "the grass is green"]}))
    named = [
        *("clair(model=m)", "clair-a(model=m)", "fleur(model=m)", "g-veval(model=m)", "autodq(model=m)"),
        *("judge(model=m,task=claims)", "judge(model=m,task=facts)"),
        f'judge(model=m,task=answers,questions="{questions}")',
        *(f'captionqa(model=m,questions="{choices}",as_released={each})' for each in ("true", "false")),
        *(f'caprl-qa(model=m,questions="{choices}",match={match})' for match in ("exact", "anls")),
        f'capeval(model=m,questions="{checklist}")',
    ]
    result = [parse(name) for name in named]
    return [each for each in result if isinstance(each, Judge)]


def completion(drawn: random.Random) -> Any:
    """A completion as servers send it, with alternatives."""
    text = drawn.choice(TEXTS)
    text = f"{text} {KEY.value}" if drawn.random() < 0.05 else text
    if drawn.random() < 0.3:
        text = mutated(text.encode("utf-8", "replace"), drawn).decode("utf-8", "replace")
    tokens = []
    for k in range(0, min(len(text), 12), 2):
        others = [{"token": drawn.choice(PIECES), "logprob": drawn.choice(LOGS[:5])} for _ in range(drawn.randrange(4))]
        tokens.append({"token": text[k : k + 2], "logprob": -0.1, "top_logprobs": others})
    if tokens and drawn.random() < 0.2:
        drawn.choice(tokens)["logprob"] = drawn.choice(LOGS)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": tokens}}
    return {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}


def answer(drawn: random.Random) -> Answer:
    """What the client makes of a hostile body; a cache gives it back as it was."""
    body = completion(drawn)
    if drawn.random() < 0.5:
        body = hostile(body, drawn)
    content = json.dumps(as_json(body)).encode("utf-8", "replace")
    if drawn.random() < 0.2:
        content = mutated(content, drawn)
    read = SERVER.read(content)
    if isinstance(read, Failure):
        assert KEY.mask(read.reason) == read.reason and len(read.reason) < 300
    else:
        assert len(read.text) <= 200_000 and KEY.mask(read.text) == read.text
        assert Answer.from_json(read.to_json()) == read
    return read


def check(judge: Judge, drawn: random.Random) -> str:
    """A conversation with hostile answers; says how it ended."""

    async def ask(questions: Sequence[Question]) -> list[Answer]:
        return [answer(drawn) for _ in questions]

    try:
        judge.protocol.judge(ask, CAPTION).send(None)
    except NoScore as reason:
        assert str(reason)
        return "no score"
    except StopIteration as end:
        verdict = end.value
    else:
        raise AssertionError("a judge that waits for something else")
    assert isinstance(verdict, Verdict)
    assert len(verdict.values) == len(judge.protocol.columns), verdict
    assert all(math.isfinite(value) and 0 <= value <= 1e6 for value in verdict.values), verdict
    if judge.protocol.columns == ("score",):
        assert verdict.values[0] <= (100 if judge.name == "g-veval" else 1 + 1e-12), verdict
    return "score"


def fuzz(count: int, seed: int) -> Found:
    """Runs so many conversations."""
    drawn, result = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as folder:
        names = judges(Path(folder))
        for _ in range(count):
            judge = drawn.choice(names)
            result.add(judge.name, functools.partial(check, judge, drawn), lambda: "")
    return result


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__, 20_000))
