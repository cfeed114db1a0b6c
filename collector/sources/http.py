"""One bounded HTTP call: a deadline for the whole of it, a size limit, no redirect, no proxy, no decoding."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx

from collector.sources.target import Target

PROBE_TIMEOUT = 2.0  # seconds for the whole call; /props answers in milliseconds or is blocked
MAX_BODY = 1 << 20  # /props carries the chat template: tens of kilobytes; a megabyte is already absurd


@dataclass(frozen=True)
class Answer:
    """What came back. ``outcome``: answered | timeout | refused | too-big | redirect | garbage.

    ``status`` stands wherever a status line was read, ``body`` only when ``answered``; ``seconds`` is the
    whole call. Nothing of the server's own text enters ``outcome``.
    """

    outcome: str
    seconds: float
    status: int | None = None
    body: bytes = b""


async def call_async(
    target: Target,
    method: str,
    path: str,
    *,
    json_body: object = None,
    authorized: bool = True,
    timeout: float = PROBE_TIMEOUT,
    max_body: int = MAX_BODY,
) -> Answer:
    """Do one call and name its outcome; never raises for anything the server does."""
    began = time.monotonic()
    seen: list[int] = []
    try:
        body = await asyncio.wait_for(
            _exchange(target, method, path, json_body, authorized, max_body, seen, timeout), timeout
        )
    except (asyncio.TimeoutError, httpx.TimeoutException):
        outcome, body = "timeout", b""
    except _RefusedError as refusal:
        outcome, body = refusal.outcome, b""
    except (httpx.ConnectError, ConnectionError):
        outcome, body = "refused", b""
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, ValueError):
        outcome, body = "garbage", b""
    else:
        outcome = "answered"
    return Answer(outcome, time.monotonic() - began, seen[0] if seen else None, body)


def call(target: Target, method: str, path: str, **options: object) -> Answer:
    """``call_async`` for a thread without a running event loop; the same options."""
    return asyncio.run(call_async(target, method, path, **options))  # type: ignore[arg-type]


class _RefusedError(Exception):
    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


async def _exchange(
    target: Target,
    method: str,
    path: str,
    json_body: object,
    authorized: bool,
    max_body: int,
    seen: list[int],
    timeout: float,
) -> bytes:
    async with (
        _client(target, timeout) as client,
        client.stream(method, path, json=json_body, headers=_headers(target, authorized)) as response,
    ):
        seen.append(response.status_code)
        if response.is_redirect:
            raise _RefusedError("redirect")
        kept = bytearray()
        # Raw bytes: a compressed answer was not asked for, and inflating one could fill the memory.
        async for chunk in response.aiter_raw():
            kept += chunk
            if len(kept) > max_body:
                raise _RefusedError("too-big")
        return bytes(kept)


def _client(target: Target, timeout: float) -> httpx.AsyncClient:
    # Reading the system's certificates costs 50 ms: only where they are used.
    verify = target.scheme == "https" and target.verify
    uds = target.socket
    return httpx.AsyncClient(
        base_url=target.base_url,
        timeout=timeout,
        verify=verify,
        trust_env=False,
        follow_redirects=False,
        transport=None if uds is None else httpx.AsyncHTTPTransport(verify=verify, uds=uds, trust_env=False),
    )


def _headers(target: Target, authorized: bool) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "llama-blackbox"}
    if authorized and target.api_key is not None:
        headers["Authorization"] = f"Bearer {target.api_key}"
    return headers
