"""How a living server is asked: unix socket, prefix, TLS; and to whom the operator's key is told."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.facts import SocketFact, fact_of
from analyzers.errors import UserError
from collector.gather import address, live
from collector.gather.address import Named, target_of
from collector.gather.haul import Haul
from collector.gather.living import Known
from collector.gather.network import Listener, reachable_path, unix_clients, unix_listeners
from collector.gather.servers import Server
from collector.sources.probes import probe_health, probe_props
from collector.sources.target import Target

KEY = "sk-planted-0123456789"
HERE = Incarnation(pid=os.getpid())
NATIVE = Server(os.getpid(), "/x/llama-server", "/x/llama-server", False, HERE)
HOSTED = replace(NATIVE, hosted=True)


class Stub(BaseHTTPRequestHandler):
    """Answers as llama-server does behind ``prefix``, and notes what keys it was told."""

    prefix = ""
    keys: list[str | None]

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        known = {f"{self.prefix}/health": b'{"status":"ok"}', f"{self.prefix}/props": b'{"is_sleeping":true}'}
        body = known.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"{}")

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "client"


class UnixServer(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0


@pytest.fixture
def heard() -> list[str | None]:
    return []


def serving(server: HTTPServer) -> Iterator[HTTPServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def handler(heard: list[str | None], prefix: str = "") -> type[Stub]:
    return type("Handler", (Stub,), {"prefix": prefix, "keys": heard})


@pytest.fixture
def unix(tmp_path: Path, heard: list[str | None]) -> Iterator[HTTPServer]:
    yield from serving(UnixServer(str(tmp_path / "a.sock"), handler(heard)))  # type: ignore[arg-type]


@pytest.fixture
def plain(heard: list[str | None]) -> Iterator[HTTPServer]:
    yield from serving(HTTPServer(("127.0.0.1", 0), handler(heard, "/v7")))


@pytest.fixture
def secure(tmp_path: Path, heard: list[str | None]) -> Iterator[HTTPServer]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout k -out c -days 2"
    argv = ["openssl", *words.split(), "-subj", "/CN=public.example"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    server = HTTPServer(("127.0.0.1", 0), handler(heard))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    yield from serving(server)


def args(*words: str) -> Known:
    return Known(build=11549, args=("llama-server", *words))


def test_a_unix_socket_is_found_and_asked(unix: HTTPServer) -> None:
    # GIVEN a server that was told a socket's path as its host
    path = str(unix.server_address)
    target = target_of(Haul(), NATIVE, args("--host", path), Named(), 2.0)
    # THEN it is asked there, and the command for a person names the socket
    assert target is not None
    assert probe_props(target).fact.is_sleeping is True
    assert f"--unix-socket {path} http://localhost/props" in target.curl("/props")


def test_a_hosted_servers_unix_socket_is_its_only_one(
    unix: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "listeners", lambda pid: [])
    target = target_of(Haul(), HOSTED, Known(), Named(), 2.0)
    assert target is not None
    assert target.socket == unix.server_address


def test_clients_of_a_unix_socket_are_counted_and_not_judged(unix: HTTPServer) -> None:
    path = str(unix.server_address)
    target = Target(0, socket=path, pid=os.getpid())
    facts, gaps = live._clients(NATIVE, target)
    assert (facts, gaps) == ([], [])
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        # The process owns the connection once its thread has accepted it.
        end = time.monotonic() + 30
        while not facts:
            assert time.monotonic() < end, "the connection was not accepted"
            facts, gaps = live._clients(NATIVE, target)
        told = fact_of(facts[0], SocketFact)
        assert told is not None
        assert (told.bytes_received, told.unanswered) == (None, False)
        assert "1 clients waits" in gaps[0].what


def test_sockets_of_others_and_files_are_no_listeners(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(tmp_path / "b.sock"))
        assert str(tmp_path / "b.sock") not in unix_listeners(os.getpid())
        mine.listen()
        assert str(tmp_path / "b.sock") in unix_listeners(os.getpid())
        assert unix_clients(os.getpid(), str(tmp_path / "b.sock")) == 0
        assert str(tmp_path / "b.sock") not in unix_listeners(1)
    (tmp_path / "file.sock").write_text("")
    assert reachable_path(os.getpid(), str(tmp_path / "file.sock")) is None
    assert reachable_path(os.getpid(), str(tmp_path / "none.sock")) is None


def test_behind_a_prefix_health_wants_the_key(plain: HTTPServer, heard: list[str | None]) -> None:
    known = args("--port", str(plain.server_port), "--api-prefix", "/v7")
    target = target_of(Haul(), NATIVE, known, Named(key=KEY), 2.0)
    assert target is not None
    assert probe_health(target).fact.status == 200
    assert heard == [f"Bearer {KEY}"]


def test_a_hosted_servers_prefix_is_missed_and_can_be_named(plain: HTTPServer) -> None:
    haul = Haul()
    assert target_of(haul, HOSTED, Known(), Named(port=plain.server_port), 2.0) is not None
    assert "--api-prefix" in (haul.gaps[0].command or "")
    named = Named(port=plain.server_port, prefix="/v7")
    haul = Haul()
    assert target_of(haul, HOSTED, Known(), named, 2.0) is not None
    assert haul.gaps == []


@pytest.mark.parametrize("prefix", ["v7", "/v 7", "/a\r\nX: 1", "//host", "/" + "x" * 2000, "/a?b"])
def test_what_is_no_prefix_is_refused(plain: HTTPServer, prefix: str) -> None:
    with pytest.raises(UserError, match="not a prefix"):
        target_of(Haul(), NATIVE, Known(), Named(port=plain.server_port, prefix=prefix), 2.0)


@pytest.mark.parametrize("server", [NATIVE, HOSTED])
def test_tls_with_a_certificate_for_another_name(secure: HTTPServer, server: Server) -> None:
    # GIVEN a server whose certificate is for its public name, asked on an address of this host
    words = ("--ssl-cert-file", "c") if server is NATIVE else ()
    target = target_of(Haul(), server, args(*words), Named(port=secure.server_port), 2.0)
    # THEN it is asked all the same: the socket is this process's own
    assert target is not None
    assert target.scheme == "https"
    assert probe_health(target).fact.status == 200
    assert " -k " in target.curl("/health")
    # AND not where nothing but the certificate would tell who answers
    assert probe_health(replace(target, verify=True)).fact.status is None


def test_the_key_is_told_to_nobody_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a process whose sockets this user may not see
    monkeypatch.setattr(address, "listeners", lambda pid: None)
    haul = Haul()
    target = target_of(haul, NATIVE, args("--port", "9"), Named(key=KEY), 2.0)
    assert target is not None
    assert target.api_key is None
    assert "was not sent" in haul.gaps[0].why
    assert KEY not in str(haul.gaps)


def test_a_key_on_the_servers_command_line_is_never_used(plain: HTTPServer, heard: list[str | None]) -> None:
    known = args("--port", str(plain.server_port), "--api-prefix", "/v7", "--api-key", KEY)
    target = target_of(Haul(), NATIVE, known, Named(), 2.0)
    assert target is not None
    probe_props(target)
    assert heard == [None]


def test_of_two_sockets_none_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "listeners", lambda pid: [])
    monkeypatch.setattr(address, "unix_listeners", lambda pid: ["/a.sock", "/b.sock"])
    haul = Haul()
    assert target_of(haul, NATIVE, Known(), Named(), 2.0) is None
    assert haul.gaps[0].what == address.UNANSWERED


def test_a_tcp_port_beside_a_socket_of_another_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address, "listeners", lambda pid: [Listener("127.0.0.1", 8080)])
    monkeypatch.setattr(address, "unix_listeners", lambda pid: ["/run/supervisor.sock"])
    target = target_of(Haul(), NATIVE, Known(), Named(), 2.0)
    assert target is not None
    assert target.port == 8080
