"""Judges against a real server on this machine: scores, what is asked, tries, failures, keys, costs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from judgeserver import KEY, TEXTS, JudgeServer, Reply, captions, completion, prompt_of

import capmeter
from capmeter import progress
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import AssetError, InputError
from capmeter.metrics.judge import endpoint as endpoints
from capmeter.metrics.judge import judge as judges
from capmeter.metrics.judge.limits import Limits, key, server
from capmeter.metrics.registry import parse

pytest.importorskip("httpx", reason="needs the judge extra")
pytestmark = pytest.mark.usefixtures("judging")


def candidate(body: dict[str, Any]) -> str:
    return prompt_of(body).split("Candidate set:\n- ")[1].split("\n")[0]


def test_scores_are_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = dict(zip(TEXTS, (10, 40, 85, 100), strict=True))
    plan = lambda body, before: completion(json.dumps({"score": scores[candidate(body)], "reason": "so"}))  # noqa: E731
    with JudgeServer(plan).running() as server:
        name = f'clair(model=some-model,endpoint="{server.url}")'
        results = capmeter.score(captions(), [name])
        found = results[name]
        assert list(found.items.values()) == pytest.approx([0.1, 0.4, 0.85, 1.0])
        assert found.score == pytest.approx(0.5875) and found.parts["judged"] == 1.0
        body, headers = server.received[0], server.headers[0]
        assert (
            body["temperature"] == 0 and body["model"] == "some-model" and headers["Authorization"] == f"Bearer {KEY}"
        )
        assert "judge:some-model at 127.0.0.1:" in found.signature and "prompt:clair@" in found.signature
        again = capmeter.score(captions(), [name])[name]
        assert len(server.received) == 4 and list(again.items.values()) == list(found.items.values())
        capmeter.score(captions(["a dog runs", "new one"][:1]), [name])
        assert len(server.received) == 4  # a caption of another set, with the same references
        assert KEY not in json.dumps(results.to_dict())


def test_equal_questions_are_asked_once() -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        rows = [Caption(str(k), "1", "a dog", ("a", "b")) for k in range(5)]
        assert capmeter.score(CaptionSet.from_captions(rows), [name])[name].score == 0.5
        assert len(server.received) == 1


def test_what_fails_is_tried_again() -> None:
    failures = [
        Reply(500, b'{"error": "overloaded"}'),
        Reply(429, b"slow down", {"Retry-After": "1"}),
        Reply(body=b'{"choices": []}'),
    ]

    def plan(body: dict[str, Any], before: int) -> Reply:
        kind = TEXTS.index(candidate(body))
        if before == 0 and kind < 3:
            return failures[kind]
        if before == 0:
            return Reply(body=completion('{"score": 60}').body, half=True)
        return completion('{"score": 60}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(), [name])[name]
        assert list(found.items.values()) == pytest.approx([0.6] * 4) and len(server.received) == 8
        assert not any("no answer" in reason for reason in found.notes)


@pytest.mark.parametrize("wrong", [b"not json", b"[1, 2]", b'{"choices": [{"message": {"content": null}}]}', b""])
def test_an_answer_of_the_wrong_form_is_listed_after_all_tries(wrong: bytes) -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        return Reply(body=wrong) if candidate(body) == "two cats" else completion('{"score": 80}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(), [name])[name]
        assert len(server.received) == 3 + 3 and found.notes["no answer"] == ["1"]
        assert any("not a completion" in reason and "tried 3 times" in reason for reason in found.notes)
        assert found.score == pytest.approx(0.8) and found.parts["judged"] == 0.75
        assert found.items["1"] == pytest.approx(0.8)  # the mean of the others, never 0
        capmeter.score(captions(), [name])
        assert len(server.received) == 6 + 3  # the next run asks what failed again, and nothing else


def test_refusals_and_answers_without_a_score_are_listed() -> None:
    answers = {
        "a dog runs": completion('{"score": 90}'),
        "two cats": completion("I'm sorry, I can't help with that."),
        "a red kite": completion(None, refusal="This is against our policy."),
        "a bus": completion("What a lovely caption!"),
    }
    with JudgeServer(lambda body, before: answers[candidate(body)]).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(), [name])[name]
        assert found.notes["refused"] == ["1", "2"] and found.notes["no score in the answer"] == ["3"]
        assert found.score == pytest.approx(0.9) and found.parts["judged"] == 0.25
        low, high = capmeter.score(captions(), [name]).intervals(resamples=50)[name]
        assert [low, high] == pytest.approx([0.9, 0.9])
        assert len(server.received) == 4  # refusals are answers: they are not asked again


def test_a_content_filter_is_a_refusal_and_other_bad_requests_are_listed() -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        if candidate(body) == "two cats":
            return Reply(400, b'{"error": {"code": "content_filter", "message": "filtered"}}')
        if candidate(body) == "a bus":
            return Reply(413, b'{"error": "too long"}')
        return completion('{"score": 90}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(), [name])[name]
        assert found.notes["refused"] == ["1"] and found.notes["no answer"] == ["3"] and len(server.received) == 4


def test_reasons_in_many_words_do_not_flood_the_notes() -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        number = int(candidate(body).rpartition(" ")[2])
        return Reply(422, f"request {number} is bad".encode()) if number < 20 else completion('{"score": 90}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions([f"text {k}" for k in range(21)]), [name])[name]
        assert len(found.notes["no answer"]) == 20 and found.score == pytest.approx(0.9)
        assert sum(reason.startswith("no answer: status 422: request") for reason in found.notes) == 5


def test_no_score_at_all_is_an_error() -> None:
    with JudgeServer(lambda body, before: completion("I can't.")).running() as server:
        none = r"none of 4 captions has a score: refused \(4\)"
        with pytest.raises(InputError, match=none):
            capmeter.score(captions(), [f'clair(model=m,endpoint="{server.url}")'])


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_model_ends_the_run_without_showing_the_key(status: int) -> None:
    body = json.dumps({"error": f"Incorrect API key provided: {KEY}."}).encode()
    with JudgeServer(lambda *_: Reply(status, body)).running() as server:
        with pytest.raises(AssetError) as problem:
            capmeter.score(captions(), [f'clair(model=m,endpoint="{server.url}")'])
        assert f"status {status}" in str(problem.value) and KEY not in str(problem.value)
        assert "[key]" in str(problem.value)


def test_answers_before_an_error_are_kept() -> None:
    broken = [True]

    def plan(body: dict[str, Any], before: int) -> Reply:
        return Reply(401, b"no") if broken[0] and candidate(body) == "a bus" else completion('{"score": 70}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        with pytest.raises(AssetError):
            capmeter.score(captions(), [name])
        broken[0] = False
        assert capmeter.score(captions(), [name])[name].score == pytest.approx(0.7)
        assert len(server.received) == 5 and max(server.good.values()) == 1


def test_a_server_that_is_not_there_is_listed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"none of 4 captions has a score: no answer: network error: .*tried 3 times"):
        capmeter.score(captions(), ['clair(model=m,endpoint="http://127.0.0.1:9/v1")'])


def test_openais_server_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAPMETER_JUDGE_KEY", "OPENAI_API_KEY", "CAPMETER_JUDGE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AssetError, match=r"m at api\.openai\.com needs a key: set CAPMETER_JUDGE_KEY"):
        capmeter.score(captions(), ["clair(model=m)"])


def test_a_server_that_is_too_slow_or_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setenv("CAPMETER_JUDGE_TIMEOUT", "0.3")
    monkeypatch.setenv("CAPMETER_JUDGE_TRIES", "2")
    late = threading.Event()

    def plan(body: dict[str, Any], before: int) -> Reply:
        if candidate(body) == "two cats":
            late.wait(1.0)
        if candidate(body) == "a bus" and before == 0:
            return Reply(silent=True)
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(), [name])[name]
        assert found.notes["no answer"] == ["1"] and any("timed out" in reason for reason in found.notes)
        assert found.score == 0.5
        late.set()


def test_pauses_grow_and_follow_what_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(endpoints.time, "sleep", slept.append)
    monkeypatch.setenv("CAPMETER_JUDGE_TRIES", "5")
    replies = [Reply(500), Reply(500), Reply(429, b"", {"Retry-After": "17"}), Reply(503, b"", {"Retry-After": "9999"})]
    plan = lambda body, before: replies[before] if before < 4 else completion('{"score": 50}')  # noqa: E731
    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        assert capmeter.score(captions(TEXTS[:1]), [name])[name].score == 0.5
    assert 0.375 <= slept[0] <= 0.625 and slept[1] == pytest.approx(2 * slept[0])
    assert slept[2:] == [17.0, 60.0]


def test_the_rate_spaces_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    from capmeter.metrics.judge import limits

    slept: list[float] = []
    monkeypatch.setattr(limits.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(limits.time, "sleep", slept.append)
    pace = limits.Pace(120)
    for _ in range(4):
        pace.wait()
    assert slept == [0.0, 0.5, 1.0, 1.5]


def test_at_most_so_many_questions_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setenv("CAPMETER_JUDGE_CONCURRENCY", "3")
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
        capmeter.score(captions([f"text {k}" for k in range(20)]), [f'clair(model=m,endpoint="{server.url}")'])
    assert most[0] == 3


def test_costs_are_told_before_and_after_and_a_budget_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAPMETER_JUDGE_PRICES", "1000,5000")
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        monkeypatch.setenv("CAPMETER_JUDGE_BUDGET", "0.1")
        monkeypatch.setattr(judges, "_spent", type(judges._spent)())
        with pytest.raises(InputError, match=r"4 questions to m at 127.* would cost about .* nothing was asked"):
            capmeter.score(captions(), [name])
        assert not server.received
        monkeypatch.setenv("CAPMETER_JUDGE_BUDGET", "100")
        with progress.shown():
            capmeter.score(captions(), [name])
        told = " ".join(capsys.readouterr().err.split())
        assert "4 questions to m at 127.0.0.1" in told and "about" in told
        assert "4 answers; spent 400 tokens read and 40 written, 0.60 by CAPMETER_JUDGE_PRICES" in told
        assert KEY not in told


def test_an_empty_caption_scores_0_and_is_not_asked() -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        found = capmeter.score(captions(["  ", "a dog"]), [name])[name]
        assert list(found.items.values()) == [0.0, 0.5] and len(server.received) == 1
        assert found.notes["empty candidate"] == ["0"]


def test_settings_from_the_environment_are_checked() -> None:
    assert Limits.from_environment({"CAPMETER_JUDGE_PRICES": "2.5,10"}).cost(10**6, 10**5) == pytest.approx(3.5)
    for wrong in (
        {"CAPMETER_JUDGE_TRIES": "0"},
        {"CAPMETER_JUDGE_RATE": "fast"},
        {"CAPMETER_JUDGE_PRICES": "1"},
        {"CAPMETER_JUDGE_BUDGET": "3"},
        {"CAPMETER_JUDGE_TIMEOUT": "nan"},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Limits.from_environment(wrong)
    assert KEY not in repr(key({"OPENAI_API_KEY": KEY})) and key({"OPENAI_API_KEY": KEY}).value == KEY


@pytest.mark.parametrize(
    "address", ["ftp://a", "nonsense", "http://user:secret@a/v1", "http://a/v1?key=secret", "http://a:99999999/v1"]
)
def test_an_address_that_could_hold_a_key_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="the judge's server") as problem:
        server(address)
    assert "secret" not in str(problem.value)
    with pytest.raises(InputError, match="the judge's server"):
        parse(f'clair(model=m,endpoint="{address}")')


def test_the_score_of_several_parts_is_the_score_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(body: dict[str, Any], before: int) -> Reply:
        number = int(candidate(body).rpartition(" ")[2])
        return completion("I'm sorry.") if number % 5 == 0 else completion(json.dumps({"score": number}))

    with JudgeServer(plan).running() as server:
        name = f'clair(model=m,endpoint="{server.url}")'
        texts = [f"text {k}" for k in range(1, 21)]
        whole = capmeter.score(captions(texts), [name])[name]
        monkeypatch.setattr("capmeter.metrics.judge.judge.Judge.ROWS", 6)
        parts = capmeter.score(captions(texts), [name])[name]
        scored = [k / 100 for k in range(1, 21) if k % 5]
        assert whole.score == parts.score == pytest.approx(float(np.mean(scored)))
        assert list(whole.items.values()) == pytest.approx(list(parts.items.values()))
        assert whole.items["4"] == pytest.approx(float(np.mean(scored)))
