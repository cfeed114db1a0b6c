"""``systemctl status`` and ``systemctl show``: how systemd says that a unit's main process ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.logs.text import visible
from analyzers.triage.material import Material
from analyzers.triage.readers.bounded import small_lines
from analyzers.triage.readers.stamps import wall_seconds

NextId = Callable[[], str]
CODES = {"1": "exited", "2": "killed", "3": "dumped"}  # CLD_EXITED, CLD_KILLED, CLD_DUMPED of waitid(2)
OVER = ("failed", "inactive", "activating", "deactivating")
MAX_UNITS = 64

_HEAD = re.compile(
    r"^\s{0,4}(?:[●○×↻*x•] )?(?P<unit>[\w@:.\\-]{1,255}\.(?:service|scope))(?: - .{0,400})?\s*$"
)
_ACTIVE = re.compile(
    r"^\s+Active: (?P<state>[a-z-]{1,20})(?: \([^)]{0,60}\))?(?: \(Result: (?P<result>[a-z-]{1,40})\))?"
    r"(?: since (?P<since>[^;]{1,60}))?"
)
_RESULT = re.compile(r"\(Result: (?P<result>[a-z-]{1,40})\)")
_MAIN = re.compile(
    r"^\s+(?:Main PID|Process): (?P<pid>\d{1,10}) (?:\([^)]{1,64}\)|ExecStart=.{0,4000}?)?\s*"
    r"\(?code=(?P<code>exited|killed|dumped), (?:status|signal)=(?P<status>[\w/-]{1,24})\)"
)
_KEY = re.compile(r"^(?P<key>[A-Z][A-Za-z0-9]{1,60})=(?P<value>.{0,400})")


@dataclass(frozen=True)
class Told:
    """What was said of one unit; ``status`` is a number or a signal's name, ``line`` where it stands."""

    line: int
    unit: str | None = None
    state: str | None = None
    result: str | None = None
    pid: int | None = None
    code: str | None = None
    status: str | None = None
    wall: float | None = None
    mono: float | None = None


def units_material(path: Path, name: str, next_id: NextId) -> Material:
    """The end of each unit that has ended, and the log lines that status shows. Raises OSError."""
    lines = small_lines(path)
    shown = any(_HEAD.match(line) for line in lines[:64])
    told = list(_of_status(lines) if shown else _of_show(lines))[:MAX_UNITS]
    found = tuple(e for one in told if (e := _evidence(one, name, next_id)) is not None)
    log = _log_part(lines, name, next_id) if shown else Material()
    gaps = [] if found or log.evidence else [_alive(name)]
    return replace(log, evidence=(*log.evidence, *found), gaps=(*log.gaps, *gaps))


def _of_status(lines: list[str]) -> Iterator[Told]:
    now: Told | None = None
    for number, line in enumerate(lines, 1):
        head = _HEAD.match(line)
        if head is not None:
            if now is not None:
                yield now
            now = Told(number, unit=head["unit"])
        elif now is not None:
            now = _status_row(now, line, number)
    if now is not None:
        yield now


def _status_row(now: Told, line: str, number: int) -> Told:
    active = _ACTIVE.match(line)
    if active is not None and now.state is None:
        result = _RESULT.search(line)
        since = wall_seconds(active["since"]) if active["since"] else None
        return replace(now, state=active["state"], result=result["result"] if result else None, wall=since)
    main = _MAIN.match(line)
    if main is None or (now.code is not None and not line.lstrip().startswith("Main PID")):
        return now
    return replace(now, line=number, pid=int(main["pid"]), code=main["code"], status=main["status"])


def _of_show(lines: list[str]) -> Iterator[Told]:
    keys: dict[str, str] = {}
    first = 1
    for number, line in enumerate([*lines, ""], 1):
        match = _KEY.match(line)
        if match is not None:
            keys.setdefault(match["key"], match["value"])
        elif not line.strip() and keys:
            yield _shown(keys, first)
            keys, first = {}, number + 1


def _shown(keys: dict[str, str], line: int) -> Told:
    mono = keys.get("ExecMainExitTimestampMonotonic", "")
    pid = keys.get("ExecMainPID", "")
    return Told(
        line,
        unit=visible(keys.get("Id", "")) or None,
        state=keys.get("ActiveState"),
        result=keys.get("Result"),
        pid=int(pid) if pid.isdecimal() and pid != "0" and len(pid) < 11 else None,
        code=CODES.get(keys.get("ExecMainCode", "")),
        status=keys.get("ExecMainStatus"),
        wall=wall_seconds(keys.get("ExecMainExitTimestamp", "")),
        mono=int(mono) / 1e6 if mono.isdecimal() and 1 < len(mono) < 18 else None,
    )


def _evidence(told: Told, name: str, next_id: NextId) -> Evidence | None:
    """None for a unit that runs: an end that status shows then is another command's."""
    if told.state in (None, "active", "reloading") or (
        told.code is None and told.result in (None, "success")
    ):
        return None
    number, code = _numbers(told)
    result = "core-dump" if told.code == "dumped" and told.result in (None, "success") else told.result
    fact = ExitFact(
        by="systemd",
        signal=number,
        code=code,
        result=result,
        oom=result == "oom-kill",
        unit=told.unit,
    )
    said = f"code={told.code}, status={told.status}" if told.code else "its end is not told"
    return to_evidence(
        fact,
        id=next_id(),
        source=f"{name}:{told.line}",
        text=visible(f"{told.unit or 'the unit'}: {told.state}, result {told.result}, {said}"),
        trust=Trust.SUPERVISOR,
        wall=told.wall,
        mono=told.mono,
        incarnation=Incarnation(pid=told.pid),
    )


def _numbers(told: Told) -> tuple[int | None, int | None]:
    """(signal, exit code). ``11``, ``SEGV``, ``11/SEGV`` and ``1/FAILURE`` all occur."""
    head, _, tail = (told.status or "").partition("/")
    number = int(head) if head.isdecimal() and len(head) < 4 else None
    if told.code == "exited":
        return None, number
    if number is None:
        known = signal.Signals.__members__.get(f"SIG{tail or head}")
        number = int(known) if known is not None else None
    return (number, None) if told.code else (None, None)


def _log_part(lines: list[str], name: str, next_id: NextId) -> Material:
    """The journal lines below a status, read as the journal text they are; nothing where there are none."""
    from analyzers.triage.from_text import text_material

    blank = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    if not any(line.strip() for line in lines[blank:]):
        return Material()
    # The lines above stay as empty ones, so that a source names the right line.
    kept = [line if at > blank and not _HEAD.match(line) else "" for at, line in enumerate(lines)]
    with NamedTemporaryFile(prefix="llama-blackbox-", suffix=".part") as copy:
        copy.write("\n".join(kept).encode("utf-8", "replace"))
        copy.flush()
        found = text_material(Path(copy.name), name, "journal-text", next_id)
    return replace(found, gaps=tuple(gap for gap in found.gaps if not gap.what.startswith("anything")))


def _alive(name: str) -> Gap:
    return Gap(
        what=f"an end in {name}",
        why="systemd shows the unit running, or not how it ended; a restart replaces what it knew",
        command="journalctl -u UNIT -o export > server.export",
    )
