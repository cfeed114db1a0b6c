"""Whether anything at all moves in a server: CPU time, page faults, lines, counters, bytes of its clients."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from collector.agent.states.model import Pulse

# The loop of an idle server wakes once a second and a probe takes an HTTP thread a millisecond: together a
# clock tick (10 ms) in some ten seconds. Two ticks within five seconds are work, 0.4 % of a core.
CPU_WINDOW_SECONDS = 5.0
CPU_MOVES_SECONDS = 0.02
# Looks further apart than this mean that the agent, or the machine, stood still: nothing was watched.
BLIND_SECONDS = 5.0
STOPPED_STATES = {"T": "stopped by a signal", "t": "stopped by a tracer"}


@dataclass
class Progress:
    """``last`` is when something moved last, and ``what`` that was; ``calm_since``: no CPU time from then on.

    ``note`` says why the process is not expected to move (stopped, traced).
    """

    last: float
    what: str = "it was first seen"
    calm_since: float | None = None
    note: str | None = None
    _pulses: deque[Pulse] = field(default_factory=deque)
    _decodes: int | None = None

    def pulse(self, pulse: Pulse) -> None:
        """Take one look. Stopped or traced time counts as no time at all."""
        before = self._pulses[-1] if self._pulses else None
        if before is not None and pulse.mono - before.mono > BLIND_SECONDS:
            self.reset(pulse.mono, "looks were not possible before")
            before = None
        self._pulses.append(pulse)
        while self._pulses[0].mono < pulse.mono - CPU_WINDOW_SECONDS and len(self._pulses) > 2:
            self._pulses.popleft()
        self.note = STOPPED_STATES.get(pulse.state) or ("traced" if pulse.tracer else None)
        if self.note is not None:
            self.moved(pulse.mono, self.note)
        self._cpu(before, pulse)

    def moved(self, at: float, what: str) -> None:
        """Something moved."""
        if at >= self.last:
            self.last, self.what = at, what

    def decodes(self, count: int, at: float) -> None:
        """llamacpp:n_decode_total of an opted-in /metrics."""
        if self._decodes is not None and count != self._decodes:
            self.moved(at, "batches were decoded")
        self._decodes = count

    def reset(self, at: float, why: str) -> None:
        """Nothing is known of the time before ``at``."""
        self._pulses.clear()
        self.last, self.what, self.calm_since = at, why, None

    def calm(self, now: float) -> float:
        """Seconds without a clock tick of CPU time; 0 when that is not known."""
        return now - self.calm_since if self.calm_since is not None else 0.0

    def _cpu(self, before: Pulse | None, pulse: Pulse) -> None:
        if before is None:
            return
        spent, faults = pulse.cpu_seconds - before.cpu_seconds, pulse.faults - before.faults
        window = pulse.cpu_seconds - self._pulses[0].cpu_seconds
        if faults > 0 or window >= CPU_MOVES_SECONDS - 1e-9:
            self.moved(pulse.mono, "page faults" if faults > 0 else "CPU time")
        if faults > 0 or spent >= CPU_MOVES_SECONDS - 1e-9:
            self.calm_since = None
        elif self.calm_since is None:
            self.calm_since = before.mono
