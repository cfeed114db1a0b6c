"""What a living server is and was told, without a probe and without stopping anything."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice

from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Recognised
from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import MarkFact, ModelFileFact, to_evidence
from analyzers.contracts.report import Model, Process
from analyzers.core.buildid import build_id_of_file
from analyzers.core.marks import find_names
from analyzers.errors import UserError
from collector.gather import logs, machine, units
from collector.gather.dead import add_kernel_ring, matches_of
from collector.gather.deaths import SESSIONS, Places
from collector.gather.foreign import folders_of, owner_of
from collector.gather.haul import Haul
from collector.gather.servers import Server
from collector.gather.settings import add_preset
from collector.sources.looks import look
from collector.sources.modelfile import look_at_model
from collector.sources.process import ProcessView, read_process, to_settings_evidence
from collector.sources.procfs import GoneError
from collector.sources.procfs import Process as LiveProcess

BEFORE_LIFE = 0.05  # seconds: start times have a resolution of 10 ms
LOG_COMMANDS = {
    "pipe": "docker logs NAME > server.log",
    "socket": "journalctl -u UNIT -o export > server.export",
}


@dataclass(frozen=True)
class Known:
    """What is known of the process besides the haul. ``build`` where it has one number, ``first`` and
    ``last`` the range it must lie in; ``args`` raw, for use on the host only."""

    build: int | None = None
    first: int | None = None
    last: int | None = None
    args: tuple[str, ...] = field(default=(), repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    model_paths: tuple[str, ...] = ()


def identify(haul: Haul, places: Places, server: Server, *, private: bool = False) -> Known:
    """Settings, build, log and model files of one server, into ``haul``."""
    args, env = _start(haul, server)
    haul.knows(args, env)
    view = read_process(server.pid, list if private else haul.redactor.args)
    unit = unit_of(haul, server)
    log = _logs(haul, places, server, unit)
    found, build_id = _build(haul, server, log)
    haul.process = _process(server, view, found, build_id)
    if view is not None:
        haul.facts([to_settings_evidence(view)])
    add_preset(haul, args, env, owner_of(server.pid), *folders_of(server.pid))
    paths = view.model_files if view is not None else ()
    _model_files(haul, server, paths)
    return Known(found.build, found.first, found.last, tuple(args), env, paths)


def surroundings(haul: Haul, server: Server) -> None:
    """The machine and what /proc says of the process, for people."""
    machine.machine(haul)
    machine.process_context(haul, server.pid)


def passive_look(haul: Haul, server: Server) -> None:
    """One look at /proc: nothing is stopped, asked or woken."""
    seen = look(server.pid)
    if seen is not None:
        haul.facts([seen])
    haul.gap(
        "whether it hangs",
        "one look from outside cannot tell; two with its stacks and probes can",
        f"llama-blackbox collect --live --pid {server.pid} -o live.tar.zst",
    )


def _start(haul: Haul, server: Server) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables as they are."""
    try:
        with LiveProcess(server.pid) as process:
            args = _words(process.read("cmdline"))
            pairs = (word.partition("=") for word in _words(process.read("environ")))
            return args, {name: value for name, equals, value in pairs if equals}
    except GoneError:
        return [], {}
    except PermissionError:
        haul.gap("its environment", "another user's process", f"sudo cat /proc/{server.pid}/environ")
        return [], {}


def _words(data: bytes) -> list[str]:
    return [word.decode("utf-8", "replace") for word in data.split(b"\0") if word]


def unit_of(haul: Haul, server: Server) -> units.Unit | None:
    """The unit whose cgroup it is in; None in a session, a container or without systemd."""
    try:
        with LiveProcess(server.pid) as process:
            groups = process.read("cgroup").decode("utf-8", "replace")
    except (GoneError, PermissionError):
        return None
    path = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")
    name = next((part for part in reversed(path.split("/")) if part.endswith(".service")), None)
    if name is None or name.startswith(SESSIONS):
        return None
    unit, gaps = units.read_unit(name)
    haul.missed(gaps)
    if unit.loaded:
        haul.knows(unit.args, unit.environment)
        haul.context("unit.txt", unit.text(haul.redactor))
        return unit
    return None


