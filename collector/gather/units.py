"""A systemd unit as its manager describes it: state, limits, how it starts, without secrets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.privacy.redact import Redactor
from collector.gather.tools import quoted, read_text, run

TOOL = "systemctl"
PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "Result", "FragmentPath", "DropInPaths", "InvocationID"),
    *("MainPID", "ExecMainPID", "ExecMainCode", "ExecMainStatus"),
    *("ExecMainStartTimestamp", "ExecMainExitTimestamp"),
    *(
        "NRestarts",
        "Restart",
        "RestartUSec",
        "StartLimitBurst",
        "WatchdogUSec",
        "TimeoutStopUSec",
        "KillMode",
    ),
    *("MemoryCurrent", "MemoryPeak", "MemoryHigh", "MemoryMax", "CPUQuotaPerSecUSec", "TasksMax"),
    *("LimitCORE", "LimitNOFILE", "LimitMEMLOCK", "OOMPolicy", "OOMScoreAdjust", "ControlGroup"),
    *("WorkingDirectory", "User", "DynamicUser", "PrivateTmp", "PrivateNetwork", "ProtectSystem"),
    *("StandardOutput", "StandardError", "ExecStart", "Environment", "EnvironmentFiles"),
)
NOT_SHOWN = ("ExecStart", "Environment", "EnvironmentFiles")  # written anew, without secrets
MAX_FILE = 1 << 16  # bytes of an environment file; they hold tens of lines
# Values of sd_exec: SIGCHLD codes of siginfo (CLD_EXITED, CLD_KILLED, CLD_DUMPED).
EXITED, KILLED, DUMPED = "1", "2", "3"
_ARGV = re.compile(r"argv\[\]=(.*?) ; ignore_errors=")


@dataclass(frozen=True)
class Unit:
    """``properties`` as systemctl shows them; ``args`` and ``environment`` raw, for use on the host only."""

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def loaded(self) -> bool:
        return self.properties.get("LoadState") not in (None, "not-found")

    @property
    def main_pid(self) -> int | None:
        return _number(self.properties.get("MainPID"))

    @property
    def last_pid(self) -> int | None:
        """The main process of its last run."""
        return _number(self.properties.get("ExecMainPID"))

    @property
    def folder(self) -> Path | None:
        """Where it runs, and where a relative core_pattern leaves cores."""
        text = self.properties.get("WorkingDirectory", "").lstrip("!-")
        return Path(text) if text.startswith("/") else None

    @property
    def log_files(self) -> list[Path]:
        """Files that its output goes to, where it goes to files."""
        told = (self.properties.get(name, "") for name in ("StandardOutput", "StandardError"))
        parts = (text.partition(":") for text in dict.fromkeys(told))
        return [Path(path) for kind, _, path in parts if kind in ("file", "append", "truncate") and path]

    def text(self, redactor: Redactor) -> str:
        """The state for people: properties, the command line and the variables, without secrets."""
        rows = [f"{name}={value}" for name, value in self.properties.items() if name not in NOT_SHOWN]
        rows.append("ExecStart=" + shlex.join(redactor.args(self.args)))
        rows += [f"Environment={name}={value}" for name, value in redactor.env(self.environment).items()]
        return "\n".join(rows) + "\n"


def read_unit(name: str) -> tuple[Unit, list[Gap]]:
    """The unit of the system's manager, else of this user's; one that neither knows is not ``loaded``."""
    argv = ["show", "--no-pager", f"--property={','.join(PROPERTIES)}", "--", name]
    ran = run([TOOL, *argv])
    unit = parse_unit(name, ran.out.decode("utf-8", "replace"))
    if not unit.loaded:
        own = parse_unit(name, run([TOOL, "--user", *argv]).out.decode("utf-8", "replace"))
        unit = own if own.loaded else unit
    if unit.loaded:
        return unit, list(_with_files(unit))
    why = f"systemd does not know {name}" if ran.ok else ran.why
    return unit, [Gap(what="unit state", why=why, command=f"systemctl show {quoted(name)} > unit.txt")]


def parse_unit(name: str, text: str) -> Unit:
    """``systemctl show`` output, taken apart."""
    pairs = (line.partition("=") for line in text.splitlines())
    found: dict[str, str] = {}
    for key, equals, value in pairs:
        if equals and key in PROPERTIES:  # a list, such as of environment files, is a line for each
            found[key] = f"{found[key]}\n{value}" if key in found else value
    command = _ARGV.search(found.get("ExecStart", ""))
    variables = (word.partition("=") for word in _split(found.get("Environment", "")))
    return Unit(
        name,
        found,
        tuple(_split(command[1])) if command else (),
        {key: value for key, equals, value in variables if equals},
    )


def _with_files(unit: Unit) -> Iterator[Gap]:
    """Read the environment files into the unit's variables; a gap for each that may not be read."""
    for path, _, _ in (
        word.partition(" ") for word in unit.properties.get("EnvironmentFiles", "").split("\n")
    ):
        data = read_text(Path(path), MAX_FILE) if path.startswith("/") else b""
        if data is None:
            yield Gap(
                what="environment file of the unit",
                why="it may not be read",
                command=f"sudo cat {quoted(path)}",
            )
        for line in (data or b"").decode("utf-8", "replace").splitlines():
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith(("#", ";")):
                unit.environment.setdefault(key.removeprefix("export ").strip(), value.strip("'\""))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def exit_evidence(unit: Unit, pid: int) -> list[Evidence]:
    """How the unit's last run ended, when ``pid`` was its main process and has ended."""
    code, status = unit.properties.get("ExecMainCode"), _number(unit.properties.get("ExecMainStatus"))
    if unit.last_pid != pid or unit.main_pid == pid or code not in (EXITED, KILLED, DUMPED) or status is None:
        return []
    signal = status if code != EXITED else None
    result = unit.properties.get("Result") or None
    # A restart resets Result to success before the new process exists: then it says nothing about this end.
    result = None if result == "success" and signal is not None else result
    how = f"signal {signal}" if signal is not None else f"status {status}"
    fact = ExitFact(
        by="systemd",
        signal=signal,
        code=status if signal is None else None,
        result=result,
        unit=unit.name,
        oom=result == "oom-kill",
    )
    return [
        to_evidence(
            fact,
            id=f"unit-exit-{pid}",
            source=f"systemctl show {unit.name}",
            text=f"main process {pid} of {unit.name} ended with {how}, result {result or 'not kept'}",
            trust=Trust.SUPERVISOR,
            incarnation=Incarnation(pid=pid),
        )
    ]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and text != "0" and len(text) < 12 else None
