"""`llama-blackbox collect`: all this host knows of one death, or of a hang while it hangs, in one file."""

from __future__ import annotations

import importlib.util
import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from analyzers.bundle.write import ARCHIVE_SUFFIX
from analyzers.cli.extras import install_line
from analyzers.cli.output import printing
from analyzers.contracts.bundle import Manifest
from analyzers.errors import EXIT_OK, UserError
from analyzers.privacy.visible import visible
from collector.gather import options
from collector.gather.choose import choose, living
from collector.gather.dead import gather_death
from collector.gather.deaths import Places, others
from collector.gather.haul import Haul
from collector.gather.journal import JOURNAL_SECONDS, Journal, demand_folder
from collector.gather.living import identify, passive_look, surroundings
from collector.gather.servers import Server
from collector.gather.stopping import tidied
from collector.gather.tools import read_piped
from collector.gather.wanted import Wanted, wanted

if TYPE_CHECKING:
    from collector.gather.live import Ways

app = typer.Typer(add_completion=False, rich_markup_mode=None)
LIVE_PACKAGE, EXTRA = "httpx", "agent"
MAX_KEY_FILE = 1 << 16
MAX_BETWEEN = 600.0
LIVE_JOURNAL_SECONDS = 10.0  # a hang may be over before a slow journal has answered


@app.command()
def run(
    output: options.Output = None,
    unit: options.Unit = None,
    pid: options.Pid = None,
    since: options.Since = None,
    boot: options.Boot = None,
    live: options.Live = False,
    seconds: options.Seconds = None,
    stacks: options.Stacks = True,
    metrics: options.Metrics = False,
    port: options.Port = None,
    api_prefix: options.Prefix = None,
    api_key_file: options.KeyFile = None,
    with_core: options.WithCore = False,
    include_private: options.Private = False,
    force: options.Force = False,
    journal: options.JournalFolder = None,
) -> int:
    """Gather a bundle for `llama-blackbox triage`, here or elsewhere. Changes and wakes nothing.

    Without a name: the newest death of a llama-server. What could not be had is listed, with the way to it.
    """
    asked = wanted(unit, pid, since, boot)
    target = _target(output, force)
    places = Places(
        journal=Journal(demand_folder(journal), seconds=LIVE_JOURNAL_SECONDS if live else JOURNAL_SECONDS)
    )
    told = {
        "--seconds": seconds,
        "--metrics": metrics or None,
        "--port": port,
        "--api-prefix": api_prefix,
        "--api-key-file": api_key_file,
    }
    _fitting(asked, live, port, [name for name, value in told.items() if value is not None])
    with tidied(), _room() as folder:
        if live:
            ways = _ways(seconds, stacks=stacks, metrics=metrics, key_file=api_key_file)
            ways = replace(ways, port=port, prefix=api_prefix)
            haul, words = _live(places, asked, ways, include_private)
        else:
            haul, words = _gathered(places, asked, folder, include_private)
        manifest = haul.write(target, private=include_private, memory=with_core, overwrite=force)
    with printing():
        print(_told(words, target, manifest, haul))
    return EXIT_OK


@contextmanager
def _room() -> Iterator[Path]:
    """A private temporary folder. Raises UserError on a host that has no place for one."""
    try:
        made = tempfile.TemporaryDirectory(prefix="llama-blackbox-")
    except OSError as error:
        raise UserError(
            f"no temporary folder can be made ({(error.strerror or 'error').lower()})",
            where=visible(tempfile.tempdir or "TMPDIR"),
            remedy="free some space there, or set TMPDIR to a folder that can be written to",
        ) from None
    with made as folder:
        yield Path(folder)


def _target(output: Path | None, force: bool) -> Path:
    """Where the bundle goes. Raises UserError before anything is gathered, when it cannot go there."""
    target = output or Path(f"llama-blackbox-{time.strftime('%Y%m%d-%H%M%S')}{ARCHIVE_SUFFIX}")
    where = visible(str(target))
    if os.path.lexists(target) and not force:
        raise UserError("it exists", where=where, remedy="choose another name, or give --force")
    if not target.absolute().parent.is_dir() or not os.access(target.absolute().parent, os.W_OK):
        raise UserError(
            "its folder is not there or not writable", where=where, remedy="give another -o FILE.tar.zst"
        )
    return target


