"""The payloads of Evidence that come from watching a living server: looks, memory, and what befell its host.

Part of the vocabulary of ``analyzers.contracts.facts``, whose functions wrap and read these as well.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


def known_fields(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    """The part of ``data`` that ``cls`` has fields for, lists as tuples."""
    names = _names(cls)
    return {key: _tupled(value) for key, value in data.items() if key in names}


_NAMES: dict[type[Any], frozenset[str]] = {}


def _names(cls: type[Any]) -> frozenset[str]:
    """Asked for every fact that is read: a busy host tells thousands a second."""
    known = _NAMES.get(cls)
    if known is None:
        known = _NAMES[cls] = frozenset(each.name for each in fields(cls))
    return known


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class ThreadLook:
    """One thread at one moment: user and system time so far, the kernel's state letter, and the kernel
    function in which it waits (/proc/PID/task/TID/wchan, where that may be read)."""

    tid: int | None = None
    name: str | None = None
    cpu_seconds: float | None = None
    state: str | None = None
    waits_in: str | None = None


@dataclass(frozen=True)
class LookFact:
    """One look at a living process from outside, without stopping it; two of them show what moves.

    ``state`` is the kernel's letter of the main thread (T: stopped by a signal); bytes are totals since
    the start (``read_bytes``: rchar of /proc/PID/io) or of now (``resident_bytes``). ``children`` are names
    of child processes. ``tracer`` is the tracing program's name, ``tracer_is_child`` whether this very
    process started it. ``dumping``: the kernel is writing its core.
    """

    KIND: ClassVar[str] = "look"
    state: str | None = None
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    resident_bytes: int | None = None
    children: tuple[str, ...] = ()
    tracer: str | None = None
    tracer_is_child: bool | None = None
    dumping: bool = False
    thread_count: int | None = None  # ``threads`` may be cut
    threads: tuple[ThreadLook, ...] = ()

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> LookFact:
        known = known_fields(cls, data)
        known["threads"] = tuple(ThreadLook(**known_fields(ThreadLook, t)) for t in data.get("threads", ()))
        return cls(**known)


@dataclass(frozen=True)
class MemoryFact:
    """Memory that the server's process holds at one point of its sleep cycle.

    ``where``: host | device. ``bytes`` is what the process holds, ``free_bytes`` what the device or host has
    left; either may be unknown. ``cycle``: sleeps so far; ``phase``: awake | asleep, a phase id.
    ``held_model_files`` are names of model files that the process still maps.
    """

    KIND: ClassVar[str] = "memory"
    where: str = "host"
    device: str | None = None
    phase: str = "unknown"
    cycle: int | None = None
    bytes: int | None = None
    free_bytes: int | None = None
    held_model_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostFact:
    """Something that befell the whole machine. ``event``: rebooted | suspended | resumed | machine-check |
    storage-error | panic | lockup. ``boot_id`` is the boot that came after a reboot."""

    KIND: ClassVar[str] = "host"
    event: str = "rebooted"
    boot_id: str | None = None
    detail: str | None = None
