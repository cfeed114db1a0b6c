"""Install: what would be changed, and the changing, in an order that can be undone from every point.

The state is on the disk before the first change. A killed installation is undone by ``remove``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analyzers.errors import UserError
from collector.capture.crash.request import core_pattern
from collector.capture.crash.settings import written
from collector.capture.setup import code, state
from collector.capture.setup.kernel import DUMPABLE, LIMIT, NAMES, PATTERN, PIPE, SOCKET, WATCH, alone
from collector.capture.setup.layout import SOCKET as SOCKET_PATH
from collector.capture.setup.layout import Layout
from collector.capture.setup.safe import demand_safe, sync_folder, write_synced
from collector.capture.setup.sysctlfile import others, text_of
from collector.capture.setup.undo import recover

# With 0 the kernel forgets /proc/PID before a handler has read it; with a limit, crashes beyond it get no
# handler at all. 4 to 16 was enough in every measurement but for hundreds that crash at once.
PIPE_LIMIT, MOST_LIMIT = 16, 4096


@dataclass(frozen=True)
class Wanted:
    """What was asked for. ``names``: more file names of servers; ``pipe_limit``: for the pipe shape."""

    shape: str = PIPE
    mode: str = "minimal"
    names: tuple[str, ...] = ()
    python: str | None = None
    persist: bool = True
    pipe_limit: int = PIPE_LIMIT
    socket: str = SOCKET_PATH


@dataclass(frozen=True)
class Plan:
    """All that installing means here. ``sysctls``: name → new value, only of those that change."""

    layout: Layout
    wanted: Wanted
    python: str
    before: dict[str, str]
    sysctls: dict[str, str]

    def lines(self) -> Iterator[str]:
        """Each change in words, before it is made."""
        layout = self.layout
        yield f"copy the crash path to {layout.prefix}/crash and /coresocket (root's, run by {self.python})"
        yield f"write {layout.settings}: mode {self.wanted.mode}, captures in {layout.store}"
        yield f"write {layout.previous}: {self.before[PATTERN]!r}, where crashes of other programs go"
        yield f"keep the present settings in {layout.state}"
        for name, value in self.sysctls.items():
            yield f"set {name}: {self.before[name]!r} -> {value!r}"
        if self.wanted.persist and self.sysctls:
            yield f"write {layout.sysctl_file}, so that it holds after a reboot"
        yield from self.warnings()

    def warnings(self) -> Iterator[str]:
        """What stays as it is, and what it means."""
        previous = self.before[PATTERN]
        yield f"leave {DUMPABLE} at {self.before[DUMPABLE]}: programs that changed their rights dump as now"
        if previous.startswith("@") and self.wanted.shape != WATCH:
            yield "note: the present core_pattern is a socket: other programs' crashes cannot be passed to it"
        if self.wanted.shape == SOCKET:
            yield "note: while the server does not run the kernel writes no core at all, of any program"
        if self.wanted.shape == WATCH and previous[:1] in ("|", "@", ""):
            yield "note: the present core_pattern leaves no plain core files; there is nothing to watch"
        for other in others(self.layout.sysctls, self.layout.sysctl_file.name) if self.sysctls else ():
            yield f"note: {other.words}"


def plan(layout: Layout, wanted: Wanted) -> Plan:
    """Looks, changes nothing. Raises UserError where it cannot be installed."""
    demand_root()
    before = layout.kernel.settings()
    _demand_absent(layout, before)
    if not 1 <= wanted.pipe_limit <= MOST_LIMIT:
        raise UserError(
            "no number of handlers",
            where=f"--pipe-limit {wanted.pipe_limit}",
            remedy=f"give 1 to {MOST_LIMIT}",
        )
    for path, what in ((layout.prefix, "--prefix"), (layout.store, "--store")):
        if not path.is_absolute() or len(os.fspath(path).split()) != 1:
            raise UserError("not an absolute path without blanks", where=f"{what} {path}", remedy="give one")
        demand_safe(path, f"{what} {path}")
    python = code.choose_python(wanted.python)
    sysctls = {
        name: value for name, value in _sysctls(layout, wanted, python).items() if before[name] != value
    }
    return Plan(layout, wanted, python, before, sysctls)


def demand_root() -> None:
    """Raises UserError for everybody else."""
    if os.geteuid() != 0:
        raise UserError(
            "only root may change how the kernel handles cores", where="capture", remedy="run it with sudo"
        )


def _demand_absent(layout: Layout, before: dict[str, str]) -> None:
    found = state.load(layout.state)
    if found is not None:
        what = "installed already" if found.phase == state.INSTALLED else f"half-done ({found.phase})"
        remedy = f"first run: llama-blackbox capture remove{prefix_words(layout)}"
        raise UserError(what, where=str(layout.prefix), remedy=remedy)
    if " -ISB /" in before[PATTERN] and "/crash/__main__.py " in before[PATTERN]:
        place = before[PATTERN].split()[2].removesuffix("/crash/__main__.py")
        remedy = f"first run: llama-blackbox capture remove --prefix {place}"
        raise UserError("core_pattern is another installation's", where=place, remedy=remedy)


def prefix_words(layout: Layout) -> str:
    """The option that names this installation; empty for the default place."""
    from collector.capture.setup.layout import PREFIX

    return "" if layout.prefix == PREFIX else f" --prefix {layout.prefix}"


def _sysctls(layout: Layout, wanted: Wanted, python: str) -> dict[str, str]:
    if wanted.shape == WATCH:
        return {}
    if wanted.shape == SOCKET:
        return {PATTERN: layout.kernel.socket_pattern(wanted.socket)}
    try:
        line = core_pattern(python, str(layout.main))
    except ValueError as problem:
        raise UserError(
            str(problem), where=str(layout.prefix), remedy="choose a shorter --prefix or --python"
        ) from None
    return {LIMIT: str(wanted.pipe_limit), PATTERN: line}  # the limit first: the handler needs it


def apply(made: Plan) -> None:
    """Make the changes. A failure on the way undoes them and is raised; a kill is left to ``remove``.

    Raises UserError as well when another one is at work, or has changed what the plan was made for.
    """
    with alone(made.layout.kernel):
        now = made.layout.kernel.settings()
        _demand_absent(made.layout, now)
        if now != made.before:
            remedy = "look at it, then run it again"
            raise UserError("the settings have changed meanwhile", where="capture install", remedy=remedy)
        _apply(made)


def _apply(made: Plan) -> None:
    layout, wanted = made.layout, made.wanted
    layout.prefix.mkdir(mode=0o755, parents=True, exist_ok=True)
    sync_folder(layout.prefix.parent)
    now = _state_of(made)
    try:
        state.save(layout.state, now)
        code.put(layout, made.python)
        store_mode = written(wanted.mode, str(layout.store), wanted.names)
        write_synced(layout.settings, store_mode)
        write_synced(layout.previous, made.before[PATTERN] + "\n")
        for name, value in made.sysctls.items():
            layout.kernel.write(name, value)
        if now.persist is not None:
            write_synced(Path(now.persist), text_of(made.sysctls))
        state.save(layout.state, now.moved(state.INSTALLED))
    except (OSError, UserError) as problem:
        recover(layout, now)
        if isinstance(problem, UserError):
            raise
        what = f"{(problem.strerror or 'error').lower()}; everything was put back"
        raise UserError(
            what, where=str(problem.filename or layout.prefix), remedy="mend that, then again"
        ) from None


def next_step(made: Plan) -> str:
    """What is left to do after installing."""
    words = prefix_words(made.layout)
    if made.wanted.shape == SOCKET:
        return (
            f"; now start the server: systemctl enable --now llama-blackbox-capture, or: capture serve{words}"
        )
    if made.wanted.shape == WATCH:
        return "; now start: systemctl enable --now llama-blackbox-capture-watch, or: capture watch DIR"
    return f"; look at it with: llama-blackbox capture status{words}"


def _state_of(made: Plan) -> state.State:
    layout, wanted = made.layout, made.wanted
    return state.State(
        phase=state.INSTALLING,
        shape=wanted.shape,
        mode=wanted.mode,
        store=str(layout.store),
        before={name: made.before[name] for name in made.sysctls},
        left=dict(made.sysctls),
        seen={name: made.before[name] for name in NAMES},
        persist=str(layout.sysctl_file) if wanted.persist and made.sysctls else None,
        socket=wanted.socket if wanted.shape == SOCKET else None,
        at=time.time(),
    )
