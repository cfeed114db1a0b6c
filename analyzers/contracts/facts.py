"""The typed payloads of Evidence. ``Evidence.kind`` is the ``KIND`` of one of these classes.

Readers build a fact, ``to_evidence`` wraps it with its provenance, ``fact_of`` gets it back. Every
field is optional on reading, so an older or newer writer never breaks a reader.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.watched import HostFact, LookFact, MemoryFact, known_fields


@dataclass(frozen=True)
class Frame:
    """One stack frame, innermost first in a stack.

    ``function`` is demangled C++ text as the tool printed it; ``offset`` is relative to the module's
    load address; ``repeat`` is how many equal consecutive frames were folded into this one. ``trust`` is an
    id of ``analyzers.stacks.trust`` where it differs from what the stack's rung says.
    """

    function: str | None = None
    module: str | None = None
    offset: int | None = None
    build_id: str | None = None
    ip: int | None = None
    file: str | None = None
    line: int | None = None
    inlined: bool = False
    repeat: int = 1
    trust: str | None = None


@dataclass(frozen=True)
class CoreFact:
    """What the notes of a core say without any symbol."""

    KIND: ClassVar[str] = "core"
    signal: int | None = None
    si_code: int | None = None
    fault_address: int | None = None  # None: unknown (for example a non-canonical pointer)
    crashed_tid: int | None = None
    pid: int | None = None
    program: str | None = None  # NT_PRPSINFO name, cut to 15 characters by the kernel
    exe: str | None = None
    stack_pointer: int | None = None
    instruction_pointer: int | None = None
    threads: int = 0
    cut: bool = False
    build_ids: dict[str, str] = field(default_factory=dict)  # mapped file -> build-id, where readable
    stack_overflow: bool = False
    fault_file: str | None = None  # mapped file that covers the fault address
    server: bool | None = None  # llama.cpp's code is mapped or on a stack; None: nothing could tell
    ports: tuple[int, ...] = ()  # --port's value, else numbers of the command line that can be the port


@dataclass(frozen=True)
class StackFact:
    """One thread's frames and the rung of the ladder that read them."""

    KIND: ClassVar[str] = "stack"
    tid: int | None = None
    name: str | None = None
    crashed: bool = False
    rung: str = "pasted"  # notes | scan | eu-stack | stride | gdb | live | self-trace | pasted
    frames: tuple[Frame, ...] = ()
    complete: bool = False  # reaches clone, _start or main
    live: bool = False  # the process was alive when this was taken

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> StackFact:
        known = known_fields(cls, data)
        known["frames"] = tuple(Frame(**known_fields(Frame, f)) for f in data.get("frames", ()))
        return cls(**known)


@dataclass(frozen=True)
class LoopFact:
    """State of the server's queue loop at the moment of the core or snapshot.

    ``phase`` is a phase id of the registry or "just-woken"; ``how`` says which witness gave it:
    "flags" (the queue's own memory), "call-site" (argument of the sleep callback), "frames",
    "registers". ``sleeping`` and ``time_last_task_ms`` (CLOCK_MONOTONIC ms) come from the queue's memory.
    """

    KIND: ClassVar[str] = "loop"
    phase: str = "unknown"
    how: tuple[str, ...] = ()
    tid: int | None = None
    sleeping: bool | None = None
    stop_sleeping_requested: bool | None = None
    time_last_task_ms: int | None = None
    owner: int | None = None  # thread that holds the queue's mutex, 0 for none; None: the memory was not read
    next_task: int | None = None  # the number that the queue gives to its next task


@dataclass(frozen=True)
class PointerFact:
    """What the pointer that the faulting instruction followed looks like; says nothing about whose it was.

    ``way``: freed-fill | fresh-fill | repeated-byte | unmapped | non-canonical (analyzers.core.provenance).
    """

    KIND: ClassVar[str] = "pointer"
    register: str = ""
    value: int | None = None
    way: str = ""
    fill: int | None = None
    tid: int | None = None


@dataclass(frozen=True)
class KernelFact:
    """One kernel line.

    ``shape``: segfault | gpf | invalid-opcode | divide-error | oom-kill | gpu-fault | other; about the
    machine: machine-check | memory-corruption | storage-error | panic | lockup | suspend | resume | boot.
    """

    KIND: ClassVar[str] = "kernel"
    shape: str = "other"
    name: str | None = None  # thread name or program name, at most 15 characters
    tid: int | None = None  # a thread id, not necessarily the PID
    address: int | None = None
    ip: int | None = None
    sp: int | None = None
    error: int | None = None
    object: str | None = None
    object_offset: int | None = None
    stack_overflow: bool = False


@dataclass(frozen=True)
class LogFact:
    """One telling log line of the server.

    ``event``: init | build-info | loading | loaded | listening | enter-sleep | exit-sleep | task-launched |
    task-done | task-cancelled | request | slots-idle | stopping | cleaning-up | settings | load-failed |
    bind-failed | context-failed | bad-argument | restart-in-place |
    device-free (``value`` MiB free on device ``model``) |
    offloaded (``value`` layers on devices, of ``total``); a router's about its children: child-spawned |
    child-stopping | child-killed | child-called. ``task_id``, ``child_name`` (its model) and ``child_port``
    where the line names them; ``value`` of listening is the port.
    """

    KIND: ClassVar[str] = "log"
    event: str = "other"
    era: str | None = None  # F1..F6
    task_id: int | None = None
    route: str | None = None
    port: str | None = None  # router child
    build: str | None = None
    model: str | None = None
    value: float | None = None
    status: int | None = None
    child_name: str | None = None
    child_port: str | None = None
    total: float | None = None


