"""The coredump socket's handshake and what is read of the process behind it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from capture_cores import core_bytes_written

from collector.capture.coresocket import handshake, who
from collector.capture.coresocket.server import listen
from collector.capture.crash.proc import Process
from collector.capture.crash.request import UNLIMITED

OFFERED = handshake.KERNEL | handshake.USERSPACE | handshake.REJECT | handshake.WAIT


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, kernel = socket.socketpair()
    for end in (ours, kernel):
        end.settimeout(5)
    yield ours, kernel
    ours.close()
    kernel.close()


def test_the_core_is_asked_for_and_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, kernel = pair
    # GIVEN a later kernel whose request is longer
    kernel.sendall(struct.pack("<IIQQ", 24, 16, OFFERED, 7) + bytes(4))
    handshake.take_core(ours)
    assert struct.unpack("<IIQ", kernel.recv(64)) == (16, 0, handshake.KERNEL | handshake.WAIT)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x10",
        struct.pack("<IIQ", 8, 16, OFFERED),
        struct.pack("<IIQ", 1 << 30, 16, OFFERED),
        struct.pack("<IIQ", 16, 8, OFFERED),
        struct.pack("<IIQ", 16, 16, handshake.REJECT),
        struct.pack("<IIQ", 16, 16, OFFERED) + b"\x02\0\0\0",
        struct.pack("<IIQ", 24, 16, OFFERED),
    ],
)
def test_what_is_no_kernel_is_refused(pair: tuple[socket.socket, socket.socket], said: bytes) -> None:
    ours, kernel = pair
    kernel.sendall(said)
    kernel.shutdown(socket.SHUT_WR)
    with pytest.raises((handshake.RefusedError, OSError)):
        handshake.take_core(ours)


def test_a_peer_that_is_not_dying_is_no_crash(pair: tuple[socket.socket, socket.socket]) -> None:
    try:
        pidfd = who.pidfd_of(pair[0])
    except OSError:
        pytest.skip("the kernel has no SO_PEERPIDFD")
    with pytest.raises((who.NoCrashError, OSError)):
        who.dump_of(pidfd)
    os.close(pidfd)


def test_the_signal_is_read_and_left_in_the_stream(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, kernel = pair
    data = core_bytes_written(tmp_path / "core").read_bytes()
    sender = threading.Thread(target=lambda: (kernel.sendall(data[:100]), kernel.sendall(data[100:])))
    sender.start()
    assert who.signal_in(ours) == "11"
    assert ours.recv(4) == b"\x7fELF"
    while ours.recv(1 << 16, socket.MSG_DONTWAIT if not sender.is_alive() else 0):
        if not sender.is_alive():
            break
    sender.join(5)


@pytest.mark.parametrize("data", [b"no core at all", b"\x7fELF" + b"\xff" * 200])
def test_a_stream_that_is_none_says_no_signal(pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
    pair[1].sendall(data)
    assert who.signal_in(pair[0]) == ""


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        (b"Max core file size        0                    unlimited            bytes", 0),
        (b"Max core file size        unlimited            unlimited            bytes", UNLIMITED),
        (b"Max core file size        4096                 8192                 bytes", 4096),
        (b"Max cpu time              unlimited            unlimited            seconds", 0),
    ],
)
def test_the_core_limit_is_the_soft_one(line: bytes, limit: int) -> None:
    assert who.core_limit(b"Limit  Soft  Hard  Units\n" + line + b"\n") == limit


def test_a_living_process_is_described_as_the_kernel_would() -> None:
    crash = who.crash_of(Process(os.getpid()), 1, 6)
    assert (crash.pid, crash.tid, crash.number("s"), crash.as_root) == (os.getpid(), os.getpid(), 6, False)
    assert crash.program == os.readlink("/proc/self/exe")
    assert who.crash_of(Process(os.getpid()), 9, 6).as_root
    assert crash.number("u") == os.getuid()


def test_only_one_server_listens_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    first = listen(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="another server"):
        listen(path)
    first.close()
    listen(path).close()
    # AND what is no socket is not removed
    other = tmp_path / "file"
    other.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        listen(str(other))
    assert other.read_text() == "mine"
