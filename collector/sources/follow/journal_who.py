"""Who wrote a journal entry: what journald says of the sender; a message's own claims count nothing.

``_PID``, ``_COMM``, ``_EXE``, ``_UID``, ``_TRANSPORT``, ``_SYSTEMD_*`` cannot be set by a client (systemd:
systemd.journal-fields(7), trusted fields). SYSLOG_PID, UNIT, COREDUMP_* can, and are read only where the
sender may speak of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from analyzers.contracts.evidence import Incarnation
from analyzers.logs.entries import Entry
from analyzers.logs.journal_lives import is_core_record
from analyzers.logs.text import decode, visible
from collector.sources.follow.seen import Seen

# Either the server's incarnation, when the caller knows it, or just that it is one.
Wanted = Callable[[int | None, str | None], "Incarnation | bool | None"]

MANAGER, CORES, JOURNALD, ENGINE, SERVER, OTHER = "manager", "cores", "journald", "engine", "server", "other"
_SYSTEM_FOLDERS = (b"/usr/lib/", b"/lib/", b"/usr/libexec/")
_ENGINES = frozenset({b"dockerd", b"conmon", b"containerd-shim", b"podman"})
_NAME_CUT = 15  # TASK_COMM_LEN without its end
WHO_FIELDS = ("_COMM", "_EXE", "_UID", "_TRANSPORT", "_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT")


UNKNOWN = Incarnation()


def _nobody() -> Seen:
    return Seen(None, None, Incarnation())


@dataclass(frozen=True)
class Who:
    """A sender. ``carried``: whose the lines are that a router passes on for a child whose PID is unknown."""

    kind: str
    unit: str | None = None
    incarnation: Incarnation = UNKNOWN
    carried: Incarnation = UNKNOWN
    source: str = ""
    prefix: str = ""  # of the ids of its evidence
    seen: Seen = field(default_factory=_nobody)


def fields_of(reader: Any, names: tuple[str, ...]) -> dict[str, bytes]:
    """Some fields of the reader's current entry; those that it has."""
    found = {}
    for name in names:
        try:
            found[name] = reader._get(name)
        except KeyError:
            continue
        except OSError:  # the data object is damaged; what is left of the entry still counts
            continue
    return found


def kind_of(fields: dict[str, bytes], pid: int) -> str:
    """What the sender is by its trusted fields; OTHER may still be a server."""
    comm, exe = fields.get("_COMM", b""), fields.get("_EXE", b"")
    unit = fields.get("_SYSTEMD_UNIT", b"")
    if pid == 1 and fields.get("_UID") == b"0" and comm in (b"systemd", b"init"):
        return MANAGER
    if _is_user_manager(fields, comm, exe, unit):
        return MANAGER
    if unit.startswith(b"systemd-coredump@") or comm == b"systemd-coredump"[:_NAME_CUT]:
        return CORES
    if comm == b"systemd-journald"[:_NAME_CUT]:
        return JOURNALD
    return ENGINE if comm in _ENGINES else OTHER


def _is_user_manager(fields: dict[str, bytes], comm: bytes, exe: bytes, unit: bytes) -> bool:
    """The manager of one user: it is believed about that user's units only (USER_UNIT)."""
    return (
        comm == b"systemd"
        and unit.startswith(b"user@")
        and fields.get("_SYSTEMD_USER_UNIT") == b"init.scope"
        and exe.startswith(_SYSTEM_FOLDERS)
    )


def unit_name(fields: dict[str, bytes]) -> str | None:
    """The unit of the sender's control group: the user manager's where there is one."""
    raw = fields.get("_SYSTEMD_USER_UNIT") or fields.get("_SYSTEMD_UNIT")
    return visible(decode(raw[:256])) if raw else None


def server(
    pid: int | None, unit: str | None, boot: str, answer: Incarnation | bool
) -> tuple[Incarnation, str]:
    """(incarnation, source) of a wanted sender. An incarnation of another boot is not this one's, unless the
    number is another one too: a container's journal counts PIDs, and names its boot, in its own way."""
    own = Incarnation(pid=pid, boot_id=boot)
    if isinstance(answer, Incarnation) and answer.pid != pid:
        own = answer
    elif isinstance(answer, Incarnation) and own.same_as(answer):
        own = Incarnation(pid=pid, start_time=answer.start_time, boot_id=boot)
    return own, f"journal of {unit}" if unit else f"journal of process {pid}"


def believed_core(fields: dict[str, bytes]) -> bool:
    """True for a record that systemd-coredump wrote itself."""
    return is_core_record(Entry(1, fields=dict(fields)))
