"""What one server process is: which life of which PID, its program, arguments without secrets, settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import SettingsFact, to_evidence
from collector.sources.procfs import GoneError, Process

Redact = Callable[[list[str]], list[str]]

_MODEL = ("-m", "--model")
_OTHER_FILES = ("-mm", "--mmproj", "-md", "--model-draft", "--spec-draft-model", "--lora", "--control-vector")
_MODEL_SOURCES = (*_MODEL, "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo")
_MODEL_VARIABLES = ("LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO")
_ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"  # set by the router in its children, server-models.cpp
# The only variables ever looked at: the rest of an environment is none of our business.
_VARIABLES = (
    *_MODEL_VARIABLES,
    _ROUTER_PORT,
    "LLAMA_ARG_MMPROJ",
    "LLAMA_ARG_ENDPOINT_METRICS",
    "LLAMA_ARG_SLEEP_IDLE_SECONDS",  # no build reads it yet; named as upstream names its siblings
    "MALLOC_PERTURB_",
)
_TRUE = ("1", "true", "on", "enabled", "yes")


@dataclass(frozen=True)
class ProcessView:
    """One look at a process. ``args`` went through the caller's redaction; ``cpu_seconds`` is user + system.

    ``model_files`` are the files that a reload after sleeping opens, as the server names them (relative ones
    from its own working folder): not redacted, for use on the host only.
    """

    incarnation: Incarnation
    exe: str | None
    args: tuple[str, ...]
    threads: int
    cpu_seconds: float
    settings: SettingsFact
    model_files: tuple[str, ...] = ()


def read_process(pid: int, redact: Redact) -> ProcessView | None:
    """Look once; None when the process is gone or hides everything. Never raises for a vanishing process.

    ``redact`` gets the arguments before anything else sees them; when it fails no argument is kept.
    """
    try:
        with Process(pid) as process:
            return _look(process, redact)
    except (GoneError, PermissionError):
        return None


def sleep_words(idle: int | None) -> str:
    """What an idle limit in seconds means, for a line of evidence."""
    return "no sleep limit seen" if idle is None else "sleep off" if idle < 0 else f"sleeps after {idle} s"


def to_settings_evidence(view: ProcessView) -> Evidence:
    """SettingsFact evidence of a look; set by whoever started the server."""
    pid = view.incarnation.pid
    idle = view.settings.sleep_idle_seconds
    said = f"{view.settings.role or 'unknown role'}, {sleep_words(idle)}, {view.threads} threads"
    return to_evidence(
        view.settings,
        id=f"settings-{pid}",
        source=f"/proc/{pid}",
        text=f"process {pid}: {said}, {view.cpu_seconds:.2f} s CPU",
        trust=Trust.SUPERVISOR,
        wall=time.time(),
        mono=time.monotonic(),
        incarnation=view.incarnation,
    )


def _look(process: Process, redact: Redact) -> ProcessView:
    incarnation = process.incarnation()
    args = _words(process.read("cmdline"))
    variables = _variables(process)
    exe = _exe(process)
    clean = _redacted(args, redact)
    hosted = not _native(exe, args)
    return ProcessView(
        incarnation=incarnation,
        exe=exe,
        args=clean,
        threads=process.threads(),
        cpu_seconds=process.cpu_seconds(),
        settings=_settings(args, clean, variables, hosted=hosted),
        model_files=() if hosted else model_files(args, variables),
    )


def _words(data: bytes) -> list[str]:
    return [word.decode("utf-8", "replace") for word in data.split(b"\0")[:-1]]


def _variables(process: Process) -> dict[str, str]:
    try:
        pairs = (word.partition("=") for word in _words(process.read("environ")))
    except PermissionError:
        return {}
    return {name: value for name, _, value in pairs if name in _VARIABLES}


def _exe(process: Process) -> str | None:
    try:
        return process.link("exe").removesuffix(" (deleted)")
    except PermissionError:
        return None


def _redacted(args: list[str], redact: Redact) -> tuple[str, ...]:
    try:
        return tuple(redact(list(args)))
    except Exception:  # noqa: BLE001  an argument that could not be judged must not get out
        return ()


def _native(exe: str | None, args: list[str]) -> bool:
    program = exe or (args[0] if args else "")
    return "llama" in PurePosixPath(program).name


def _settings(
    args: list[str], clean: tuple[str, ...], variables: Mapping[str, str], *, hosted: bool
) -> SettingsFact:
    poisoned = "MALLOC_PERTURB_" in variables
    if hosted:  # its settings are made in its own program, the command line says nothing about them
        return SettingsFact(args=clean, role="hosted", memory_poisoned=poisoned)
    model = option(args, _MODEL) or variables.get("LLAMA_ARG_MODEL")
    return SettingsFact(
        sleep_idle_seconds=_number(
            option(args, ("--sleep-idle-seconds",)) or variables.get("LLAMA_ARG_SLEEP_IDLE_SECONDS")
        ),
        args=clean,
        model=PurePosixPath(model).name if model else None,
        role=_role(args, variables),
        metrics="--metrics" in args or variables.get("LLAMA_ARG_ENDPOINT_METRICS", "").lower() in _TRUE,
        memory_poisoned=poisoned,
    )


def _role(args: list[str], variables: Mapping[str, str]) -> str:
    if _ROUTER_PORT in variables:
        return "child"
    named = option(args, _MODEL_SOURCES) or any(name in variables for name in _MODEL_VARIABLES)
    return "standalone" if named else "router"


def option(args: list[str], names: tuple[str, ...]) -> str | None:
    """Value of the last of ``names`` in the arguments, given as ``--name value`` or ``--name=value``."""
    values = options(args, names)
    return values[-1] if values else None


def options(args: list[str], names: tuple[str, ...]) -> list[str]:
    """Every value of ``names`` in the arguments, in order."""
    found = []
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if word in names and at + 1 < len(args):
            found.append(args[at + 1])
        elif equals and name in names:
            found.append(value)
    return found


def model_files(args: list[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Files that a load opens: the model first, then projector, draft model, adapters (comma lists split)."""
    model = options(args, _MODEL)[-1:] or [variables.get("LLAMA_ARG_MODEL", "")]
    others = options(args, _OTHER_FILES) or [variables.get("LLAMA_ARG_MMPROJ", "")]
    parts = [part for value in others for part in value.split(",")]
    return tuple(path for path in (*model, *parts) if path)


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
