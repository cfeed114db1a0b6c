# SPDX-License-Identifier: Apache-2.0
"""Shows what goes wrong around the sleep mode of llama.cpp's llama-server. Needs Python 3.8, nothing else.

    python3 reproduce.py --server-bin ./build/bin/llama-server
    python3 reproduce.py --python ENVIRONMENT/bin/python        (an environment that has xllamacpp)

It starts servers of its own on 127.0.0.1, with the tiny random model beside this file, and takes them down.

D1  A token count to a sleeping server: its arguments are read before the wake and point into freed memory.
D2  The server goes to sleep while a request is still being tokenised: the tokeniser reads a freed model.
D3  The server goes to sleep while a request is about to be queued: nothing wakes the server for it.

The moment of sleep is chosen: the queue loop looks at its idle limit when it is poked, and GET /metrics pokes
it without counting as work. A server that stays awake for the request, and only for it, is sound. For D1 and
D2 freed memory is filled: reading it often goes unnoticed otherwise.

Exit status: 0 not seen, 1 seen, 125 could not be tried (a wrong command line too): for `git bisect run`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple  # noqa: UP035 - Python 3.8 has it here only

DEFECTS = ("D1", "D2", "D3")
FOUND_ON = ""
MODEL = "model.gguf"
SEEN, NOT_SEEN, NOT_TRIED = 1, 0, 125
# Blocks from the small-block cache would come back in the same order and hide a stale pointer.
TUNABLES = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.mmap_threshold=4096"
POISON = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": TUNABLES}
START_SECONDS = DEATH_SECONDS = 60.0  # writing a core takes a while, and the connection breaks first
SETTLE_SECONDS = 5.0  # an awake server answers each of these requests in under a second
OFFSETS = (0.02, 0.015, 0.03, 0.01, 0.04, 0.025)  # D3: from sending to the poke, seconds
AT_ONCE = 0.05  # a due sleep follows the poke in 1 to 3 ms; the loop's own look comes half a second later
NO_TASK = re.compile(rb"^llamacpp:requests_(?:processing|deferred) 0$", re.MULTILINE)
LIMIT = 4 << 20
# Not SIGKILL: that is the kernel out of memory, or somebody else. Nor what gives up for want of memory.
GAVE_UP = re.compile("failed to reload model|AddressSanitizer:? (?:out of memory|requested alloc|failed)")
CRASHES = [getattr(signal, "SIG" + name) for name in ("SEGV", "ABRT", "BUS", "FPE", "ILL", "SYS")]

FIXED = {"temperature": 0.0, "seed": 1, "cache_prompt": False}
TOUCH = ("POST", "/completion", {"prompt": "hello", "n_predict": 1, **FIXED})
HELLO = {"messages": [{"role": "user", "content": "say hello"}]}
COUNT = ("POST", "/v1/chat/completions/input_tokens", HELLO)
NAMES = [f"p{number}" for number in range(300)]
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}, "required": NAMES}
BRIEF = {"response_fields": ["content"]}  # the schema is not sent back two hundred times
MANY = (
    "POST",
    "/completion",
    {"prompt": ["a"] * 200, "n_predict": 1, "json_schema": SCHEMA, **FIXED, **BRIEF},
)
POKE = ("GET", "/metrics", None)

HOSTED = """
import json, signal, sys, xllamacpp
wanted, params = json.loads(sys.argv[1]), xllamacpp.CommonParams()
wanted.update({"hostnames": ["127.0.0.1"]} if hasattr(params, "hostnames") else {"hostname": "127.0.0.1"})
params.model.path = wanted.pop("model")
params.cpuparams.n_threads = 1
for name, value in wanted.items():
    getattr(params, name)
    setattr(params, name, value)
server = xllamacpp.Server(params)
signal.pause()
"""


class Answer(NamedTuple):
    status: int | None  # None: no answer
    body: bytes
    sent: float  # seconds of time.monotonic()
    ended: float

    def told(self) -> Any:
        """What must not depend on sleep."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError):
            return self.status, self.body
        names = ("tokens", "input_tokens", "error", "content")
        parts = body if isinstance(body, list) else [body]
        return self.status, [[part.get(name) for name in names] for part in parts if isinstance(part, dict)]


