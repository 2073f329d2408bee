"""A thousand captions against a server with errors and refusals, the run killed twice: every caption once, no key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from judgeserver import KEY, JudgeServer, Reply, completion, prompt_of

pytest.importorskip("httpx", reason="needs the judge extra")
CAPTIONS = 1000


def drawn(body: dict[str, Any]) -> int:
    """A number from 0 to 999 that depends on the question alone."""
    return zlib.crc32(prompt_of(body).encode()) % 1000


def plan(body: dict[str, Any], before: int) -> Reply:
    """One question in ten fails at first, in five ways; one in twenty is refused; the others get a score."""
    number = drawn(body)
    if number < 100 and before == 0:
        return (
            Reply(500, b'{"error": {"message": "overloaded"}}'),
            Reply(429, b"{}", {"Retry-After": "0"}),
            Reply(body=completion('{"score": 5}').body, half=True),
            Reply(body=b"<html>busy</html>"),
            Reply(silent=True),
        )[number % 5]
    if 100 <= number < 150:
        return completion("I'm sorry, but I can't assist with that request.")
    return completion(json.dumps({"score": number % 101, "reason": "because"}))


@pytest.mark.slow
def test_killed_twice(tmp_path: Path) -> None:
    rows = [
        {"id": str(k), "image_id": str(k), "candidate": f"a dog number {k}", "references": [f"dog {k}", "a puppy"]}
        for k in range(CAPTIONS)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = os.environ | {
        "CAPMETER_JUDGE_KEY": KEY,
        "CAPMETER_JUDGE_CONCURRENCY": "8",
        "CAPMETER_CACHE": str(tmp_path / "cache"),
        "CAPMETER_DATA": str(tmp_path / "data"),
        "CAPMETER_JUDGE_PRICES": "2.5,10",
    }
    environment.pop("CAPMETER_VECTOR_CACHE", None)
    said: list[str] = []
    with JudgeServer(plan).running() as server:
        name = f'clair(model=some-model,endpoint="{server.url}")'
        command = [
            sys.executable,
            "-c",
            "from capmeter.cli.main import main; main()",
            "score",
            str(tmp_path / "rows.jsonl"),
        ]
        command += ["-m", name, "--output", str(tmp_path / "scores.json"), "--format", "json"]

        def run(kill_at: int | None) -> int:
            """Runs the command; kills it when so many questions have been answered, in the middle of others."""
            held, dead = threading.Event(), threading.Event()

            def answering() -> bool:
                if kill_at is not None and sum(server.good.values()) >= kill_at:
                    held.set()
                    dead.wait(60)
                    return False
                return True

            server.may_reply = answering
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            if kill_at is not None:
                assert held.wait(300)
                before = -1
                while before != (before := sum(server.good.values())):  # answers on their way are kept
                    time.sleep(0.5)
                process.kill()
            out, err = process.communicate(timeout=300)
            dead.set()
            said.extend((out, err))
            return process.returncode

        assert run(300) < 0 and run(700) < 0
        assert not (tmp_path / "scores.json").exists()
        assert run(None) == 0
        assert _only_nonsense(server)
        asked = len(server.received)
        assert run(None) == 0 and len(server.received) == asked  # a further run asks nothing
    scores = json.loads((tmp_path / "scores.json").read_text())
    (system,) = scores["systems"].values()
    (found,) = system["metrics"].values()
    texts = {json.dumps(body, sort_keys=True): drawn(body) for body in server.received}
    assert len(texts) == CAPTIONS == len(found["items"])
    ids = {text: prompt_of(json.loads(text)).split("number ")[1].split("\n")[0] for text in texts}
    refused = sorted(int(ids[text]) for text, number in texts.items() if 100 <= number < 150)
    assert sorted(map(int, found["notes"]["refused"])) == refused and 20 <= len(refused) <= 80
    assert not any("no answer" in reason for reason in found["notes"])
    right = {ids[text]: number % 101 / 100 for text, number in texts.items() if not 100 <= number < 150}
    for id, score in right.items():
        assert found["items"][id] == pytest.approx(score)
    assert found["score"] == pytest.approx(sum(right.values()) / len(right))
    assert any("questions to some-model" in each for each in said) and any("spent" in each for each in said)
    places = [*said, *(path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file())]
    assert not any(KEY in text or KEY[3:] in text for text in places)


def _only_nonsense(server: JudgeServer) -> bool:
    """Whether nothing was asked again after a whole answer that could be read."""
    repeated = [json.loads(text) for text, count in server.good.items() if count > 1]
    return all(drawn(body) < 100 and drawn(body) % 5 == 3 for body in repeated)  # <html>: whole, but no answer
