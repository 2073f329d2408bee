"""A judge behind an OpenAI-compatible address (`/chat/completions`): OpenAI, vLLM, llama.cpp, Ollama and others.

The client is the `openai` package, which tries again after a growing pause on network errors and on 408, 409, 429 and
5xx. A rejected key or an unknown model ends the run immediately. A refusal for content counts as an answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from capmeter.captions.caption_set import ImageRef
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.judge_limits import JudgeLimits
from capmeter.core.messages import format_count
from capmeter.images.reading import read_image
from capmeter.metrics.judges.answers import (
    MAX_CHARACTERS,
    Answer,
    Failure,
    Question,
    Token,
    read_token,
    read_usage,
)
from capmeter.metrics.judges.connection import OPENAI, ApiKey, describe_server
from capmeter.metrics.judges.engine import Ask

MAX_ALTERNATIVES = 20
_MAX_IMAGE_BYTES = 20_000_000
_FATAL = {401, 403, 404}
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png"}
_NEXT_FORMAT = {"json_schema": "json_object", "json_object": ""}  # of llama-cpp-python, with a schema
_FILTERS = ("content_filter", "content_policy", "safety")
_MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class ServerJudge:
    """One model of one server."""

    def __init__(self, address: str, model: str, key: ApiKey, limits: JudgeLimits) -> None:
        self.address, self.model, self._key, self._limits = address, model, key, limits
        # what some servers do not accept is left out after their first refusal
        self._token_limit, self._structured = "max_tokens", "json_schema"

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""
        return f"{self.model} at {describe_server(self.address)}"

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Connections that are open inside the block; yields what asks a question.

        Raises:
            MissingBackend: the openai package is not installed.
            AssetError: there is no key for OpenAI's server.
        """
        try:
            import httpx2
            from openai import AsyncOpenAI

            from capmeter.metrics.judges.transport import BoundedTransport
        except ImportError:
            raise MissingBackend("judges on a server need openai: pip install 'capmeter[judges]'") from None
        if not self._key.value and self.address == OPENAI:
            raise AssetError(
                f"the judge {self.identity} needs a key: set CAPMETER_JUDGE_KEY (or OPENAI_API_KEY), or name a server "
                "that needs none (endpoint=, or CAPMETER_JUDGE_URL)"
            )
        limits = self._limits
        transport = BoundedTransport(self.address, limits.timeout, limits.concurrency)
        async with (
            httpx2.AsyncClient(transport=transport, timeout=limits.timeout, follow_redirects=False) as http_client,
            AsyncOpenAI(
                base_url=self.address,
                api_key=self._key.value or "none",
                max_retries=limits.tries - 1,
                http_client=http_client,
            ) as client,
        ):

            async def ask(question: Question) -> Answer | Failure:
                return await self._ask(client, question)

            yield ask

    async def _ask(self, client: Any, question: Question) -> Answer | Failure:
        """The answer, or why there is none.

        Raises:
            AssetError: the key is rejected, or the server does not have the model.
            InputError: the image cannot be read.
        """
        import httpx2
        from openai import APIConnectionError, APIStatusError, OpenAIError

        body = self._body(question)
        try:
            # not `chat.completions.create`, which takes as long for every message as sending it
            response = await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
            answer = self._read(response.content)  # which results keep: a server could repeat the key in it
            return replace(answer, text=self._key.redact(answer.text)) if isinstance(answer, Answer) else answer
        except APIStatusError as error:
            excerpt = self._excerpt(error.response.content)
            if self._drop_unsupported(body, excerpt):
                return await self._ask(client, question)
            return self._refused(error.status_code, excerpt)
        except APIConnectionError as error:
            cause = error.__cause__ or error
            reason = self._key.redact(str(cause) or type(cause).__name__)
            return Failure(f"network error: {reason[:200]} (tried {format_count(self._limits.tries, 'time')})")
        except OpenAIError as error:
            return Failure(f"{type(error).__name__}: {self._key.redact(str(error))[:200]}")

    def _body(self, question: Question) -> dict[str, Any]:
        text_part = {"type": "text", "text": question.text}
        content_parts: list[dict[str, Any]] = [text_part]
        if question.image is not None:
            image_part = {"type": "image_url", "image_url": {"url": image_url(question.image), "detail": "low"}}
            content_parts = [image_part, text_part] if question.image_first else [text_part, image_part]
        content: Any = content_parts if question.image is not None else question.text
        messages = [{"role": "system", "content": question.system}] if question.system else []
        messages.append({"role": question.role, "content": content})
        body: dict[str, Any] = {"model": self.model, "messages": messages, "temperature": question.temperature}
        body[self._token_limit] = question.max_tokens
        if question.alternatives:
            body |= {"logprobs": True, "top_logprobs": MAX_ALTERNATIVES}
        if question.schema and self._structured:
            schema = json.loads(question.schema)
            named_schema = {"json_schema": {"name": "answer", "schema": schema, "strict": True}}
            format_fields = named_schema if self._structured == "json_schema" else {"schema": schema}
            body["response_format"] = {"type": self._structured, **format_fields}
        if question.repeat:
            body["seed"] = question.repeat
        return body

    def _drop_unsupported(self, body: Mapping[str, Any], message: str) -> bool:
        """Whether the server refused an option that can be left out, which it then is from now on."""
        if "max_completion_tokens" in message and "max_tokens" in body:
            self._token_limit = "max_completion_tokens"
            return True
        format_words = ("response_format", "json_schema", "guided", "grammar")
        if "response_format" in body and any(word in message for word in format_words):
            if self._structured == body["response_format"]["type"]:  # unless another question found it out already
                self._structured = _NEXT_FORMAT[self._structured]
            return True
        return False

    def _refused(self, status: int, excerpt: str) -> Answer | Failure:
        if status in _FATAL:
            raise AssetError(
                f"the judge's server refuses model {self.model!r} with status {status}: {excerpt}; check the model's "
                "name, the address (endpoint=), and the key in CAPMETER_JUDGE_KEY"
            )
        if status < 500 and any(word in excerpt.lower() for word in _FILTERS):
            return Answer(excerpt, refused=True, finish="content_filter")
        return Failure(f"status {status}: {excerpt}")

    def _read(self, content: bytes) -> Answer | Failure:
        try:
            return read_completion(json.loads(content))
        except _MALFORMED as error:
            reason = f": {error}" if type(error) is ValueError else ""
            return Failure(f"an answer that is not a completion{reason}: {self._excerpt(content)}")

    def _excerpt(self, content: bytes) -> str:
        """The start of the server's message, with the key masked."""
        text = self._key.redact(content[:20_000].decode("utf-8", "replace"))
        return " ".join(text[:2000].split())[:200] or "nothing"


