"""A judge behind an OpenAI-compatible address (`/chat/completions`): OpenAI, vLLM, llama.cpp, Ollama and others.

A try fails, and is repeated after a growing pause (at least what the server asks for), on a network error, on 408, 409,
425, 429 and 5xx, and on an answer that is not whole or not of the expected form. A key that is not accepted, or a model
that is not there, ends the run at once. What is refused for its content counts as an answer.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from typing import Any
from urllib.parse import urlsplit

from capmeter.errors import AssetError, InputError, MissingBackend
from capmeter.images.reading import read_picture
from capmeter.metrics.judge.answers import Answer, Failure, Question, Token
from capmeter.metrics.judge.limits import Limits, Pace, Secret

MOST_ALTERNATIVES = 20
_LONGEST_PAUSE, _LARGEST_ANSWER, _LARGEST_PICTURE = 60.0, 1 << 24, 20_000_000
_AGAIN = {408, 409, 425, 429}
_HOPELESS = {401, 403, 404}
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png"}
_FILTERS = ("content_filter", "content_policy", "safety")


_OPENAI = "api.openai.com"


class Endpoint:
    """One model of one server.

    Raises:
        MissingBackend: httpx is not installed.
    """

    def __init__(self, address: str, model: str, secret: Secret, limits: Limits) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingBackend("judges on a server need httpx: pip install 'capmeter[judge]'") from None
        self.model, self._secret, self._limits = model, secret, limits
        self._address = f"{address}/chat/completions"
        self._pace = Pace(limits.rate)
        headers = {"Authorization": f"Bearer {secret.value}"} if secret.value else {}
        connections = httpx.Limits(max_connections=limits.concurrency)
        self._client = httpx.Client(headers=headers, timeout=limits.timeout, limits=connections)
        self._errors: Any = (httpx.HTTPError, httpx.InvalidURL)

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""
        parts = urlsplit(self._address)
        return f"{self.model} at {parts.hostname}{f':{parts.port}' if parts.port else ''}"

    def ask(self, question: Question) -> Answer | Failure:
        """The answer, after as many tries as it takes; a `Failure` after too many.

        Raises:
            AssetError: the server does not accept the key or there is none, or it has no such model.
            InputError: the picture cannot be read.
        """
        if not self._secret.value and urlsplit(self._address).hostname == _OPENAI:
            raise AssetError(
                f"the judge {self.identity} needs a key: set CAPMETER_JUDGE_KEY (or OPENAI_API_KEY), or name a server "
                "that needs none (endpoint=, or CAPMETER_JUDGE_URL)"
            )
        body = json.dumps(self._body(question)).encode()
        spread = (
            zlib.crc32(question.content) % 256 / 256
        )  # so that questions that failed together do not return together
        reason = ""
        for attempt in range(self._limits.tries):
            self._pace.wait()
            pause = min(_LONGEST_PAUSE, 0.5 * 2**attempt) * (0.75 + spread / 2)
            try:
                status, asked, content = self._post(body)
            except (*self._errors, TimeoutError, ValueError) as error:
                reason = f"network error: {self._clean(str(error) or type(error).__name__)}"
            else:
                found = self._read(status, content)
                if not isinstance(found, str):
                    return found
                reason = found
                pause = max(pause, min(asked, _LONGEST_PAUSE))
            if attempt + 1 < self._limits.tries:
                time.sleep(pause)
        return Failure(f"{reason} (tried {self._limits.tries} times)")

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _body(self, question: Question) -> dict[str, Any]:
        text = {"type": "text", "text": question.text}
        parts: list[dict[str, Any]] = [text]
        if question.picture is not None:
            url = {"url": picture_url(question), "detail": "low"}
            shown = {"type": "image_url", "image_url": url}
            parts = [shown, text] if question.picture_first else [text, shown]
        content: Any = parts if question.picture is not None else question.text
        body = {"model": self.model, "messages": [{"role": question.role, "content": content}], "temperature": 0}
        body["max_tokens"] = question.longest
        if question.alternatives:
            body |= {"logprobs": True, "top_logprobs": MOST_ALTERNATIVES}
        return body

    def _post(self, body: bytes) -> tuple[int, float, bytes]:
        """Status, the pause that the server asks for, and the answer, whole and within the time limit."""
        ends = time.monotonic() + self._limits.timeout
        kind = {"Content-Type": "application/json"}
        with self._client.stream("POST", self._address, content=body, headers=kind) as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _LARGEST_ANSWER:
                    raise ValueError("the answer is larger than 16 MB")
                if time.monotonic() > ends:
                    raise TimeoutError(f"the answer took longer than {self._limits.timeout:g} seconds")
            return response.status_code, _seconds(response.headers.get("retry-after")), bytes(content)

    def _read(self, status: int, content: bytes) -> Answer | Failure | str:
        """The answer in a response, or why the question should be asked again."""
        if status in _HOPELESS:
            raise AssetError(
                f"the judge's server refuses model {self.model!r} with status {status}: {self._said(content)}; check "
                "the model's name, the address (endpoint=), and the key in CAPMETER_JUDGE_KEY"
            )
        if status in _AGAIN or status >= 500:
            return f"status {status}: {self._said(content)}"
        if status != 200:
            said = self._said(content)
            if any(word in said.lower() for word in _FILTERS):
                return Answer(said, refused=True, finish="content_filter")
            return Failure(f"status {status}: {said}")
        try:
            return read_completion(json.loads(content))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            return f"an answer that is not a completion ({type(error).__name__}): {self._said(content)}"

    def _said(self, content: bytes) -> str:
        """What the server says, shortened, without the key."""
        text = " ".join(content[:2000].decode("utf-8", "replace").split())
        return self._clean(text)[:200] or "nothing"

    def _clean(self, text: str) -> str:
        return self._secret.removed_from(text)


def read_completion(said: Any) -> Answer:
    """The answer in a chat completion; a `KeyError`, `TypeError` or `ValueError` if it is none."""
    choice = said["choices"][0]
    message = choice["message"]
    finish = str(choice.get("finish_reason") or "stop")
    refusal = message.get("refusal")
    text = message.get("content")
    refused = bool(refusal) or finish == "content_filter"
    if not isinstance(text, str) and not refused:
        raise ValueError("no content")
    tokens = []
    for each in (choice.get("logprobs") or {}).get("content") or ():
        alternatives = {str(other["token"]): float(other["logprob"]) for other in each.get("top_logprobs") or ()}
        alternatives.setdefault(str(each["token"]), float(each["logprob"]))
        tokens.append(Token(str(each["token"]), alternatives))
    used = said.get("usage") or {}
    counts = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
    return Answer(text if isinstance(text, str) else str(refusal or ""), tuple(tokens), refused, finish, counts)


def picture_url(question: Question) -> str:
    """The picture as a data URL: the file itself if it is a plain JPEG or PNG, else a PNG of what metrics see."""
    place = question.picture
    if place is None:
        raise ValueError("the question has no picture")
    picture = read_picture(place)
    with open(place.path, "rb") as file:  # noqa: PTH123  the place may hold what a Path would change
        content = file.read()
    kind = next((kind for start, kind in _KINDS.items() if content.startswith(start)), None)
    if kind is None or picture.notes:
        import io

        from PIL import Image

        buffer = io.BytesIO()
        Image.fromarray(picture.pixels).save(buffer, "PNG")
        content, kind = buffer.getvalue(), "png"
    if len(content) > _LARGEST_PICTURE:
        raise InputError(
            f"picture {place.path!a} of image {place.image_id!a}: {len(content) / 1e6:.0f} MB, more than the 20 MB "
            "that judges take; make the picture smaller"
        )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
