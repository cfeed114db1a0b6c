"""Which deaths of a llama-server this host knows of: core records, kept cores, failed units, kernel lines.

One death is told by several of them; they are joined by PID and time. A record that any user could have
forged (a COREDUMP_* entry not by systemd-coredump itself) is left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from analyzers.contracts.facts import KernelFact
from analyzers.contracts.report import Gap
from analyzers.core.buildid import find_executable
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.logs.entries import Entry
from analyzers.logs.journal_lives import COREDUMP_MESSAGE, is_core_record, is_systemd
from analyzers.logs.kernel import parse_kernel_body
from analyzers.logs.looks import looks_like_log
from collector.gather.corefiles import (
    APPORT,
    PATTERN,
    STORE,
    Kept,
    apport_fields,
    apport_reports,
    in_store,
    plain_places,
)
from collector.gather.journal import Journal
from collector.gather.servers import LIBRARY, PROGRAM, UNIFIED
from collector.gather.wanted import Wanted
from collector.sources.kernel import read_kernel_lines
from collector.sources.procfs import boot_id

UNIT_EXIT = "98e322203f7a4ed290d09fe03c09fe15"  # SD_MESSAGE_UNIT_PROCESS_EXIT, sd-messages.h
NEWEST = 200  # records of one sort that are read; a server that restarts every second fills them in minutes
LOOKED_INTO = 8  # kept cores opened to see whose they are: unpacking one takes a second
HOSTS = re.compile(r"python|uvicorn|gunicorn|xllamacpp")
# A core is recorded once it is written: 4 GB keep a process dying for 23 s.
SAME_DEATH_SECONDS = 120.0
SAME_MOMENT_SECONDS = 5.0  # kernel lines and supervisor lines of one death
ORDERLY_SIGNALS = (1, 2, 15)  # HUP, INT, TERM: how people and managers stop a server
SESSIONS = ("session-", "user@", "init.scope")  # units that hold everybody's processes


@dataclass(frozen=True)
class Death:
    """One death. ``wall`` Unix seconds; ``core`` the file that keeps it, as it lies there (packed, or an
    apport report); ``tid`` the kernel's thread number where no PID is known; ``by`` who told it."""

    wall: float
    by: str
    pid: int | None = None
    tid: int | None = None
    boot_id: str | None = None
    unit: str | None = None
    name: str | None = None
    signal: int | None = None
    core: Path | None = None
    tids: frozenset[int] = frozenset()  # all threads, where the core was read
    record: bool = False  # systemd-coredump recorded it, with or without a core
    exe: Path | None = None  # a copy of its program, where the file was gone
    symbols: tuple[Path, ...] = ()  # folders with copies of its other files

    @property
    def words(self) -> str:
        """One readable line."""
        who = (
            f"PID {self.pid}" if self.pid is not None else f"thread {self.tid}" if self.tid else "PID unknown"
        )
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.wall))
        parts = [self.name or "llama-server", who, self.unit or "no unit known", at, f"by {self.by}"]
        return ", ".join(parts)


@dataclass
class Places:
    """Where this host keeps things; tests point elsewhere. ``folders``: where a relative core_pattern may
    have left cores."""

    journal: Journal = field(default_factory=Journal)
    store: Path = STORE
    apport: Path = APPORT
    pattern: Path = PATTERN
    folders: tuple[Path, ...] = field(default_factory=lambda: (Path.cwd(),))
    kernel: bool = True


def find_deaths(places: Places, wanted: Wanted) -> tuple[list[Death], list[Gap]]:
    """Deaths that fit, the newest first, and what was not searched. Raises UserError for an unknown boot."""
    boot = _boot(places.journal, wanted.boot)
    told: list[Death] = []
    gaps: list[Gap] = []
    for source in (_recorded, _failed, _stored, _kernel):
        found, missed = source(places, wanted, boot)
        told += [death for death in found if _fits(death, wanted, boot)]
        gaps += missed
    joined = _joined(told)
    if (
        wanted.unit is not None
    ):  # a core or a kernel line does not name it: only what joined something that does
        joined = [death for death in joined if death.unit == wanted.unit]
    if wanted.pid is not None:
        joined = [death for death in joined if wanted.pid in (death.pid, death.tid)]
    unique = {(gap.what, gap.why): gap for gap in gaps}
    return sorted(joined, key=lambda death: death.wall, reverse=True), list(unique.values())


def _boot(journal: Journal, text: str | None) -> str | None:
    """The id of a boot that was named by its offset."""
    if text is None or len(text) == 32:
        return text
    if text in ("0", "-0") and journal.folder is None:
        return (boot_id() or "").replace("-", "") or None
    known = dict(journal.boots())
    if int(text) not in known:
        raise UserError(
            "the journal knows no such boot", where=f"--boot {text}", remedy="see journalctl --list-boots"
        )
    return known[int(text)]


