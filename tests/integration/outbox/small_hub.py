"""A little hub over HTTP that behaves as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SmallHub(ThreadingHTTPServer):
    """``records`` by id, ``posts`` in order, ``files`` by (id, name). ``misbehave`` answers instead, where it
    returns True; ``want`` is asked for with every record."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.records: dict[str, dict[str, Any]] = {}
        self.posts: list[tuple[str, int]] = []
        self.files: dict[tuple[str, str], bytes] = {}
        self.headers: list[dict[str, str]] = []
        self.want: list[str] = []
        self.misbehave: Callable[[Handler, bytes], bool] = lambda handler, body: False
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: SmallHub

    def log_message(self, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append(dict(self.headers))
        if self.server.misbehave(self, body):
            return
        told = json.loads(body)
        self.server.posts.append((told["id"], told["revision"]))
        self.server.records[told["id"]] = told
        self.say(200, {"id": told["id"], "want": self.server.want})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append(dict(self.headers))
        if self.server.misbehave(self, body):
            return
        _, _, _, _, ident, _, name = self.path.split("/")
        self.server.files[ident, name] = body
        self.say(204, None)

    def say(self, status: int, told: object, **headers: str) -> None:
        body = b"" if told is None else told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def small_hub() -> Iterator[SmallHub]:
    hub = SmallHub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        hub.shutdown()
        hub.server_close()
