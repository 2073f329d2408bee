"""200 captions with 20 questions each against a server with errors, refusals and malformed answers, killed three times.

Every question is answered once or listed, what is stored is not asked again, and the key appears nowhere.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import KEY, JudgeServer, Reply, completion, prompt_of

pytest.importorskip("openai", reason="needs the judges extra")
CAPTIONS, QUESTIONS = 200, 20
MALFORMED, REFUSED = range(100, 130), range(130, 180)


def number_of(body: dict[str, Any]) -> int:
    """A number from 0 to 999 that depends only on the question."""
    return zlib.crc32(prompt_of(body).encode()) % 1000


def plan(body: dict[str, Any], before: int) -> Reply:
    """One question in ten fails at first; 3 % always get malformed JSON, 5 % a refusal; the others an answer."""
    number = number_of(body)
    if number < 100 and before == 0:
        return (Reply(500, b'{"error": {"message": "overloaded"}}'), Reply(429, b"{}"), Reply(503))[number % 3]
    if number in MALFORMED:
        return Reply(body=b'{"choices": [{"message": {"content": "A"')
    if number in REFUSED:
        return completion("I'm sorry, but I can't assist with that request.")
    return completion("A" if number % 2 else "B")


def wait_until_stored(folder: Path, server: JudgeServer) -> None:
    """Returns when every answer on its way is in the cache."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        is_written = server.replying == 0
        answered = sum(number_of(json.loads(text)) not in MALFORMED for text in server.answered())
        path = folder / "judge" / "answers.sqlite"
        if is_written and path.exists():
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
                if database.execute("SELECT count(*) FROM answers").fetchone()[0] > answered:
                    return
        time.sleep(0.2)
    raise AssertionError("answers were not stored")


@pytest.mark.slow
def test_killed_three_times(tmp_path: Path) -> None:
    questions = [{"question": f"Is it {k}?", "choices": ["yes", "no"], "answer": "yes"} for k in range(QUESTIONS)]
    rows = [{"id": f"c{k}", "image_id": str(k), "candidate": f"a dog number {k}"} for k in range(CAPTIONS)]
    files = {"rows": rows, "questions": [{"image_id": str(k), "questions": questions} for k in range(CAPTIONS)]}
    for name, content in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    environment = os.environ | {
        "CAPMETER_JUDGE_KEY": KEY,
        "CAPMETER_CACHE": str(tmp_path / "cache"),
        "CAPMETER_DATA": str(tmp_path / "data"),
    }
    environment.pop("CAPMETER_VECTOR_CACHE", None)
    output: list[str] = []
    with JudgeServer(plan).running() as server:
        task, file = tmp_path / "quiz.yaml", tmp_path / "questions.jsonl"
        task.write_text("prompt: |-\n  {candidate}\n  {question} {choices}\nask: question\nread: {choice: true}\n")
        name = f'judge(model=some-model,endpoint="{server.url}",task="{task}",questions="{file}")'
        command = [sys.executable, "-c", "from capmeter.cli.main import main; main()", "score"]
        command += [str(tmp_path / "rows.jsonl"), "-m", name, "--output", str(tmp_path / "scores.json")]
        command += ["--judge-concurrency", "32", "--judge-tries", "2", "--judge-prices", "2.5,10"]

        def run(kill_at: int | None) -> int:
            """Runs the command; kills it after this number of answers, while others are in progress."""
            blocked, killed = threading.Event(), threading.Event()

            def answering() -> bool:
                is_over = kill_at is not None and sum(server.answered().values()) >= kill_at
                if is_over:
                    blocked.set()
                return not is_over

            server.may_reply, server.refused_until = answering, killed
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            if kill_at is not None:
                assert blocked.wait(300)
                wait_until_stored(tmp_path / "cache", server)
                process.kill()
            out, err = process.communicate(timeout=300)
            killed.set()
            output.extend((out, err))
            return process.returncode

        assert all(run(kill_at) < 0 for kill_at in (800, 1800, 3000))
        assert not (tmp_path / "scores.json").exists()
        assert run(None) == 0, output[-1]
        requests = {json.dumps(body, sort_keys=True): number_of(body) for body in server.received}
        assert len(requests) == CAPTIONS * QUESTIONS
        stored = {text: number for text, number in requests.items() if number not in MALFORMED}
        assert {text: server.good[text] for text in stored if server.good[text] != 1} == {}  # none was asked for again
        count = len(server.received)
        assert run(None) == 0
        repeated = [number_of(body) for body in server.received[count:]]
        assert repeated and set(repeated) <= set(MALFORMED)  # a further run asks only what has no answer
    (results,) = next(iter(json.loads((tmp_path / "scores.json").read_text())["systems"].values()))["metrics"].values()
    unanswered = {
        "c" + prompt_of(json.loads(text)).split("number ")[1].split("\n")[0]
        for text, number in requests.items()
        if number in MALFORMED or number in REFUSED
    }
    assert set(results["notes"]["some questions without a readable answer"]) == unanswered
    answered = [number for number in requests.values() if number not in MALFORMED and number not in REFUSED]
    assert 0.85 * len(requests) < len(answered) < 0.97 * len(requests)
    assert 0.3 < results["score"] < 0.7  # A, the right one, is the answer to about half of the questions
    everything = [*output, *(path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file())]
    assert not any(KEY in text or KEY[3:] in text for text in everything)
    assert any("questions to some-model" in each for each in output) and any("spent" in each for each in output)