class Program(NamedTuple):
    server_bin: Path | None
    python: Path | None  # of an environment that hosts the server
    model: Path
    keep: Path | None

    def command(self, port: int, idle: int) -> list[str]:
        if self.python is not None:
            wanted = {"model": str(self.model), "port": port, "sleep_idle_seconds": idle, "n_ctx": 512}
            wanted.update(n_parallel=1, endpoint_metrics=True, endpoint_slots=True, warmup=False)
            return [str(self.python), "-I", "-c", HOSTED, json.dumps(wanted)]
        options = "--host 127.0.0.1 -c 512 -np 1 -t 1 --no-warmup --metrics --sleep-idle-seconds"
        return [str(self.server_bin), "-m", str(self.model), "--port", str(port), *options.split(), str(idle)]


class Server:
    """One server in a folder of its own; leaving the context kills it."""

    def __init__(self, program: Program, idle: int, poisoned: bool) -> None:
        self.idle = idle
        self.lines: list[tuple[float, str]] = []
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.kept, self.folder = program.keep, Path(tempfile.mkdtemp(prefix="reproduce-", dir=program.keep))
        kept = {name: told for name, told in os.environ.items() if not name.startswith("LLAMA_")}
        variables = {**kept, **(POISON if poisoned else {})}
        if program.server_bin is not None:
            beside = [str(program.server_bin.parent), variables.get("LD_LIBRARY_PATH", "")]
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, beside))
        pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        own: Any = {"cwd": self.folder, "env": variables, "start_new_session": True}
        self.process = subprocess.Popen(program.command(self.port, idle), **own, **pipes)
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.kept is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> None:
        with (self.folder / "server.log").open("wb") as log:
            for line in self.process.stdout or ():
                log.write(line)
                self.lines.append((time.monotonic(), line.decode("utf-8", "replace").rstrip()))

    def sleeps(self) -> list[float]:
        """When it went to sleep; newer builds print a second line, "server is entering"."""
        return [
            at for at, text in self.lines if "entering sleeping state" in text and "server is" not in text
        ]

    def ask(self, request: tuple[str, str, Any], timeout: float = 30.0) -> Answer:
        method, route, body = request
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent, status, found = time.monotonic(), None, b""
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request(method, route, body and json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            found, status = response.read(LIMIT), response.status
        return Answer(status, found, sent, time.monotonic())

    def begin(self, request: tuple[str, str, Any]) -> list[Answer]:
        """Ask in a thread of its own; the answer is put into the list that is returned."""
        answers: list[Answer] = []
        threading.Thread(target=lambda: answers.append(self.ask(request, 60.0)), daemon=True).start()
        return answers

    def is_asleep(self) -> bool:
        return b'"is_sleeping":true' in self.ask(("GET", "/props", None), 1.0).body.replace(b" ", b"")

    def comes_up(self) -> bool:
        """Healthy, and its queue loop runs."""
        return _until(lambda: not self.lives() or self._is_up(), START_SECONDS) and self.lives()

    def _is_up(self) -> bool:
        return all(self.ask(probe, 1.0).status == 200 for probe in (("GET", "/health", None), POKE))

    def lives(self) -> bool:
        return self.process.poll() is None

    def died(self, seconds: float) -> str | None:
        """How it ended, waiting at most ``seconds``; None while it lives."""
        if not _until(lambda: not self.lives(), seconds):
            return None
        code = self.process.returncode
        return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def crashed(self) -> bool:
        reported = any("AddressSanitizer" in text for _, text in self.lines)
        crashed = -(self.process.poll() or 0) in CRASHES or (not self.lives() and reported)
        return crashed and not any(GAVE_UP.search(text) for _, text in self.lines)

    def last_lines(self) -> str:
        return "\n".join("      | " + _printable(text) for _, text in self.lines[-4:])


class Try(NamedTuple):
    verdict: int  # SEEN, NOT_SEEN or NOT_TRIED
    text: str  # what happened


def main() -> int:
    program, wanted = _arguments()
    print(f"first found on: {FOUND_ON}" if FOUND_ON else "")
    said = {defect: _decide(defect, program) for defect in wanted}
    print()
    for defect, verdict in said.items():
        print(defect, {SEEN: "SEEN", NOT_SEEN: "not seen", NOT_TRIED: "could not be tried"}[verdict])
    return next((verdict for verdict in (SEEN, NOT_TRIED) if verdict in said.values()), NOT_SEEN)


def _decide(defect: str, program: Program) -> int:
    carry_out, idle, poisoned, tries = WAYS[defect]
    verdicts: list[int] = []
    for number in range(tries):
        with Server(program, idle, poisoned) as server:
            failed = Try(NOT_TRIED, f"the server does not start\n{server.last_lines()}")
            verdict, text = carry_out(server, number) if server.comes_up() else failed
        print(f"{defect} try {number + 1}: {text}", flush=True)
        verdicts.append(verdict)
        if verdict == SEEN or (number >= 5 and NOT_SEEN not in verdicts):
            break
    clean = 2 * verdicts.count(NOT_SEEN) > len(verdicts)
    return SEEN if SEEN in verdicts else NOT_SEEN if clean else NOT_TRIED


def count_asleep(server: Server, _: int) -> Try:
    """D1: one token count to a sleeping server."""
    awake = server.ask(COUNT)
    if awake.status != 200:
        return Try(NOT_TRIED, f"awake, a token count is answered with {awake.status}")
    if not _until(server.is_asleep, 15.0):
        return Try(NOT_TRIED, "the server does not go to sleep")
    return _compared(server, server.ask(COUNT), awake, "a token count to the sleeping server")


def read_unloaded(server: Server, _: int) -> Try:
    """D2: the sleep falls into the tokenising of a long prompt."""
    server.ask(TOUCH)
    first = server.ask(_long(1000))
    request = _long(int(min(20_000, 400 / (first.ended - first.sent))))  # 0.4 s at most, well below the limit
    server.ask(TOUCH)
    awake = server.ask(request)
    if awake.status != 200:
        return Try(NOT_TRIED, f"awake, the request is answered with {awake.status}: {server.died(1.0)}")
    sent = _pinned(server, request, min(0.1, 0.4 * (awake.ended - awake.sent)))
    if not sent.answers and server.lives() and server.is_asleep():
        return Try(NOT_TRIED, "no answer, and the server sleeps: a hang of another kind")
    return _judged(server, sent, awake)


def _long(sentences: int) -> tuple[str, str, Any]:
    return "POST", "/tokenize", {"content": "say hello world and crash to the sleep " * sentences}


def strand(server: Server, number: int) -> Try:
    """D3: the sleep falls between the tokenising and the queue."""
    awake, offset = server.ask(MANY), OFFSETS[number % len(OFFSETS)]
    if awake.status != 200:
        return Try(NOT_TRIED, f"awake, the request is answered with {awake.status}")
    sent = _pinned(server, MANY, offset)
    if sent.answers or not server.lives():
        verdict, text = _judged(server, sent, awake)
        return Try(NOT_TRIED, f"{text}: that is not D3") if verdict == SEEN else Try(verdict, text)
    if sent.early or not server.is_asleep():
        return Try(NOT_TRIED, "no answer, but the sleep was not where it was wanted")
    server.ask(("GET", "/slots", None))
    if not _until(lambda: bool(sent.answers) and sent.answers[0].status is not None, 10.0):
        return Try(NOT_TRIED, "no answer, and GET /slots did not release it: a hang of another kind")
    return Try(SEEN, "no answer, asleep and alive; GET /slots woke it, and the request was answered")


# Idle limit in seconds, fill freed memory (a sleep a little early would crash D3's requests), tries.
WAYS = {
    "D1": (count_asleep, 1, True, 3),
    "D2": (read_unloaded, 2, True, 8),
    "D3": (strand, 2, False, 12),
}


class Sent(NamedTuple):
    answers: list[Answer]
    pokes: list[Answer]
    early: bool  # it slept before the request was sent


def _pinned(server: Server, request: tuple[str, str, Any], offset: float) -> Sent:
    """Send ``request`` when the idle limit has passed, and make the server sleep ``offset`` s later."""
    limit, early = _due(server)
    answers = server.begin(request)
    time.sleep(max(0.0, limit + 0.1 + offset - time.monotonic()))
    pokes = server.begin(POKE)
    _until(lambda: bool(answers) or not server.lives(), SETTLE_SECONDS)
    return Sent(answers, pokes, early)


def _due(server: Server) -> tuple[float, bool]:
    """Wait until the idle limit has passed, no look of the loop's own is near; did it sleep meanwhile?"""
    server.ask(TOUCH)
    before, limit = len(server.sleeps()), time.monotonic() + server.idle
    time.sleep(max(0.0, limit - 0.4 - time.monotonic()))
    server.ask(POKE)  # starts a fresh wait of one second, which reaches past the limit
    time.sleep(max(0.0, limit + 0.1 - time.monotonic()))
    return limit, len(server.sleeps()) > before


def _judged(server: Server, sent: Sent, awake: Answer) -> Try:
    if not _until(lambda: bool(sent.answers), DEATH_SECONDS):
        return Try(NOT_TRIED, "no answer, and the server is not asleep")
    answer = sent.answers[0]
    slept = sent.early or any(answer.sent < at < answer.ended for at in server.sleeps())
    if answer.status is not None and not slept and _declined(answer, sent.pokes):
        return _stayed_awake(server, answer, awake)
    if sent.early or (server.lives() and not slept):
        return Try(NOT_TRIED, "the sleep did not fall into the request")
    return _compared(server, answer, awake, "a sleep during the request")


def _declined(answer: Answer, pokes: list[Answer]) -> bool:
    """Due to sleep, poked under the request while no task of it was there, the loop went on."""
    looks = [poke for poke in pokes if poke.ended + AT_ONCE < answer.ended]
    return any(poke.status == 200 and len(NO_TASK.findall(poke.body)) == 2 for poke in looks)


def _stayed_awake(server: Server, answer: Answer, awake: Answer) -> Try:
    """A right answer without a sleep is a sound server's, if it sleeps when poked with nothing in flight."""
    if answer.told() != awake.told():
        return Try(NOT_TRIED, "the server stayed awake for the request, and answered otherwise than before")
    _, early = _due(server)
    before = len(server.sleeps())
    server.ask(POKE)
    if early or not _until(lambda: len(server.sleeps()) > before, 4 * AT_ONCE):
        return Try(NOT_TRIED, "no sleep with nothing in flight either: GET /metrics brings none on here")
    return Try(NOT_SEEN, "answered as when awake; the server stayed awake for it and slept later")


def _compared(server: Server, answer: Answer, awake: Answer, what: str) -> Try:
    if answer.status is None:
        end = server.died(DEATH_SECONDS)
        if not server.crashed():
            return Try(NOT_TRIED, f"{what}: no answer, the server {end or 'lives'}")
        return Try(SEEN, f"{what}: the server {end}\n{server.last_lines()}")
    if answer.told() == awake.told() or answer.status == 503:
        return Try(NOT_SEEN, f"{what}: " + ("refused" if answer.status == 503 else "answered as when awake"))
    told = _printable(answer.body.decode("utf-8", "replace"))
    return Try(SEEN, f"{what}: answered {answer.status} {told}, not as when awake")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:160])


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


