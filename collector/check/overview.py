"""One server in one view: exposure, restart, evidence, model file, wake, reach, and the remedy of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from analyzers.contracts.evidence import Incarnation
from collector.check.doors import Doors, Listening, door_rules
from collector.check.exposure import Exposure, expose
from collector.check.host import Host
from collector.check.model import CORE, LIVE, LOG, TIME, Finding, Level, Readiness, worst_first
from collector.check.readiness import assess, scene_of
from collector.check.restart import Restart, restart_of
from collector.check.scene import Scene
from collector.check.subject import Subject, read_subject
from collector.check.supervisor import Tool, unit_name
from collector.check.told import Told, told
from collector.check.waketime import WakeTime, wake_rules, wake_time
from collector.check.weights import ModelLook, look_at_weights, model_rules
from collector.discovery.describe import Describer
from collector.discovery.look import mark_of
from collector.discovery.model import Found
from collector.gather.servers import Server
from collector.gather.tools import Ran, run
from collector.sources.procfs import GoneError, Process, read_incarnation

EVIDENCE = {"core": (CORE, TIME), "log": (LOG, LIVE)}
GOOD = {"core": "a core would be taken", "log": "nothing was found that would lose its log"}
LOOKS = 20  # one in the middle of an execution is none, and the execution takes a millisecond or two
MAX_TOLD = 4  # problems of its settings that are printed
PARENT = 1  # index into /proc/PID/stat after the name


@dataclass(frozen=True)
class View:
    """Everything the check knows of one server. ``findings``: the worst first, exposure apart."""

    exposure: Exposure
    readiness: Readiness
    role: str
    model: str | None
    restart: Restart
    weights: ModelLook
    wake: WakeTime
    doors: Doors
    settings: Told
    findings: tuple[Finding, ...]

    @property
    def pid(self) -> int:
        return self.exposure.pid

    @property
    def verdict(self) -> str:
        return self.exposure.verdict

    @property
    def broken_model(self) -> bool:
        """Whether a file that the next load opens is missing, cut or another one."""
        return bool(self.weights.broken)

    @property
    def port(self) -> int | None:
        return self.doors.addresses[0][1] if self.doors.addresses else None

    def to_json(self) -> dict[str, object]:
        return {
            **self.exposure.to_json(),
            "role": self.role,
            "model": self.model,
            "unit": self.readiness.unit,
            "container": self.readiness.container,
            "settings": self.settings.shown(),
            "restart": {"by": self.restart.by, "policy": self.restart.policy, "fires": self.restart.fires},
            "cores": {"verdict": self.readiness.verdict, "headline": self.readiness.headline},
            "model_files": [asdict(one) for one in self.weights.files],
            "wake": asdict(self.wake),
            "listening": {
                "scope": self.doors.scope,
                "addresses": self.doors.shown(),
                "key": self.doors.key,
                "tls": self.doors.tls,
            },
            "findings": [{**asdict(one), "level": one.level.value} for one in self.findings],
        }


class Overview:
    """Looks at servers one by one; what belongs to the host is asked for once."""

    def __init__(self, host: Host | None = None, tool: Tool = run) -> None:
        self._host = host or Host()
        self._tool = _remembering(tool)
        self._describer, self._listening = Describer(), Listening()

    def look(self, servers: Sequence[Server]) -> list[View]:
        """The servers that live; one that ends meanwhile is left out."""
        lives = {server.pid: server.incarnation for server in servers if not server.hosted}
        made = []
        for server in servers:
            try:
                subject = read_subject(server)
                found = self._described(server, lives)
            except GoneError:
                continue
            made.append(self._view(subject, found, len(servers)))
        return made

    def _described(self, server: Server, lives: dict[int, Incarnation]) -> Found | None:
        """None when discovery may not, or cannot, look into it. Raises GoneError when it has ended."""
        for _ in range(LOOKS):
            try:
                seen = self._describer.describe(server.pid, lives.get)
                return seen.found if seen is not None else None
            except PermissionError:
                return None
            except GoneError:
                mark = mark_of(server.pid)
                if mark is None or mark.dead or read_incarnation(server.pid) != server.incarnation:
                    raise
        return None

    def _view(self, subject: Subject, found: Found | None, servers: int) -> View:
        scene = scene_of(subject, host=self._host, servers=servers, tool=self._tool)
        exposure, settings = expose(subject, found), told(subject, found)
        sleeps = None if exposure.sleep_idle_seconds is None else exposure.sleep_idle_seconds >= 0
        role = found.role if found else "hosted" if subject.server.hosted else "standalone"
        pid = subject.server.pid
        weights = look_at_weights(pid, found.model_files if found else ())
        log = found.log_file if found and role != "router" else None
        wake = wake_time(pid, log, weights.files, weights.size) if role != "router" else _OF_ITS_MODELS
        doors = self._listening.of(pid, *_guarded(subject, found))
        restart = _restart(scene, found, role, exposure.sleep_idle_seconds)
        readiness = assess(scene)
        findings = [
            *model_rules(weights, sleeps),
            restart.finding,
            *_evidence(readiness),
            *(wake_rules(wake, sleeps) if role != "router" else ()),
            *door_rules(doors, subject.server.hosted, settings.origin("api-key") == "command-line"),
            *_problems(found),
        ]
        model = found.model if found else None
        return View(
            exposure,
            readiness,
            role,
            model,
            restart,
            weights,
            wake,
            doors,
            settings,
            tuple(worst_first(findings)),
        )


_OF_ITS_MODELS = WakeTime(None, "unknown", "a router holds no model: see its children")


def _guarded(subject: Subject, found: Found | None) -> tuple[bool | None, bool | None]:
    """(whether a key is asked for, whether it speaks TLS); None where its settings are not known."""
    if found is None or subject.server.hosted:
        return None, None
    return found.needs_key, found.tls


def _restart(scene: Scene, found: Found | None, role: str, sleep: int | None) -> Restart:
    pid = scene.subject.server.pid
    return restart_of(
        role,
        scene.unit,
        scene.container,
        pid,
        inner_pid=found.place.inner_pid if found else None,
        parent=_parent(pid),
        sleep=sleep,
        unit_named=unit_name(scene.subject.cgroup),
    )


def _parent(pid: int) -> int:
    try:
        with Process(pid) as process:
            return int(process.stat()[PARENT])
    except (GoneError, OSError, ValueError, IndexError):
        return 0


def _evidence(readiness: Readiness) -> list[Finding]:
    """One line about the core and one about the log: `check --cores` has the whole."""
    made = []
    for name, abouts in EVIDENCE.items():
        rows = worst_first([one for one in readiness.findings if one.about in abouts and one.id != "restart"])
        costly = [one for one in rows if one.level.costs]
        see = f"llama-blackbox check --cores --pid {readiness.pid}"
        if not costly:
            made.append(
                Finding(name, name, Level.OK, GOOD[name], readiness.destination if name == "core" else "")
            )
            continue
        more = f" (and {len(costly) - 1} more: {see})" if len(costly) > 1 else ""
        made.append(replace(costly[0], id=name, about=name, what=f"{costly[0].what}{more}"))
    return made


def _problems(found: Found | None) -> list[Finding]:
    lines = found.problems[:MAX_TOLD] if found else ()
    why = "a setting may be other than it is shown here"
    return [Finding("settings", "settings", Level.UNREAD, line, why) for line in lines]


def _remembering(tool: Tool) -> Tool:
    """The same question is asked once: a router's children share their unit."""
    answers: Callable[[tuple[str, ...]], Ran] = lru_cache(maxsize=256)(lambda argv: tool(argv))
    return lambda argv: answers(tuple(argv))
