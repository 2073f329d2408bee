"""The judges of papers that are more than a task: CLAIR-A's tie-break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from capmeter_research.papers.judges.judges import ClairA
from support.judge_server import TEXTS, JudgeServer, captions, completion, prompt_of, score

import capmeter
from capmeter.core.errors import InputError

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


NUMBERS = dict(zip(TEXTS, (85, 85, 40, None), strict=True))


def answer(body: dict[str, Any], before: int) -> Any:
    number = NUMBERS[prompt_of(body).split("Candidate set:\n- ")[1].split("\n")[0]]
    return completion("no number" if number is None else json.dumps({"score": number, "reason": "so"}))


def test_the_tie_break_orders_equal_numbers() -> None:
    with JudgeServer(answer).running() as server:
        address = f'model=m,endpoint="{server.url}"'
        scores = score(captions(), f"clair-a({address},tie_break=bleu-1)")
        # BLEU-1 with references "… here" and "b", of which "… here" is the closer in length: precision 1, brevity
        # penalty exp(1 - 4/3) for three words; for "two cats", closest to "b" and "two cats here" alike, none
        assert scores.items["0"] == pytest.approx(0.85 + 0.0001 * 0.7165313106)
        assert scores.items["1"] == pytest.approx(0.85 + 0.0001)
        assert scores.items["2"] == pytest.approx(0.40 + 0.0001 * 0.7165313106)
        assert scores.score == scores.items["3"] == pytest.approx(0.7 + 0.0001 * 2.4330626212 / 3)
        assert scores.notes["no score in the answer"] == ["3"] and scores.parts["scored_share"] == 0.75
        plain = score(captions(), f"clair-a({address},epsilon=0)")
        assert list(plain.items.values()) == pytest.approx([0.85, 0.85, 0.40, 0.7])
        assert len(server.received) == 4  # the tie-break asks nothing


@pytest.mark.neural
def test_the_tie_break_is_fense() -> None:
    fense = list(capmeter.score(captions(), ["fense"])["fense"].items.values())
    with JudgeServer(answer).running() as server:
        scores = score(captions(), f'clair-a(model=m,endpoint="{server.url}")')
        expected = [number / 100 + 0.0001 * f for number, f in zip((85, 85, 40), fense, strict=False)]
        assert list(scores.items.values())[:3] == pytest.approx(expected, abs=1e-12)
        assert "|tie_break:fense|" in scores.signature and "|detector:fluency@" in scores.signature


def test_a_tie_break_as_large_as_a_step_is_refused() -> None:
    with pytest.raises(InputError, match=r"clair-a: epsilon=0\.1: expected 0 to \.01"):
        ClairA(model="m", epsilon=0.1)
