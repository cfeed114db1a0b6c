"""Journal entries to evidence: what the manager, the kernel, systemd-coredump and the servers say."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any
from zlib import crc32

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.journal_lives import COREDUMP_MESSAGE, MESSAGE_LINES
from analyzers.logs.kernel import parse_kernel_body
from analyzers.logs.text import decode, visible
from collector.sources.follow import journal_who as who_is
from collector.sources.follow.journal_who import Wanted, Who, fields_of
from collector.sources.follow.lines import Lines
from collector.sources.follow.quick import quick_evidence
from collector.sources.follow.seen import Seen
from collector.sources.follow.unit_facts import UnitFact, exit_or_step, unit_of

SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"  # SD_MESSAGE_JOURNAL_DROPPED
MISSED = "e9bf28e6e834481bb6f48f548ad13606"  # SD_MESSAGE_JOURNAL_MISSED: of the kernel's lines
_SUPPRESSED_TEXT = re.compile(r"Suppressed (\d{1,12}) messages from (.{1,300})")
_MISSED_TEXT = re.compile(r"Missed (\d{1,12}) kernel messages")
WHO_KEPT = 8192  # processes whose kind is remembered
MANAGER_FIELDS = (
    *("MESSAGE", "MESSAGE_ID", "UNIT", "USER_UNIT", "UNIT_RESULT", "JOB_RESULT", "INVOCATION_ID"),
    *("EXIT_CODE", "EXIT_STATUS", "_TRANSPORT"),
)
CORE_FIELDS = (
    *("MESSAGE_ID", "_UID", "_TRANSPORT", "_SYSTEMD_UNIT", "_EXE", "_COMM", "COREDUMP_PID"),
    *("COREDUMP_SIGNAL", "COREDUMP_UNIT", "COREDUMP_USER_UNIT", "COREDUMP_COMM", "COREDUMP_EXE"),
    *("COREDUMP_FILENAME", "COREDUMP_TRUNCATED", "COREDUMP_TIMESTAMP"),
)
CONTAINER_FIELDS = ("CONTAINER_ID_FULL", "CONTAINER_ID", "CONTAINER_NAME")


@dataclass
class Out:
    """What one poll collects."""

    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lost: int = 0


class Entries:
    """Takes entries, each as the current one of a C reader. ``wanted(pid, unit)`` says whose lines matter:
    a sender's, or (pid None) a unit's; a container's engine's lines are asked for as ``container/ID``."""

    def __init__(self, wanted: Wanted, kernel: bool, lines: Lines | None = None) -> None:
        self.wanted, self.kernel = wanted, kernel
        self.lines = lines or Lines()
        self.seen: dict[str, Seen] = {}
        self.forged = 0
        self.who: dict[bytes, Who] = {}
        self._boot, self._boot_text = b"", ""

    def forget(self) -> None:
        """Ask again who is wanted: servers come and go, and their numbers are used again."""
        self.who.clear()

    def boot(self, raw: bytes) -> None:
        """Entries of another boot follow: processes there are others."""
        self._boot, self._boot_text = raw, raw.hex()
        self.who.clear()

    def take(self, reader: Any, pid: bytes, wall: int, mono: int, out: Out) -> None:
        """The reader's current entry, sent by ``pid``; clocks in microseconds."""
        who = self.who.get(pid) or self.learn(reader, pid)
        kind = who.kind
        if kind == who_is.SERVER:
            self._server(reader, who, wall, mono, out)
        elif kind == who_is.ENGINE:
            self._engine(reader, wall, mono, out)
        elif kind == who_is.MANAGER:
            self._manager(reader, wall, mono, out)
        elif kind == who_is.CORES:
            self._core(reader, wall, mono, out)
        elif kind == who_is.JOURNALD:
            self._journald(reader, out)

    def learn(self, reader: Any, raw: bytes) -> Who:
        fields = fields_of(reader, who_is.WHO_FIELDS)
        pid = int(raw) if raw.isdigit() and len(raw) < 12 else 0
        unit, kind = who_is.unit_name(fields), who_is.kind_of(fields, pid)
        answer = self.wanted(pid, unit) if kind in (who_is.OTHER, who_is.CORES) and pid else None
        who = self._server_of(pid, unit, answer) if answer and kind == who_is.OTHER else Who(kind, unit)
        if len(self.who) >= WHO_KEPT:
            self.who.clear()
        self.who[raw] = who
        return who

    def _server_of(self, pid: int | None, unit: str | None, answer: Incarnation | bool) -> Who:
        incarnation, source = who_is.server(pid, unit, self._boot_text, answer)
        key = str(pid) if pid is not None else str(unit)
        seen = self.seen.get(key)
        if seen is None or not seen.incarnation.same_as(incarnation):
            seen = self.seen[key] = Seen(pid, unit, incarnation)
        carried = Incarnation(boot_id=self._boot_text)
        prefix = f"j{self._boot_text[:8]}-{incarnation.pid or crc32(key.encode()):x}-"
        return Who(who_is.SERVER, unit, incarnation, carried, source, prefix, seen)

    def _server(self, reader: Any, who: Who, wall: int, mono: int, out: Out) -> None:
        try:
            message: bytes = reader._get("MESSAGE")
        except KeyError:
            return
        seen = who.seen
        seen.lines += 1
        seen.wall_us, seen.mono_us = wall, mono
        self.message(message, who, wall, mono, out)

    def message(self, message: bytes, who: Who, wall: int, mono: int, out: Out) -> None:
        """What a server printed: one line, or (a native sender may put many into an entry) several."""
        id_ = f"{who.prefix}{mono}-{crc32(message)}"
        if b"\n" in message:
            self._many(message, id_, who, wall / 1e6, mono / 1e6, out)
            return
        made = self.lines.evidence(
            message, id_, who.source, wall / 1e6, mono / 1e6, who.incarnation, who.carried
        )
        if made is not None:
            out.evidence.append(made)
            who.seen.told += 1

    def _many(self, message: bytes, id_: str, who: Who, wall: float, mono: float, out: Out) -> None:
        for part, line in enumerate(message.split(b"\n", MESSAGE_LINES)[:MESSAGE_LINES]):
            made = self.lines.evidence(
                line, f"{id_}.{part}", who.source, wall, mono, who.incarnation, who.carried
            )
            if made is not None:
                out.evidence.append(made)
                who.seen.told += 1

    def _engine(self, reader: Any, wall: int, mono: int, out: Out) -> None:
        """A container's lines, sent by its engine: the engine's PID is not the server's."""
        fields = fields_of(reader, CONTAINER_FIELDS)
        raw = next((fields[name] for name in CONTAINER_FIELDS if name in fields), None)
        if raw is None:
            return
        name = f"container/{visible(decode(raw[:128]))}"
        answer = self.wanted(None, name)
        if answer:
            self._server(reader, self._server_of(None, name, answer), wall, mono, out)

    def _manager(self, reader: Any, wall: int, mono: int, out: Out) -> None:
        fields = fields_of(reader, MANAGER_FIELDS)
        unit = unit_of(fields)
        fact = exit_or_step(fields) if fields.get("_TRANSPORT") in (b"journal", None) else None
        if fact is None or not self.wanted(None, fact.unit or unit):
            return
        data = fact.data() if isinstance(fact, UnitFact) else _set(fact)
        run = fields.get("INVOCATION_ID") or fields.get("USER_INVOCATION_ID")
        if run is not None:
            data["invocation"] = _text(run, 64)
        out.evidence.append(
            quick_evidence(
                f"u{self._boot_text[:8]}-{mono:x}-{crc32(fields.get('MESSAGE', b'')):x}",
                fact.KIND,
                "the manager's journal",
                visible(decode(fields.get("MESSAGE", b"")).partition("\n")[0]),
                Trust.SUPERVISOR,
                wall / 1e6,
                mono / 1e6,
                None,
                Incarnation(boot_id=self._boot_text),
                data,
            )
        )

    def _core(self, reader: Any, wall: int, mono: int, out: Out) -> None:
        fields = fields_of(reader, CORE_FIELDS)
        if fields.get("MESSAGE_ID") != COREDUMP_MESSAGE.encode():
            return
        if not who_is.believed_core(fields):
            self.forged += 1
            return
        pid, signal = _number(fields.get("COREDUMP_PID")), _number(fields.get("COREDUMP_SIGNAL"))
        unit = _text(fields.get("COREDUMP_USER_UNIT") or fields.get("COREDUMP_UNIT"))
        if not (self.wanted(pid, unit) or self.wanted(None, unit)):
            return
        name, kept = _text(fields.get("COREDUMP_COMM"), 64), _text(fields.get("COREDUMP_FILENAME"), 1024)
        fact = ExitFact(by="systemd", signal=signal, result="core-dump", unit=unit, name=name)
        cut = fields.get("COREDUMP_TRUNCATED") == b"1"
        state = ", core cut" if cut else ", core kept" if kept else ", no core kept"
        data = _set(fact) | ({"core": kept} if kept else {})
        out.evidence.append(
            quick_evidence(
                f"c{self._boot_text[:8]}-{mono:x}-{pid}",
                fact.KIND,
                "systemd-coredump's record",
                f"core record: {name or 'process'} pid {pid}, signal {signal}{state}",
                Trust.SUPERVISOR,
                wall / 1e6,
                mono / 1e6,
                None,
                Incarnation(pid=pid, boot_id=self._boot_text),
                data,
            )
        )

    def _journald(self, reader: Any, out: Out) -> None:
        """journald about itself: what it left out. Only its own driver transport may say so."""
        fields = fields_of(reader, ("_TRANSPORT", "MESSAGE_ID", "MESSAGE", "N_DROPPED"))
        if fields.get("_TRANSPORT") != b"driver":
            return
        text, id_ = (
            decode(fields.get("MESSAGE", b"")[:1024]),
            fields.get("MESSAGE_ID", b"").decode("ascii", "replace"),
        )
        found = _SUPPRESSED_TEXT.fullmatch(text) if id_ == SUPPRESSED else None
        if found is not None:
            unit = visible(found[2].rpartition("/")[2])
            if self.wanted(None, unit):
                out.lost += int(found[1])
                why = f"journald's rate limit left out {found[1]} lines of {unit}"
                out.gaps.append(Gap(what=f"lines of {unit}", why=why, command=RATE_REMEDY))
        missed = _MISSED_TEXT.fullmatch(text) if id_ == MISSED and self.kernel else None
        if missed is not None:
            out.lost += int(missed[1])
            why = f"journald missed {missed[1]} of the kernel's lines"
            out.gaps.append(Gap(what="kernel lines", why=why, command="sudo dmesg --raw --kernel"))

    def take_pidless(self, reader: Any, wall: int, mono: int, out: Out) -> None:
        """An entry without a process: the kernel's, when nobody else reads those."""
        if not self.kernel:
            return
        fields = fields_of(reader, ("_TRANSPORT", "MESSAGE"))
        text = decode(fields.get("MESSAGE", b"")) if fields.get("_TRANSPORT") == b"kernel" else ""
        fact = parse_kernel_body(text) if text else None
        if fact is None:
            return
        out.evidence.append(
            to_evidence(
                fact,
                id=f"k{self._boot_text[:8]}-{mono:x}-{crc32(text.encode('utf-8', 'replace')):x}",
                source="kernel lines of the journal",
                text=visible(text),
                trust=Trust.KERNEL,
                wall=wall / 1e6,
                mono=mono / 1e6,
                incarnation=Incarnation(boot_id=self._boot_text),
            )
        )


RATE_REMEDY = "LogRateLimitIntervalSec=0 in the unit's [Service] section"


def _set(fact: ExitFact) -> dict[str, object]:
    return {name: value for name, value in asdict(fact).items() if value is not None}


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw and raw.isdigit() and len(raw) < 12 else None


def _text(raw: bytes | None, limit: int = 256) -> str | None:
    return visible(decode(raw[:limit]), limit) if raw else None
