"""Small cores and captures made by hand, and an installation's place that pretends to be root's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.capture.crash import notes
from collector.capture.crash.corefile import Segment, write_core
from collector.capture.crash.store import TRACE, trace_text
from collector.capture.setup import code, install, safe, state, status
from collector.capture.setup.kernel import Kernel
from collector.capture.setup.layout import Layout

BOOT = "11111111-2222-3333-4444-555555555555"
LIBRARY = b"/srv/lib/libllama-server-impl.so"
PATTERN_BEFORE = "|/lib/systemd/systemd-coredump %P %u"
SERVER_CODE = 0x7F0000000000
STACK = 0x7FFF00000000


def core_bytes_written(
    path: Path, pid: int = 4711, *, library: bytes = LIBRARY, uid: int | None = None, size: int = 1 << 16
) -> Path:
    """A core of one thread with a stack, in a process that has ``library`` mapped."""
    registers = [0] * 27
    registers[notes.RSP] = STACK + 0x800
    registers[notes.RIP] = SERVER_CODE + 0x10
    block = notes.prstatus(pid, tuple(registers), signal=11)
    block += notes.prpsinfo(pid, b"llama-server", uid=os.geteuid() if uid is None else uid)
    block += notes.siginfo(11, 1, 8)
    block += notes.files([(SERVER_CODE, SERVER_CODE + 4096, 0, library)])
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    code_page = Segment(SERVER_CODE, b"\x7fELF".ljust(4096, b"\0"), flags=5)
    write_core(descriptor, block, [code_page, Segment(STACK, b"\x01" * size)])
    os.close(descriptor)
    return path


def capture_made(
    store: Path, name: str, *, pid: int = 4711, core: bool = True, more: Mapping[str, Any] | None = None
) -> Path:
    """A finished capture."""
    folder = store / name
    folder.mkdir(parents=True, mode=0o700)
    if core:
        core_bytes_written(folder / "core", pid)
    told = {
        "schema": "llama-blackbox/capture/1",
        "mode": "minimal",
        "crash": {"signal": 11, "tid": pid, "ns_pid": pid, "program": "/usr/bin/llama-server"},
        "process": {"pid": pid, "start_ticks": 100, "ticks_per_second": 100, "boot_id": BOOT},
        "core": {"file": "core"} if core else None,
        "files": {},
        "gaps": [],
        **(more or {}),
    }
    (folder / "capture.json").write_text(json.dumps(told))
    return folder


def partial_made(store: Path, name: str, told: Mapping[str, Any] | None, *, age: float = 60.0) -> Path:
    """An unfinished capture; ``told`` its breadcrumb, None for an empty one."""
    folder = store / f".partial-{name}"
    folder.mkdir(parents=True, mode=0o700)
    (folder / TRACE).write_bytes(trace_text(dict(told)) if told is not None else b"")
    settle(folder, age)
    return folder


def settle(folder: Path, age: float = 60.0) -> None:
    """As if nothing had changed in it for ``age`` seconds."""
    now = folder.stat().st_mtime - age
    os.utime(folder, (now, now))


def breadcrumb(pid: int = 4711, **more: Any) -> dict[str, Any]:
    return {
        "schema": "llama-blackbox/capture-trace/1",
        "state": "begun",
        "pid": pid,
        "start_ticks": 100,
        "boot_id": BOOT,
        "tid": pid,
        "signal": 11,
        "time": 1796195973,
        "handler": 1,
        "mode": "minimal",
        "mark": "program llama-server",
        "program": "/usr/bin/llama-server",
        **more,
    }


def pretend_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's folders are root's own, and nothing is compiled."""
    for module in (safe, state, status):
        monkeypatch.setattr(module, "unsafe", lambda path: None)
    monkeypatch.setattr(status, "unsafe_below", lambda path: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_, **__: None)
    monkeypatch.setattr(install.code, "choose_python", lambda asked: asked or "/bin/true")
    monkeypatch.setattr(code, "handlers", lambda main: [])


def layout_in(tmp_path: Path, release: str = "6.18.0", pattern: str = PATTERN_BEFORE) -> Layout:
    """A place of its own with a kernel of plain files."""
    root = tmp_path / "sys"
    values = {"kernel/core_pattern": pattern, "kernel/core_pipe_limit": "0", "fs/suid_dumpable": "2"}
    for name, value in values.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(value + "\n")
    (tmp_path / "etc").mkdir()
    for package in ("crash", "coresocket"):  # small ones: each file is a sync, and each sync is killed at
        (tmp_path / "source" / package).mkdir(parents=True)
        (tmp_path / "source" / package / "__main__.py").write_text("pass\n")
    return Layout(
        source=tmp_path / "source",
        prefix=tmp_path / "p",
        store=tmp_path / "store",
        sysctls=(tmp_path / "etc", tmp_path / "usr"),
        kernel=TruncatingKernel(root, release),
    )


class TruncatingKernel(Kernel):
    """A plain file keeps the end of a longer value before; a sysctl does not."""

    def write(self, name: str, value: str) -> None:
        self.path(name).write_text("")
        super().write(name, value)