def _logs(haul: Haul, places: Places, server: Server, unit: units.Unit | None) -> bytes:
    """The server's own words, from a file it writes or from the journal. Gives the text's beginning."""
    data, kind = logs.open_log(server.pid)
    if data:
        haul.add("server.log", data)
        add_kernel_ring(haul, places, time.time(), tids=_threads(server))
        return data
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - (server.incarnation.start_time or 0.0)
    since = time.time() - age - BEFORE_LIFE
    run = unit.properties.get("InvocationID") if unit is not None else None
    # The unit's own name would bring an earlier life's end in, whose record may come after our start.
    matches = list(matches_of(None, server.pid, run or None))
    cut = places.journal.slice(matches, since=since)
    haul.missed(cut.gaps)
    add_kernel_ring(haul, places, time.time(), tids=_threads(server))
    if cut.data:
        haul.add("journal.export", cut.data, "journal-export")
        return b"\n".join(entry.fields.get("MESSAGE", b"") for entry in islice(cut.entries(), 500))
    why = f"its output goes to a {kind}, whose past cannot be read"
    if kind.startswith("/"):
        why = f"the file that its output goes to ({kind}) is empty, or no file that may be read"
    haul.gap("the server's log", why, LOG_COMMANDS.get(kind, "the terminal it runs in"))
    return b""


def _threads(server: Server) -> frozenset[int]:
    try:
        with LiveProcess(server.pid) as process:
            return frozenset(int(name) for name in process.names("task"))
    except (GoneError, PermissionError):
        return frozenset({server.pid})


def _build(haul: Haul, server: Server, log: bytes) -> tuple[Recognised, str | None]:
    """Which build its code is, by what the file itself shows; a number in its log comes last."""
    known = known_defects()
    text = logs.build_in(log)
    said = f"b{text}" if text else None
    try:
        build_id = build_id_of_file(server.code_path)
        names = find_names(server.code_path, known.every_sign())
    except UserError as problem:
        haul.gap("which build it is", problem.what, f"sudo eu-readelf -n /proc/{server.pid}/exe")
        return known.recognise(None, (), said), None
    found = known.recognise(build_id, names, said)
    marks = [pair for pair in map(known.mark, names) if pair is not None]
    defects = {(defect.id, mark.affected) for defect, mark in marks}
    defect, affected = defects.pop() if len(defects) == 1 else (None, None)
    mark = "known-build-id" if found.wheel is not None else " ".join(("symbol-names", *names))
    fact = MarkFact(
        mark=mark,
        defect=defect,
        affected=affected,
        build=f"b{found.build}" if found.wheel is not None else None,
        build_id=build_id,
    )
    if found.wheel is not None or names:
        haul.facts(
            [
                to_evidence(
                    fact,
                    id=f"build-{server.pid}",
                    source=f"/proc/{server.pid}/exe: build-id and names",
                    text=f"the server's code is {found}",
                    trust=Trust.KERNEL,
                    incarnation=server.incarnation,
                )
            ]
        )
    return found, build_id


def _process(server: Server, view: ProcessView | None, found: Recognised, build_id: str | None) -> Process:
    settings = view.settings if view is not None else None
    return Process(
        pid=server.pid,
        start_time=server.incarnation.start_time,
        boot_id=server.incarnation.boot_id,
        exe=server.exe,
        build=f"b{found.build}" if found.build else None,
        build_id=build_id,
        args=list(view.args) if view is not None else [],
        role=settings.role if settings else None,
        model=Model(path=view.model_files[0] if view is not None and view.model_files else None),
    )


def _model_files(haul: Haul, server: Server, paths: tuple[str, ...]) -> None:
    for number, fact in enumerate(look_at_model(list(paths), pid=server.pid)):
        haul.facts([_model_evidence(fact, number, server)])


def _model_evidence(fact: ModelFileFact, number: int, server: Server) -> Evidence:
    return to_evidence(
        fact,
        id=f"model-file-{number}-{server.pid}",
        source="a look at the model file",
        text=f"{fact.path}: {fact.state}, {fact.size} bytes",
        trust=Trust.KERNEL,
        wall=time.time(),
        mono=time.monotonic(),
        incarnation=server.incarnation,
    )
