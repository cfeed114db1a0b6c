"""One file from one debuginfod server, bounded and verified. Standard library only: any install can fetch.

The protocol (debuginfod(8)): ``GET /buildid/BUILDID/{executable,debuginfo}``; 404 says it is not there.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import BinaryIO
from urllib.parse import urlsplit

from analyzers.core.files import plain
from analyzers.errors import UserError
from analyzers.symbols.cache import DEBUG, PROGRAM, Cache, WrongBuildError
from analyzers.symbols.places import is_build_id

MAX_BYTES = 4 << 30  # as large as a symbol file may be here (analyzers.symbols.elffile)
SECONDS = 900.0  # for one file, whatever the server does: 3 GB at 30 Mbit/s
SILENCE = 30.0  # a server that sends nothing for so long is given up
BLOCK = 1 << 20
NOT_FOUND = 404
SCHEMES = ("http", "https")
KINDS = (PROGRAM, DEBUG)

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """``state``: fetched | cached | missing | known-missing | failed. ``why`` says more of a failure."""

    build_id: str
    kind: str
    url: str
    state: str
    why: str = ""
    size: int = 0


@dataclass(frozen=True)
class Limits:
    bytes: int = MAX_BYTES
    seconds: float = SECONDS
    silence: float = SILENCE


def checked_url(url: str) -> str:
    """The server's base URL without a trailing slash. Raises UserError for anything but http and https."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable or not url.isprintable():
        remedy = "give it like https://debuginfod.example.org"
        raise UserError("not the address of a debuginfod server", where=plain(url), remedy=remedy)
    return url.rstrip("/")


def shown(url: str) -> str:
    """The URL for people and for the cache: without a user name or password."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return plain(f"{parts.scheme}://{host}{port}{parts.path}")


def fetch(
    build_id: str,
    kind: str,
    url: str,
    cache: Cache,
    *,
    limits: Limits | None = None,
    again: bool = False,
    progress: Progress = lambda _: None,
) -> Outcome:
    """Ask ``url`` for one file of a build and keep it in ``cache`` when it really is that build.

    ``again`` asks although the server said within the last day that it does not have it. A failure of the
    server is an Outcome; only a cache that cannot be written raises UserError.
    """
    name = shown(url)
    if not is_build_id(build_id):
        raise UserError("not a build-id", where=plain(build_id), remedy="give its hexadecimal digits")
    if cache.get(build_id, kind) is not None:
        return Outcome(build_id, kind, name, "cached")
    if not again and cache.known_missing(build_id, kind, name):
        return Outcome(build_id, kind, name, "known-missing")
    transfer = _Transfer(f"{url}/buildid/{build_id}/{kind}", limits or Limits(), progress)
    try:
        path = cache.put(build_id, kind, transfer.into)
    except TransferError as error:
        if error.status != NOT_FOUND:
            return Outcome(build_id, kind, name, "failed", str(error))
        cache.note_missing(build_id, kind, name)
        return Outcome(build_id, kind, name, "missing")
    except WrongBuildError as error:
        return Outcome(build_id, kind, name, "failed", error.what)
    return Outcome(build_id, kind, name, "fetched", size=path.stat().st_size)


class TransferError(Exception):
    """Why a transfer was given up. No OSError: those are the cache's own."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(plain(why))
        self.status = status


class _NoOtherPlace(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to http and https: urllib itself would also follow one to ftp."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if urlsplit(newurl).scheme not in SCHEMES:
            raise TransferError("the server led to an address that is not http or https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@dataclass(frozen=True)
class _Transfer:
    url: str
    limits: Limits
    progress: Progress

    def into(self, out: BinaryIO) -> None:
        """Write the answer's body to ``out``. Raises TransferError; OSError only where ``out`` fails."""
        opener = urllib.request.build_opener(_NoOtherPlace)
        headers = {"User-Agent": "llama-blackbox", "Accept-Encoding": "identity"}
        request = urllib.request.Request(self.url, headers=headers)  # noqa: S310 - the scheme was checked
        try:
            answer = opener.open(request, timeout=self.limits.silence)
        except urllib.error.HTTPError as error:
            error.close()
            raise TransferError(f"the server answered {error.code}", error.code) from None
        except (OSError, HTTPException, ValueError) as error:
            raise TransferError(f"no answer ({getattr(error, 'reason', error)})") from None
        with answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise TransferError("the server packed its answer, which was not asked for")
            self._copy(answer, out)

    def _copy(self, answer: HTTPResponse, out: BinaryIO) -> None:
        deadline, total = time.monotonic() + self.limits.seconds, 0
        while data := _read(answer):
            total += len(data)
            if total > self.limits.bytes:
                raise TransferError(f"more than {self.limits.bytes} bytes")
            if time.monotonic() > deadline:
                raise TransferError(f"not whole after {self.limits.seconds:.0f} s")
            out.write(data)
            self.progress(total)
        if answer.length:  # what the server promised and did not send
            raise TransferError(f"{answer.length} bytes are missing at its end")


def _read(answer: HTTPResponse) -> bytes:
    try:
        return answer.read1(BLOCK)  # not read: that one would wait for a whole block, however slowly it comes
    except (OSError, HTTPException, ValueError) as error:
        raise TransferError(f"no whole answer ({error})") from None
