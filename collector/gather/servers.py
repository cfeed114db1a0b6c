"""Which processes are llama-servers: by their program, or by the server's library that they have mapped.

A name alone (comm, argv) is whatever its owner chose; nothing is looked into on its word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from analyzers.contracts.evidence import Incarnation
from analyzers.errors import UserError
from collector.sources.procfs import PROC, GoneError, Process

PROGRAM = re.compile(r"llama[-_.]?server")  # llama-server, llama-server-cuda, ollama_llama_server
UNIFIED = re.compile(r"llama(?:-app)?$")  # one program of many verbs: a server when it is told to serve
SERVING = ("serve", "server")
# Files that hold the server's code where the program is another one.
LIBRARY = re.compile(r"libllama-server[\w.-]*\.so|xllamacpp[\w.-]*\.so")
OLD_PROGRAM = "server"  # its name until June 2024, and in forks: only beside llama.cpp's own libraries
OLD_LIBRARY = re.compile(r"lib(?:llama|ggml)[\w.-]*\.so")
DELETED = " (deleted)"
SUDO = "run it with sudo, or as the user the server runs as"
HIDDEN_FROM_ROOT = (
    "root here may not look into it: it belongs to another user namespace, or to the kernel",
    "run it outside the container or sandbox, with CAP_SYS_PTRACE",
)
MAX_SERVERS = 1000


@dataclass(frozen=True)
class Server:
    """One living llama-server. ``code``: the file with the server's code, as the process sees it; ``hosted``:
    another program (Python) has it mapped."""

    pid: int
    exe: str
    code: str
    hosted: bool
    incarnation: Incarnation

    @property
    def code_path(self) -> Path:
        """Where this host can read ``code``: through the process's own root, deleted programs included."""
        if not self.hosted and self.code == self.exe:
            return PROC / str(self.pid) / "exe"
        return PROC / str(self.pid) / "root" / self.code.lstrip("/")


def server_of(pid: int) -> Server | None:
    """The server that ``pid`` is; None when it is none. Raises GoneError, or PermissionError."""
    with Process(pid) as process:
        exe = process.link("exe").removesuffix(DELETED)
        mapped = _mapped(process.read("maps"))
        words = process.read("cmdline").split(b"\0")
        code = _code(exe, mapped, [word.decode("utf-8", "replace") for word in words[:2]])
        if code is None:
            return None
        return Server(pid, exe, code, code != exe and _hosts(exe), process.incarnation())


def _code(exe: str, mapped: set[str], words: list[str]) -> str | None:
    library = next((path for path in sorted(mapped) if LIBRARY.search(PurePosixPath(path).name)), None)
    name = PurePosixPath(exe).name
    if library is not None:
        return library
    if PROGRAM.search(name) or (UNIFIED.match(name) and words[1:2] and words[1] in SERVING):
        return exe
    old = name == OLD_PROGRAM and any(OLD_LIBRARY.match(PurePosixPath(path).name) for path in mapped)
    return exe if old else None


def _hosts(exe: str) -> bool:
    return "llama" not in PurePosixPath(exe).name


def _mapped(maps: bytes) -> set[str]:
    """Paths of the mapped files. A server maps some sixty."""
    rows = (line.split(None, 5) for line in maps.decode("utf-8", "surrogateescape").splitlines())
    return {row[5].removesuffix(DELETED) for row in rows if len(row) == 6 and row[5].startswith("/")}


def demand_server(pid: int) -> Server:
    """The server that ``pid`` is. Raises UserError when it is none, is gone, or may not be looked at."""
    where = f"--pid {pid}"
    try:
        server = server_of(pid)
    except GoneError:
        raise UserError("there is no such process", where=where, remedy="see pgrep -a llama-server") from None
    except PermissionError:
        what, remedy = _hidden()
        raise UserError(what, where=where, remedy=remedy) from None
    if server is None:
        what = "not a llama-server: neither its program nor a file it has mapped is one"
        raise UserError(what, where=where, remedy="see pgrep -a llama-server")
    return server


def _hidden() -> tuple[str, str]:
    """Why a process may not be looked into, and the remedy."""
    if os.geteuid() == 0:
        return HIDDEN_FROM_ROOT
    return "another user's process, which may not be looked into", SUDO


def servers() -> list[Server]:
    """Every llama-server that this user may see, the lowest PID first; never this process itself."""
    return list(_seen(sorted(int(name) for name in os.listdir(PROC) if name.isdigit())))[:MAX_SERVERS]


def servers_among(pids: list[int]) -> list[Server]:
    """The servers among these processes."""
    return list(_seen(pids))


def _seen(pids: list[int]) -> Iterator[Server]:
    for pid in pids:
        if pid == os.getpid():
            continue
        with suppress(GoneError, PermissionError):
            server = server_of(pid)
            if server is not None:
                yield server
