"""A core into evidence: notes, all stacks, the queue loop's state, the build's marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, SettingsFact, StackFact, to_evidence
from analyzers.contracts.report import Gap, Model, Parent, Process
from analyzers.core.buildid import find_executable
from analyzers.core.facts import core_evidence, core_fact, loop_evidence, pointer_evidence
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.core.phase import loop_state
from analyzers.core.startup import ROUTER_PORT, Startup, read_startup
from analyzers.logs.text import visible
from analyzers.privacy.arguments import is_private_option
from analyzers.privacy.redact import Redactor
from analyzers.stacks.frames import name_of
from analyzers.stacks.ladder import Unwound, unwind
from analyzers.triage.marks import mark_evidence
from analyzers.triage.material import CoreWork, Material

NextId = Callable[[], str]
PORT, ALIAS = "--port", "--alias"
SLEEP, SLEEP_VARIABLE = "--sleep-idle-seconds", "LLAMA_ARG_SLEEP_IDLE_SECONDS"
METRICS, METRICS_VARIABLE = "--metrics", "LLAMA_ARG_ENDPOINT_METRICS"
SERVER = "llama-server"
OFF = -1  # llama-server's default: it never sleeps unless told to
# Smaller PIDs are kernel threads on every host: such a process was the first of its
# container, or stood behind an init (tini, dumb-init) that was.
HOST_PIDS = 64
MAX_NAME = 200  # characters of a model's name
LOWEST_PORT, HIGHEST_PORT = 1024, 65535  # smaller numbers are counts, sizes and switches
MAX_DIGITS = 10  # of an idle limit: the server reads an int
SERVER_FRAMES = ("server_queue", "server_routes", "server_context", "llama_", "ggml_", "common_")


def core_material(
    path: Path,
    name: str,
    exe: Path | None,
    next_id: NextId,
    redactor: Redactor | None,
    where: str | None = None,
    symbols: Sequence[Path] = (),
) -> Material:
    """Everything a core says on the quick rungs; ``where`` is the path to name in errors, ``symbols`` are
    folders of symbol files.

    Raises UserError when it is no readable core.
    """
    path, exe = path.absolute(), exe.absolute() if exe else None  # stack tools run in another folder
    core = read_core(path, where or name)
    unwound = unwind(core, exe, symbols)
    loop = loop_state(core, unwound.stacks)
    started = read_startup(
        core, (PORT, ALIAS, SLEEP, METRICS), (ROUTER_PORT, SLEEP_VARIABLE, METRICS_VARIABLE)
    )
    ports = _ports(core, started)
    evidence = [_enriched(core, unwound, ports, item) for item in core_evidence(core, name, next_id)]
    evidence += list(_stacks(core, unwound, name, next_id))
    if loop is not None:
        evidence.append(loop_evidence(core, loop, name, next_id))
    evidence += pointer_evidence(core, name, next_id)
    evidence += mark_evidence(core, exe, name, next_id)
    evidence += _settings(core, started, name, next_id)
    return Material(
        evidence=tuple(evidence),
        gaps=(*unwound.gaps, *_gaps(core, name, unwound)),
        process=_process(core, started, redactor),
        anchor=True,
        tids=frozenset(thread.tid for thread in core.threads),
        secrets=tuple(Redactor().knowing(args=command_words(core.arguments)).secrets),
        core=CoreWork(path, exe, loop.tid if loop else None),
        apart=core.pid is not None and core.pid < HOST_PIDS,
    )


def _enriched(core: Core, unwound: Unwound, ports: tuple[int, ...], item: Evidence) -> Evidence:
    """The core's fact with what its mapping and its stacks add."""
    if item.kind != CoreFact.KIND:
        return item
    row = core.mapped_at(core.fault_address) if core.fault_address is not None else None
    known = bool(core.mapped) and is_server(core, unwound.stacks)
    more = {"server": known, **({"ports": ports} if ports else {})}
    more |= {"fault_file": row.path} if row else {}
    return item.model_copy(update={"data": {**item.data, **more}})


def _stacks(core: Core, unwound: Unwound, name: str, next_id: NextId) -> Iterator[Evidence]:
    for stack in unwound.stacks:
        yield to_evidence(
            stack,
            id=next_id(),
            source=f"{name}: thread {stack.tid} ({stack.rung})",
            text=describe_stack(stack),
            trust=Trust.KERNEL,
            incarnation=Incarnation(pid=core.pid),
        )


