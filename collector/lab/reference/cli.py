"""`llama-blackbox reference`: a server in the foreground with stamped log lines, and the native builds."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from analyzers.errors import EXIT_FAILED, EXIT_OK, UserError
from collector.lab.native import commands
from collector.lab.native.build import prepare_build
from collector.lab.reference.environments import UNLOAD_VERSION, prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.output import Line, printable
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.program import demand_program
from collector.lab.verify.subject import demanded_model

LOOK_SECONDS = 0.2  # how often finished lines are looked for
NEVER = -1
ASKED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGKILL,
)  # which come from outside
LONGEST_IDLE = 2_147_483  # seconds: the server keeps milliseconds in an int, which overflows beyond
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def reference() -> None:
    """Reference servers: real llama-servers on a tiny model, from wheels or compiled from source."""


app.command("build", short_help="compile a llama-server, or find it in the cache")(commands.build)
app.command("list", short_help="what the cache holds, and the fixes there are")(commands.list_)
app.command("clean", short_help="remove parts of the cache")(commands.clean)
app.command("diff", short_help="what a fix changes, as a unified diff")(commands.diff)


@app.command(short_help="one server in the foreground, its log with times")
def run(
    version: Annotated[
        str | None, typer.Option(help=f"xllamacpp version to run; {UNLOAD_VERSION} by default")
    ] = None,
    server_bin: Annotated[
        Path | None, typer.Option("--server-bin", help="a native llama-server instead")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="a GGUF file instead of the generated one")] = None,
    idle: Annotated[int, typer.Option(help="sleep after so many idle seconds; -1 never")] = NEVER,
    port: Annotated[int | None, typer.Option(help="a loopback port; a free one by default")] = None,
    poisoned: Annotated[bool, typer.Option("--poisoned", help="fill freed memory")] = False,
    build: commands.Build = None,
    fix: commands.Fix = None,
    asan: commands.Asan = False,
    source: commands.Source = None,
) -> int:
    """Start one server, print its log with times of arrival, and take it down on Ctrl-C.

    Exit status: 0 after Ctrl-C, 1 when the server ends before that, by itself or by somebody's signal.
    """
    _demand_idle(idle)
    console = Console(highlight=False)
    say = _sayer(console)
    model = model and demanded_model(model)
    program = _program(version, server_bin, (build, fix, asan, source), say)
    spec = replace(
        program,
        model=model or program.model,
        idle_seconds=idle,
        port=port,
        poisoned=poisoned,
    )
    folder = Path(tempfile.mkdtemp(prefix="llama-blackbox-reference-"))
    with ReferenceServer(folder) as lab:
        server = lab.start(spec)
        say(f"http://127.0.0.1:{server.port} is up, PID {server.pid}; Ctrl-C takes it down")
        status = _follow(server, console)
    shutil.rmtree(folder, ignore_errors=True)  # kept when the server ended by itself: its core stands there
    return status


def _demand_idle(seconds: int) -> None:
    """Native builds refuse 0 by themselves; a wheel's server would sleep before anyone could ask."""
    if seconds != NEVER and not 1 <= seconds <= LONGEST_IDLE:
        raise UserError(
            "not an idle limit",
            where=f"--idle {seconds}",
            remedy=f"give seconds from 1 to {LONGEST_IDLE}, or {NEVER} for a server that never sleeps",
        )


Named = tuple[int | None, str | None, bool, Path | None]


def _program(
    version: str | None, server_bin: Path | None, named: Named, say: Callable[[str], None]
) -> ServerSpec:
    """The one server that is named, the default wheel when none is. Raises UserError when two are."""
    native = any(named)
    if sum((version is not None, server_bin is not None, native)) > 1:
        raise UserError(
            "more than one server is named",
            where="reference run",
            remedy="give one of --version, --server-bin, --build or --source",
        )
    model = cached_model()
    if native:
        made = prepare_build(commands.recipe_of(*named), progress=say)
        say(f"{made.name}: {made.binary}")
        return ServerSpec(model=model, binary=made.binary, environment=made.environment)
    if server_bin is not None:
        demand_program(server_bin)
        # it runs in a folder of its own, where a relative path leads nowhere
        return ServerSpec(model=model, binary=server_bin.absolute())
    return ServerSpec(model=model, python=prepare(version or UNLOAD_VERSION, progress=say))


def _sayer(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(Text(line, style="bold"), soft_wrap=True)


def _follow(server: RunningServer, console: Console) -> int:
    shown = 0
    try:
        while True:
            over = server.wait_until(lambda each: each.finished, LOOK_SECONDS)
            lines = server.output.lines()
            for line in lines[shown:]:
                console.print(Text(_stamped(line)), soft_wrap=True)
            shown = len(lines)
            if over:
                return _ended(server)
    except KeyboardInterrupt:
        return EXIT_OK


def _ended(server: RunningServer) -> int:
    ending = server.ending
    number, code = (ending.signal, ending.code) if ending else (None, None)
    told = told_to_end(number, code)
    raise ServerEndedError(
        told or f"the server ended by itself ({f'signal {number}' if number else f'status {code}'})",
        where="reference run",
        remedy="start it again; Ctrl-C here takes it down" if told else _look(server),
    )


def told_to_end(number: int | None, code: int | None) -> str | None:
    """How somebody ended the server, in words; None for an end that nobody asked for.

    A native server that is sent SIGTERM or SIGINT leaves with status 0; a hosted one dies of the signal.
    """
    if number in ASKED:
        return f"somebody ended the server ({signal.Signals(number).name})"
    if number is None and code == 0:
        return "the server left in order (status 0), as one does that is sent SIGTERM or SIGINT"
    return None


def _look(server: RunningServer) -> str:
    core = server.core()
    return f"its core is {core.path}" if core.path else f"there is no core: {core.reason}"


class ServerEndedError(UserError):
    """The server ended before it was told to."""

    status = EXIT_FAILED


def _stamped(line: Line) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(line.wall))
    return f"{clock}.{int(line.wall * 1000) % 1000:03d}  {printable(line.text)}"