@dataclass(frozen=True)
class AbortFact:
    """Text a dying server prints itself. ``shape``: ggml-assert | ggml-abort | wake-reload | exception |
    cuda | gpu-oom | alloc | terminate | stack-smash | malloc."""

    KIND: ClassVar[str] = "abort"
    shape: str = "ggml-abort"
    message: str | None = None
    file: str | None = None
    line: int | None = None
    exception: str | None = None


@dataclass(frozen=True)
class ExitFact:
    """How a process ended. ``by``: waitpid | systemd | docker | router | shell | ollama | trace;
    ``result`` is systemd's."""

    KIND: ClassVar[str] = "exit"
    by: str = "waitpid"
    signal: int | None = None
    code: int | None = None
    result: str | None = None
    requested: bool = False  # a stop was asked for before the end
    oom: bool = False
    unit: str | None = None
    name: str | None = None  # program of a core record, as the kernel cut it


@dataclass(frozen=True)
class ProbeFact:
    """One HTTP probe by the collector. ``status`` None: no answer within ``timeout`` seconds."""

    KIND: ClassVar[str] = "probe"
    route: str = ""
    status: int | None = None
    seconds: float | None = None
    timeout: float | None = None
    is_sleeping: bool | None = None
    requests_processing: int | None = None
    requests_deferred: int | None = None
    decodes: int | None = None  # llamacpp:n_decode_total: rises with every batch the loop works off
    outcome: str | None = None  # answered | timeout | refused | … as the prober names it


@dataclass(frozen=True)
class SocketFact:
    """One ESTABLISHED client connection of the server as the kernel sees it (TCP_INFO, server side).

    Milliseconds count back from the sample. A stranded request has bytes received, the last data
    received later than the last data sent, and nothing sent back since.
    """

    KIND: ClassVar[str] = "socket"
    peer: str | None = None
    bytes_received: int | None = None
    bytes_sent: int | None = None
    last_data_recv_ms: int | None = None
    last_data_sent_ms: int | None = None
    recv_queue: int | None = None
    send_queue: int | None = None
    unanswered: bool = False


@dataclass(frozen=True)
class AnswerFact:
    """A recorded HTTP answer: ``expected`` tells whether it equals the answer of the awake server."""

    KIND: ClassVar[str] = "answer"
    route: str | None = None
    status: int | None = None
    error: str | None = None  # the server's own error text, without client content
    expected: bool | None = None
    seconds: float | None = None
    cycle: int | None = None  # sleeps before it in this life
    since_wake: int | None = None  # 1: the answer that waited for the load; None before any sleep


@dataclass(frozen=True)
class MarkFact:
    """A mark found in a binary that tells builds apart; ``affected`` None when it cannot tell."""

    KIND: ClassVar[str] = "mark"
    mark: str = ""
    defect: str | None = None
    affected: bool | None = None
    build: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class SettingsFact:
    """Effective settings of the server that matter here; secrets never stand in it."""

    KIND: ClassVar[str] = "settings"
    sleep_idle_seconds: int | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    role: str | None = None  # standalone | router | child | hosted
    metrics: bool | None = None
    memory_poisoned: bool | None = None

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> SettingsFact:
        known = known_fields(cls, data)
        known["args"] = tuple(data.get("args", ()))
        return cls(**known)


@dataclass(frozen=True)
class ActionFact:
    """Something the collector did on the host when told to (for example released a stranded request)."""

    KIND: ClassVar[str] = "action"
    action: str = ""
    outcome: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class ModelFileFact:
    """State of the model file. ``state``: present | missing | replaced | cut | unreadable."""

    KIND: ClassVar[str] = "model-file"
    path: str | None = None
    state: str = "present"
    size: int | None = None
    mtime: float | None = None


Fact = (
    CoreFact
    | StackFact
    | LoopFact
    | PointerFact
    | KernelFact
    | LogFact
    | AbortFact
    | ExitFact
    | ProbeFact
    | LookFact
    | MemoryFact
    | HostFact
    | SocketFact
    | AnswerFact
    | MarkFact
    | SettingsFact
    | ActionFact
    | ModelFileFact
)
FACT_TYPES: dict[str, type[Any]] = {
    cls.KIND: cls
    for cls in (
        CoreFact,
        StackFact,
        LoopFact,
        PointerFact,
        KernelFact,
        LogFact,
        AbortFact,
        ExitFact,
        ProbeFact,
        LookFact,
        MemoryFact,
        HostFact,
        SocketFact,
        AnswerFact,
        MarkFact,
        SettingsFact,
        ActionFact,
        ModelFileFact,
    )
}
F = TypeVar("F")


def fact_of(evidence: Evidence, cls: type[F]) -> F | None:
    """The payload as ``cls``, or None when the evidence is of another kind."""
    if evidence.kind != getattr(cls, "KIND", None):
        return None
    data = dict(evidence.data)
    maker = getattr(cls, "from_data", None)
    if maker is not None:
        made: F = maker(data)
        return made
    return cls(**known_fields(cls, data))


def to_evidence(
    fact: Fact,
    *,
    id: str,
    source: str,
    text: str,
    trust: Trust,
    wall: float | None = None,
    mono: float | None = None,
    elapsed: float | None = None,
    incarnation: Incarnation | None = None,
) -> Evidence:
    """Wrap a fact with its provenance; fields left at None are not stored."""
    data = {key: value for key, value in asdict(fact).items() if value is not None}
    return Evidence(
        id=id,
        kind=fact.KIND,
        source=source,
        text=text,
        trust=trust,
        wall=wall,
        mono=mono,
        elapsed=elapsed,
        incarnation=incarnation or Incarnation(),
        data=data,
    )