def _arguments() -> tuple[Program, list[str]]:
    parser = argparse.ArgumentParser(description=f"Shows sleep defects of llama-server: {DEFECTS}.")
    parser.add_argument("--server-bin", type=Path, help="the llama-server to test")
    parser.add_argument("--python", type=Path, help="or: the python of an environment that has xllamacpp")
    parser.add_argument("--model", type=Path, default=Path(__file__).resolve().with_name(MODEL))
    parser.add_argument("--defect", action="append", choices=DEFECTS, help="only this one (may be repeated)")
    parser.add_argument("--keep", type=Path, help="keep logs and cores in this folder")
    parser.add_argument("--url", help="refused: a running server would be crashed; this starts its own")
    given = parser.parse_args()
    if given.url is not None or (given.server_bin is None) == (given.python is None):
        parser.error("give one of --server-bin and --python; a server in use is never tested: it would crash")
    missing = [path for path in (given.server_bin, given.python, given.model) if path and not path.is_file()]
    if missing:
        parser.error(f"no such file: {missing[0]}")
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    paths = [path and path.absolute() for path in (given.server_bin, given.python, given.model, given.keep)]
    return Program(*paths), list(dict.fromkeys(given.defect or DEFECTS))


def _carefully() -> int:
    """``main``, whose own failures are no answer: a traceback would end with the status of a defect."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return main()
    except KeyboardInterrupt:
        return 130
    except SystemExit as ended:
        return NOT_TRIED if ended.code == 2 else int(ended.code or 0)
    except Exception as error:  # noqa: BLE001
        print(f"could not be tried: {type(error).__name__}: {error}", file=sys.stderr)
        return NOT_TRIED


if __name__ == "__main__":
    sys.exit(_carefully())
