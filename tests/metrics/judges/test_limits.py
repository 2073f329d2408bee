"""Limits of judges: rate, concurrency, prices and budget."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.judge_server import KEY, JudgeServer, Reply, captions, completion, score

from capmeter.core import progress
from capmeter.core.errors import InputError
from capmeter.core.settings import JudgeLimits, _read_prices

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def test_questions_in_progress_are_limited() -> None:
    import threading

    inside, most, lock = [0], [0], threading.Lock()
    full = threading.Event()

    def plan(body: dict[str, Any], before: int) -> Reply:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if inside[0] == 3:
                full.set()
        full.wait(10)
        with lock:
            inside[0] -= 1
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        score(captions([f"text {k}" for k in range(20)]), f'clair(model=m,endpoint="{server.url}")', concurrency=3)
    assert most[0] == 3


def test_costs_are_reported_before_and_after_and_a_budget_is_respected(capsys: pytest.CaptureFixture[str]) -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        prices = (1000.0, 5000.0)
        with pytest.raises(InputError, match=r"4 questions to m at 127.* more than --max-cost 0.1; nothing was asked"):
            score(captions(), name, prices=prices, max_cost=0.1)
        with pytest.raises(InputError, match=r"4 questions to m at 127.* .*: more than --max-requests 3; nothing was"):
            score(captions(), name, max_requests=3)
        assert not server.received
        with progress.show_progress():
            score(captions(), name, prices=prices, max_cost=100)
        messages = " ".join(capsys.readouterr().err.split())
        assert "4 questions to m at 127.0.0.1" in messages and "about" in messages
        assert "4 questions asked; spent 400 input and 40 output tokens, 0.60 by --judge-prices" in messages
        assert KEY not in messages


def test_a_budget_holds_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate of the first part is within the budget; in the second part what is left is asked."""
    monkeypatch.setattr("capmeter.metrics.judges.judge.Judge.PART_SIZE", 3)
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        results = score(captions([f"text {k}" for k in range(6)]), name, max_requests=4, concurrency=1)
        assert len(server.received) == 4 and results.notes["no answer"] == ["4", "5"]


def test_what_the_answers_cost_ends_the_asking() -> None:
    """Each answer costs 100 and not the estimated 60: the second question is asked, and no third."""
    usage = {"prompt_tokens": 0, "completion_tokens": 100}
    body = {"choices": [{"message": {"content": '{"score": 50}'}}], "usage": usage}
    with JudgeServer(lambda *_: Reply(body=json.dumps(body).encode())).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        limits: dict[str, Any] = {"concurrency": 1, "prices": (0.0, 1e6), "max_cost": 185.0}
        texts = [f"text {k}" for k in range(3)]
        results = score(captions(texts), name, **limits)
        assert len(server.received) == 2 and results.parts["scored_share"] == pytest.approx(2 / 3)
        assert results.notes["no answer: not asked: --max-requests or --max-cost is reached"] == ["2"]


def test_limits_are_checked() -> None:
    assert JudgeLimits(prices=_read_prices("2.5,10")).cost(10**6, 10**5) == pytest.approx(3.5)
    for wrong in ({"tries": 0}, {"timeout": float("nan")}, {"concurrency": 0}, {"max_cost": -1.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            JudgeLimits(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="--max-cost needs --judge-prices"):
        JudgeLimits(max_cost=3.0)
    for text in ("1", "a,b", "1,-2", "1,inf"):
        with pytest.raises(InputError, match="is not IN,OUT"):
            _read_prices(text)


def test_processes_share_the_limits() -> None:
    limits = JudgeLimits(concurrency=9, prices=(1, 1), max_cost=3, max_requests=7).divided(2)
    assert (limits.concurrency, limits.max_cost, limits.max_requests) == (4, 1.5, 3)
