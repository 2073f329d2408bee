"""A local server with the interface of OpenAI's: it can be slow, fail, break off and send malformed answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.settings import JudgeLimits, Settings
from capmeter.evaluation.results import Scores

KEY = "sk-only-for-tests-0123456789"
TEXTS = ["a dog runs", "two cats", "a red kite", "a bus"]


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key, and a cache of its own."""
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", KEY)
    for name in ("CAPMETER_JUDGE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CAPMETER_VECTOR_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))


@dataclass
class Reply:
    """A response: status, body and headers, of which only half is sent (`half`), or nothing at all (`silent`)."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    half: bool = False
    silent: bool = False


def completion(text: str | None, tokens: list[Any] | None = None, **message: Any) -> Reply:
    """A chat completion with this text; tokens: [text, {alternative: log-probability}]."""
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    if tokens is not None:
        choice["logprobs"] = {
            "content": [
                {
                    "token": token,
                    "logprob": others.get(token, 0.0),
                    "top_logprobs": [{"token": t, "logprob": p} for t, p in others.items()],
                }
                for token, others in tokens
            ]
        }
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return Reply(
        body=json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    )


class JudgeServer:
    """Answers with `plan(request body, number of earlier requests with this body)`.

    received, headers: of all requests. seen: number of requests with each body; good: of those answered completely.
    """

    def __init__(self, plan: Callable[[dict[str, Any], int], Reply]) -> None:
        self.received: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.good: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.may_reply: Callable[[], bool] = lambda: True
        self.refused_until = threading.Event()  # what may not be replied to stays open until then
        self.replying = 0  # replies that were allowed and are not written yet
        self.lock = threading.RLock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if not content:  # the client was killed
                    self.close_connection = True
                    return
                body = json.loads(content)
                text = json.dumps(body, sort_keys=True)
                with outer.lock:
                    outer.received.append(body)
                    outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                    before = outer.seen[text]
                    outer.seen[text] += 1
                    may_reply = outer.may_reply()
                    outer.replying += may_reply
                reply = plan(body, before)
                if may_reply and not reply.silent:
                    self._write(reply, text)
                if not may_reply:
                    outer.refused_until.wait(60)
                if reply.half or reply.silent or not may_reply:
                    self.close_connection = True
                with outer.lock:
                    outer.replying -= may_reply

            def _write(self, reply: Reply, text: str) -> None:
                with contextlib.suppress(OSError):
                    self.send_response(reply.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(reply.body)))
                    headers = {"Retry-After-Ms": "1"} | reply.headers  # the pause before the next try
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if reply.status == 200 and not reply.half:
                        with outer.lock:
                            outer.good[text] += 1
                    self.wfile.write(reply.body[: len(reply.body) // 2] if reply.half else reply.body)
                    self.wfile.flush()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is logged."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # of connections that come at once
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The address to give to a judge."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def clair(self) -> str:
        """CLAIR asked of this server."""
        return f'clair(model=m,endpoint="{self.url}")'

    def answered(self) -> dict[str, int]:
        """How often each body was answered completely so far, while others may be."""
        with self.lock:
            return dict(self.good)

    @contextmanager
    def running(self) -> Iterator[JudgeServer]:
        """Serves inside the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def score(captions: CaptionSet, name: str, **limits: Any) -> Scores:
    """The scores of one judge, with three tries."""
    settings = Settings(judging=JudgeLimits(**{"tries": 3, **limits}))
    return capmeter.score(captions, [name], settings=settings)[name]


def prompt_of(body: dict[str, Any]) -> str:
    """The text of the request's message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


def captions(texts: list[str] = TEXTS, **of_all: Any) -> CaptionSet:
    rows = (Caption(str(k), f"image {k}", text, (f"{text} here", "b"), **of_all) for k, text in enumerate(texts))
    return CaptionSet.from_captions(rows)
