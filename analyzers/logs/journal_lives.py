"""Journal entries to lives: the incarnation is what journald says (_PID and _BOOT_ID), not the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.entries import Entry
from analyzers.logs.keep import Keeper
from analyzers.logs.kernel import parse_kernel_body
from analyzers.logs.lives import Lives, Origin
from analyzers.logs.reading import Reading
from analyzers.logs.shapes import Shapes
from analyzers.logs.supervisor import parse_supervisor_line
from analyzers.logs.text import decode, visible

COREDUMP_MESSAGE = "fc2e22bc6ee647b6b90729ab34a250b1"  # systemd-coredump's MESSAGE_ID of a core record
MESSAGE_LINES = 1000  # lines of one message that are read; a native sender may put many into one

_SYSTEM_FOLDERS = ("/usr/lib/", "/lib/", "/usr/libexec/")
_CONTAINER_ENGINES = frozenset({"dockerd", "conmon", "containerd-shim", "podman"})


@dataclass
class JournalLives:
    """Feeds entries into lives and collects kernel lines, supervisor lines and core records."""

    name: str
    lives: Lives = field(init=False)
    shapes: Shapes = field(default_factory=lambda: Shapes(None))
    trusted: Keeper[Evidence] = field(default_factory=Keeper)
    entries: int = 0
    size: int = 0
    damaged: int = 0
    forged: int = 0
    forged_kernel: int = 0
    cut: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        self.lives = Lives(self.name, None)

    def feed(self, entry: Entry) -> None:
        """Take one entry; its kind follows from the trusted fields alone."""
        self.entries = entry.number
        self.size = max(self.size, entry.size)
        self.damaged += entry.damaged
        self.cut += "MESSAGE" in entry.cut
        if entry.text("MESSAGE_ID") == COREDUMP_MESSAGE or "COREDUMP_PID" in entry.fields:
            self._core_record(entry)
        elif entry.text("_TRANSPORT") == "kernel":
            self._kernel(entry)
        elif is_systemd(entry):
            self._systemd(entry)
        else:
            self._message(entry)

    def _message(self, entry: Entry) -> None:
        origin = origin_of(entry)
        for line in entry.fields.get("MESSAGE", b"").split(b"\n", MESSAGE_LINES)[:MESSAGE_LINES]:
            label = self.shapes.label(line)
            if label:
                self.lives.feed(entry.number, line, label, origin)

    def _kernel(self, entry: Entry) -> None:
        fact = parse_kernel_body(decode(entry.fields.get("MESSAGE", b"")))
        if fact is not None:
            self._keep(
                entry,
                fact,
                decode(entry.fields["MESSAGE"]),
                Trust.KERNEL,
                Incarnation(boot_id=entry.text("_BOOT_ID")),
            )

    def _systemd(self, entry: Entry) -> None:
        text = decode(entry.fields.get("MESSAGE", b""))
        fact = parse_supervisor_line(text)
        if fact is not None:
            unit = fact.unit or entry.text("UNIT")
            who = Incarnation(boot_id=entry.text("_BOOT_ID"))
            self._keep(
                entry,
                replace(fact, unit=unit and visible(unit)),
                text.partition("\n")[0],
                Trust.SUPERVISOR,
                who,
            )

    def _core_record(self, entry: Entry) -> None:
        if not is_core_record(entry):
            self.forged += 1
            return
        signal, pid = entry.number_of("COREDUMP_SIGNAL"), entry.number_of("COREDUMP_PID")
        unit = entry.text("COREDUMP_UNIT") or entry.text("COREDUMP_USER_UNIT")
        name = entry.text("COREDUMP_COMM")
        fact = ExitFact(
            by="systemd",
            signal=signal,
            result="core-dump",
            unit=unit and visible(unit),
            name=name and visible(name, 64),
        )
        text = f"core record: {name or 'process'} pid {pid}, signal {signal}{_core_state(entry)}"
        self._keep(entry, fact, text, Trust.SUPERVISOR, Incarnation(pid=pid, boot_id=entry.text("_BOOT_ID")))

    def _keep(
        self, entry: Entry, fact: ExitFact | KernelFact, text: str, trust: Trust, who: Incarnation
    ) -> None:
        source = f"{self.name}:{entry.number}"
        wall, mono = clocks(entry)
        self.trusted.add(
            to_evidence(
                fact,
                id=source,
                source=source,
                text=visible(text),
                trust=trust,
                wall=wall,
                mono=mono,
                incarnation=who,
            )
        )

    def finish(self, kind: str) -> Reading:
        """The reading of all entries fed so far."""
        lives, printed = self.lives.finish()
        # The transport tells who speaks: a kernel's line in a process's output is that process's words.
        outside = tuple(_no_shell(item) for item in printed if item.kind != KernelFact.KIND)
        self.forged_kernel = len(printed) - len(outside)
        self.skipped = sum(life.skipped for life in lives)
        around = tuple(sorted((*self.trusted.items, *outside), key=_entry_number))
        everything = sorted((*around, *(e for life in lives for e in life.evidence)), key=_entry_number)
        return Reading(
            name=self.name,
            kind=kind,
            evidence=tuple(everything),
            lives=lives,
            outside=around,
            gaps=tuple(self._gaps()),
            lines=self.entries,
            bytes=self.size,
            era=next((life.era for life in reversed(lives) if life.era), None),
            form="journal",
            process_starts=self.lives.starts,
            counts=dict(self.lives.counts),
        )

    def _gaps(self) -> Iterator[Gap]:
        if self.forged:
            why = f"{self.name}: {self.forged} core records not written by systemd-coredump were left out"
            yield Gap(what="core records", why=why)
        if self.forged_kernel:
            told = f"{self.forged_kernel} lines in the kernel's words, but not from it, were left out"
            why = f"{self.name}: {told}"
            yield Gap(what="kernel lines", why=why, command="journalctl -k -o export > kernel.export")
        if self.damaged:
            why = f"{self.name}: {self.damaged} entries are damaged"
            yield Gap(what="some journal entries", why=why, command="journalctl --verify")
        if self.cut:
            why = f"{self.name}: {self.cut} messages were longer than the export or this reader keeps"
            yield Gap(what="ends of long messages", why=why, command="journalctl --all -o export")
        if self.trusted.skipped:
            why = f"{self.name}: {self.trusted.skipped} kernel or supervisor lines were counted, not kept"
            yield Gap(what="kernel and supervisor lines in the middle", why=why)
        skipped = self.skipped
        if skipped or self.lives.dropped:
            why = (
                f"{self.name}: {skipped} telling lines and {self.lives.dropped} lives were counted, not kept"
            )
            yield Gap(what="events in the middle", why=why)


def _no_shell(item: Evidence) -> Evidence:
    """A shell's word in a journal is some process's output; how a unit ended systemd says itself."""
    return item.model_copy(update={"trust": Trust.CLIENT}) if item.data.get("by") == "shell" else item


def _entry_number(item: Evidence) -> int:
    return int(item.source.rpartition(":")[2])


def _core_state(entry: Entry) -> str:
    if entry.text("COREDUMP_TRUNCATED") == "1":
        return ", core cut"
    kept = "COREDUMP_FILENAME" in entry.fields or "COREDUMP" in entry.cut
    return ", core kept" if kept else ", no core kept"


def clocks(entry: Entry) -> tuple[float | None, float | None]:
    """Unix seconds and seconds since boot of an entry; journald's own stamps."""
    wall, mono = entry.number_of("__REALTIME_TIMESTAMP"), entry.number_of("__MONOTONIC_TIMESTAMP")
    return (None if wall is None else wall / 1e6), (None if mono is None else mono / 1e6)


