"""Everything that is taken of a process while it dies.

``gather`` has the rights that /proc asks for and moves bytes and descriptors only; ``examine`` has none any
more when it reads the core and chooses the memory to keep. The rest is read once the process has been let go.
"""

import os
from time import CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime

from collector.capture.crash import limits, memory, sockets, threads
from collector.capture.crash import notes as core_notes
from collector.capture.crash.decide import DELETED
from collector.capture.crash.maps import Maps
from collector.capture.crash.modules import file_build_id
from collector.capture.crash.parts import Parts
from collector.capture.crash.proc import Process, read_file
from collector.capture.crash.request import Crash
from collector.capture.crash.stream import EndedError, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

TEXTS = ("status", "stat", "cgroup", "limits", "coredump_filter", "oom_score_adj", "io", "mountinfo")
_LINKS = ("exe", "cwd", "root", "ns/pid", "ns/mnt", "ns/net", "ns/user", "ns/uts", "ns/cgroup")
_CGROUP_FILES = ("memory.max", "memory.current", "memory.peak", "memory.events", "pids.max", "pids.current")
_CGROUPS = "/sys/fs/cgroup"
_PF_KEPT_FILES = 16  # programs and libraries whose files are gone, held open to be copied
_MOST_ARGUMENTS = 32 << 20  # a larger range between arguments and environment is no such range


class Gathered:
    """What was taken. ``texts``: /proc's files as they are; ``held``: name → descriptor of files to copy."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.cgroup: dict[str, bytes] = {}
        self.clocks: dict[str, float] = {}
        self.exe: dict[str, object] = {}
        self.threads: list[threads.Raw] = []
        self.descriptors: list[tuple[int, str]] = []
        self.sockets = sockets.Answers()
        self.kept: memory.Kept | None = None
        self.held: list[tuple[str, int]] = []
        self.boot_id = ""
        self.streamed = "whole"
        self.memory: int | None = None  # /proc/PID/mem: who holds it open may read on without rights
        self.program: int | None = None


def gather(process: Process, crash: Crash, parts: Parts) -> Gathered:
    """What /proc shows, each part within its budget; ``parts.gaps`` says what is missing."""
    found = Gathered()
    found.clocks = {
        "realtime": clock_gettime(CLOCK_REALTIME),
        "monotonic": clock_gettime(CLOCK_MONOTONIC),
        "boottime": clock_gettime(CLOCK_BOOTTIME),
    }
    found.boot_id = read_file("/proc/sys/kernel/random/boot_id", 64).decode("ascii", "replace").strip()
    parts.take("memory", lambda: _open_memory(process, found), None)
    for name in _LINKS:
        _keep(parts, found.links, name, process.link)
    for name in TEXTS:
        _keep(parts, found.texts, name, process.read)
    parts.take("maps", lambda: found.texts.update(maps=process.read("maps", limits.MAPS_BYTES)), None)
    parts.take("exe", lambda: _program(process, found), None)
    parts.take("cgroup files", lambda: _cgroup(found), None)
    inner = found.links.get("ns/pid") != _own_namespace()
    parts.take(
        "threads",
        lambda: threads.read_threads(process, crash.tid, found.threads, inner=inner),
        None,
        limits.THREADS_SECONDS,
    )
    parts.take("descriptors", lambda: _descriptors(process, found), None)
    maps = Maps(found.texts.get("maps", b""))
    parts.take("deleted files", lambda: _hold(process, maps, found), None)
    for name in ("cmdline", "environ"):  # they read the process's memory
        _keep(parts, found.texts, name, process.read)
    parts.take("sockets", lambda: _sockets(process, found), None, 2 * limits.SOCKETS_SECONDS)
    parts.take("smaps_rollup", lambda: _rollup(process, found), None)
    return found


def examine(found: Gathered, stream: Stream, parts: Parts) -> None:
    """The core's head, and of the memory what it points to. ``parts.gaps`` says what is missing."""
    parts.take("notes", lambda: _head(stream, found), None, limits.NOTES_SECONDS)
    maps = Maps(found.texts.get("maps", b""))
    parts.take("memory", lambda: _memory(maps, stream, found), None, limits.MEMORY_SECONDS + 0.5)
    parts.take("exe", lambda: _build(found), None)


