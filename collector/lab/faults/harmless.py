"""Ends and lives without a fault: a planned stop, a kill from outside, and many sleeps in good health."""

from __future__ import annotations

from collector.lab.faults.prompts import count_tokens, touch
from collector.lab.faults.provoked import HEALTHY, STOPPED, Expected, Provoked, Stage, closed
from collector.lab.reference.conditions import asleep

PLANNED = Expected("NO-FAULT", ("unknown", "supervisor"), ("stopping", "unknown", "awake"))
KILLED = Expected("KILLED", ("host", "unknown", "supervisor"), ("awake", "unknown"))
SLEEPER = Expected("NO-FAULT", ("unknown", "supervisor"), ("stopping", "unknown", "awake", "asleep"))
IDLE_SECONDS = 1
CYCLES = 3
SLEEP_DEADLINE = 10.0


def stop(stage: Stage) -> Provoked:
    """SIGTERM to a server that has worked: it cleans up and ends itself with status 0."""
    server = stage.start()
    answer = server.send(touch())
    ending = server.terminate()
    orderly = ending is not None and ending.code == 0
    return closed("sigterm", PLANNED, server, STOPPED, happened=orderly, answers=(answer,))


def kill(stage: Stage) -> Provoked:
    """SIGKILL from elsewhere, as an impatient operator or an out-of-memory daemon sends it."""
    server = stage.start()
    answer = server.send(touch())
    ending = server.kill()
    killed = ending is not None and ending.signal == 9
    return closed("sigkill", KILLED, server, STOPPED, happened=killed, answers=(answer,))


def sleeper(stage: Stage, cycles: int = CYCLES) -> Provoked:
    """``cycles`` sleeps, each followed by a completion that wakes the server and a token count, then a
    planned stop. All answers must be alike: that is what health means here."""
    server = stage.start(idle_seconds=IDLE_SECONDS)
    answers = [server.send(count_tokens())]
    slept = True
    for cycle in range(cycles):
        slept = server.wait_until(asleep, SLEEP_DEADLINE) and slept
        answers += [server.send(touch()), server.send(count_tokens())]
        stage.say(f"sleep {cycle + 1} of {cycles}: woken and answered")
    server.terminate()
    counts = {answer.body for answer in answers if answer.route == count_tokens().route}
    healthy = slept and len(counts) == 1 and all(answer.status == 200 for answer in answers)
    return closed("many-sleeps", SLEEPER, server, HEALTHY, happened=healthy, answers=tuple(answers))
