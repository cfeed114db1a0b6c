"""What a manager says of a unit, by its message ids; texts only where it has no id for something.

MESSAGE_ID values: systemd's sd-messages.h. Fields: systemd.journal-fields(7) and the manager's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from analyzers.contracts.facts import ExitFact
from analyzers.logs.supervisor import parse_supervisor_line
from analyzers.logs.text import decode, visible

STARTING, STARTED = "7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf"
STOPPING, STOPPED = "de5b426a63be47a7b6ac3eaac82e2f6f", "9d1aaa27d60140bd96365438aad20286"
FAILED, RESULT = "be02cf6855d2428ba40df7e9d022f03d", "d9b373ed55a64feb8242e02dbe79a49c"
SUCCESS, PROCESS_EXIT = "7ad2d189f7e94e70a38c781354912448", "98e322203f7a4ed290d09fe03c09fe15"
RESTART = "5eb03494b6584870a536b337290809b3"
_EVENTS = {STARTING: "starting", STARTED: "started", STOPPED: "stopped", FAILED: "failed"}
MAX_UNIT = 256  # bytes of a unit's name, by systemd's own rule
_SIGNALLED = ("killed", "dumped")


@dataclass(frozen=True)
class UnitFact:
    """A step of a unit's life that is no end of a process. ``event``: starting | started | stopped | failed |
    restarted (``restarts``: how often by now) | status (its own StatusText in the evidence's text)."""

    KIND: ClassVar[str] = "unit"
    event: str = "other"
    unit: str | None = None
    result: str | None = None
    restarts: int | None = None
    invocation: str | None = None

    def data(self) -> dict[str, object]:
        """The fields that are set, as Evidence.data."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def unit_of(fields: Mapping[str, bytes]) -> str | None:
    """The unit that a manager's message is about."""
    raw = fields.get("UNIT") or fields.get("USER_UNIT")
    return visible(decode(raw[:MAX_UNIT])) if raw else None


def exit_or_step(fields: Mapping[str, bytes]) -> ExitFact | UnitFact | None:
    """The fact of one message of a manager, None for what does not matter here."""
    text, id_ = decode(fields.get("MESSAGE", b"")), decode(fields.get("MESSAGE_ID", b""))
    unit = unit_of(fields)
    if id_ in _EVENTS:
        result = _word(fields.get("UNIT_RESULT")) or _word(fields.get("JOB_RESULT"))
        return UnitFact(_EVENTS[id_], unit, result, None, _word(fields.get("INVOCATION_ID")))
    if id_ == STOPPING:
        return ExitFact(by="systemd", result="stopping", requested=True, unit=unit)
    found = _process_exit(fields, unit) if id_ == PROCESS_EXIT else None
    found = found or parse_supervisor_line(text)
    if found is None and id_ == RESULT:
        result = _word(fields.get("UNIT_RESULT"))
        found = ExitFact(by="systemd", result=result, oom=result == "oom-kill", unit=unit) if result else None
    if found is None or found.by != "systemd":
        return None
    named = found.unit or unit
    return replace(found, unit=named and visible(named))


def _process_exit(fields: Mapping[str, bytes], unit: str | None) -> ExitFact | None:
    """``Main process exited``: EXIT_CODE exited | killed | dumped, EXIT_STATUS a number or a name."""
    how, status = _word(fields.get("EXIT_CODE")), _word(fields.get("EXIT_STATUS"))
    if how is None or status is None or not status.isdecimal() or len(status) > 3:
        return None
    signalled = how in _SIGNALLED
    return ExitFact(
        by="systemd",
        signal=int(status) if signalled else None,
        code=None if signalled else int(status),
        result="core-dump" if how == "dumped" else None,
        unit=unit,
    )


def _word(raw: bytes | None) -> str | None:
    return visible(decode(raw[:64])) or None if raw else None
