"""Servers of judges: keys, addresses, faults, and answers of any size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.judge_server import KEY, JudgeServer, Reply, captions, completion, prompt_of, score

from capmeter.core.errors import AssetError, InputError

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def candidate(body: dict[str, Any]) -> str:
    return prompt_of(body).split("Candidate set:\n- ")[1].split("\n")[0]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_model_ends_the_run_without_showing_the_key(status: int) -> None:
    body = json.dumps({"error": f"Incorrect API key provided: {KEY}."}).encode()
    with JudgeServer(lambda *_: Reply(status, body)).running() as server:
        with pytest.raises(AssetError) as problem:
            score(captions(), f'clair(model=m,endpoint="{server.url}")')
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
        results = score(captions(), f'clair(model=m,endpoint="{server.url}")', timeout=0.3, tries=2)
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
        results = score(captions(), f'clair(model=m,endpoint="{server.url}")')
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
            score(captions(), f'clair(model=m,endpoint="{server.url}")')
        assert not other.received


def test_options_that_a_server_does_not_know_are_left_out() -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        if "max_tokens" in body:
            return Reply(400, b'{"error": {"message": "Unsupported: max_tokens. Use max_completion_tokens."}}')
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        assert score(captions(), f'clair(model=m,endpoint="{server.url}")', concurrency=4).score == 0.5
        assert sum("max_tokens" not in body for body in server.received) == 4


def test_malformed_responses_in_a_row_do_not_count_as_a_server_that_is_gone() -> None:
    """They are asked for three times, and what comes after them is asked too."""

    def plan(body: dict[str, Any], before: int) -> Reply:
        return completion('{"score": 50}') if int(candidate(body).split()[1]) >= 12 else Reply(body=b"<html>")

    with JudgeServer(plan).running() as server:
        texts = captions([f"text {k}" for k in range(13)])
        results = score(texts, f'clair(model=m,endpoint="{server.url}")', concurrency=4, tries=10)
        assert len(results.notes["no answer"]) == 12 and results.score == 0.5
        assert len(server.received) == 12 * 3 + 1 and any("(tried 3 times)" in reason for reason in results.notes)