def _fits(death: Death, wanted: Wanted, boot: str | None) -> bool:
    if wanted.since is not None and death.wall < wanted.since:
        return False
    if boot is None:
        return True
    if death.boot_id is not None:
        return death.boot_id.replace("-", "") == boot
    here = boot_id()
    return here is not None and here.replace("-", "") == boot and death.wall >= time.time() - time.monotonic()


def _recorded(places: Places, wanted: Wanted, boot: str | None) -> tuple[list[Death], list[Gap]]:
    """systemd-coredump's own records."""
    matches = [f"MESSAGE_ID={COREDUMP_MESSAGE}"]
    cut = places.journal.slice(matches, since=wanted.since, boot=boot, newest=NEWEST)
    found, looked = [], 0
    for entry in reversed(list(cut.entries())):
        if not is_core_record(entry):
            continue
        death = _of_record(entry)
        sure = by_name(entry.text("COREDUMP_EXE"), entry.text("COREDUMP_COMM"))
        if not sure and death.core is not None and HOSTS.search(entry.text("COREDUMP_EXE") or ""):
            looked += 1
            sure = looked <= LOOKED_INTO and core_is_servers(death.core)
        if sure or (wanted.unit is not None and death.unit == wanted.unit):
            found.append(death)
    return found, list(cut.gaps)


def _of_record(entry: Entry) -> Death:
    stamp = entry.number_of("COREDUMP_TIMESTAMP") or entry.number_of("__REALTIME_TIMESTAMP") or 0
    path = entry.text("COREDUMP_FILENAME")
    return Death(
        wall=stamp / 1e6,
        by="systemd-coredump",
        pid=entry.number_of("COREDUMP_PID"),
        boot_id=entry.text("_BOOT_ID"),
        unit=entry.text("COREDUMP_UNIT") or entry.text("COREDUMP_USER_UNIT"),
        name=entry.text("COREDUMP_COMM"),
        signal=entry.number_of("COREDUMP_SIGNAL"),
        core=Path(path) if path and path.startswith("/") and Path(path).is_file() else None,
        record=True,
    )


def by_name(exe: str | None, name: str | None) -> bool:
    """The program's path (or, where the kernel kept no more, its name) is a llama-server's."""
    told = PurePosixPath(exe).name if exe else name or ""
    return PROGRAM.search(told) is not None or UNIFIED.match(told) is not None


def core_is_servers(path: Path) -> bool:
    """The core has llama-server's code mapped. Unpacks it where it is packed."""
    with suppress(UserError, OSError), opened(path) as unpacked:
        return _is_servers(read_core(unpacked))
    return False


def _is_servers(core: Core) -> bool:
    """Its program, or a file that it has mapped, is a server."""
    found = find_executable(core)
    names = [PurePosixPath(each).name for each in (found.server, found.main) if each]
    return any(LIBRARY.search(name) or by_name(name, None) for name in names)


def _failed(places: Places, wanted: Wanted, boot: str | None) -> tuple[list[Death], list[Gap]]:
    """Units whose main process ended by a fault or an error status, as systemd itself wrote."""
    cut = places.journal.slice(
        [f"MESSAGE_ID={UNIT_EXIT}", "_PID=1"], since=wanted.since, boot=boot, newest=NEWEST
    )
    found: list[Death] = []
    servers: dict[str, bool] = {}
    for entry in reversed(list(cut.entries())):
        unit, code = entry.text("UNIT"), entry.text("EXIT_CODE")
        status = entry.text("EXIT_STATUS") or ""
        if unit is None or not is_systemd(entry) or _orderly(code, status):
            continue
        if unit not in servers:
            servers[unit] = unit == wanted.unit or _runs_server(places.journal, unit)
        if servers[unit]:
            found.append(_of_unit(places.journal, entry, unit, code, status))
    return found, list(cut.gaps)


def _orderly(code: str | None, status: str) -> bool:
    if code == "exited":
        return status == "0"
    return code == "killed" and status.isdigit() and int(status) in ORDERLY_SIGNALS


def _runs_server(journal: Journal, unit: str) -> bool:
    """One of its processes spoke under a server's program path, or in a server's own words."""
    entries = list(journal.slice([f"_SYSTEMD_UNIT={unit}"], newest=NEWEST).entries())
    if any(by_name(entry.text("_EXE"), entry.text("_COMM")) for entry in entries):
        return True
    hosted = any(HOSTS.search(entry.text("_EXE") or entry.text("_COMM") or "") for entry in entries)
    return hosted and looks_like_log(b"\n".join(entry.fields.get("MESSAGE", b"") for entry in entries))


def _of_unit(journal: Journal, entry: Entry, unit: str, code: str | None, status: str) -> Death:
    wall = (entry.number_of("__REALTIME_TIMESTAMP") or 0) / 1e6
    boot = entry.text("_BOOT_ID")
    last = list(journal.slice([f"_SYSTEMD_UNIT={unit}"], until=wall, boot=boot, newest=1).entries())
    return Death(
        wall=wall,
        by="systemd",
        pid=last[-1].number_of("_PID") if last else None,
        boot_id=boot,
        unit=unit,
        name=last[-1].text("_COMM") if last else None,
        signal=int(status) if code != "exited" and status.isdigit() else None,
    )


