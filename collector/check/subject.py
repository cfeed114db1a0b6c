"""One living server as the checks see it: what /proc tells, read once; what may not be read is remembered."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from collector.check.image import Image, read_image
from collector.gather.servers import Server
from collector.gather.tools import read_text
from collector.sources.procfs import PROC, GoneError, Process

MAX_SMAPS = 64 << 20  # bytes: some 80,000 maps, more than vm.max_map_count allows
DEFAULT_FILTER = 0x33
UNLIMITED = 1 << 62
# PIDFD_GET_INFO with PIDFD_INFO_COREDUMP (linux/pidfd.h, kernel 6.16): how a living process would be dumped.
_INFO_SIZE, _INFO_COREDUMP, _MASK_AT = 72, 1 << 4, 64
_GET_INFO = 3 << 30 | _INFO_SIZE << 16 | 0xFF << 8 | 11
_DUMPABLE = {2: "no", 4: "user", 8: "root"}
T = TypeVar("T")


@dataclass(frozen=True)
class Who:
    """Whom the kernel takes the process for when it opens a file."""

    uid: int
    gids: frozenset[int]
    overrides: bool  # CAP_DAC_OVERRIDE

    def may_write(self, found: os.stat_result) -> bool:
        """Write and search in a folder, by its mode (an ACL or a security module may say otherwise)."""
        if self.overrides:
            return True
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid in self.gids else 0
        return found.st_mode >> shift & 3 == 3


@dataclass
class Subject:
    """``limit`` soft RLIMIT_CORE in bytes; ``dumpable``: no | user | root | None when not known; ``outputs``:
    targets of descriptors 1 and 2. ``args`` and ``env`` raw, for use on the host only."""

    server: Server
    proc: Path = PROC
    args: tuple[str, ...] = field(default=(), repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    limit: int | None = None
    filter_bits: int | None = None
    dumpable: str | None = None
    who: Who | None = None
    image: Image | None = None
    cgroup: str = ""
    mounts: str = ""
    outputs: tuple[str, ...] = ()
    cwd: str | None = None
    own_mounts: bool | None = None
    tracer: int = 0
    unread: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return PurePosixPath(self.server.exe).name

    @property
    def folder(self) -> Path:
        return self.proc / str(self.server.pid)

    def inside(self, path: str) -> Path:
        """Where this host reads ``path`` as the process would open it."""
        return self.folder / "root" / path.lstrip("/") if path.startswith("/") else self.folder / "cwd" / path


def read_subject(server: Server) -> Subject:
    """Everything that this user may read. Raises GoneError when the process ends while it is looked at."""
    made = Subject(server)
    with Process(server.pid) as process:
        _demand_alive(process, server)
        _start(made, process)
        _kernel(made, process)
        _surroundings(made, process)
        _demand_alive(process, server)
    return made


def _demand_alive(process: Process, server: Server) -> None:
    """Raises GoneError for another process of that number, and for one that is dead already."""
    if process.incarnation() != server.incarnation or process.state() in "ZX":
        raise GoneError(server.pid)


def _start(made: Subject, process: Process) -> None:
    made.args = tuple(_words(_try(made, "cmdline", lambda: process.read("cmdline"), b"")))
    pairs = (
        word.partition("=") for word in _words(_try(made, "environ", lambda: process.read("environ"), b""))
    )
    made.env = {name: value for name, equals, value in pairs if equals}


def _kernel(made: Subject, process: Process) -> None:
    limits = _try(made, "limits", lambda: process.read("limits"), b"").decode("ascii", "replace")
    made.limit = core_limit(limits)
    bits = _try(made, "coredump_filter", lambda: process.read("coredump_filter"), b"")
    with suppress(ValueError):
        made.filter_bits = int(bits, 16)
    status = _try(made, "status", lambda: process.read("status"), b"").decode("utf-8", "replace")
    made.who = who_of(status)
    made.dumpable = _dumpable(process, made)
    smaps = _try(made, "smaps", lambda: _smaps(made), None)
    if smaps is not None:
        made.image = read_image(smaps, DEFAULT_FILTER if made.filter_bits is None else made.filter_bits)


def _surroundings(made: Subject, process: Process) -> None:
    made.cgroup = _try(made, "cgroup", lambda: process.read("cgroup"), b"").decode("utf-8", "replace")
    made.mounts = _try(made, "mountinfo", lambda: process.read("mountinfo"), b"").decode("utf-8", "replace")
    made.outputs = tuple(_try(made, name, partial(process.link, name), "") for name in ("fd/1", "fd/2"))
    made.cwd = _try(made, "cwd", lambda: process.link("cwd"), None)
    made.tracer = _try(made, "task", process.tracer, 0)
    with suppress(OSError):
        made.own_mounts = os.readlink(made.folder / "ns/mnt") != os.readlink(made.proc / "self/ns/mnt")


def _try(made: Subject, name: str, read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except (OSError, GoneError):
        made.unread.append(name)
        return otherwise


def _smaps(made: Subject) -> str:
    data = read_text(made.folder / "smaps", MAX_SMAPS)
    if not data:
        raise PermissionError
    return data.decode("utf-8", "replace")


def _words(data: bytes) -> list[str]:
    return [word.decode("utf-8", "replace") for word in data.split(b"\0") if word]


def core_limit(limits: str) -> int | None:
    """The soft limit of ``/proc/PID/limits`` in bytes."""
    for line in limits.splitlines():
        if line.startswith("Max core file size"):
            word = line.removeprefix("Max core file size").split()[0]
            return UNLIMITED if word == "unlimited" else int(word) if word.isdigit() else None
    return None


def who_of(status: str) -> Who | None:
    """From ``/proc/PID/status``: file-system uid, all groups, the capability that opens everything."""
    rows = {name: rest.split() for name, _, rest in (line.partition(":") for line in status.splitlines())}
    try:
        groups = frozenset(map(int, [*rows["Gid"][3:], *rows.get("Groups", [])]))
        return Who(int(rows["Uid"][3]), groups, bool(int(rows["CapEff"][0], 16) >> 1 & 1))
    except (KeyError, IndexError, ValueError):
        return None


def _dumpable(process: Process, made: Subject) -> str | None:
    """The kernel's own word where it gives it (6.16), else by who owns /proc/PID/environ (proc(5))."""
    answer = bytearray(_INFO_SIZE)
    struct.pack_into("<Q", answer, 0, _INFO_COREDUMP)
    if process.pidfd is not None:
        with suppress(OSError):
            import fcntl

            fcntl.ioctl(process.pidfd, _GET_INFO, answer)
            if struct.unpack_from("<Q", answer)[0] & _INFO_COREDUMP:
                return _DUMPABLE.get(struct.unpack_from("<I", answer, _MASK_AT)[0] & 14)
    if made.who is None or made.who.uid == 0:
        return None
    with suppress(OSError):
        return "user" if os.stat(made.folder / "environ").st_uid != 0 else "no"
    return None