def read_completion(completion: Any) -> Answer:
    """The answer in a chat completion.

    Raises:
        ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError: it is malformed, longer than any
            answer should be, or has a log-probability that is not finite.
    """
    choice = completion["choices"][0]
    message = choice["message"]
    finish_reason = str(choice.get("finish_reason") or "stop")[:40]
    refusal = message.get("refusal")
    answer_text = message.get("content")
    is_refused = bool(refusal) or finish_reason == "content_filter"
    if not isinstance(answer_text, str):
        if not is_refused:
            raise ValueError("no content")
        answer_text = str(refusal or "")
    if len(answer_text) > MAX_CHARACTERS:
        raise ValueError(f"{len(answer_text):,} characters, more than {MAX_CHARACTERS:,}")
    tokens: list[Token] = []
    for token_entry in (choice.get("logprobs") or {}).get("content") or ():
        alternative_pairs = [(other["token"], other["logprob"]) for other in token_entry.get("top_logprobs") or ()]
        tokens.append(
            read_token(token_entry["token"], [*alternative_pairs, (token_entry["token"], token_entry["logprob"])])
        )
    token_usage = completion.get("usage") or {}
    token_counts = read_usage(token_usage.get("prompt_tokens"), token_usage.get("completion_tokens"))
    return Answer(answer_text, tuple(tokens), is_refused, finish_reason, token_counts)


def image_url(image: ImageRef) -> str:
    """The image as a data URL: the file itself if it is a plain JPEG or PNG, otherwise a PNG of the decoded image."""
    decoded_image = read_image(image)
    with open(image.path, "rb") as file:  # noqa: PTH123  a Path would change some names
        image_bytes = file.read()
    image_format = next(
        (image_format for magic_bytes, image_format in _KINDS.items() if image_bytes.startswith(magic_bytes)), None
    )
    if image_format is None or decoded_image.notes:
        import io

        from PIL import Image

        buffer = io.BytesIO()
        Image.fromarray(decoded_image.pixels).save(buffer, "PNG")
        image_bytes, image_format = buffer.getvalue(), "png"
    if len(image_bytes) > _MAX_IMAGE_BYTES:
        raise InputError(
            f"picture {image.path!a} of image {image.image_id!a}: {len(image_bytes) / 1e6:.0f} MB, more than the 20 MB "
            "that judges accept; make the image smaller"
        )
    return f"data:image/{image_format};base64,{base64.b64encode(image_bytes).decode('ascii')}"
