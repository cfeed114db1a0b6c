"""``coredumpctl info`` and ``coredumpctl list``: systemd's record of a core, with or without its stacks.

Each record of a llama-server is a death. Beside other evidence the newest is read, and a gap names the
others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, StackFact, to_evidence
from analyzers.contracts.report import Gap, Process
from analyzers.logs.text import visible
from analyzers.triage.material import Material
from analyzers.triage.readers.bounded import small_lines
from analyzers.triage.readers.deaths import MAX_DEATHS, OneOfSeveral
from analyzers.triage.readers.stamps import wall_seconds

NextId = Callable[[], str]
STORE = "coredump-store"  # `by` of an end told by systemd-coredump: it says nothing of who ran the server
MAX_RECORDS = 2000

_START = re.compile(r"^\s{1,12}PID: (?P<pid>\d{1,10})(?: \((?P<name>.{1,64}?)\))?\s*$")
_ROW = re.compile(r"^\s{1,20}(?P<key>[A-Z][A-Za-z ]{1,24}): (?P<value>.{0,2000})$")
_LIST_HEAD = re.compile(r"^TIME\s+PID\s+UID\s+GID\s+SIG\s")
_LIST = re.compile(
    r"^(?P<time>\S{1,12} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S{1,10})\s+(?P<pid>\d{1,10})\s+\d+\s+\d+\s+"
    r"(?P<signal>[A-Z0-9]{2,8}|\d{1,2})\s+(?P<core>\S{1,16})\s+(?P<exe>\S{1,1024})"
)
_SERVER = re.compile(r"llama|xllamacpp|python", re.IGNORECASE)


@dataclass(frozen=True)
class Record:
    """One record: first and last line (counting from 1), and what its rows say."""

    first: int
    last: int
    pid: int
    name: str | None = None
    signal: int | None = None
    exe: str | None = None
    unit: str | None = None
    boot_id: str | None = None
    wall: float | None = None
    storage: str | None = None

    @property
    def server(self) -> bool:
        return any(_SERVER.search(text) for text in (self.name or "", self.exe or "", self.unit or ""))


def core_record_material(path: Path, name: str, next_id: NextId) -> Material:
    """The newest record of a server and its stacks, with a gap that names the others. Raises OSError."""
    *_, last = core_record_materials(path, name, next_id)
    return last.whole or last if isinstance(last, OneOfSeveral) else last


def core_record_materials(path: Path, name: str, next_id: NextId) -> list[Material]:
    """A material for each record of a server, then what is left to say; one alone for one. Raises OSError."""
    lines = small_lines(path)
    found = records(lines)
    if not found:
        return [Material(gaps=(Gap(what=f"a core record in {name}", why="it has no rows that can be read"),))]
    ours = [record for record in found if record.server] or found
    kept = ours[-MAX_DEATHS:]
    read = [_read(record, lines, name, next_id) for record in kept]
    chosen = newest(kept)
    gaps = [gap for gap in (_others(found, chosen, name),) if gap is not None]
    whole = read[kept.index(chosen)]
    whole = replace(whole, gaps=(*whole.gaps, *gaps))
    if len(read) == 1:
        return [whole]
    deaths = [
        OneOfSeveral(
            evidence=one.evidence,
            gaps=one.gaps,
            process=Process(pid=record.pid, boot_id=record.boot_id, exe=record.exe),
            anchor=True,
            whole=whole,
        )
        for record, one in zip(kept, read, strict=True)
    ]
    return [*deaths, OneOfSeveral(gaps=tuple(_left(found, kept, name)), whole=whole)]


def _read(record: Record, lines: Sequence[str], name: str, next_id: NextId) -> Material:
    who = Incarnation(pid=record.pid, boot_id=record.boot_id)
    stacks = _stacks(lines[record.first - 1 : record.last], name, next_id, who)
    gap = _storage(record, name)
    return replace(
        stacks,
        evidence=(*stacks.evidence, _end(record, name, next_id)),
        gaps=(*stacks.gaps, *([gap] if gap is not None else [])),
    )


def _left(found: Sequence[Record], kept: Sequence[Record], name: str) -> Iterator[Gap]:
    others = [record for record in found if record not in kept]
    if others:
        pids = ", ".join(str(record.pid) for record in others)[:200]
        why = "they are of other programs" if len(kept) < MAX_DEATHS else f"the last {MAX_DEATHS} were read"
        yield Gap(what=f"{len(others)} more core records in {name} (PID {pids})", why=why)


def records(lines: Sequence[str]) -> list[Record]:
    """Every record, of either form."""
    head = next((line for line in lines if line.strip()), "")
    if _LIST_HEAD.match(head):
        rows = ((number, _LIST.match(line)) for number, line in enumerate(lines, 1))
        return [_listed(number, match) for number, match in rows if match is not None][:MAX_RECORDS]
    starts = [at for at, line in enumerate(lines) if _START.match(line)][:MAX_RECORDS]
    ends = [*starts, len(lines)][1:]
    return [_informed(lines, start, end) for start, end in zip(starts, ends, strict=True)]


def newest(found: Sequence[Record]) -> Record:
    """By their stamps where all have one, else the last: coredumpctl prints the oldest first."""
    if all(record.wall is not None for record in found):
        return max(found, key=lambda record: record.wall or 0.0)
    return found[-1]


def _listed(number: int, match: re.Match[str]) -> Record:
    exe = match["exe"]
    return Record(
        number,
        number,
        int(match["pid"]),
        signal=_signal(match["signal"]),
        exe=exe,
        name=exe.rpartition("/")[2],
        wall=wall_seconds(match["time"]),
        storage=match["core"],
    )


def _informed(lines: Sequence[str], start: int, end: int) -> Record:
    head = _START.match(lines[start])
    assert head is not None  # noqa: S101 - that is how start was found
    rows: dict[str, str] = {}
    for line in lines[start + 1 : end]:
        match = _ROW.match(line)
        if match is not None:
            rows.setdefault(match["key"], match["value"].strip())
        if match is not None and match["key"] == "Message":
            break
    boot = rows.get("Boot ID", "").replace("-", "")
    return Record(
        first=start + 1,
        last=end,
        pid=int(head["pid"]),
        name=head["name"],
        signal=_signal(rows.get("Signal", "").partition(" ")[0]),
        exe=rows.get("Executable"),
        unit=rows.get("Unit") or rows.get("User Unit"),
        boot_id=boot if re.fullmatch(r"[0-9a-f]{32}", boot) else None,
        wall=wall_seconds(rows.get("Timestamp", "").partition("(")[0]),
        storage=rows.get("Storage"),
    )


def _signal(text: str) -> int | None:
    import signal

    if text.isdecimal() and len(text) < 3:
        return int(text)
    known = signal.Signals.__members__.get(text if text.startswith("SIG") else f"SIG{text}")
    return int(known) if known is not None else None


def _stacks(lines: Sequence[str], name: str, next_id: NextId, who: Incarnation) -> Material:
    from analyzers.triage.from_text import text_material
    from analyzers.triage.traces import looks_like_trace

    text = "\n".join(lines).encode("utf-8", "replace")
    if not looks_like_trace(text):
        return Material()
    with NamedTemporaryFile(prefix="llama-blackbox-", suffix=".part") as copy:
        copy.write(text)
        copy.flush()
        found = text_material(Path(copy.name), name, "stack-trace", next_id)
    kept = (item for item in found.evidence if item.kind == StackFact.KIND)
    return Material(
        evidence=tuple(item.model_copy(update={"incarnation": who}) for item in kept), gaps=found.gaps
    )


def _end(record: Record, name: str, next_id: NextId) -> Evidence:
    ran = record.unit is not None and record.unit.endswith(".service") and not _engine(record.unit)
    fact = ExitFact(
        by="systemd" if ran else STORE,
        signal=record.signal,
        result="core-dump",
        unit=visible(record.unit) if record.unit else None,
        name=visible(record.name, 64) if record.name else None,
    )
    text = f"core record: {record.name or 'process'} pid {record.pid}, signal {record.signal}"
    return to_evidence(
        fact,
        id=next_id(),
        source=f"{name}:{record.first}",
        text=visible(text),
        trust=Trust.SUPERVISOR,
        wall=record.wall,
        incarnation=Incarnation(pid=record.pid, boot_id=record.boot_id),
    )


def _engine(unit: str) -> bool:
    return unit.startswith(("docker", "containerd", "podman", "kubelet", "crio"))


def _others(found: Sequence[Record], chosen: Record, name: str) -> Gap | None:
    if len(found) < 2:
        return None
    pids = ", ".join(str(record.pid) for record in found if record is not chosen)[:200]
    return Gap(
        what=f"{len(found) - 1} more core records in {name} (PID {pids})",
        why=f"each is another death; the newest of a server, PID {chosen.pid}, was read",
        command="coredumpctl info PID > record.txt, one file for each",
    )


def _storage(record: Record, name: str) -> Gap | None:
    told = record.storage or ""
    for word, why in (("missing", "it was removed"), ("none", "none was kept"), ("truncated", "it is cut")):
        if word in told:
            return Gap(what=f"the core of PID {record.pid}", why=f"{name} says that {why}")
    return None