def _stored(places: Places, wanted: Wanted, boot: str | None) -> tuple[list[Death], list[Gap]]:
    """Cores that lie on this host, told by whom they are of."""
    found = [_of_store(kept) for kept in in_store(places.store) if _store_fits(kept)]
    plain = sorted(plain_places(list(places.folders), places.pattern), key=lambda k: k.wall, reverse=True)
    for kept in plain[:LOOKED_INTO]:
        death = _of_plain(kept)
        if death is not None:
            found.append(death)
    found += [death for death in map(_of_apport, apport_reports(places.apport)) if death is not None]
    return found, []


def _store_fits(kept: Kept) -> bool:
    if by_name(None, kept.comm):
        return True
    return HOSTS.search(kept.comm or "") is not None and core_is_servers(kept.path)


def _of_store(kept: Kept) -> Death:
    return Death(
        kept.wall,
        "its core in systemd-coredump's store",
        pid=kept.pid,
        boot_id=kept.boot_id,
        name=kept.comm,
        core=kept.path,
    )


def _of_plain(kept: Kept) -> Death | None:
    with suppress(UserError, OSError), opened(kept.path) as unpacked:
        core = read_core(unpacked)
        if _is_servers(core):
            return Death(
                kept.wall,
                "its core",
                pid=core.pid,
                name=core.program,
                signal=core.signal,
                core=kept.path,
                tids=frozenset(thread.tid for thread in core.threads),
            )
    return None


def _of_apport(kept: Kept) -> Death | None:
    fields = apport_fields(kept.path)
    exe, signal = fields.get("ExecutablePath"), fields.get("Signal", "")
    hosted = "xllamacpp" in fields.get("ProcCmdline", "")
    if not (by_name(exe, None) or hosted):
        return None
    return Death(
        kept.wall,
        "apport",
        name=PurePosixPath(exe or "").name[:15] or None,
        signal=int(signal) if signal.isdigit() and len(signal) < 3 else None,
        core=kept.path,
    )


def _kernel(places: Places, wanted: Wanted, boot: str | None) -> tuple[list[Death], list[Gap]]:
    """Kernel lines of this boot that name a llama-server; the number in them is a thread's."""
    if not places.kernel:
        return [], []
    read = read_kernel_lines(0.0)
    since_boot = time.time() - time.monotonic()
    found = []
    for line in read.lines:
        fact = parse_kernel_body(line.text)
        if fact is not None and fact.tid is not None and _ends(fact) and by_name(None, fact.name):
            wall = since_boot + line.mono
            found.append(Death(wall, "the kernel", tid=fact.tid, boot_id=boot_id(), name=fact.name))
    return found, list(read.gaps)


def _ends(fact: KernelFact) -> bool:
    return fact.shape in ("segfault", "gpf", "invalid-opcode", "divide-error", "oom-kill")


def _joined(told: Iterable[Death]) -> list[Death]:
    """Each death once, with all that is known of it."""
    deaths: list[Death] = []
    for one in sorted(told, key=lambda death: (death.pid is None, death.wall)):
        at = next((at for at, other in enumerate(deaths) if _same(one, other)), None)
        if at is None:
            deaths.append(one)
        else:
            deaths[at] = _both(deaths[at], one)
    return deaths


def _same(one: Death, other: Death) -> bool:
    apart = abs(one.wall - other.wall)
    if one.boot_id and other.boot_id and one.boot_id.replace("-", "") != other.boot_id.replace("-", ""):
        return False
    if one.unit and other.unit and one.unit != other.unit:
        return False
    if one.pid is not None and other.pid is not None:
        return one.pid == other.pid and apart <= SAME_DEATH_SECONDS
    if one.core is not None and other.core is not None and one.core != other.core:
        return False
    threads = one.tids | other.tids
    tid = one.tid if one.tid is not None else other.tid
    if threads and tid is not None:
        return tid in threads and apart <= SAME_DEATH_SECONDS
    return apart <= SAME_MOMENT_SECONDS


def _both(known: Death, more: Death) -> Death:
    by = known.by if more.by in known.by.split(", ") else f"{known.by}, {more.by}"
    kept = {
        name: getattr(known, name) if getattr(known, name) is not None else getattr(more, name)
        for name in ("pid", "tid", "boot_id", "unit", "name", "signal", "core")
    }
    # The supervisor's and the kernel's moments are the death's; a core's is when it was written.
    wall = min(known.wall, more.wall)
    record, tids = known.record or more.record, known.tids | more.tids
    return replace(known, by=by, wall=wall, record=record, tids=tids, **kept)


def others(deaths: list[Death]) -> Iterator[Gap]:
    """Deaths besides the chosen one, each with the command that gathers it."""
    for death in deaths[:LOOKED_INTO]:
        number = death.pid if death.pid is not None else death.tid
        command = f"llama-blackbox collect --pid {number} -o death-{number}.tar.zst" if number else None
        yield Gap(
            what="another death of a llama-server", why=f"a bundle holds one: {death.words}", command=command
        )
