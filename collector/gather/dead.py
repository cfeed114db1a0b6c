"""Everything this host still knows about one death."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from analyzers.contracts.evidence import Incarnation
from analyzers.contracts.facts import StackFact, fact_of
from analyzers.contracts.report import Process
from analyzers.errors import UserError
from analyzers.logs.entries import Entry
from analyzers.privacy.redact import Redactor
from collector.gather import logs, machine, units
from collector.gather.deaths import SESSIONS, Death, Places
from collector.gather.foreign import ADMINISTRATOR, ANYBODY
from collector.gather.haul import Haul
from collector.gather.journal import Journal
from collector.gather.kernellines import export_of_server_or_machine, of_server_or_machine
from collector.gather.settings import add_preset, missing_settings, settings_evidence
from collector.gather.slim import core_file, slim_or_gap
from collector.gather.tools import quoted
from collector.sources.kernel import as_dmesg, read_kernel_lines
from collector.sources.modelfile import look_at_model
from collector.sources.process import model_files
from collector.sources.procfs import boot_id

# Seconds. The manager's words on the start may come before the process's first; the end of an earlier life, a
# restart delay before (100 ms by default), must not get in where no run's name keeps it out.
BEFORE_LIFE, AFTER_DEATH = 0.05, 120.0
LIFE_UNKNOWN = 3600.0  # seconds before the death that are taken where nothing tells when the life began
KERNEL_BEFORE = 600.0  # GPU and storage trouble comes before a death, not hours before
FIRST_ENTRY = 1 << 16


def gather_death(places: Places, death: Death, folder: Path, *, private: bool = False) -> Haul:
    """The haul of one death; ``folder`` is private and temporary. Raises nothing for what cannot be had."""
    haul = Haul(process=Process(pid=death.pid, boot_id=death.boot_id))
    machine.machine(haul)
    _core(haul, death, folder, private)
    first = first_entry(places.journal, death)
    unit = _unit(haul, death, first)
    _journal(haul, places.journal, death, first, unit)
    _kernel(haul, places, death)
    _settings(haul, death, unit)
    if unit is not None:
        haul.facts(units.exit_evidence(unit, death.pid) if death.pid is not None else [])
        haul.context("unit.txt", unit.text(haul.redactor))
        _log_files(haul, unit)
    return haul


def _core(haul: Haul, death: Death, folder: Path, private: bool) -> None:
    """Notes, stacks and build of the core; the core itself stays where it is."""
    if death.core is None:
        command = (
            f"sudo coredumpctl dump {death.pid} -o core" if death.record else "sysctl kernel.core_pattern"
        )
        why = (
            "its record names none that is still there" if death.record else "none was found for this process"
        )
        haul.gap("the core", why, command)
        return
    try:
        haul.core = core_file(death.core, folder)
    except UserError as problem:
        haul.gap("the core", problem.what, problem.remedy)
        return
    material, gaps = slim_or_gap(haul.core, None if private else Redactor(), death.exe, death.symbols)
    haul.missed((*gaps, *material.gaps))
    haul.facts(material.evidence)
    haul.redactor = haul.redactor.knowing(values=material.secrets)
    if material.process.pid is not None or material.process.exe is not None:
        haul.process = material.process.model_copy(update={"boot_id": death.boot_id})
    if not material.evidence:
        haul.core = None


def first_entry(journal: Journal, death: Death) -> Entry | None:
    """The first thing the process said in the journal: it tells unit and the beginning of its life."""
    if death.pid is None:
        return None
    boot = death.boot_id.replace("-", "") if death.boot_id else None
    cut = journal.slice([f"_PID={death.pid}"], until=death.wall + 1, boot=boot, head_only=FIRST_ENTRY)
    return next(iter(cut.entries()), None)


def _unit(haul: Haul, death: Death, first: Entry | None) -> units.Unit | None:
    said = first.text("_SYSTEMD_UNIT") or first.text("_SYSTEMD_USER_UNIT") if first is not None else None
    name = death.unit or said
    if name is None or name.startswith(SESSIONS) or name.endswith(".scope"):
        return None
    unit, gaps = units.read_unit(name)
    haul.missed(gaps)
    return unit


def _journal(
    haul: Haul, journal: Journal, death: Death, first: Entry | None, unit: units.Unit | None
) -> None:
    began = (first.number_of("__REALTIME_TIMESTAMP") or 0) / 1e6 if first is not None else 0.0
    since = (began or death.wall - LIFE_UNKNOWN) - BEFORE_LIFE
    boot = death.boot_id.replace("-", "") if death.boot_id else None
    invocation = first.text("_SYSTEMD_INVOCATION_ID") if first is not None and unit is not None else None
    matches = list(matches_of(unit.name if unit else death.unit, death.pid, invocation))
    if not matches:
        return
    cut = journal.slice(matches, since=since, until=death.wall + AFTER_DEATH, boot=boot)
    haul.missed(cut.gaps)
    if cut.data:
        haul.add("journal.export", cut.data, "journal-export")
    elif not cut.gaps:
        why = "the journal has nothing of this process; its output may go to a file or a container engine"
        haul.gap("the server's log", why, "docker logs NAME > server.log")


def matches_of(unit: str | None, pid: int | None, invocation: str | None) -> Iterator[str]:
    """journalctl's matches for everything about one life: the process's words, and the manager's about it.

    systemd names each run of a unit; where that name is not known, the unit's stands in for it, and the lives
    before and after this one are in as well.
    """
    fields = []
    if invocation is not None:
        fields += [f"{name}={invocation}" for name in ("_SYSTEMD_INVOCATION_ID", "INVOCATION_ID")]
        fields += [f"USER_INVOCATION_ID={invocation}"]
    elif unit is not None:
        fields += [
            f"{name}={unit}" for name in ("_SYSTEMD_UNIT", "UNIT", "OBJECT_SYSTEMD_UNIT", "COREDUMP_UNIT")
        ]
        fields += [f"{name}={unit}" for name in ("_SYSTEMD_USER_UNIT", "USER_UNIT", "COREDUMP_USER_UNIT")]
    if pid is not None:
        fields += [f"{name}={pid}" for name in ("_PID", "COREDUMP_PID", "OBJECT_PID")]
    for at, field in enumerate(fields):
        if at:
            yield "+"
        yield field


def _kernel(haul: Haul, places: Places, death: Death) -> None:
    """The kernel's lines around the death: the journal's, which name the boot, else the ring's."""
    boot = death.boot_id.replace("-", "") if death.boot_id else None
    since, until = death.wall - KERNEL_BEFORE, death.wall + AFTER_DEATH
    cut = places.journal.slice(["_TRANSPORT=kernel"], since=since, until=until, boot=boot)
    threads = {stack.tid for item in haul.evidence if (stack := fact_of(item, StackFact)) is not None}
    tids = frozenset(tid for tid in (death.tid, death.pid, *threads) if tid is not None)
    # A PID alone is no reason to leave out a line: the number in it is the thread's.
    known = threads or death.tid is not None
    if cut.data:
        data = export_of_server_or_machine(cut.data, tids) if known else cut.data
        if data:
            haul.add("kernel.export", data, "journal-export")
        return
    add_kernel_ring(haul, places, death.wall, boot, tids if known else None)