def _fitting(asked: Wanted, live: bool, port: int | None, named: list[str]) -> None:
    """Raises UserError for options that do not go together, or for a port that is none."""
    if named and not live:
        raise UserError(f"{named[0]} is of a live look", where="collect", remedy="give --live as well")
    if port is not None and not 0 < port < 65536:
        raise UserError("not a TCP port", where=f"--port {port}", remedy="give 1 to 65535")
    if live and (asked.since is not None or asked.boot is not None):
        raise UserError(
            "--live looks at what runs now", where="collect", remedy="leave --since and --boot out"
        )


def _gathered(places: Places, asked: Wanted, folder: Path, private: bool) -> tuple[Haul, str]:
    choice = choose(places, asked)
    if choice.server is not None:
        haul = Haul()
        identify(haul, places, choice.server, private=private)
        passive_look(haul, choice.server)
        surroundings(haul, choice.server)
        words = f"llama-server, PID {choice.server.pid}, running"
    else:
        haul = gather_death(places, choice.deaths[0], folder, private=private)
        haul.missed(others(list(choice.deaths[1:])))
        words = choice.deaths[0].words
    haul.missed(choice.gaps)
    return haul, words


def _ways(seconds: float | None, *, stacks: bool, metrics: bool, key_file: Path | None) -> Ways:
    """How to look. Raises UserError for a span or a key file that cannot be used, or without the extra."""
    if importlib.util.find_spec(LIVE_PACKAGE) is None:
        raise UserError(f"--live needs {LIVE_PACKAGE}", where="collect", remedy=f"run: {install_line(EXTRA)}")
    from collector.gather import live  # httpx: 60 ms, and only in the extra

    ways = live.Ways(stacks=stacks, metrics=metrics)
    if seconds is not None:
        if not 0 < seconds <= MAX_BETWEEN:
            raise UserError(
                "not a time between looks", where=f"--seconds {seconds:g}", remedy="give 1 to 600"
            )
        ways = replace(ways, seconds=seconds)
    return live.with_key(ways, _key(key_file)) if key_file is not None else ways


def _live(places: Places, asked: Wanted, ways: Ways, private: bool) -> tuple[Haul, str]:
    server = living(asked)
    haul = look_live(places, server, ways, private=private)
    return haul, f"llama-server, PID {server.pid}, looked at twice"


def look_live(places: Places, server: Server, ways: Ways, *, private: bool = False) -> Haul:
    """The haul of two looks at ``server``, then of what surrounds it."""
    from collector.gather import live

    haul = Haul()
    known = identify(haul, places, server, private=private)
    live.gather_live(haul, server, known, ways)
    surroundings(haul, server)
    return haul


def _key(path: Path) -> str:
    data = read_piped(path, MAX_KEY_FILE)
    if data is None:
        raise UserError(
            "cannot be read", where=f"--api-key-file {path}", remedy="check the path and its rights"
        )
    return data.decode("utf-8", "replace")


def _told(words: str, target: Path, manifest: Manifest, haul: Haul) -> str:
    size = target.stat().st_size if target.is_file() else sum(file.size or 0 for file in manifest.files)
    lines = [
        f"{words}",
        f"wrote {target}: {len(manifest.files)} files, {len(haul.evidence)} facts, {size / 1024:.0f} KiB",
    ]
    if manifest.memory:
        lines.append("it holds a core: memory, in which keys and prompts stand; do not share it")
    lines += [
        f"not in it: {gap.what} ({gap.why})" + (f"; {gap.command}" if gap.command else "")
        for gap in manifest.gaps
    ]
    lines.append(f"next: llama-blackbox triage {shlex.quote(str(target))}")
    return "\n".join(visible(line) for line in lines)
