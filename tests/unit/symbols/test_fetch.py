"""Fetching from a debuginfod server: only when told, bounded, verified, and not asked twice in vain."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analyzers.errors import UserError
from analyzers.symbols.cache import DEBUG, PROGRAM, Cache
from collector.symbols.cli import app, servers_of
from collector.symbols.client import Limits, checked_url, fetch, shown
from collector.symbols.wanted import build_ids
from elfcore import CoreBuilder, R, shared_object
from elffiles import BUILD, ElfBuilder

ID = BUILD.hex()
Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """A debuginfod server that answers as it is told and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer = body(ElfBuilder().bytes())
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.headers.append(dict(self.headers))
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                return None

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


def body(data: bytes, status: int = 200, length: int | None = None, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def test_a_file_of_the_build_is_kept_and_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert fetch(ID, PROGRAM, server.url, cache).state == "fetched"
    assert cache.get(ID, PROGRAM) is not None
    assert fetch(ID, PROGRAM, server.url, cache).state == "cached"
    assert server.asked == [f"/buildid/{ID}/executable"]


def test_another_build_is_refused(server: Server, tmp_path: Path) -> None:
    server.answer = body(ElfBuilder(build_id=b"\x99" * 20).bytes())
    outcome = fetch(ID, PROGRAM, server.url, Cache(tmp_path))
    assert (outcome.state, Cache(tmp_path).get(ID, PROGRAM)) == ("failed", None)
    assert "not the one wanted" in outcome.why


def test_what_is_not_there_is_not_asked_for_again_until_told(server: Server, tmp_path: Path) -> None:
    server.answer = body(b"", 404)
    cache = Cache(tmp_path)
    states = [fetch(ID, DEBUG, server.url, cache).state for _ in range(3)]
    assert states == ["missing", "known-missing", "known-missing"]
    assert fetch(ID, DEBUG, server.url, cache, again=True).state == "missing"
    assert len(server.asked) == 2


def test_a_failing_server_is_no_sign_that_it_is_not_there(server: Server, tmp_path: Path) -> None:
    # GIVEN the look-alike of "not there"
    server.answer = body(b"", 503)
    states = [fetch(ID, DEBUG, server.url, Cache(tmp_path)).state for _ in range(2)]
    assert states == ["failed", "failed"]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (body(b"x" * 5000), "more than 1000 bytes"),
        (body(ElfBuilder().bytes()[:300], length=900), "bytes are missing"),
        (body(b"\x1f\x8b", Content_Encoding="gzip"), "packed"),
        (body(b"", 302, Location="file:///etc/passwd"), "answered 302"),
        (body(b"", 302, Location="ftp://127.0.0.1/x"), "not http"),
    ],
)
def test_hostile_answers_end_the_transfer_and_leave_nothing(
    server: Server, tmp_path: Path, answer: Answer, why: str
) -> None:
    server.answer = answer
    outcome = fetch(ID, PROGRAM, server.url, Cache(tmp_path), limits=Limits(bytes=1000))
    assert outcome.state == "failed"
    assert any(part in outcome.why for part in why.split("|"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_server_that_never_ends_is_left_at_the_deadline(server: Server, tmp_path: Path) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x")
        except OSError:
            return

    server.answer = trickle
    outcome = fetch(ID, PROGRAM, server.url, Cache(tmp_path), limits=Limits(seconds=0.05))
    assert (outcome.state, "not whole after" in outcome.why) == ("failed", True)


def test_nobody_listening_is_a_failure_in_words(tmp_path: Path) -> None:
    outcome = fetch(ID, PROGRAM, "http://127.0.0.1:9", Cache(tmp_path), limits=Limits(silence=1.0))
    assert (outcome.state, outcome.why.startswith("no answer")) == ("failed", True)


def test_only_the_build_id_is_sent_and_a_password_is_not_shown(server: Server, tmp_path: Path) -> None:
    fetch(ID, PROGRAM, server.url, Cache(tmp_path))
    assert set(server.headers[0]) <= {"Accept-Encoding", "Host", "User-Agent", "Connection"}
    assert shown("https://user:secret@host:8002/base") == "https://host:8002/base"


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "file:///etc", "host", "https://", "http://h/?x=1", "http://h\x1b[0m"]
)
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="not the address"):
        checked_url(url)


def test_without_a_named_server_nothing_is_asked() -> None:
    with pytest.raises(UserError, match="no debuginfod server is named"):
        servers_of([], "")
    assert servers_of([], "https://a https://b/") == ["https://a", "https://b"]
    assert servers_of(["https://c"], "https://a") == ["https://c"]


# what is wanted


def test_a_core_asks_for_the_servers_own_code_first(tmp_path: Path) -> None:
    made = CoreBuilder().thread(1, rip=0x1000)
    for number, name in enumerate(("/lib/libc.so.6", "/opt/llama-server")):
        start = 0x7F00_0000_0000 + number * 0x100000
        made.file(start, start + 4096, 0, name).load(start, shared_object(bytes([number + 1]) * 20)[:4096], R)
    core = made.write(tmp_path / "core")
    assert build_ids(str(core)) == ["02" * 20, "01" * 20]


@pytest.mark.parametrize("text", ["{}", "[1, 2]", "no json", '{"schema": "x"}'])
def test_what_is_neither_core_nor_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UserError, match="neither a core nor a report"):
        build_ids(str(tmp_path / "x"))


@pytest.mark.parametrize("thing", ["nothing-here", "abc", "/dev/null"])
def test_what_is_nothing_at_all_is_refused(thing: str) -> None:
    with pytest.raises(UserError, match="neither a file nor a build-id"):
        build_ids(thing)


def test_a_build_id_may_be_written_in_capitals() -> None:
    assert build_ids(ID.upper()) == [ID]


def test_the_verb_fetches_both_files_and_says_so(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    done = CliRunner().invoke(app, ["fetch", ID, "--url", server.url], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)
    assert done.output.count(": fetched, ") == 2
    server.answer = body(b"", 404)
    again = CliRunner().invoke(app, ["fetch", "ab" * 20, "--url", server.url], standalone_mode=False)
    assert (again.return_value, again.output.count("not there")) == (3, 2)


def test_a_server_that_is_down_is_no_word_on_what_it_has(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server.answer = body(b"", 404)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused
        down = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for urls in ([down], [server.url, down]):
            words = [word for url in urls for word in ("--url", url)]
            done = CliRunner().invoke(app, ["fetch", ID, *words], standalone_mode=False)
            assert done.return_value == 1, done.output
    server.answer = body(ElfBuilder().bytes())
    done = CliRunner().invoke(app, ["fetch", ID, "--again", "--url", server.url], standalone_mode=False)
    assert done.return_value == 0
