"""What supervisors say about an end: systemd, docker and kubectl, the router, shells. All become ExitFact."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from analyzers.contracts.facts import ExitFact

SIGNAL_BASE = 128  # shells and container runtimes report a signal death as 128 + its number

_UNIT = r"(?:(?P<unit>[\w@:.\\-]{1,255}\.(?:service|scope|slice|socket)): )?"
_EXITED = re.compile(
    _UNIT
    + (
        r"(?:Main|Control) process exited, code=(?P<code>exited|killed|dumped), status="
        r"(?P<status>\d{1,3})(?:/(?P<name>[\w-]{1,24}))?"
    )
)
_RESULT = re.compile(_UNIT + r"Failed with result '(?P<result>[a-z-]{1,40})'\.")
_SIMPLE: tuple[tuple[re.Pattern[str], dict[str, object]], ...] = (
    (re.compile(_UNIT + r"Watchdog timeout \(limit .{1,40}\)!"), {"result": "watchdog"}),
    (
        re.compile(_UNIT + r"A process of this unit has been killed by the OOM killer\."),
        {"result": "oom-kill", "oom": True},
    ),
    (
        re.compile(_UNIT + r"Scheduled restart job, restart counter is at \d{1,9}\."),
        {"result": "scheduled-restart"},
    ),
    (re.compile(_UNIT + r"Start request repeated too quickly\."), {"result": "start-limit-hit"}),
    (re.compile(_UNIT + r"(?:Deactivated successfully|Succeeded)\."), {"result": "success"}),
    (
        re.compile(
            _UNIT
            + (
                r"(?:State '[\w-]{1,40}'|Stopping) timed out\. (?:Killing|Terminating|Aborting"
                r"|Skipping SIGKILL)\."
            )
        ),
        {"result": "timeout", "requested": True},
    ),
    (
        re.compile(r"Stopping (?P<unit>[\w@:.\\-]{1,255}\.(?:service|scope))(?: - .{1,200}|\.\.\.)?.{0,8}"),
        {"result": "stopping", "requested": True},
    ),
)
_DOCKER: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?P<unit>[\w./-]{1,128}) exited with code (?P<status>\d{1,3})(?: \(restarting\))?"),
    re.compile(r"(?:.{0,200} )?Exited \((?P<status>\d{1,3})\) .{1,60}"),
    re.compile(r" *Exit Code: +(?P<status>\d{1,3})"),
    re.compile(
        r"(?:\S{1,40} )?container die [0-9a-f]{12,64} \((?:.{0,2000}, ?)?exitCode="
        r"(?P<status>\d{1,3})(?:,.{0,2000})?\)"
    ),
    re.compile(r' *"ExitCode": (?P<status>\d{1,3}),?'),
)
_DOCKER_OOM = re.compile(r' *(?:Reason: +OOMKilled|"OOMKilled": true,?)')
_ROUTER = re.compile(
    r"(?:\w{1,12} {1,16}(?:run|log|operator\(\)|[\w~]{1,12}): )?instance name="
    r"(?P<unit>[^\x00-\x1f=]{1,200}?) exited with status (?P<status>-?\d{1,10})"
)
GO_FATAL = 2
_GO_SIGNALS = {
    "segmentation fault": signal.SIGSEGV,
    "aborted": signal.SIGABRT,
    "bus error": signal.SIGBUS,
    "illegal instruction": signal.SIGILL,
    "floating point exception": signal.SIGFPE,
    "killed": signal.SIGKILL,
}
_NT_STATUS = {"0xc0000005": signal.SIGSEGV, "0xc000001d": signal.SIGILL, "0xc0000094": signal.SIGFPE}
# ollama about the runner it started, in its own structured log
_OLLAMA = re.compile(
    r"time=\S{1,40} level=[A-Z]{4,5} source=[\w.]{1,60}:\d{1,6} msg=.{1,200}? "
    r'error="(?:llama runner|llama-server) process has terminated: '
    rf"(?:signal: (?P<signal>{'|'.join(_GO_SIGNALS)})(?: \(core dumped\))?"
    r"|exit status (?:(?P<nt>0x[0-9a-fA-F]{8})|(?P<status>\d{1,3})))(?:[: ].{0,2000})?\"?"
)
_DUMPED = re.compile(
    r"Process (?P<pid>\d{1,10}) \((?P<name>.{1,64}?)\) of user \d{1,10}(?: \(.{1,40}\))? "
    r"(?:dumped core|terminated abnormally.{0,80})\.?(?s:.{0,65536})"
)
_SHELL_WORDS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
    "Killed": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
}
_SHELL = re.compile(
    rf"(?:.{{1,120}}?: line \d{{1,7}}: +)?(?:\[\d{{1,4}}\][+-]? +)?(?:\d{{1,10}} +)?"
    rf"(?P<word>{'|'.join(_SHELL_WORDS)})"
    r" *(?:\(core dumped\))?(?:  +.{0,400})?"
)


def parse_supervisor_line(body: str) -> ExitFact | None:
    """The exit fact of one line body (wrappers gone); None when no supervisor's wording matches it whole.

    ``result`` is systemd's own, or ``scheduled-restart``, ``start-limit-hit``, ``stopping``, ``success``.
    A signal death told as 128+N is turned into the signal.
    """
    body = body[:4096].strip()
    return next((fact for fact in (parse(body) for parse in _PARSERS) if fact is not None), None)


def _systemd(body: str) -> ExitFact | None:
    match = _EXITED.fullmatch(body)
    if match is not None:
        status = int(match["status"])
        killed = match["code"] != "exited"
        return ExitFact(
            by="systemd",
            signal=status if killed else None,
            code=None if killed else status,
            result="core-dump" if match["code"] == "dumped" else None,
            unit=match["unit"],
        )
    match = _RESULT.fullmatch(body)
    if match is None:
        return _systemd_simple(body)
    result = match["result"]
    return ExitFact(by="systemd", result=result, oom=result == "oom-kill", unit=match["unit"])


def _systemd_simple(body: str) -> ExitFact | None:
    for pattern, told in _SIMPLE:
        match = pattern.fullmatch(body)
        if match is not None:
            return ExitFact(
                by="systemd",
                result=str(told["result"]),
                oom=bool(told.get("oom")),
                requested=bool(told.get("requested")),
                unit=match["unit"],
            )
    return None


def _docker(body: str) -> ExitFact | None:
    if _DOCKER_OOM.fullmatch(body):
        return ExitFact(by="docker", signal=int(signal.SIGKILL), oom=True)
    match = next((m for m in (p.fullmatch(body) for p in _DOCKER) if m), None)
    if match is None:
        return None
    return from_status("docker", int(match["status"]), match.groupdict().get("unit"))


def from_status(by: str, status: int, unit: str | None = None) -> ExitFact:
    """An exit status as a fact; 129..192 is read as death by signal."""
    signalled = SIGNAL_BASE < status <= SIGNAL_BASE + 64
    return ExitFact(
        by=by,
        signal=status - SIGNAL_BASE if signalled else None,
        code=None if signalled else status,
        unit=unit,
    )


def _router(body: str) -> ExitFact | None:
    match = _ROUTER.fullmatch(body)
    return ExitFact(by="router", code=int(match["status"]), unit=match["unit"]) if match else None


def _coredump(body: str) -> ExitFact | None:
    match = _DUMPED.fullmatch(body)
    return ExitFact(by="systemd", result="core-dump", name=match["name"]) if match else None


def _shell(body: str) -> ExitFact | None:
    match = _SHELL.fullmatch(body)
    if match is None:
        return None
    dumped = "(core dumped)" in body
    return ExitFact(
        by="shell", signal=int(_SHELL_WORDS[match["word"]]), result="core-dump" if dumped else None
    )


def _ollama(body: str) -> ExitFact | None:
    match = _OLLAMA.fullmatch(body)
    if match is None:
        return None
    number = _GO_SIGNALS.get(match["signal"] or "", _NT_STATUS.get((match["nt"] or "").lower()))
    if number is None and match["status"] in (None, str(GO_FATAL)):
        return None  # the Go runtime leaves with 2 after any fatal signal: it names none
    code = int(match["status"]) if match["status"] else None
    return ExitFact(by="ollama", signal=int(number) if number else None, code=code)


_PARSERS: tuple[Callable[[str], ExitFact | None], ...] = (
    _systemd,
    _docker,
    _router,
    _coredump,
    _shell,
    _ollama,
)
