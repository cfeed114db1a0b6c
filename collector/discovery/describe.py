"""What one llama-server is: role and lineage, addresses, place, settings, build; by /proc and files alone.

Nothing is asked of the server, and nothing of it is run. What may not be read is named in ``problems``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Incarnation
from analyzers.privacy.redact import Redactor
from collector.discovery import settings as rules
from collector.discovery.addresses import Addresses
from collector.discovery.builds import Builds
from collector.discovery.inside import absolute
from collector.discovery.look import Look, Mark, is_interpreter, look_at
from collector.discovery.model import Found
from collector.discovery.presets import Preset, read_preset
from collector.gather.servers import Server, server_of
from collector.sources.process import model_files
from collector.sources.procfs import PROC, GoneError, Process

ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"  # set by the router in its children: server-models.cpp
MODEL_SOURCES = ("model", "hf-repo", "model-url", "docker-repo")
HOSTING = re.compile(r"xllamacpp")  # a library that only an application of others loads
MAX_SHOWN = 4096  # characters of a name or path that is kept
HIDDEN_SOCKETS = "its sockets may not be looked up: run the agent as root or as the server's user"
INIT, KERNEL = 1, 2  # never servers
LIBRARY_BYTES = 1 << 20  # a program with the whole server inside has 5 MB and more, stripped

Lineage = Callable[[int], Incarnation | None]


@dataclass(frozen=True)
class Described:
    """A server with what tells later whether it is still the same program."""

    found: Found
    mark: Mark


class Describer:
    """Looks at processes. It remembers files (``builds``), and sockets until ``addresses.forget``."""

    def __init__(self, builds: Builds | None = None) -> None:
        self.builds = builds or Builds()
        self.addresses = Addresses()

    def describe(
        self, pid: int, routers: Lineage, previous: Found | None = None, search: bool = False
    ) -> Described | None:
        """The server that ``pid`` is, None for none. ``routers`` names the incarnation of a known server.

        ``previous``: what it was described as; a child keeps its dead router as parent. ``search`` allows to
        look for the server's code in a large program of an unknown name, once per file.
        Raises GoneError, or PermissionError.
        """
        server = server_of(pid) or (self._renamed(pid) if search else None)
        if server is None:
            return None
        with Process(pid) as process:
            look = look_at(process)
        if look.incarnation != server.incarnation or look.mark.state in "ZX":
            raise GoneError(pid)
        return Described(self._found(server, look, routers, previous), look.mark)

    def _renamed(self, pid: int) -> Server | None:
        """A native server under any name, told by the symbols of its program: a stripped one is not."""
        with Process(pid) as process:
            exe = process.link("exe")
            path = PROC / str(pid) / "exe"
            with suppress(OSError):
                if os.stat(path).st_size < LIBRARY_BYTES or is_interpreter(exe):
                    return None
            if not self.builds.serves(path):
                return None
            exe = exe.removesuffix(" (deleted)")
            return Server(pid, exe, exe, False, process.incarnation())

    def _found(self, server: Server, look: Look, routers: Lineage, previous: Found | None) -> Found:
        hosted = is_hosted(server)
        env = look.env or {}
        redactor = Redactor().knowing(args=look.args, env=env)
        build = self.builds.of(server.code_path)
        own, problems = self._settings(look, env, hosted)
        parent = None if hosted else _parent(look, routers, previous)
        role = role_of(own, env, hosted=hosted, has_parent=parent is not None)
        preset, section = _preset(role, own, look, parent)
        own = rules.with_sections(own, preset, section)
        addresses, seen = self.addresses.of(server.pid, own.number("port"))
        return Found(
            incarnation=look.incarnation,
            exe=_shown(server.exe),
            role=role,
            hosted=hosted,
            parent=parent if role == "child" else None,
            model=_model(own, role),
            listening=addresses,
            place=look.place,
            settings=rules.public(own, redactor, preset if role == "router" else None),
            args=_arguments(look, redactor),
            build=build.text,
            build_id=build.build_id,
            defects=build.defects,
            **_uses(own, look, env, server.pid, hosted),  # type: ignore[arg-type]
            problems=(*look.problems, *problems, *preset.problems, *(() if seen else (HIDDEN_SOCKETS,))),
        )

    def _settings(
        self, look: Look, env: dict[str, str], hosted: bool
    ) -> tuple[rules.Effective, tuple[str, ...]]:
        """A hosted server's settings are made in its own program: nothing here tells them."""
        if hosted:
            return rules.Effective(), ()
        files, problems = [], []
        for path in rules.config_paths(env):
            with suppress(OSError):
                os.stat(PROC / f"{look.incarnation.pid}" / "root" / path.lstrip("/"))
                found = read_preset(look.incarnation.pid or 0, path)
                files.append((path, rules.of_config(found)))
                problems += [
                    problem.replace("preset file", "configuration file") for problem in found.problems
                ]
        return rules.effective(look.args[1:], env, files), tuple(problems)


