"""The client of judges: one model of an OpenAI-compatible server, through the `openai` package.

The package tries again after a growing pause on network errors, on status 408, 409, 429 and 5xx, and twice if a
response is not a completion. Around its `httpx` client stand a few bounds: it reads nothing from the environment, sends
no header but those that a question needs, follows no redirect, and receives a bounded number of bytes in a bounded
time. Of a server's message only what is left after decoding and masking is shown.

Each request has a connection of its own: so nothing that comes late, or unasked, can be taken for the answer to another
question.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import math
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, Any

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError
from PIL import Image
from pydantic import AliasPath, BaseModel, Field, ValidationError

from capmeter.captions.caption_set import ImageRef
from capmeter.core.errors import AssetError, InputError
from capmeter.core.messages import format_count
from capmeter.core.settings import JudgeLimits
from capmeter.metrics.judges.asking import Answer, Failure, NumberToken, Question
from capmeter.metrics.judges.reading import number_probabilities
from capmeter.metrics.judges.server import ApiKey, describe_server

MAX_BYTES = 8_000_000  # of a response
MAX_CHARACTERS = 200_000  # of an answer: a hundred times what any task asks for
MAX_ALTERNATIVES = 20
MAX_TOKENS = 50_000
_MAX_IMAGE_BYTES = 20_000_000
_MOST_ATTEMPTS = 3  # for responses that are not completions
_FATAL = {401, 403, 404}
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png"}
_FORMAT_WORDS = ("response_format", "json_schema", "guided", "grammar")
_NETWORK_ERRORS: dict[type[BaseException], str] = {
    httpx2.TimeoutException: "no answer within {timeout:g} seconds",
    ssl.SSLCertVerificationError: "its certificate is not trusted ({cause.verify_message}); see --judge-certificates",
    ssl.SSLError: "it does not speak TLS",
    httpx2.ProxyError: "the proxy (--judge-proxy) refused the connection",
    httpx2.RemoteProtocolError: "the response is not HTTP, or broke off",
}
_FILTERS = ("content_filter", "content_policy", "safety")


class _Token(BaseModel):
    token: str
    logprob: float = Field(strict=True, lt=math.inf)  # nor NaN; minus infinity is a probability of 0
    top_logprobs: Annotated[list[_Token], Field(max_length=MAX_ALTERNATIVES)] | None = None


def _from(name: str, *path: str | int) -> Any:
    return Field(None, validation_alias=AliasPath(name, *path))


class _Completion(BaseModel):
    """What is read of a chat completion."""

    message: dict[str, Any] = Field(validation_alias=AliasPath("choices", 0, "message"))
    content: Annotated[str, Field(max_length=MAX_CHARACTERS)] | None = _from("choices", 0, "message", "content")
    refusal: Annotated[str, Field(max_length=MAX_CHARACTERS)] | None = _from("choices", 0, "message", "refusal")
    finish_reason: Any = _from("choices", 0, "finish_reason")
    tokens: Annotated[list[_Token], Field(max_length=MAX_TOKENS)] | None = _from("choices", 0, "logprobs", "content")
    input_tokens: Any = _from("usage", "prompt_tokens")  # no answer is lost for its price
    output_tokens: Any = _from("usage", "completion_tokens")


class _UnusableResponse(OpenAIError):
    """A response that would not get better if it were asked for again."""


class _JudgeTransport(httpx2.AsyncHTTPTransport):
    """Receives whole responses of a bounded size, in a bounded time.

    Args:
        limits: the timeout, the proxy, and the certificate authorities.
    """

    def __init__(self, limits: JudgeLimits) -> None:
        context = httpx2.create_ssl_context(trust_env=False)
        try:
            if limits.certificates is not None:
                context.load_verify_locations(limits.certificates)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "strerror", None) or "not a file of certificates in PEM form"
            raise InputError(f"--judge-certificates {limits.certificates}: {reason}") from None
        connections = httpx2.Limits(max_connections=limits.concurrency, max_keepalive_connections=0)
        super().__init__(verify=context, trust_env=False, limits=connections, proxy=limits.proxy)
        self._timeout = limits.timeout

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response, of whose headers only those on trying again are left.

        Raises:
            httpx2.ReadTimeout: to be asked for again.
            _UnusableResponse: it is too large, or compressed.
        """
        for name in [name for name in request.headers if name.startswith("x-stainless-")]:
            del request.headers[name]
        request.headers.update({"Accept-Encoding": "identity", "Connection": "close"})
        try:
            return await asyncio.wait_for(self._receive(request), self._timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise httpx2.ReadTimeout("too late") from None

    async def _receive(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        content = bytearray()
        try:
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise _UnusableResponse("the server compressed its answer, although it was asked not to")
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise _UnusableResponse(f"the answer is larger than {MAX_BYTES / 1e6:g} MB")
        finally:
            await response.aclose()
        headers = {name: each for name, each in response.headers.items() if name in ("retry-after", "retry-after-ms")}
        if response.status_code >= 500 and any(word in content[:5000].decode("latin-1") for word in _FORMAT_WORDS):
            headers["x-should-retry"] = "false"  # a server that fails on a schema does so every time
        return httpx2.Response(response.status_code, headers=headers, content=bytes(content))


class _OpenAI(AsyncOpenAI):
    """The client without headers from the environment (organisation, project, others) and of the platform."""

    @property
    def default_headers(self) -> dict[str, Any]:
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "capmeter",
            "Authorization": f"Bearer {self.api_key}",
        }


class ServerJudge:
    """One model of one server.

    Args:
        address: of the server.
        model: its name there.
        key: of the server.
        limits: tries, timeout, proxy and certificates.
    """

    def __init__(self, address: str, model: str, key: ApiKey, limits: JudgeLimits) -> None:
        self.address, self.model, self._key, self._limits = address, model, key, limits
        self.identity = f"{model} at {describe_server(address)}"  # what answers depend on besides the question
        # what some servers do not accept is left out after their first refusal
        self._token_limit, self._accepts_schema = "max_tokens", True
        self._client: Any = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ServerJudge]:
        """Makes the client for one event loop; libraries below log no header of a server meanwhile."""
        with ExitStack() as stack:
            for logger in map(logging.getLogger, ("httpcore2", "httpx2", "openai")):
                stack.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.WARNING)
            transport = _JudgeTransport(self._limits)
            async with (
                httpx2.AsyncClient(transport=transport, timeout=self._limits.timeout, trust_env=False) as http_client,
                _OpenAI(
                    base_url=self.address,
                    api_key=self._key.value or "none",
                    max_retries=self._limits.tries - 1,
                    http_client=http_client,
                ) as self._client,
            ):
                yield self

    async def ask(self, question: Question) -> Answer:
        """The answer, or why there is none.

        Raises:
            AssetError: the key is rejected, or the server does not have the model.
            InputError: the image cannot be read.
        """
        body, tries = self._body(question), min(_MOST_ATTEMPTS, self._limits.tries)
        try:
            for _ in range(tries):
                # not `chat.completions.create`, which takes as long for every message as sending it
                response = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
                answer = self.read(response.content)
                if not (isinstance(answer, Failure) and answer.is_retried):
                    return answer
                reason = answer.reason
            return Failure(reason=f"{reason} (tried {format_count(tries, 'time')})")
        except APIStatusError as error:
            return await self._refused(question, body, error.response.status_code, error.response.content)
        except APIConnectionError as error:
            reason = _describe_network_error(error.__cause__ or error, self._limits)
            tried = format_count(self._limits.tries, "time")
            return Failure(reason=f"network error: {reason} (tried {tried})", is_of_server=True)
        except _UnusableResponse as error:
            return Failure(reason=str(error))
        except (OpenAIError, OSError, ValueError, TypeError, RuntimeError) as error:
            return Failure(reason=f"the request failed: {type(error).__name__}", is_of_server=True)

    def _body(self, question: Question) -> dict[str, Any]:
        message = question.message
        content: Any = question.text
        if question.image is not None:
            text_part = {"type": "text", "text": question.text}
            image_part = {"type": "image_url", "image_url": {"url": _encode_image(question.image), "detail": "low"}}
            content = [image_part, text_part] if message.image == "first" else [text_part, image_part]
        messages = [{"role": "system", "content": message.system}] if message.system else []
        messages.append({"role": message.role, "content": content})
        body: dict[str, Any] = {"model": self.model, "messages": messages, "temperature": question.temperature}
        body[self._token_limit] = message.max_tokens
        if message.probabilities:
            body |= {"logprobs": True, "top_logprobs": MAX_ALTERNATIVES}
        if message.structure is not None and self._accepts_schema:
            schema = {"name": "answer", "schema": message.structure, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if question.repeat:
            body["seed"] = question.repeat
        return body

    async def _refused(self, question: Question, body: Mapping[str, Any], status: int, content: bytes) -> Answer:
        """What to make of an error: another try without an option, a refusal, or why there is no answer."""
        message, *kinds = self._key.mask_fields(_read_error(_parse_object(content)))
        description = " ".join(filter(None, [f"status {status}", f"({', '.join(kinds)})" if kinds else ""]))
        description = f"{description}: {message or _describe_body(content)}"
        if "max_tokens" in body and "max_completion_tokens" in description:
            self._token_limit = "max_completion_tokens"
            return await self.ask(question)
        if "response_format" in body and any(word in description for word in _FORMAT_WORDS):
            self._accepts_schema = False
            return await self.ask(question)
        if status in _FATAL:
            raise AssetError(
                f"the judge's server refuses model {self.model!r} with {description}; check the model's name, the "
                "address (endpoint=), and the key in CAPMETER_JUDGE_KEY"
            )
        if status < 500 and any(word in description.lower() for word in _FILTERS):
            return Answer(message or "refused", refused=True)
        return Failure(reason=description, is_of_server=status == 429 or status >= 500)

    def read(self, content: bytes) -> Answer:
        """The answer in a response with status 200: its text without the key, and the numbers in it."""
        try:
            completion = _Completion.model_validate_json(content)
        except ValidationError:
            body = _parse_object(content)
            if "choices" in body:
                return Failure(reason=f"a malformed completion: {_describe_body(content)}")
            detail = self._key.mask_message(_read_error(body)[0]) or _describe_body(content)
            return Failure(reason=f"an answer that is not a completion: {detail}", is_retried=True)
        is_refused = bool(completion.refusal) or completion.finish_reason == "content_filter"
        text = completion.content
        if text is None:
            if not is_refused:
                return Failure(reason="a completion without content")
            text = completion.refusal or ""
        numbers, masked = _read_numbers(text, completion.tokens or []), self._key.mask(text)
        used = (completion.input_tokens, completion.output_tokens)
        inputs, outputs = (int(each) if isinstance(each, int | float) and 0 <= each < 1 << 40 else 0 for each in used)
        return Answer(
            masked,
            numbers if masked == text else (),  # whose places are those in the text
            is_refused,
            completion.finish_reason == "length",
            (inputs, outputs),
        )


def _read_numbers(text: str, tokens: list[_Token]) -> tuple[NumberToken, ...]:
    """The tokens that are short numbers, as long as the tokens spell the text."""
    numbers: list[NumberToken] = []
    start = 0
    for token in tokens:
        if not text.startswith(token.token, start):
            break
        alternatives: dict[str, float] = {}
        for each in (*(token.top_logprobs or ()), token):
            alternatives.setdefault(each.token, each.logprob)
        probabilities = number_probabilities(alternatives)
        if token.token.strip() in probabilities:
            numbers.append(NumberToken(start, start + len(token.token), probabilities))
        start += len(token.token)
    return tuple(numbers)


def _read_error(body: Mapping[str, Any]) -> list[str]:
    """The message in the body of an error, or an empty text; then its type and its code, if it has any."""
    error = body.get("error", body)
    if isinstance(error, str):
        return [error]
    fields = error if isinstance(error, dict) else {}
    message = next((fields[name] for name in ("message", "detail") if isinstance(fields.get(name), str)), "")
    return [message, *(str(fields[name]) for name in ("type", "code") if isinstance(fields.get(name), str | int))]


def _parse_object(content: bytes) -> dict[str, Any]:
    """The JSON object in a body; empty if it is something else."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _describe_body(content: bytes) -> str:
    """Length and kind of a body, none of which is shown."""
    start, other_kind = content.lstrip()[:1], "text" if content.isascii() else "unknown kind"
    kind = "JSON" if start in (b"{", b"[") else "HTML or XML" if start == b"<" else other_kind
    return f"{len(content):,} bytes of {kind}" if content else "nothing"


def _describe_network_error(error: BaseException, limits: JudgeLimits) -> str:
    """Why a server was not reached, in words that are not the server's."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 10:
        causes.append(cause)
    for kind, reason in _NETWORK_ERRORS.items():
        if of_kind := [each for each in causes if isinstance(each, kind)]:
            return reason.format(timeout=limits.timeout, cause=of_kind[0])
    strerror = next((each.strerror for each in reversed(causes) if isinstance(each, OSError) and each.strerror), "")
    hint = "" if limits.proxy else "; a proxy is used only if --judge-proxy names it"
    return f"cannot connect{f' ({strerror})' if strerror else ''}{hint}"


def _encode_image(image: ImageRef) -> str:
    """The image as a data URL: the file itself if it is a plain JPEG or PNG, otherwise a PNG of the decoded image."""
    from capmeter.images.reading import read_image  # which texts do not need

    decoded_image = read_image(image)
    with open(image.path, "rb") as file:  # noqa: PTH123  a Path would change some names
        image_bytes = file.read()
    image_format = next((name for start, name in _KINDS.items() if image_bytes.startswith(start)), "")
    if not image_format or decoded_image.notes:
        buffer = io.BytesIO()
        Image.fromarray(decoded_image.pixels).save(buffer, "PNG")
        image_bytes, image_format = buffer.getvalue(), "png"
    if len(image_bytes) > _MAX_IMAGE_BYTES:
        raise InputError(
            f"picture {image.path!a} of image {image.image_id!a}: {len(image_bytes) / 1e6:.0f} MB, more than the 20 MB "
            "that judges accept; make the image smaller"
        )
    return f"data:image/{image_format};base64,{base64.b64encode(image_bytes).decode('ascii')}"
