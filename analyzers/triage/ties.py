"""What ties a plain log, which names no process, to a core: the user's word, as far as no port gainsays it.

A server prints where it listens, and a core holds its command line. Different ports exclude. Equal ones only
choose among processes that ran side by side in one network: a server that is restarted takes its old port
again, so that every life of it names the same one, and a gap still asks whether the log is of the one that
died. Containers have networks of their own: an equal port ties none of their logs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Gap, Process
from analyzers.triage.dying import muted
from analyzers.triage.lives import CONTAINERS, Life
from analyzers.triage.material import Material

# A number of its own in a word of a command line: "18729", "--port=18729", "127.0.0.1:18729".
NUMBER = re.compile(r"(?<![\w.])(\d{4,5})(?![\w.])", re.ASCII)
PORTS = range(1024, 65536)  # those that a server may take without root


def ties(lives: Sequence[Life], ports: Sequence[int | None]) -> tuple[dict[str, int], frozenset[str]]:
    """(evidence id -> index of the incident it is tied to, ids of lines of other servers).

    ``ports`` are those the incidents' processes listened on, None where that is not known.
    """
    tied: dict[str, int] = {}
    for life in lives:
        at = [n for n, port in enumerate(ports) if port is not None and port == life.listens]
        if len(at) == 1 and life.form not in CONTAINERS:
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
    loose = bool(material.lives) and all(nameless(life) for life in material.lives)
    if len(processes) == 1 and processes[0].pid is not None and material.process.pid is None and loose:
        return [by_word(_named(material), processes[0], material.lives)]
    return []


def unlike(process: Process, life: Life) -> bool:
    """True when the life listened on a port that no word of the process's command line names, though one is
    a port number: a program that hosts the server takes it by an option or place of its own."""
    if process.port is not None or life.listens is None or not nameless(life):
        return False
    numbers = {int(number) for word in process.args[1:] for number in NUMBER.findall(word)}
    return any(number in PORTS for number in numbers) and life.listens not in numbers


def disowned(items: Sequence[Evidence], process: Process, lives: Sequence[Life]) -> list[Evidence]:
    """The items with the sleep lines of lives that are ``unlike`` the process as a client's text."""
    ids = frozenset[str]().union(*(life.ids for life in lives if unlike(process, life)))
    return [muted(item) if item.id in ids else item for item in items]


def folder_of(source: str) -> str:
    """The folder in an input's name or a fact's source ("DIR/core: thread 7"), "" where it names none.

    Inputs have names with their folder where that is given, or needed to tell two of them apart.
    """
    return source.partition(": ")[0].rpartition("/")[0]


def nameless(life: Life) -> bool:
    """True when neither its lines nor a journal name its process."""
    return life.pid is None and life.carrier is None


def _foreign(material: Material, processes: Sequence[Process]) -> Gap:
    printed = sorted({life.listens for life in material.lives if life.listens is not None})
    ports = ", ".join(str(port) for port in printed)
    known = ", ".join(str(process.port) for process in processes)
    why = f"it was printed by a server on port {ports}, and the core's listened on port {known}; not counted"
    return Gap(what=f"a log of the core's own process (not {_named(material)})", why=why, command=COMMAND)


def by_word(name: str, process: Process, lives: Sequence[Life]) -> Gap:
    """That only the user says that a log is of the process in the core, and what speaks for or against it."""
    why = f"its lines name no process, and nothing ties them to PID {process.pid} but "
    other = next((life.listens for life in lives if unlike(process, life)), None)
    if other is not None:
        why += (
            f"that both were given together, and the core's command line does not name port {other}; so no "
        )
        why += "sleep line of it counts"
    elif process.port is not None and any(life.listens == process.port for life in lives):
        why += f"port {process.port}, which every life of a restarted server takes again"
    else:
        why += "that both were given together"
    return Gap(what=f"whether {name} is the log of the process in the core", why=why, command=COMMAND)


COMMAND = "journalctl _PID=PID -o export > server.export"


def _named(material: Material) -> str:
    return (
        material.inputs[0].name
        if material.inputs
        else next((life.name for life in material.lives), "the log")
    )
