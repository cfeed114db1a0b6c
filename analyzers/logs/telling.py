"""The telling lines, as data. One row says which line of the server's own grammar becomes which event.

A row never looks inside free text: component and function must be the server's and the pattern must
match the whole message, so that a phrase inside a prompt, a JSON body or a path stays what it is.
Source of the texts: the server's queue, context, main and router sources of several builds, and logs of
real runs. ``NEEDLES`` are the literal substrings by which candidate lines are found; every row and every
raw pattern contains one of them (asserted by a test).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# groups whose evidence is kept apart
TASK, SLEEP, LIFE, FATAL, LOAD = "task", "sleep", "life", "fatal", "load"


@dataclass(frozen=True)
class Rule:
    """``components``/``functions`` empty means the line has none or any. Named groups of ``pattern``: task,
    build, model, value, total, port (value), route, status, child (a router's model name), at (its port)."""

    event: str
    group: str
    components: frozenset[str]
    functions: frozenset[str]
    pattern: re.Pattern[str]
    levels: str = "IWED"


def _rule(event: str, group: str, where: str, pattern: str, levels: str = "IWED") -> Rule:
    components, _, functions = where.partition("/")
    return Rule(
        event,
        group,
        frozenset(components.split(",")) if components else frozenset(),
        frozenset(functions.split(",")) if functions else frozenset(),
        re.compile(pattern),
        levels,
    )


_CHILD = r"(?P<child>[^\x00-\x1f]{1,200}?)"  # a model's name, which may hold blanks
_SLOT = r"id +\d{1,6} \| task (?P<task>\d{1,10}) \| "
RULES: tuple[Rule, ...] = (
    _rule("enter-sleep", SLEEP, "que/start_loop", r"entering sleeping state", "I"),
    _rule("exit-sleep", SLEEP, "que/start_loop", r"exiting sleeping state", "I"),
    _rule("enter-sleep", SLEEP, "srv/handle_sleep", r"server is entering sleeping state", "I"),
    _rule("exit-sleep", SLEEP, "srv/handle_sleep", r"server is exiting sleeping state", "I"),
    _rule("init", LIFE, "srv/init,main,llama_server", r"initializing \.\.\."),
    _rule("build-info", LIFE, "srv/init,main,llama_server", r"build_info: (?P<build>[\w.+-]{1,80})"),
    _rule(
        "build-info", LIFE, "/build", r"(?P<build>\d{1,7} \([0-9a-z]{5,40}\))(?: with [\w /().:+~-]{1,120})?"
    ),
    _rule("build-info", LIFE, "/version", r"(?P<build>[\w.-]{1,40} \([\w ,]{1,60}\))"),
    _rule("loading", SLEEP, "srv,/load_model", r"loading model '(?P<model>[^']{1,1024})'"),
    _rule("loading", LIFE, "srv,/init,main,llama_server", r"loading model"),
    _rule("loaded", SLEEP, "srv/load_model", r"initializing, n_slots = (?P<value>\d{1,6}), .{0,120}"),
    _rule("loaded", SLEEP, "srv/init,load_model", r"initializing slots, n_slots = (?P<value>\d{1,6})"),
    _rule("loaded", LIFE, "srv,/init,main,llama_server", r"model loaded"),
    _rule(
        "listening",
        LIFE,
        "srv,/init,main,llama_server",
        r"(?:HTTP server is |server is )?listening(?: on|, hostname:) [\w.:/\[\]-]{1,200}?"
        r"(?::(?P<value>\d{1,5}))?(?:, port: (?P<port>\d{1,5}), http threads: \d{1,5}"
        r"| - starting the main loop)?",
    ),
    _rule("slots-idle", TASK, "srv/update_slots", r"all slots are idle"),
    _rule("task-launched", TASK, "slot/launch_slot_", _SLOT + r"processing task(?:, is_child = \d)?"),
    _rule("task-done", TASK, "slot/release", _SLOT + r"stop processing: [\w =,]{1,80}"),
    _rule("task-cancelled", TASK, "srv/stop", r"cancel task, id_task = (?P<task>\d{1,10})"),
    _rule(
        "request",
        TASK,
        "srv/log_server_r",
        r"(?:done )?request: +(?:[A-Z]{3,7}) (?P<route>\S{1,2000}) \S{0,100} (?P<status>\d{3})",
    ),
    _rule(
        "request",
        TASK,
        "srv/operator()",
        r'got exception: \{"error":\{"code":(?P<status>\d{3}),(?s:.){0,65536}',
    ),
    _rule(
        "cleaning-up",
        LIFE,
        "srv/operator(),llama_server,main",
        r"(?:operator\(\): )?cleaning up before exit\.\.\.",
    ),
    # A router about its children (server-models.cpp); a child's own lines carry its port.
    _rule(
        "child-spawned",
        LIFE,
        "srv/",
        rf"spawning server instance with name={_CHILD} on port (?P<at>\d{{1,5}})",
    ),
    _rule("child-stopping", LIFE, "srv/", rf"stopping model instance name={_CHILD}"),
    _rule("child-killed", LIFE, "srv/", rf"force-killing model instance name={_CHILD} after timeout"),
    _rule("child-killed", LIFE, "srv/", rf"model name={_CHILD} is still loading, force-killing"),
    _rule("child-called", TASK, "srv/", rf"proxying request to model {_CHILD} on port (?P<at>\d{{1,5}})"),
    _rule("stopping", LIFE, "srv/", r"exit command received, exiting\.\.\."),
    _rule("stopping", LIFE, "srv/", r"EOF on stdin detected, forcing shutdown\.\.\."),
    _rule(
        "load-failed",
        LIFE,
        "srv,cmn,/",
        (
            r"(?:common_init_from_params: )?failed to load (?:draft |multimodal )?model,? "
            r"'(?P<model>[^']{1,1024})'"
        ),
        "E",
    ),
    # The model was read; what lacks is memory for its context, so this says nothing against the file.
    _rule(
        "context-failed",
        LIFE,
        "srv,cmn,/",
        r"(?:common_init_from_params: )?failed to create[_ ]context with model,? '(?P<model>[^']{1,1024})'",
        "E",
    ),
    _rule(
        "load-failed",
        LIFE,
        "/llama_model_load,llama_model_load_from_file_impl,llama_load_model_from_file",
        r"(?P<reason>error loading model)(?:: .{0,1024})?",
        "E",
    ),
    _rule(
        "load-failed",
        LIFE,
        "/gguf_init_from_file,gguf_init_from_file_impl",
        r"failed to open GGUF file '(?P<model>[^']{1,1024})'(?: \([\w ]{1,60}\))?",
        "E",
    ),
    _rule("load-failed", LIFE, "srv,/", r"(?:.{0,40})?exiting due to model loading error", "E"),
    _rule("bind-failed", LIFE, "srv,/", r"(?:.{0,40})?exiting due to HTTP server error", "E"),
    _rule("bind-failed", LIFE, "srv/", r"couldn't bind HTTP server socket, hostname: .{1,120}", "E"),
    # What each load found and did; at default verbosity only builds up to era F3 print these.
    _rule(
        "device-free",
        LOAD,
        "/llama_model_load_from_file_impl,llama_prepare_model_devices",
        r"using device (?P<model>[\w.:-]{1,40}) \(.{1,200}\) - (?P<value>\d{1,9}) MiB free",
    ),
    _rule(
        "offloaded",
        LOAD,
        "/load_tensors,llm_load_tensors",
        r"offloaded (?P<value>\d{1,5})/(?P<total>\d{1,5}) layers to GPU",
    ),
    _rule("bad-argument", LIFE, "/error", r"(?:invalid|unknown) argument: -{1,2}[\w-]{1,64}"),
    _rule(
        "settings",
        LIFE,
        "cmn/common_param",
        r"common_params_print_info: verbosity = (?P<value>-?\d{1,4})\b.{0,80}",
    ),
)

# Eras F1 and F2: (function, message) of the structured line, function None for any.
STRUCTURED: tuple[tuple[str | None, re.Pattern[str], str, str], ...] = (
    ("main", re.compile(r"build info"), "build-info", LIFE),
    ("main", re.compile(r"model loaded"), "loaded", LIFE),
    ("main", re.compile(r"HTTP server (?:is )?listening"), "listening", LIFE),
    (
        None,
        re.compile(r"all slots are idle(?: and system prompt is empty, clear the KV cache)?"),
        "slots-idle",
        TASK,
    ),
    (None, re.compile(r"slot is processing task"), "task-launched", TASK),
    (None, re.compile(r"slot released"), "task-done", TASK),
    (None, re.compile(r"cancel task"), "task-cancelled", TASK),
    ("log_server_request", re.compile(r"request"), "request", TASK),
    ("load_model", re.compile(r"unable to load model"), "load-failed", LIFE),
)

NEEDLES: tuple[bytes, ...] = (
    b"ing sleeping state",
    b"after sleeping",
    b"initializing ...",
    b"build_info",
    b"build: ",
    b"build info",
    b"version: ",
    b"loading model",
    b"model loaded",
    b"load model",
    b"load draft model",
    b"load multimodal model",
    b"initializing, n_slots",
    b"initializing slots",
    b"listening",
    b"slots are idle",
    b"processing task",
    b"stop processing",
    b"slot released",
    b"cancel task",
    b"request: ",
    b"log_server_request",
    b"got exception",
    b"cleaning up before exit",
    b"server instance with name=",
    b"stopping model instance",
    b"force-killing",
    b"proxying request to model",
    b"exit command received",
    b"EOF on stdin",
    b"second interrupt",
    b"context with model",
    b"open GGUF file",
    b"exiting due to",
    b"bind HTTP server socket",
    b"_info: verbosity",
    b"GGML_ASSERT(",
    b"GGML_ASSERT: ",
    b": Assertion ",
    b"libc++abi: terminating",
    b"/ggml",
    b"/tools/server/",
    b"/common/",
    b"/src/llama",
    b"terminate called",
    b"what():",
    b"pure virtual method",
    b"CUDA error",
    b"ROCm error",
    b"HIP error",
    b"MUSA error",
    b"SYCL error",
    b"DeviceLost",
    b"OutOfDeviceMemory",
    b"OutOfHostMemory",
    b"Device memory allocation",
    b"cudaMalloc failed",
    b"hipMalloc failed",
    b"bad_alloc",
    b"kIOGPUCommandBufferCallbackErrorOutOfMemory",
    b"Memory access fault by GPU",
    b"insufficient memory (",
    b"process has terminated: ",
    b"invalid argument: ",
    b"failed to allocate",
    b"unable to allocate",
    b"stack smashing",
    b"double free",
    b"free(): ",
    b"malloc(): ",
    b"realloc(): ",
    b"munmap_chunk(): ",
    b"malloc_consolidate(): ",
    b"corrupted ",
    b"exited with",
    b"Exit Code:",
    b"exitCode=",
    b'"ExitCode"',
    b"OOMKilled",
    b"Main process exited",
    b"Failed with result",
    b"Watchdog timeout",
    b"killed by the OOM",
    b"Scheduled restart job",
    b"repeated too quickly",
    b"Deactivated successfully",
    b"timed out. ",
    b"Stopping ",
    b" dumped core",
    b"Segmentation fault",
    b"Aborted",
    b"Bus error",
    b"Illegal instruction",
    b"Floating point exception",
    b"Killed",
    b"Terminated",
    b"segfault at",
    b"traps: ",
    b"general protection",
    b"translation fault",
    b"oom-kill",
    b"Out of memory",
    b"out of memory",
    b"oom_reaper",
    b"NVRM: Xid",
    b"fallen off the bus",
    b" timeout, signaled",
    b"amdgpu_job_timedout",
    b"GPU HANG",
    b": using device ",
    b" layers to GPU",
    b"hardware memory corruption",
    b"Machine Check Exception",
    b"event severity: ",
    b"I/O error",
    b"medium error",
    b"-fs error",
    b"): Corruption of",
    b"controller is down",
    b" not responding, ",
    b"Kernel panic",
    b"soft lockup",
    b"hard LOCKUP",
    b"PM: suspend",
    b"PM: hibernation",
    b"Linux version ",
    b"core_pipe_limit",
    b"core dump",
)

_ERE_SPECIAL = re.compile(r"([][().*+?{}|^$\\])")


def phrases_regex() -> str:
    """The alternation of NEEDLES as a POSIX extended regular expression, for ``grep -E`` (the benchmark)."""
    return "|".join(_ERE_SPECIAL.sub(r"\\\1", needle.decode()) for needle in NEEDLES)