def is_hosted(server: Server) -> bool:
    """Whether another program (Python) has the server's code loaded; a renamed native one is itself."""
    code = PurePosixPath(server.code).name
    return bool(HOSTING.search(code)) or (server.hosted and is_interpreter(server.exe))


def role_of(own: rules.Effective, env: dict[str, str], *, hosted: bool, has_parent: bool) -> str:
    """standalone | router | child | hosted. A server of a server is a child also where its environment
    may not be read."""
    if hosted:
        return "hosted"
    if ROUTER_PORT in env or has_parent:
        return "child"
    return "standalone" if any(own.get(name) for name in MODEL_SOURCES) else "router"


def _parent(look: Look, routers: Lineage, previous: Found | None) -> Incarnation | None:
    """The router's incarnation: the parent process when it is a server; a dead one is remembered."""
    if previous is not None and previous.parent is not None and previous.incarnation == look.incarnation:
        return previous.parent
    found = routers(look.mark.parent)
    if found is not None or look.mark.parent in (0, INIT, KERNEL) or ROUTER_PORT not in (look.env or {}):
        return found
    with suppress(GoneError, OSError):
        server = server_of(look.mark.parent)
        return server.incarnation if server is not None and not is_hosted(server) else None
    return None


def _preset(
    role: str, own: rules.Effective, look: Look, parent: Incarnation | None
) -> tuple[Preset, str | None]:
    """(the file that a router or a child's router reads, the child's section in it)."""
    pid = look.incarnation.pid
    if role == "router":
        path = own.get("models-preset")
        return (read_preset(pid, path) if path and pid else Preset()), None
    if role == "child" and parent is not None and parent.pid is not None:
        with suppress(GoneError, OSError), Process(parent.pid) as process:
            if process.incarnation() == parent:
                router = look_at(process)
                path = rules.effective(router.args[1:], router.env or {}).get("models-preset")
                found = read_preset(parent.pid, path) if path else Preset()
                return Preset(found.path, found.sections), own.get("alias")
    return Preset(), None


def _uses(own: rules.Effective, look: Look, env: dict[str, str], pid: int, hosted: bool) -> dict[str, object]:
    """What other parts of the agent ask of the settings."""
    idle = own.number("sleep-idle-seconds") if look.args else None
    log = own.get("log-file")
    files = () if hosted else model_files(list(look.args), env) or _of_config(own)
    return {
        "prefix": _shown(own.get("api-prefix") or ""),
        "tls": own.get("ssl-cert-file") is not None and own.get("ssl-key-file") is not None,
        "needs_key": own.get("api-key") is not None or own.get("api-key-file") is not None,
        "metrics": own.flag("metrics"),
        "sleep_idle_seconds": None if hosted else idle,
        "log_file": _shown(absolute(pid, log)) if log else look.log_target,
        "model_files": tuple(_shown(absolute(pid, path)) for path in files[:64]),
    }


def _of_config(own: rules.Effective) -> tuple[str, ...]:
    named = own.get("model")
    return (named,) if named else ()


def _model(own: rules.Effective, role: str) -> str | None:
    """The name a router or a client knows (the first of its aliases), else the file's own."""
    if role == "router":
        return None
    alias = (own.get("alias") or "").split(",")[0].strip()
    path = own.get("model")
    found = alias or (PurePosixPath(path).name if path else None) or own.get("hf-repo")
    return _shown(found) if found else None


def _arguments(look: Look, redactor: Redactor) -> tuple[str, ...]:
    """Redacted; when one cannot be judged, none is kept."""
    try:
        return tuple(redactor.args([word[:MAX_SHOWN] for word in look.args]))
    except Exception:  # noqa: BLE001  an argument that could not be judged must not get out
        return ()


def _shown(text: str) -> str:
    return text[:MAX_SHOWN]
