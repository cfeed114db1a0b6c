"""`llama-blackbox symbols fetch`: symbol files by build-id into this user's cache, only when told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from analyzers.cli.output import printing
from analyzers.errors import EXIT_FAILED, EXIT_OK, UserError
from analyzers.symbols.cache import DEBUG, PROGRAM, Cache, default_root
from collector.symbols.client import Outcome, checked_url, fetch
from collector.symbols.wanted import build_ids

URLS = "DEBUGINFOD_URLS"
EXIT_NOTHING = 3  # every server was asked and none has any of it
GOT, FAILED = ("fetched", "cached"), "failed"
SAID = {
    "fetched": "fetched",
    "cached": "in the cache already",
    "missing": "not there",
    "known-missing": "not there when it was asked within the last day (--again asks again)",
    FAILED: "failed",
}
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Symbol files for cores of builds that are not on this machine."""


@app.command("fetch")
def run(
    things: Annotated[list[str], typer.Argument(metavar="REPORT|CORE|BUILD-ID", help="what to fetch for")],
    url: Annotated[
        list[str] | None,
        typer.Option(help=f"a debuginfod server; may be repeated. Without it: the variable {URLS}"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="for every mapped file, not only for the server's own code")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="ask for what was not there lately, too")] = False,
) -> int:
    """Fetch program and debug files by build-id. Sends build-ids to the servers named, and nothing else.

    Every file is bounded and kept only when its own build-id is the one asked for; `triage` then finds it.
    Exit status: 0 something is there now, 3 no server has any of it, 1 nothing came and a server did not
    answer, 2 the request cannot be used.
    """
    servers = servers_of(url or [], os.environ.get(URLS, ""))
    wanted = [one for thing in things for one in _of(thing, every)]
    cache = Cache(default_root())
    outcomes = [one for build_id in dict.fromkeys(wanted) for one in fetched(build_id, servers, cache, again)]
    return status_of(outcomes)


def status_of(outcomes: Sequence[Outcome]) -> int:
    """A server that did not answer may have it: then nothing is known to be missing."""
    if any(one.state in GOT for one in outcomes):
        return EXIT_OK
    return EXIT_FAILED if any(one.state == FAILED for one in outcomes) else EXIT_NOTHING


def _of(thing: str, every: bool) -> list[str]:
    found = build_ids(thing)
    return found if every else found[:1]


def servers_of(given: Sequence[str], variable: str) -> list[str]:
    """The servers named on the command line, else those of the variable. Raises UserError without any."""
    servers = [checked_url(one) for one in (given or variable.split())]
    if not servers:
        remedy = f"give --url URL or set {URLS}; your distribution's documentation names its server"
        raise UserError("no debuginfod server is named", where="symbols fetch", remedy=remedy)
    return servers


def fetched(build_id: str, servers: Sequence[str], cache: Cache, again: bool = False) -> list[Outcome]:
    """Program and debug file of one build, each from the first server that has it; prints each outcome."""
    outcomes = []
    for kind in (PROGRAM, DEBUG):
        for server in servers:
            outcome = fetch(build_id, kind, server, cache, again=again)
            outcomes.append(outcome)
            with printing():
                print(line(outcome))
            if outcome.state in GOT:
                break
    return outcomes


def line(outcome: Outcome) -> str:
    """One outcome for people."""
    size = f", {outcome.size:,} bytes" if outcome.size else ""
    why = f": {outcome.why}" if outcome.why else ""
    where = "" if outcome.state == "cached" else f" ({outcome.url})"
    return f"{outcome.build_id} {outcome.kind}: {SAID[outcome.state]}{size}{where}{why}"
