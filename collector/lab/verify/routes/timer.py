"""Does a call reset the idle timer? Told by when sleep comes after a call sent late in the idle time.

The loop tests idleness when its one-second wait ends or when it is poked. So without a reset sleep comes at
the limit or up to a second after it; with one, no earlier than the limit counted from the call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from collector.lab.faults.prompts import touch
from collector.lab.reference.client import Pending
from collector.lab.reference.conditions import ENTERING
from collector.lab.reference.server import RunningServer
from collector.lab.verify.routes.shots import PATIENCE, SLEEP_DEADLINE, watch
from collector.lab.verify.routes.table import Route

IDLE_SECONDS = 2
# When the call is sent, after the last work: late enough that the two cases lie 0.65 s apart, and early
# enough to arrive before the limit on a busy machine.
SEND_AFTER = 1.65
LOOP_WAIT = 1.0
# How late a log line may arrive on a busy machine. A sleep between the two bounds is repeated, never guessed.
SLACK = 0.25
# The work before and the call itself count from when the server had them: a little before their answers.
EARLY = 0.05


@dataclass(frozen=True)
class Timed:
    """One call on an awake server. ``resets`` None: it could not be told."""

    pending: Pending
    reached: bool
    resets: bool | None
    why_not: str = ""


def time_it(server: RunningServer, route: Route) -> Timed:
    """Work, wait, call, and see when the server falls asleep."""
    worked = server.send(touch())
    before = server.transitions(ENTERING)
    time.sleep(max(0.0, worked.ended + SEND_AFTER - time.monotonic()))
    early = server.transitions(ENTERING) > before
    pending = server.begin(route.request(PATIENCE))
    watch(server, pending)
    answer = pending.answer
    server.wait_until(lambda each: each.finished or each.transitions(ENTERING) > before, SLEEP_DEADLINE)
    lines = [x for x in server.output.lines() if ENTERING in x.text and "server is" not in x.text]
    if server.finished or answer is None or answer.status is None:
        return Timed(pending, not early, None, "no answer while awake")
    if early or len(lines) <= before:
        return Timed(pending, not early, None, "slept before the call" if early else "did not sleep again")
    if answer.ended >= lines[before].mono:
        return Timed(pending, False, None, "sleep came before the answer")
    return _told(pending, lines[before].mono, worked.ended, answer.sent)


def _told(pending: Pending, slept: float, worked: float, sent: float) -> Timed:
    resets = resets_timer(slept - worked, sent - worked)
    return Timed(pending, True, resets, "" if resets is not None else "sleep came between the two bounds")


def resets_timer(slept: float, sent: float, idle: float = IDLE_SECONDS) -> bool | None:
    """``slept`` and ``sent``: seconds after the last work. None when neither case explains the moment."""
    if slept >= sent + idle - EARLY:
        return True
    return False if slept <= idle + LOOP_WAIT + SLACK else None