def add_kernel_ring(
    haul: Haul, places: Places, wall: float, boot: str | None = None, tids: frozenset[int] | None = None
) -> None:
    """Lines of the kernel's ring around a moment of this boot; with ``tids``, none of other processes."""
    here = (boot_id() or "").replace("-", "")
    if not places.kernel or (boot is not None and boot != here):
        haul.gap(
            "kernel lines", "that boot is over, and the journal keeps none of it", "journalctl -k -b BOOT"
        )
        return
    offset = time.time() - time.monotonic()
    read = read_kernel_lines(wall - KERNEL_BEFORE - offset)
    haul.missed(read.gaps)
    lines = [line for line in read.lines if line.mono + offset <= wall + AFTER_DEATH]
    if tids is not None:
        lines = list(of_server_or_machine(lines, tids))
    if lines:
        haul.add("kernel.txt", as_dmesg(tuple(lines)).encode(), "kernel-log")


def _settings(haul: Haul, death: Death, unit: units.Unit | None) -> None:
    """As the unit says now, which may have changed since; else as the core's notes say."""
    env = unit.environment if unit else {}
    args = list(unit.args) if unit and unit.args else list(haul.process.args)
    haul.knows(args, env)
    if not args:
        haul.missed([missing_settings(death.pid)])
        return
    source = f"systemctl show {unit.name} (as it is now)" if unit and unit.args else "the core's notes"
    who = Incarnation(pid=death.pid, boot_id=death.boot_id)
    haul.facts([settings_evidence(args, env, haul.redactor, source, who)])
    told = unit is not None and bool(unit.args)  # by its administrator; else by the dead process itself
    add_preset(haul, args, env, ADMINISTRATOR if told else ANYBODY, cwd=unit.folder if unit else None)
    root = unit.folder if unit and unit.folder else Path("/")
    files = [str(root / path) for path in model_files(args, env)]
    # Context only: the file may have come or gone since the death.
    rows = (
        f"{file.path}: {file.state}, {file.size} bytes, changed {file.mtime}\n"
        for file in look_at_model(files)
    )
    haul.context("model-files-now.txt", "".join(rows))


def _log_files(haul: Haul, unit: units.Unit) -> None:
    for number, path in enumerate(unit.log_files):
        data = logs.bounded(path)
        if data is None:
            haul.gap(
                "the server's log file",
                "it may not be read, or is gone",
                f"sudo cat {quoted(path)} > server.log",
            )
        else:
            haul.add(f"server-{number}.log" if number else "server.log", data)
