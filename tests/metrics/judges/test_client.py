"""Servers of judges: keys, addresses, faults, and answers of any size; limits of what is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.judge_server import KEY, JudgeServer, Reply, captions, completion, prompt_of, score

from capmeter.core import progress
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import JudgeLimits, _read_prices

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def candidate(body: dict[str, Any]) -> str:
    return prompt_of(body).split("Candidate set:\n- ")[1].split("\n")[0]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_model_ends_the_run_without_showing_the_key(status: int) -> None:
    body = json.dumps({"error": f"Incorrect API key provided: {KEY}."}).encode()
    with JudgeServer(lambda *_: Reply(status, body)).running() as server:
        with pytest.raises(AssetError) as problem:
            score(captions(), server.clair)
        assert f"status {status}" in str(problem.value) and KEY not in str(problem.value)
        assert "[key]" in str(problem.value)


def test_a_server_that_is_not_there_is_listed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"none of 4 captions has a score: no answer: network error: .*tried 3 times"):
        score(captions(), 'clair(model=m,endpoint="http://127.0.0.1:9/v1")')
    with pytest.raises(InputError, match=r"network error: .*\(tried 1 time\)"):
        score(captions(), 'clair(model=m,endpoint="http://127.0.0.1:9/v1")', tries=1)


def test_a_server_that_is_too_slow_or_silent() -> None:
    import threading

    late = threading.Event()

    def plan(body: dict[str, Any], before: int) -> Reply:
        if candidate(body) == "two cats":
            late.wait(1.0)
        if candidate(body) == "a bus" and before == 0:
            return Reply(silent=True)
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        results = score(captions(), server.clair, timeout=0.3, tries=2)
        assert results.notes["no answer"] == ["1"] and any("within 0.3 seconds" in reason for reason in results.notes)
        assert results.score == 0.5
        late.set()


def test_large_compressed_and_endless_answers_are_refused() -> None:
    import gzip

    large = Reply(body=b'{"choices": [{"message": {"content": "' + b"x" * 10_000_000 + b'"}}]}')
    long = completion("x" * 250_000)
    nested = gzip.compress(gzip.compress(b" " * 50_000_000))
    packed = Reply(body=nested, headers={"Content-Encoding": "gzip, gzip"})
    replies = {"a dog runs": large, "two cats": long, "a red kite": packed, "a bus": completion('{"score": 50}')}
    with JudgeServer(lambda body, before: replies[candidate(body)]).running() as server:
        results = score(captions(), server.clair)
        assert results.notes["no answer"] == ["0", "1", "2"] and results.score == 0.5
        reasons = " ".join(results.notes)
        assert (
            "larger than 8 MB" in reasons and "malformed completion" in reasons and "compressed its answer" in reasons
        )
        assert len(server.received) == 4  # what would not get better is not asked for again


def test_a_redirect_is_not_followed() -> None:
    with JudgeServer(lambda *_: completion('{"score": 1}')).running() as other:
        away = Reply(307, b"", {"Location": f"{other.url}/chat/completions"})
        with JudgeServer(lambda *_: away).running() as server, pytest.raises(InputError, match="status 307"):
            score(captions(), server.clair)
        assert not other.received


def test_options_that_a_server_does_not_know_are_left_out() -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        if "max_tokens" in body:
            return Reply(400, b'{"error": {"message": "Unsupported: max_tokens. Use max_completion_tokens."}}')
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        assert score(captions(), server.clair, concurrency=4).score == 0.5
        assert sum("max_tokens" not in body for body in server.received) == 4


def test_malformed_responses_in_a_row_do_not_count_as_a_server_that_is_gone() -> None:
    """They are asked for three times, and what comes after them is asked too."""

    def plan(body: dict[str, Any], before: int) -> Reply:
        return completion('{"score": 50}') if int(candidate(body).split()[1]) >= 12 else Reply(body=b"<html>")

    with JudgeServer(plan).running() as server:
        texts = captions([f"text {k}" for k in range(13)])
        results = score(texts, server.clair, concurrency=4, tries=10)
        assert len(results.notes["no answer"]) == 12 and results.score == 0.5
        assert len(server.received) == 12 * 3 + 1 and any("(tried 3 times)" in reason for reason in results.notes)


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
        score(captions([f"text {k}" for k in range(20)]), server.clair, concurrency=3)
    assert most[0] == 3


def test_costs_are_reported_before_and_after_and_a_budget_is_respected(capsys: pytest.CaptureFixture[str]) -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        prices = (1000.0, 5000.0)
        with pytest.raises(InputError, match=r"4 questions to m at 127.* more than --max-cost 0.1; nothing was asked"):
            score(captions(), server.clair, prices=prices, max_cost=0.1)
        with pytest.raises(InputError, match=r"4 questions to m at 127.* .*: more than --max-requests 3; nothing was"):
            score(captions(), server.clair, max_requests=3)
        assert not server.received
        with progress.show_progress():
            score(captions(), server.clair, prices=prices, max_cost=100)
        messages = " ".join(capsys.readouterr().err.split())
        assert "4 questions to m at 127.0.0.1" in messages and "about" in messages
        assert "4 questions asked; spent 400 input and 40 output tokens, 0.60 by --judge-prices" in messages
        assert KEY not in messages


def test_what_the_answers_cost_ends_the_asking() -> None:
    """Each answer costs 100 and not the estimated 60: the second question is asked, and no third."""
    usage = {"prompt_tokens": 0, "completion_tokens": 100}
    body = {"choices": [{"message": {"content": '{"score": 50}'}}], "usage": usage}
    with JudgeServer(lambda *_: Reply(body=json.dumps(body).encode())).running() as server:
        limits: dict[str, Any] = {"concurrency": 1, "prices": (0.0, 1e6), "max_cost": 185.0}
        texts = [f"text {k}" for k in range(3)]
        results = score(captions(texts), server.clair, **limits)
        assert len(server.received) == 2 and results.parts["scored_share"] == pytest.approx(2 / 3)
        assert results.notes["no answer: not asked: --max-requests or --max-cost is reached"] == ["2"]


@pytest.mark.parametrize("count", ["NaN", "-5", "1.5", '"many"', "[3]", "null", "1e999"])
def test_no_answer_is_lost_for_its_number_of_tokens(count: str) -> None:
    body = '{"choices": [{"message": {"content": "50"}, "finish_reason": []}], "usage": {"prompt_tokens": COUNT}}'
    with JudgeServer(lambda *_: Reply(body=body.replace("COUNT", count).encode())).running() as server:
        assert score(captions(), server.clair).score == 0.5


def test_limits_are_checked() -> None:
    assert JudgeLimits(prices=_read_prices("2.5,10")).cost(10**6, 10**5) == pytest.approx(3.5)
    nan = float("nan")
    wrong_limits = ({"tries": 0}, {"timeout": nan}, {"concurrency": "8"}, {"max_cost": -1.0}, {"max_requests": nan})
    for wrong in (*wrong_limits, {"prices": (nan, 1)}, {"prices": (1,)}):
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
