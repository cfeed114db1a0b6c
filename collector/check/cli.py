"""`llama-blackbox check`: is this host exposed to a known defect; `--cores`: would a crash leave evidence?"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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


Cores = Annotated[bool, typer.Option("--cores", help="would a crash leave a whole core and a log?")]
Unit = Annotated[str | None, typer.Option(help="the servers of this systemd unit")]
Pid = Annotated[int | None, typer.Option(help="this server")]
PresetFile = Annotated[
    Path | None, typer.Option(help="a router's preset file, at rest: each section as a server")
]
Binary = Annotated[
    Path | None, typer.Option("--server-bin", help="a binary, at rest: its marks; with --preset its build")
]
Build = Annotated[str | None, typer.Option(help="with --preset: the build, such as b11368")]
OneLine = Annotated[bool, typer.Option("--one-line", help="one line a server, the status word first")]
Textfile = Annotated[
    Path | None, typer.Option(help="also write this file for node_exporter's textfile collector")
]
AsJson = Annotated[bool, typer.Option("--json", help=f"print JSON, schema {SCHEMA}")]
Private = Annotated[
    bool, typer.Option("--include-private", help="with --json: do not redact home folders and keys")
]


@app.command()
def run(
    cores: Cores = False,
    unit: Unit = None,
    pid: Pid = None,
    preset: PresetFile = None,
    server_bin: Binary = None,
    build: Build = None,
    one_line: OneLine = False,
    textfile: Textfile = None,
    as_json: AsJson = False,
    include_private: Private = False,
) -> int:
    """Every llama-server of this host, the one named, or files at rest. Changes, asks and wakes nothing.

    Exit status: 0 nothing found, 1 exposed or something would be lost, 2 nothing that may be looked at.
    """
    asked = Asked(cores, unit, pid, preset, server_bin, build, one_line, textfile, as_json, include_private)
    asked.demand_sense()
    if preset is not None or server_bin is not None:
        return _at_rest(asked)
    found, skipped = _picked(asked)
    results, fine = _cores(found) if cores else _views(found)
    if not results:
        raise UserError("the server ended while it was looked at", where="check", remedy="run it again")
    if textfile is not None:
        _write(textfile, results, skipped)
    with printing(), for_a_reader():
        if as_json:
            print(as_text(results, skipped, cores=cores, private=include_private))
        elif one_line:
            _short(results, skipped)
        else:
            _show(results, skipped, cores)
    return FINE if fine and not skipped else SOMETHING


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    cores: bool
    unit: str | None
    pid: int | None
    preset: Path | None
    server_bin: Path | None
    build: str | None
    one_line: bool
    textfile: Path | None
    as_json: bool
    private: bool

    def demand_sense(self) -> None:
        """Raises UserError for options that do not go together."""
        rest = self.preset is not None or self.server_bin is not None
        living = self.cores or self.unit is not None or self.pid is not None
        wrong = {
            "--preset and --server-bin look at files, not at servers": rest
            and (living or self.one_line or self.textfile is not None),
            "--build belongs to --preset": self.build is not None and self.preset is None,
            "--one-line and --textfile speak of exposure": self.cores
            and (self.one_line or self.textfile is not None),
            "--json and --one-line are two outputs": self.as_json and self.one_line,
        }
        for what, holds in wrong.items():
            if holds:
                raise UserError(what, where="check", remedy="leave one of them out; see check --help")


def _picked(asked: Asked) -> tuple[list[Server], list[str]]:
    """As ``pick``; with --textfile the file says that there is none."""
    try:
        return pick(asked.unit, asked.pid)
    except UserError:
        if asked.textfile is not None:
            from collector.check.lines import nothing, write_textfile

            write_textfile(asked.textfile, nothing(len(hidden())))
        raise


def _at_rest(asked: Asked) -> int:
    from collector.check.rest import binary_at_rest, preset_at_rest, wanted_build

    wanted = wanted_build(asked.build, asked.server_bin)
    if asked.preset is not None:
        found, errors = preset_at_rest(asked.preset, wanted)
    else:
        assert asked.server_bin is not None  # noqa: S101 - one of the two was given
        found, errors = [binary_at_rest(asked.server_bin, wanted)], []
    with printing(), for_a_reader():
        if asked.as_json:
            document = _document(found, [], "at-rest")
            document["errors"] = errors
            print(_json(document, asked.private))
        else:
            from rich.console import Console

            from collector.check.render import show_at_rest

            show_at_rest(found, errors, Console(highlight=False))
    bad = errors or any(one.errors or one.verdict in ("exposed", "possible") for one in found)
    return SOMETHING if bad else FINE


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


def _views(found: Sequence[Server]) -> tuple[Sequence[Any], bool]:
    from collector.check.lines import all_fine
    from collector.check.overview import Overview

    results = Overview().look(found)
    return results, all_fine(results)


def _write(path: Path, results: Sequence[Any], skipped: Sequence[str]) -> None:
    from collector.check.lines import textfile, write_textfile

    write_textfile(path, textfile(results, len(skipped), time.time()))


def _short(results: Sequence[Any], skipped: Sequence[str]) -> None:
    from collector.check.lines import one_line, skipped_line

    for view in results:
        print(one_line(view))
    for line in skipped:
        print(skipped_line(line))


def as_text(results: Sequence[Any], skipped: Sequence[str], *, cores: bool, private: bool = False) -> str:
    """The JSON document: ``{schema, tool, what, servers[], not_looked_at[]}``."""
    return _json(_document(results, skipped, "cores" if cores else "exposure"), private)


def _document(results: Sequence[Any], skipped: Sequence[str], what: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "tool": f"llama-blackbox {__version__}",
        "what": what,
        "servers": [one.to_json() for one in results],
        "not_looked_at": list(skipped),
    }


def _json(document: dict[str, Any], private: bool) -> str:
    shown = document if private else _redacted(document)
    return printable_json(json.dumps(shown, indent=2, ensure_ascii=False))


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

    from collector.check.render import show_readiness, show_skipped, show_views

    console = Console(highlight=False)
    (show_readiness if cores else show_views)(results, console)
    show_skipped(skipped, console)
