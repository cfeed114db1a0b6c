"""``docker inspect``, ``podman inspect`` and ``kubectl get pod -o json``: how a container ended.

Arguments and environment stand in them too, keys included: nothing of either is taken over but the idle time.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ExitFact, SettingsFact, to_evidence
from analyzers.contracts.report import Gap
from analyzers.errors import UserError
from analyzers.logs.supervisor import from_status
from analyzers.logs.text import visible
from analyzers.triage.material import Material
from analyzers.triage.readers.bounded import MAX_TEXT
from analyzers.triage.readers.stamps import wall_seconds

NextId = Callable[[], str]
MAX_CONTAINERS = 64
IDLE = "--sleep-idle-seconds"
ZERO_TIME = "0001-"  # Go's zero time: not yet
OOM_STATUS = 128 + int(signal.SIGKILL)


@dataclass(frozen=True)
class _End:
    name: str | None
    status: int | None
    running: bool
    oom: bool
    error: str | None
    wall: float | None


def containers_material(path: Path, name: str, next_id: NextId) -> Material:
    """The end of each container that has ended. Raises UserError when it is no whole JSON, OSError."""
    rows = _rows(path, name)
    found: list[Evidence] = []
    for row in rows:
        found += [
            _exit(end, name, next_id) for end in _ends(row) if end.status is not None and not end.running
        ]
        found += _settings(row, name, next_id)
    gaps = [] if any(item.kind == ExitFact.KIND for item in found) else [_alive(name)]
    return Material(evidence=tuple(found), gaps=tuple(gaps))


def _rows(path: Path, name: str) -> Sequence[Mapping[str, Any]]:
    with path.open("rb") as file:
        data = file.read(MAX_TEXT)
    try:
        told = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise UserError(
            "JSON that is cut or damaged", where=name, remedy="run the inspect command again, whole"
        ) from None
    items = told if isinstance(told, list) else [told]
    if len(items) == 1 and isinstance(items[0], dict) and isinstance(items[0].get("items"), list):
        items = items[0]["items"]
    return [item for item in items if isinstance(item, dict)][:MAX_CONTAINERS]


def _ends(row: Mapping[str, Any]) -> Iterator[_End]:
    state = row.get("State")
    if isinstance(state, dict):
        yield _of_docker(row, state)
    status = row.get("status")
    statuses = status.get("containerStatuses") if isinstance(status, dict) else None
    for item in statuses[:MAX_CONTAINERS] if isinstance(statuses, list) else ():
        if isinstance(item, dict):
            yield from _of_pod(item)


def _of_docker(row: Mapping[str, Any], state: Mapping[str, Any]) -> _End:
    finished = str(state.get("FinishedAt") or "")
    running = state.get("Running") is True or state.get("Status") in ("running", "created", "paused")
    return _End(
        name=_text(row.get("Name")).lstrip("/") or None,
        status=_status(state.get("ExitCode")),
        running=running,
        oom=state.get("OOMKilled") is True,
        error=_text(state.get("Error")) or None,
        wall=None if finished.startswith(ZERO_TIME) else wall_seconds(finished),
    )


def _of_pod(item: Mapping[str, Any]) -> Iterator[_End]:
    """The newest end: the present state's when it is one, else the last state's."""
    for key in ("state", "lastState"):
        state = item.get(key)
        ended = state.get("terminated") if isinstance(state, dict) else None
        if isinstance(ended, dict):
            reason = _text(ended.get("reason"))
            yield _End(
                name=_text(item.get("name")) or None,
                status=_status(ended.get("exitCode")),
                running=False,
                oom=reason == "OOMKilled",
                error=reason or None,
                wall=wall_seconds(_text(ended.get("finishedAt"))),
            )
            return


def _text(value: object) -> str:
    return visible(value, 200) if isinstance(value, str) else ""


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256 else None


def _exit(end: _End, name: str, next_id: NextId) -> Evidence:
    """OOMKilled beside another status than 137 means that some process inside was killed, not the server."""
    assert end.status is not None  # noqa: S101 - chosen by the caller
    killed = end.oom and end.status == OOM_STATUS
    plain = from_status("docker", end.status, end.name)
    fact = ExitFact(by="docker", signal=plain.signal, code=plain.code, oom=killed, unit=end.name)
    said = f"container {end.name or ''} ended with status {end.status}".replace("  ", " ")
    said += ", killed for memory" if killed else ", some process in it killed for memory" if end.oom else ""
    said += f" ({end.error})" if end.error and not killed else ""
    return to_evidence(
        fact, id=next_id(), source=name, text=visible(said), trust=Trust.SUPERVISOR, wall=end.wall
    )


def _settings(row: Mapping[str, Any], name: str, next_id: NextId) -> list[Evidence]:
    idle = _idle(_args(row))
    if idle is None:
        return []
    fact = SettingsFact(sleep_idle_seconds=idle)
    text = f"{IDLE} {idle}, in the container's command"
    return [to_evidence(fact, id=next_id(), source=name, text=text, trust=Trust.SUPERVISOR)]


def _args(row: Mapping[str, Any]) -> list[str]:
    config = row.get("Config")
    args = row.get("Args") or (config.get("Cmd") if isinstance(config, dict) else None)
    return [arg for arg in args if isinstance(arg, str)] if isinstance(args, list) else []


def _idle(args: Sequence[str]) -> int | None:
    joined = [arg.partition("=")[2] for arg in args if arg.startswith(f"{IDLE}=")]
    apart = [after for before, after in pairwise(args) if before == IDLE]
    values = [int(value) for value in (*joined, *apart) if value.lstrip("-").isdecimal() and len(value) < 11]
    return values[-1] if values else None


def _alive(name: str) -> Gap:
    return Gap(
        what=f"an end in {name}",
        why="the container runs, or its state names no exit code; a restart replaces what was known",
        command="docker events --since 24h --filter event=die",
    )
