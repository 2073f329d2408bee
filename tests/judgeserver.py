"""A server on this machine that answers as OpenAI-compatible ones do: also slowly, with errors, by halves, wrongly."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from capmeter.captions.model import Caption, CaptionSet

KEY = "sk-only-for-tests-0123456789"
TEXTS = ["a dog runs", "two cats", "a red kite", "a bus"]


@dataclass
class Reply:
    """What is sent: a status with a body, its headers, only so much of it (`half`), or nothing at all (`silent`)."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    half: bool = False
    silent: bool = False


def completion(text: str | None, tokens: list[Any] | None = None, **message: Any) -> Reply:
    """A chat completion with this text; tokens: [text, {alternative: log-probability}]."""
    said: dict[str, Any] = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    if tokens is not None:
        said["logprobs"] = {
            "content": [
                {
                    "token": own,
                    "logprob": others.get(own, 0.0),
                    "top_logprobs": [{"token": t, "logprob": p} for t, p in others.items()],
                }
                for own, others in tokens
            ]
        }
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return Reply(body=json.dumps({"id": "1", "object": "chat.completion", "choices": [said], "usage": usage}).encode())


class JudgeServer:
    """Answers with `plan(request body, how often this body came before)`.

    received: the bodies, and their headers. seen: how often each body came; good: how often with a whole answer.
    """

    def __init__(self, plan: Callable[[dict[str, Any], int], Reply]) -> None:
        self.received: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.good: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.may_reply: Callable[[], bool] = lambda: True
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(content)
                text = json.dumps(body, sort_keys=True)
                with outer.lock:
                    outer.received.append(body)
                    outer.headers.append(dict(self.headers.items()))
                    before = outer.seen[text]
                    outer.seen[text] += 1
                reply = plan(body, before)
                if not outer.may_reply() or reply.silent:
                    self.close_connection = True
                    return
                with contextlib.suppress(OSError):
                    self.send_response(reply.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(reply.body)))
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if reply.status == 200 and not reply.half:
                        with outer.lock:
                            outer.good[text] += 1
                    self.wfile.write(reply.body[: len(reply.body) // 2] if reply.half else reply.body)
                    self.wfile.flush()
                if reply.half:
                    self.close_connection = True

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The address to give to a judge."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @contextmanager
    def running(self) -> Iterator[JudgeServer]:
        """Serves inside the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def prompt_of(body: dict[str, Any]) -> str:
    """The text of the request's message."""
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


def captions(texts: list[str] = TEXTS, **of_all: Any) -> CaptionSet:
    rows = (Caption(str(k), f"image {k}", text, (f"{text} here", "b"), **of_all) for k, text in enumerate(texts))
    return CaptionSet.from_captions(rows)