def origin_of(entry: Entry) -> Origin:
    """Process and unit of a message. A container engine's own PID is not the server's: then None."""
    wall, mono = clocks(entry)
    boot = entry.text("_BOOT_ID")
    container = entry.text("CONTAINER_NAME") or entry.text("CONTAINER_ID")
    if container and entry.text("_COMM") in _CONTAINER_ENGINES:
        return Origin(visible(container, 100), None, boot, wall, mono)
    stream = entry.text("_SYSTEMD_UNIT") or entry.text("_SYSTEMD_USER_UNIT") or entry.text("_COMM") or ""
    return Origin(visible(stream, 100), entry.number_of("_PID"), boot, wall, mono)


def is_systemd(entry: Entry) -> bool:
    """True for a line of the system's own manager: PID 1, root, through the journal's socket."""
    return (
        entry.text("_PID") == "1" and entry.text("_UID") == "0" and entry.text("_COMM") in ("systemd", "init")
    )


def is_core_record(entry: Entry) -> bool:
    """True for a record systemd-coredump wrote itself; any user can send such fields (see journal.py)."""
    if entry.text("_UID") != "0" or entry.text("_TRANSPORT") not in ("journal", None):
        return False
    unit = entry.text("_SYSTEMD_UNIT") or ""
    if unit.startswith("systemd-coredump@") and unit.endswith(".service"):
        return True
    exe = entry.text("_EXE") or ""
    return entry.text("_COMM") == "systemd-coredum" and exe.startswith(_SYSTEM_FOLDERS)
