"""The HTTP transport of judges: answers are bounded in size and time, uncompressed, and completions if successful.

What would not get better is answered with a status that is not tried again; a late or malformed answer is an error of
the network, which is. Redirects are not followed, so that a key goes to no other host.
"""

from __future__ import annotations

import asyncio
import json
from urllib.request import getproxies, proxy_bypass

import httpx2

MAX_BYTES = 8_000_000


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to one server; `timeout` is in seconds from the connection to the last byte."""

    def __init__(self, url: str, timeout: float, connections: int) -> None:
        address = httpx2.URL(url)
        proxy = None if proxy_bypass(address.host) else getproxies().get(address.scheme)
        connection_limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._inner, self._timeout = httpx2.AsyncHTTPTransport(proxy=proxy, limits=connection_limits), timeout

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The whole response; an `httpx2.TransportError` if it is late or malformed."""
        request.headers["Accept-Encoding"] = "identity"
        try:
            response = await asyncio.wait_for(self._receive(request), self._timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise httpx2.ReadTimeout(f"the answer took longer than {self._timeout:g} seconds") from None
        try:
            if response.status_code == 200:
                json.loads(response.content)["choices"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise httpx2.RemoteProtocolError(f"an answer that is not a completion: {response.content[:80]!r}") from None
        return response

    async def _receive(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        response_bytes, reason = bytearray(), ""
        try:
            async for chunk in answer.aiter_raw():
                response_bytes += chunk
                if answer.headers.get("content-encoding", "identity").lower() != "identity":
                    reason = "the server compressed its answer, although it was asked not to"
                elif len(response_bytes) > MAX_BYTES:
                    reason = f"the answer is larger than {MAX_BYTES / 1e6:g} MB"
                if reason:
                    return httpx2.Response(422, headers={"x-should-retry": "false"}, text=reason)
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=bytes(response_bytes))