def describe_stack(stack: StackFact) -> str:
    """One line: who, and the innermost named frames."""
    named = [name_of(frame) for frame in stack.frames if frame.function][:3]
    deep = max((frame.repeat for frame in stack.frames), default=1)
    who = "the thread that died" if stack.crashed else f"thread {stack.tid}"
    where = " < ".join(named) or "no frame has a name"
    return f"{who}: {where}" + (f" (one frame repeats {deep:,} times)" if deep > 1 else "")


def _gaps(core: Core, name: str, unwound: Unwound) -> list[Gap]:
    gaps = [Gap(what=f"part of {name}", why=limit) for limit in core.limits]
    if core.cut:
        gaps.append(
            Gap(
                what=f"the end of {name}",
                why=f"the core is cut: {core.file_size:,} bytes are there and its headers promise more",
                command="systemd-coredump: raise ProcessSizeMax= and ExternalSizeMax= in coredump.conf",
            )
        )
    if not is_server(core, unwound.stacks):
        gaps.append(Gap(what="a core of llama-server", why=foreign_line(core)))
    return gaps


def foreign_line(core: Core) -> str:
    """Why this core is not taken for a llama-server's."""
    return f"{core.program or 'this program'!s} has no llama.cpp code mapped or on its stacks"


def command_words(arguments: str | None) -> list[str]:
    """The command line of a core's notes, in which the kernel left only blanks between the arguments.

    A prompt or key may hold blanks itself: all up to the next option is taken for its value.
    """
    words: list[str] = []
    for word in (arguments or "").split():
        if len(words) > 1 and is_private_option(words[-2]) and not word.startswith("-"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def is_server(core: Core, stacks: tuple[StackFact, ...]) -> bool:
    """True when llama.cpp's code is mapped or stands on a stack, or when nothing could tell."""
    if find_executable(core).server is not None or not core.mapped:
        return True
    names = (name_of(frame) for stack in stacks for frame in stack.frames)
    return any(name.startswith(SERVER_FRAMES) for name in names)


def _process(core: Core, started: Startup, redactor: Redactor | None) -> Process:
    found = find_executable(core)
    server = found.server or found.main
    fact, arguments = core_fact(core), command_words(core.arguments)
    routed = started.number(ROUTER_PORT)
    hosted = "hosted" if server and server.endswith(".so") and ".abi3" in server else None
    return Process(
        pid=core.pid,
        exe=redactor.text(found.main) if redactor and found.main else found.main,
        build_id=core.build_ids.get(server) if server else None,
        args=redactor.args(arguments) if redactor else arguments,
        role=hosted or ("child" if routed else None),
        port=started.number(PORT),
        parent=Parent(tid=core.parent, port=routed) if routed else None,
        model=Model(name=_model_name(started, redactor) if routed else None),
        fault_address=f"{fact.fault_address:#x}" if fact.fault_address is not None else "unknown",
    )


def _settings(core: Core, started: Startup, name: str, next_id: NextId) -> Iterator[Evidence]:
    """The idle limit by the process's own command line; nothing where that line does not stand in the core.

    A line of llama-server's own without the option is the default. A hosted server is set up by its program.
    """
    said = started.values.get(SLEEP, started.values.get(SLEEP_VARIABLE))
    own = started.program is not None and PurePosixPath(started.program).name.startswith(SERVER)
    number = _limit(said) if said is not None else OFF
    if not own or number is None:
        return
    how = f"{SLEEP} {number}" if said is not None else f"no {SLEEP}"
    yield to_evidence(
        SettingsFact(
            sleep_idle_seconds=number,
            metrics=METRICS in started.values or METRICS_VARIABLE in started.values,
        ),
        id=next_id(),
        source=f"{name}: command line",
        text=f"started with {how}" + (": sleep is off" if number < 0 else ""),
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=core.pid),
    )


def _ports(core: Core, started: Startup) -> tuple[int, ...]:
    """The port by its option; a hosted server's may stand anywhere on its program's command line."""
    port = started.number(PORT)
    words = command_words(core.arguments) if port is None else []
    bare = (word for word in words if word.isdecimal() and word.isascii() and len(word) <= 5)
    return (
        (port,) if port is not None else tuple(n for n in map(int, bare) if LOWEST_PORT <= n <= HIGHEST_PORT)
    )


def _limit(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= MAX_DIGITS else None


def _model_name(started: Startup, redactor: Redactor | None) -> str | None:
    name = visible(started.values.get(ALIAS, ""), MAX_NAME)
    return (redactor.text(name) if redactor else name) or None
