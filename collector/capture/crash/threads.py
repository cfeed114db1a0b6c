"""Every thread as the kernel shows it while the process dies: name, state, blocked call, both thread ids."""

from collector.capture.crash import limits
from collector.capture.crash.proc import Process

_FILES = ("comm", "stat", "syscall")
_DUMPED = 0x200  # PF_DUMPCORE, in stat's flags: the thread whose signal it was
_PATIENCE = 64  # threads between two looks at the clock


class Raw:
    """One thread's files, unread; empty where one could not be had."""

    __slots__ = ("files", "tid")

    def __init__(self, tid: int, files: dict[str, bytes]) -> None:
        self.tid = tid
        self.files = files


def read_threads(process: Process, crashed: int | None, kept: list[Raw], *, inner: bool) -> None:
    """Add every thread to ``kept``, the crashed one first; ``inner``: in a PID namespace of its own. What was
    added stays when the time is up."""
    names = [name for name in process.names("task", limits.THREADS) if name.isdecimal()]
    first = [str(crashed)] if crashed is not None else []
    for name in [*first, *(name for name in names if name not in first)][: limits.THREADS]:
        wanted = (*_FILES, "status") if inner else _FILES
        kept.append(Raw(int(name), {file: _file(process, f"task/{name}/{file}") for file in wanted}))


def _file(process: Process, name: str) -> bytes:
    try:
        return process.read(name, 4096)
    except OSError:
        return b""


def told(row: Raw) -> dict[str, object]:
    """One thread for threads.json. ``tid`` counts in the initial namespace (the kernel's log uses it),
    ``ns_tid`` in the process's own (the core uses it)."""
    stat = row.files["stat"].rpartition(b")")[2].split()
    flags = int(stat[6]) if len(stat) > 6 and stat[6].isdigit() else 0
    found: dict[str, object] = {
        "tid": row.tid,
        "ns_tid": _inner(row.files.get("status", b"")) or row.tid,
        "name": row.files["comm"].decode("utf-8", "replace").rstrip("\n"),
        "state": stat[0].decode("ascii", "replace") if stat else None,
        "dumping": bool(flags & _DUMPED),
        "cpu_ticks": sum(int(field) for field in stat[11:13] if field.isdigit()),
        "start_ticks": int(stat[19]) if len(stat) > 19 and stat[19].isdigit() else None,
    }
    found.update(_call(row.files["syscall"].split()))
    return found


def _call(words: list[bytes]) -> dict[str, object]:
    """/proc/PID/syscall: number, six arguments, sp, pc; or -1, sp, pc; or ``running``."""
    try:
        numbers = [int(word, 0) for word in words]
    except ValueError:
        return {"syscall": None}
    if len(numbers) == 9:
        return {"syscall": numbers[0], "arguments": numbers[1:7], "sp": numbers[7], "pc": numbers[8]}
    if len(numbers) == 3:
        return {"syscall": None, "sp": numbers[1], "pc": numbers[2]}
    return {"syscall": None}


def _inner(status: bytes) -> int | None:
    for line in status.split(b"\n"):
        if line.startswith(b"NSpid:"):
            words = line.split()
            return int(words[-1]) if len(words) > 1 else None
    return None
