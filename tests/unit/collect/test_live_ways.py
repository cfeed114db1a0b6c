"""What a live look may ask a server, and where: by its build, its sockets and its network namespace."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Incarnation
from analyzers.errors import UserError
from collector.gather import address, live, pythonstacks
from collector.gather.haul import Haul
from collector.gather.live import Ways, metrics_leave_it_asleep, safe_routes, with_key
from collector.gather.living import Known
from collector.gather.network import Listener, inside, listeners, same_network
from collector.gather.servers import Server
from collector.gather.tools import Ran
from collector.sources.sockdiag import TcpSample
from collector.sources.target import Target

HERE = Incarnation(pid=os.getpid())
SERVER = Server(os.getpid(), "/x/llama-server", "/x/llama-server", False, HERE)


@pytest.mark.parametrize(
    ("known", "routes"),
    [
        (Known(), ("GET /health",)),
        (Known(build=11549), ("GET /health", "GET /props")),
        (Known(build=100), ("GET /health",)),  # older than anything measured
        (Known(first=10810, last=11148), ("GET /health", "GET /props")),
        (Known(first=10810), ("GET /health", "GET /props")),
        (Known(last=11148), ("GET /health",)),  # it may be older than anything measured
    ],
)
def test_an_unknown_build_is_asked_for_its_health_alone(known: Known, routes: tuple[str, ...]) -> None:
    assert safe_routes(known) == routes


def test_metrics_are_asked_only_of_builds_that_sleep_on() -> None:
    assert metrics_leave_it_asleep(Known(build=11549))
    assert not metrics_leave_it_asleep(Known(build=9713))
    assert not metrics_leave_it_asleep(Known(first=9713, last=11148))
    assert not metrics_leave_it_asleep(Known())


def test_no_route_that_wakes_is_ever_among_the_probes() -> None:
    assert set(live.PROBES) == {"GET /health", "GET /props"}


def test_a_listener_is_the_processes_own() -> None:
    with socket.socket() as mine, socket.socket(socket.AF_INET6) as other:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        other.bind(("::", 0))
        other.listen()
        found = listeners(os.getpid()) or []
        assert Listener("127.0.0.1", mine.getsockname()[1]) in found
        assert Listener("::1", other.getsockname()[1]) in found
    assert listeners((1 << 22) - 1) is None


def found(known: Known, port: int | None = None, haul: Haul | None = None) -> Listener | None:
    return address._listener(haul or Haul(), SERVER, known, port)[0]


def test_the_port_is_the_named_one_or_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    two = [Listener("127.0.0.1", 8080), Listener("127.0.0.1", 9090)]
    monkeypatch.setattr(address, "listeners", lambda pid: two)
    assert found(Known(args=("s", "--port", "9090")), None) == two[1]
    assert found(Known(env={"LLAMA_ARG_PORT": "8080"}), None) == two[0]
    assert found(Known(), 9090) == two[1]
    # AND of two that nobody names none is guessed
    haul = Haul()
    assert found(Known(), None, haul) is None
    assert "8080, 9090" in haul.gaps[0].why
    # AND a named port that the process does not have is not asked: it is somebody else's
    assert found(Known(), 7070) is None
    monkeypatch.setattr(address, "listeners", lambda pid: two[:1])
    assert found(Known(), None) == two[0]


def sample(inode: int) -> TcpSample:
    return TcpSample(1, inode, 1, "127.0.0.1", 5, 0, 0, 900, 0, 5000, 9000)


def test_a_request_still_arriving_is_not_owed_an_answer() -> None:
    target = Target(8080)
    waits = live._client(sample(7), target, SERVER, 0.0, 0.0, frozenset())
    arrives = live._client(sample(7), target, SERVER, 0.0, 0.0, frozenset({7}))
    unseen = live._client(sample(7), target, SERVER, 0.0, 0.0, None)
    assert waits.data["unanswered"] is True
    assert unseen.data["unanswered"] is True
    assert arrives.data["unanswered"] is False
    assert "rest of its request" in arrives.text


def test_a_network_namespace_is_entered_in_a_thread_of_its_own() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    argv = ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            if other.stdout.readline() != b"ready\n":
                pytest.skip("network namespaces are not allowed here")
            own = os.readlink("/proc/self/ns/net")
            assert same_network(os.getpid())
            assert same_network(other.pid) is False
            there = inside(other.pid, lambda: os.readlink("/proc/thread-self/ns/net"))
            assert there == os.readlink(f"/proc/{other.pid}/ns/net") != own
            assert os.readlink("/proc/thread-self/ns/net") == own
            with pytest.raises(ZeroDivisionError):
                inside(other.pid, lambda: 1 // 0)
        finally:
            other.kill()


def test_a_key_file_gives_its_first_line_and_never_shows_it() -> None:
    ways = with_key(Ways(), "\n  sk-abcdef \nmore\n")
    assert ways.api_key == "sk-abcdef"
    assert "sk-abcdef" not in repr(ways)
    with pytest.raises(UserError, match="empty"):
        with_key(Ways(), " \n")


def said(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> tuple[str | None, str]:
    monkeypatch.setattr(pythonstacks, "find_tool", lambda: "py-spy")
    monkeypatch.setattr(pythonstacks, "run", lambda *_, **__: ran)
    text, gap = pythonstacks.python_stacks(1)
    return text, gap.why if gap else ""


def test_python_frames_are_read_and_locals_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = {"name": "run\x1b[0m", "short_filename": "app.py", "line": 3, "locals": [{"repr": "'sk-secret'"}]}
    out = json.dumps([{"os_thread_id": 5, "thread_name": "MainThread", "active": True, "frames": [frame]}])
    text, _ = said(monkeypatch, Ran(out.encode(), status=0))
    assert text == "thread 5 (MainThread): active\n    run?[0m (app.py:3)\n"


@pytest.mark.parametrize("out", [b"", b"{}", b"[" * 100_000, b"\xff", b'"x"'])
def test_python_frames_that_are_none(monkeypatch: pytest.MonkeyPatch, out: bytes) -> None:
    text, why = said(monkeypatch, Ran(out, status=0))
    assert text is None
    assert why


def test_a_refusal_of_the_kernel_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    text, why = said(monkeypatch, Ran(complaint="Permission Denied: Try running again", status=1))
    assert text is None
    assert "may not read the memory" in why


def test_keys_and_prompts_leave_with_nothing(tmp_path: Path) -> None:
    haul = Haul()
    haul.knows(["llama-server", "--api-key", "zebra-crossing-77"], {"HF_TOKEN": "hf_0123456789"})
    haul.add("server.log", b"srv: key zebra-crossing-77 was refused; hf_0123456789\n")
    haul.context("cmdline", b"llama-server\0--api-key\0zebra-crossing-77\0", "cmdline")
    haul.context("environ", b"HF_TOKEN=hf_0123456789\0LLAMA_ARG_PORT=1\0SECRET_SAUCE=tomato\0", "environ")
    haul.gap("x", "y", "curl -H zebra-crossing-77")
    haul.write(tmp_path / "out")
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    for secret in (b"zebra-crossing-77", b"hf_0123456789", b"tomato"):
        assert secret not in everything
    assert b"LLAMA_ARG_PORT=1" in everything
