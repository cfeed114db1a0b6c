"""`llama-blackbox check`: is this host exposed to a known defect; `--cores`: would a crash leave evidence?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from analyzers.cli.output import for_a_reader, printable_json, printing
from analyzers.errors import UserError
from analyzers.version import __version__
from collector.check.model import READY, SCHEMA
from collector.gather.choose import in_unit
from collector.gather.servers import PROGRAM, Server, demand_server, servers
from collector.sources.procfs import PROC

app = typer.Typer(add_completion=False, rich_markup_mode=None)
FINE, SOMETHING = 0, 1
MAX_SKIPPED = 20


@app.command()
def run(
    cores: Annotated[
        bool, typer.Option("--cores", help="would a crash leave a whole core and a log?")
    ] = False,
    unit: Annotated[str | None, typer.Option(help="the servers of this systemd unit")] = None,
    pid: Annotated[int | None, typer.Option(help="this server")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"print JSON, schema {SCHEMA}")] = False,
    include_private: Annotated[
        bool, typer.Option("--include-private", help="with --json: do not redact home folders and keys")
    ] = False,
) -> int:
    """Every llama-server of this host, or the one that is named. Changes, asks and wakes nothing.

    Exit status: 0 nothing found, 1 exposed or something would be lost, 2 no server that may be looked at.
    """
    found, skipped = pick(unit, pid)
    results, fine = _cores(found) if cores else _exposures(found)
    if not results:
        raise UserError("the server ended while it was looked at", where="check", remedy="run it again")
    with printing(), for_a_reader():
        if as_json:
            print(as_text(results, skipped, cores=cores, private=include_private))
        else:
            _show(results, skipped, cores)
    return FINE if fine and not skipped else SOMETHING


def pick(unit: str | None, pid: int | None) -> tuple[list[Server], list[str]]:
    """The servers to look at, and lines about those that this user may not. Raises UserError for none."""
    if pid is not None and unit is not None:
        raise UserError("--unit and --pid name two things", where="check", remedy="give one of them")
    if pid is not None:
        return [demand_server(pid)], []
    if unit is not None:
        found = in_unit(unit)
        remedy = f"see systemctl status {unit}; or name the process: --pid P"
        what = "no llama-server runs in it that this user may look at"
        if not found:
            raise UserError(what, where=f"--unit {unit}", remedy=remedy)
        return found, []
    found, skipped = servers(), hidden()
    if not found:
        remedy = "run it with sudo" if skipped else "start the server first; see pgrep -a llama-server"
        raise UserError(
            "no llama-server is running that this user may look at", where="this host", remedy=remedy
        )
    return found, skipped


def hidden() -> list[str]:
    """Processes that call themselves llama-server and belong to another user. A name proves nothing."""
    lines = []
    for name in sorted((each.name for each in PROC.iterdir() if each.name.isdigit()), key=int):
        try:
            comm = (PROC / name / "comm").read_text(errors="replace").strip()
            if PROGRAM.search(comm):
                (PROC / name / "exe").readlink()
        except PermissionError:
            lines.append(f"process {name} ({comm}) is another user's and was not looked at: run it with sudo")
        except OSError:
            continue
    return lines[:MAX_SKIPPED]


def _cores(found: Sequence[Server]) -> tuple[Sequence[Any], bool]:
    from collector.check.readiness import check_cores

    results = check_cores(found)
    return results, all(one.verdict == READY for one in results)


def _exposures(found: Sequence[Server]) -> tuple[Sequence[Any], bool]:
    from collector.check.exposure import EXPOSED, POSSIBLE, expose
    from collector.check.subject import read_subject
    from collector.sources.procfs import GoneError

    results = []
    for server in found:
        try:
            results.append(expose(read_subject(server)))
        except GoneError:
            continue
    return results, all(one.verdict not in (EXPOSED, POSSIBLE) for one in results)


def as_text(results: Sequence[Any], skipped: Sequence[str], *, cores: bool, private: bool = False) -> str:
    """The JSON document: ``{schema, tool, what, servers[], not_looked_at[]}``."""
    document = {
        "schema": SCHEMA,
        "tool": f"llama-blackbox {__version__}",
        "what": "cores" if cores else "exposure",
        "servers": [one.to_json() for one in results],
        "not_looked_at": list(skipped),
    }
    return printable_json(
        json.dumps(document if private else _redacted(document), indent=2, ensure_ascii=False)
    )


def _redacted(document: dict[str, Any]) -> Any:
    from analyzers.privacy.redact import Redactor

    redactor = Redactor()

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [walk(each) for each in value]
        return redactor.text(value) if isinstance(value, str) else value

    return walk(document)


def _show(results: Sequence[Any], skipped: Sequence[str], cores: bool) -> None:
    from rich.console import Console

    from collector.check.render import show_exposure, show_readiness, show_skipped

    console = Console(highlight=False)
    (show_readiness if cores else show_exposure)(results, console)
    show_skipped(skipped, console)