def _keep(parts: Parts, into: "dict[str, T]", name: str, get: "Callable[[str], T]") -> None:
    value = parts.take(name, lambda: get(name), None)
    if value is not None:
        into[name] = value


def _head(stream: Stream, found: Gathered) -> None:
    try:
        stream.read_head()
    except EndedError as problem:
        found.streamed = str(problem)
        raise


def _own_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _program(process: Process, found: Gathered) -> None:
    """The program by its descriptor: it is the right one, whatever stands at its path by now."""
    descriptor = process.open("exe")
    looked = os.fstat(descriptor)
    gone = found.links.get("exe", "").endswith(DELETED)
    found.exe = {
        "path": found.links.get("exe", "").removesuffix(DELETED),
        "deleted": gone,
        "size": looked.st_size,
        "mtime": looked.st_mtime,
        "inode": looked.st_ino,
        "device": looked.st_dev,
        "build_id": None,
    }
    found.program = descriptor
    if gone:
        found.held.append(("exe", descriptor))


def _build(found: Gathered) -> None:
    if found.program is not None:
        found.exe["build_id"] = file_build_id(found.program)


def _hold(process: Process, maps: Maps, found: Gathered) -> None:
    """Keep mapped code whose file is gone within reach: a descriptor outlives the process."""
    program = os.fsencode(str(found.exe.get("path", "")))
    seen = {program} if found.exe.get("deleted") else set()
    for row in maps.rows:
        code = row.deleted and row.permissions[2:3] == b"x" and row.inode
        if not code or row.path in seen or len(seen) >= _PF_KEPT_FILES:
            continue
        seen.add(row.path)
        name = os.fsdecode(row.path).rpartition("/")[2]
        found.held.append((name, process.open(f"map_files/{row.start:x}-{row.end:x}")))


def _cgroup(found: Gathered) -> None:
    path = next((row[3:] for row in found.texts.get("cgroup", b"").split(b"\n") if row[:3] == b"0::"), b"")
    if not path.startswith(b"/") or b".." in path:
        return
    for name in _CGROUP_FILES:
        data = read_file(f"{_CGROUPS}{os.fsdecode(path)}/{name}", 4096)
        if data:
            found.cgroup[name] = data


def _descriptors(process: Process, found: Gathered) -> None:
    for name in process.names("fd", limits.DESCRIPTORS):
        try:
            found.descriptors.append((int(name), process.link(f"fd/{name}")))
        except OSError:
            continue


def _open_memory(process: Process, found: Gathered) -> None:
    found.memory = process.open("mem")


def _memory(maps: Maps, stream: Stream, found: Gathered) -> None:
    descriptor = found.memory
    if descriptor is None:
        return

    def read(address: int, size: int) -> bytes:
        try:
            return os.pread(descriptor, size, address)
        except (OSError, OverflowError):
            return b""

    rows = core_notes.parse(stream.notes)
    auxv = core_notes.auxv(core_notes.body_of(rows, core_notes.AUXV))
    blank = argument_range(found.texts.get("stat", b""))
    found.kept = memory.keep(read, maps, core_notes.threads(rows), auxv, blank)
    os.close(descriptor)
    found.memory = None


def argument_range(stat: bytes) -> tuple[int, int]:
    """From the first argument to the end of the environment (fields 48 and 51 of /proc/PID/stat)."""
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 49:
        return 0, 0
    low, high = int(fields[45]), int(fields[48])
    return (low, high) if 0 < low < high <= low + _MOST_ARGUMENTS else (0, 0)


def _sockets(process: Process, found: Gathered) -> None:
    if any(target.startswith("socket:") for _, target in found.descriptors):
        found.sockets = sockets.ask(process)


def _rollup(process: Process, found: Gathered) -> None:
    fields = found.texts.get("status", b"").partition(b"VmRSS:")[2].split(None, 1)
    if fields and fields[0].isdigit() and int(fields[0]) << 10 > limits.ROLLUP_RESIDENT:
        raise OSError("the process is too large to walk its pages")
    found.texts["smaps_rollup"] = process.read("smaps_rollup")
