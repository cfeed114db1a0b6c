"""What the person on call asks for: a unit, a process, a time, a boot. Checked before any tool sees it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime

from analyzers.errors import UserError

_UNIT = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]{0,254}")
_SUFFIX = re.compile(r"\.(?:service|scope|slice|socket|timer)$")
_BOOT = re.compile(r"-?\d{1,4}|[0-9a-f]{32}")
_AGO = re.compile(r"-?(\d{1,9}(?:\.\d{1,3})?) ?(s|sec|m|min|h|d|w)(?: ago)?")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
MAX_PID = 1 << 22  # PID_MAX_LIMIT of 64-bit kernels


@dataclass(frozen=True)
class Wanted:
    """What to look for; everything left out fits. ``since`` is Unix seconds, ``boot`` as journalctl takes
    it: an id of 32 digits, or an offset (0 this boot, -1 the one before)."""

    unit: str | None = None
    pid: int | None = None
    since: float | None = None
    boot: str | None = None

    @property
    def anything(self) -> bool:
        """True when nothing was named."""
        return self == Wanted()

    @property
    def words(self) -> str:
        """How it was asked for, for a sentence."""
        named = (
            ("unit", self.unit),
            ("PID", self.pid),
            ("since", self.since and datetime.fromtimestamp(self.since).isoformat(" ", "seconds")),
            ("boot", self.boot),
        )
        return ", ".join(f"{name} {value}" for name, value in named if value is not None) or "any"


def wanted(
    unit: str | None = None, pid: int | None = None, since: str | None = None, boot: str | None = None
) -> Wanted:
    """The selection that options name. Raises UserError for a value that cannot be one."""
    return Wanted(
        unit=None if unit is None else unit_name(unit),
        pid=None if pid is None else _pid(pid),
        since=None if since is None else since_time(since),
        boot=None if boot is None else _boot(boot),
    )


def unit_name(text: str) -> str:
    """``llama`` is ``llama.service``. Raises UserError for what no unit is called."""
    if _UNIT.fullmatch(text) is None:
        raise UserError("not a unit's name", where=f"--unit {text[:60]!r}", remedy="see systemctl list-units")
    return text if _SUFFIX.search(text) else f"{text}.service"


def since_time(text: str, now: float | None = None) -> float:
    """Unix seconds of ``2h``, ``30 min ago``, ``@1764650000`` or ``2026-12-01 10:00`` (local time).

    Raises UserError for anything else.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return (time.time() if now is None else now) - float(ago[1]) * _SECONDS[ago[2]]
    if re.fullmatch(r"@\d{1,11}(?:\.\d{1,6})?", text):
        return float(text[1:])
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        remedy = "give 30m, 2h, 1d, '2026-12-01 10:00' or @UNIXSECONDS"
        raise UserError("not a time", where=f"--since {text[:60]!r}", remedy=remedy) from None


def _pid(number: int) -> int:
    if not 0 < number <= MAX_PID:
        raise UserError("not a process id", where=f"--pid {number}", remedy="give a number above 0")
    return number


def _boot(text: str) -> str:
    plain = text.strip().lower().replace("-", "") if len(text) > 8 else text.strip()
    if _BOOT.fullmatch(plain) is None:
        remedy = "give 0, -1 or an id of journalctl --list-boots"
        raise UserError("not a boot", where=f"--boot {text[:60]!r}", remedy=remedy)
    return plain
