"""What ties a plain log, which names no process, to a core: the port that both name, or the user's word.

A server prints where it listens, and a core holds its command line. Two servers of one host cannot listen on
one port at the same time, so equal ports tie and different ones exclude.
"""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.contracts.report import Gap, Process
from analyzers.triage.lives import Life
from analyzers.triage.material import Material


def ties(lives: Sequence[Life], ports: Sequence[int | None]) -> tuple[dict[str, int], frozenset[str]]:
    """(evidence id -> index of the incident it is tied to, ids of lines of other servers).

    ``ports`` are those the incidents' processes listened on, None where that is not known.
    """
    tied: dict[str, int] = {}
    for life in lives:
        at = [n for n, port in enumerate(ports) if port is not None and port == life.listens]
        if len(at) == 1:
            tied.update(dict.fromkeys(life.ids, at[0]))
    if tied or None in ports:
        return tied, frozenset()
    telling = [life for life in lives if life.listens is not None and life.pid is None]
    if len(telling) < len(lives) or not lives:
        return tied, frozenset()
    return tied, frozenset().union(*(life.ids for life in lives))


def tie_gaps(
    material: Material, processes: Sequence[Process], tied: dict[str, int], foreign: frozenset[str]
) -> list[Gap]:
    """Gaps about a log that is another server's, or that only stands beside a core."""
    if foreign:
        return [_foreign(material, processes)]
    loose = bool(material.lives) and not tied and all(_nameless(life) for life in material.lives)
    if len(processes) == 1 and processes[0].pid is not None and material.process.pid is None and loose:
        return [_by_word(material, processes[0])]
    return []


def _nameless(life: Life) -> bool:
    return life.pid is None and life.carrier is None


def _foreign(material: Material, processes: Sequence[Process]) -> Gap:
    printed = sorted({life.listens for life in material.lives if life.listens is not None})
    ports = ", ".join(str(port) for port in printed)
    known = ", ".join(str(process.port) for process in processes)
    why = f"it was printed by a server on port {ports}, and the core's listened on port {known}; not counted"
    return Gap(what=f"a log of the core's own process (not {_named(material)})", why=why, command=COMMAND)


def _by_word(material: Material, process: Process) -> Gap:
    why = (
        f"its lines name no process, and nothing ties them to PID {process.pid} but that both were given "
        "together"
    )
    return Gap(
        what=f"whether {_named(material)} is the log of the process in the core", why=why, command=COMMAND
    )


COMMAND = "journalctl _PID=PID -o export > server.export"


def _named(material: Material) -> str:
    return (
        material.inputs[0].name
        if material.inputs
        else next((life.name for life in material.lives), "the log")
    )
