"""What a reference server is started with, and the command lines that come of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.lab.native.recipe import ASAN_OPTIONS

HOSTED_SCRIPT = Path(__file__).with_name("hosted.py")
# What a freed block is filled with: 0xA5 inverted by glibc, so a freed pointer reads 0x5a5a5a5a5a5a5a5a,
# a non-canonical address that faults when it is followed.
POISON_BYTE = 165
# Poison alone is not enough: the reload may get the very same blocks back, in the same order, and the stale
# pointer then finds the new model in place of the old one. Every list that gives a small block back unmerged
# must be off, the thread's cache and the fast bins, and blocks of a page and more stand in mappings of their
# own: on a static b11368 the model's object came back to its own address at every reload. Token counts to
# sleeping servers, their environments of many shapes, that faulted: all three settings 40 of 40 on a b11063
# wheel and 24 of 24 on a native b11138; without the one for fast bins 52 of 90 and 7 of 20 (the rest failed
# an assertion, read zeros, or answered right, and all servers of one environment did alike).
TUNABLES = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.mmap_threshold=4096"
# llama-server reads an argument that is not given from its variable; LLAMA_ARG_ is not the only beginning.
SERVER_VARIABLES = "LLAMA_"
# The later one of two counts: a user's log_path would hide the report.
REPORT_TO_LOG = "log_path=stderr"
POISON = {"MALLOC_PERTURB_": str(POISON_BYTE), "GLIBC_TUNABLES": TUNABLES}


@dataclass(frozen=True)
class ServerSpec:
    """One reference server. Exactly one of ``python`` (hosted: interpreter of a prepared environment)
    and ``binary`` (native: a llama-server) is set.

    ``idle_seconds`` -1 never sleeps; ``port`` None takes a free one; ``verbosity`` None keeps the
    build's own. ``parameters`` are further dotted CommonParams names of a hosted server,
    ``arguments`` further arguments of a native one. ``poisoned`` fills freed memory.
    """

    model: Path
    python: Path | None = None
    binary: Path | None = None
    idle_seconds: int = -1
    context: int = 512
    slots: int = 1
    threads: int = 1
    http_threads: int | None = None
    metrics: bool = True
    slots_endpoint: bool = True
    port: int | None = None
    api_key: str | None = None
    verbosity: int | None = None
    draft: Path | None = None
    poisoned: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.python is None) == (self.binary is None):
            raise ValueError("a server is either hosted (python) or native (binary)")

    @property
    def program(self) -> Path:
        return self.python or self.binary or Path()


def command(spec: ServerSpec, port: int) -> list[str]:
    """The server's own command line, without launcher or debugger."""
    if spec.python is not None:
        return [str(spec.python), "-I", str(HOSTED_SCRIPT), json.dumps(hosted_parameters(spec, port))]
    return [str(spec.binary), *_native_arguments(spec, port)]


def launched(argv: list[str]) -> list[str]:
    """``argv`` behind the launcher that ties it to this process and raises its core limit."""
    script = str(Path(__file__).with_name("launch.py"))
    return [sys.executable, "-I", "-S", script, str(os.getpid()), *argv]


def environment(spec: ServerSpec) -> dict[str, str]:
    """The server's environment: ours, the poison, the libraries beside a native binary, its own.

    Without our variables that are arguments of the server (LLAMA_API_KEY, LLAMA_ARG_…, LLAMA_LOG_…): what is
    set for another server of the user's is none of a trial's. A sanitized program, however it is started, is
    told to end as a crash does, with its report in the log.
    """
    made = {name: value for name, value in os.environ.items() if not name.startswith(SERVER_VARIABLES)}
    made["ASAN_OPTIONS"] = ":".join(filter(None, (made.get("ASAN_OPTIONS"), ASAN_OPTIONS, REPORT_TO_LOG)))
    if spec.binary is not None:
        beside = str(spec.binary.resolve().parent)
        made["LD_LIBRARY_PATH"] = ":".join(filter(None, (beside, made.get("LD_LIBRARY_PATH"))))
    if spec.poisoned:
        made.update(POISON)
    made.update(spec.environment)
    return made


def hosted_parameters(spec: ServerSpec, port: int) -> dict[str, Any]:
    """The JSON object ``hosted.py`` takes; optional parts only where they are set."""
    optional = {
        "n_threads_http": spec.http_threads,
        "api_keys": None if spec.api_key is None else [spec.api_key],
        "verbosity": spec.verbosity,
        "draft": None if spec.draft is None else str(spec.draft),
    }
    return {
        "model": str(spec.model),
        "port": port,
        "sleep_idle_seconds": spec.idle_seconds,
        "n_ctx": spec.context,
        "n_parallel": spec.slots,
        "cpuparams.n_threads": spec.threads,
        "endpoint_metrics": spec.metrics,
        "endpoint_slots": spec.slots_endpoint,
        "warmup": False,
        **{name: value for name, value in optional.items() if value is not None},
        **spec.parameters,
    }


def _native_arguments(spec: ServerSpec, port: int) -> list[str]:
    options = {
        "-m": spec.model,
        "--host": "127.0.0.1",
        "--port": port,
        "--sleep-idle-seconds": spec.idle_seconds,
        "-c": spec.context,
        "-np": spec.slots,
        "-t": spec.threads,
        "--threads-http": spec.http_threads,
        "--api-key": spec.api_key,
        "-lv": spec.verbosity,
        "-md": spec.draft,
    }
    flags = {"--no-warmup": True, "--metrics": spec.metrics, "--no-slots": not spec.slots_endpoint}
    given = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    return [*given, *(name for name, wanted in flags.items() if wanted), *spec.arguments]
