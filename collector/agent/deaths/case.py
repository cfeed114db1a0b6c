"""What is known so far of one process's end, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from collector.agent.deaths.signs import ASKED_CODES, ASKING, FAILED_RESULTS, Sign, signal_name
from collector.discovery.model import Found

MAX_SIGNS = 64  # of one death; a forger who prints a thousand abort lines gets no thousand-line incident
# A stop takes at most systemd's TimeoutStopSec (90 s by default) from the line that tells of it.
ASKED_SECONDS = 120.0
MAX_KEPT = 12  # signs that stand in the record, which is to stay under twenty kilobytes
# How sure the words are that follow: what the kernel itself set comes before what was printed.
_ORDER = ("dumping", "kernel", "ended", "exit", "core", "limit", "clean", "asked", "restart", "text")


@dataclass
class Case:
    """One incarnation whose end was seen, or which shows signs of it; times are those of its first sign."""

    incarnation: Incarnation
    found: Found | None = None
    signs: list[Sign] = field(default_factory=list)
    opened_wall: float = 0.0
    opened_mono: float = 0.0
    over_mono: float | None = None
    incident: str | None = None
    revision: int = 0
    successor: Incarnation | None = None
    judged_signs: int = 0
    judgements: int = 0
    dropped: int = 0

    def add(self, sign: Sign) -> bool:
        """Take a sign; False when it is known already or there are too many."""
        if any(sign.evidence.id == known.evidence.id for known in self.signs):
            return False
        if len(self.signs) >= MAX_SIGNS:
            self.dropped += 1
            return False
        self.signs.append(sign)
        return True

    @property
    def wall(self) -> float:
        """When it died, Unix seconds: the earliest fatal sign's time, else when the case was opened."""
        told = [sign.evidence.wall for sign in self.signs if sign.fatal and sign.evidence.wall is not None]
        return min(told, default=self.opened_wall)

    @property
    def signal(self) -> int | None:
        """The deadly signal, by the best-founded sign that names one."""
        return next((sign.signal for sign in self.ordered() if sign.signal is not None), None)

    @property
    def code(self) -> int | None:
        """The exit status, by the best-founded sign that names one."""
        return next((sign.code for sign in self.ordered() if sign.code is not None), None)

    @property
    def asked(self) -> bool:
        """A stop was asked for, on the word of the kernel or of the supervisor."""
        return any(sign.asked and sign.evidence.trust.rank <= Trust.SUPERVISOR.rank for sign in self.signs)

    @property
    def fault(self) -> bool | None:
        """True: it ended by a fault or was killed. False: as asked, or by itself with status 0. None: nothing
        says how it ended."""
        results = {sign.result for sign in self.signs}
        if results & FAILED_RESULTS:
            return True
        if any(sign.fatal and sign.what in ("dumping", "kernel", "core") for sign in self.signs):
            return True
        return self._by_status()

    @property
    def by_status_alone(self) -> bool:
        """Only the exit status makes it a fault: a stop that was asked for may end with one too."""
        if self.signal is not None or {sign.result for sign in self.signs} & FAILED_RESULTS:
            return False
        return not any(sign.fatal and sign.what in ("dumping", "kernel", "core") for sign in self.signs)

    def _by_status(self) -> bool | None:
        if self.signal is not None:
            return self.signal not in ASKING
        if self.code is not None:
            return self.code != 0 and self.code not in ASKED_CODES and not self.asked
        # Not seen: a stop that only the server's own log tells of is believed here, since nothing else says
        # more, and a fault would have left a sign of the kernel or of the supervisor.
        if self.asked or any(sign.what == "clean" or self._just_asked(sign) for sign in self.signs):
            return False
        return None

    def _just_asked(self, sign: Sign) -> bool:
        told, over = sign.evidence.mono, self.over_mono
        return sign.asked and told is not None and over is not None and 0 <= over - told < ASKED_SECONDS

    def ordered(self) -> list[Sign]:
        """The signs, best-founded first."""
        return sorted(self.signs, key=lambda sign: (_ORDER.index(sign.what), sign.evidence.wall or 0.0))

    def evidence(self) -> list[Evidence]:
        """The facts for the record."""
        return [sign.evidence for sign in self.ordered()[:MAX_KEPT]]

    def summary(self) -> str:
        """One line: which server, how it ended."""
        who = self._who()
        if not any(sign.over for sign in self.signs) and any(sign.what == "dumping" for sign in self.signs):
            return f"{who} is dying: the kernel writes its core"
        results = sorted({sign.result for sign in self.signs if sign.result in FAILED_RESULTS})
        by_supervisor = f" (its supervisor says: {', '.join(map(str, results))})" if results else ""
        if self.signal is not None:
            return f"{who} was ended by {signal_name(self.signal)}{by_supervisor}"
        if self.code is not None:
            return f"{who} ended with status {self.code}{by_supervisor}"
        return f"{who} ended{by_supervisor}; nothing says by which signal or status"

    def _who(self) -> str:
        pid = self.incarnation.pid
        if self.found is None:
            return f"process {pid}"
        place = self.found.place
        name = place.unit or place.container or self.found.model or self.found.role
        return f"{name} (process {pid})"
