"""What is left to try on a core whose stacks the unwinder could not read.

First symbol files by build-id, with which it unwinds again; then, for the stacks that stay poor, the words
on the stack; last, names for the single instruction the kernel saved. Each result says how it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.contracts.facts import StackFact
from analyzers.contracts.report import Gap
from analyzers.core.memory import Memory
from analyzers.core.model import Core
from analyzers.core.text import Text
from analyzers.errors import UserError
from analyzers.stacks.eustack import NO_TOOL
from analyzers.stacks.scan import Scan
from analyzers.symbols.cache import default_root
from analyzers.symbols.farm import farm
from analyzers.symbols.naming import Symbols, named
from analyzers.symbols.places import Places

if TYPE_CHECKING:
    from analyzers.stacks.ladder import Unwound

MAX_SCANNED = 64  # threads whose stacks are looked through; a server has 10 to 40
MAX_WANTED = 4  # modules named in the line that says what to fetch
FETCH = "llama-blackbox symbols fetch {id} --url URL, or triage with --symbols DIR"


def places(folders: Sequence[Path]) -> Places:
    """The user's ``folders`` first, then the core's own paths, the system's debug files, the cache."""
    return Places(tuple(folder.absolute() for folder in folders), cache=default_root())


def improved(core: Core, found: Unwound, where: Places, again: Callable[[Path], Unwound]) -> Unwound:
    """``found`` with what symbol files and the stacks' own words add. Never raises."""
    symbols = Symbols(core, where)
    try:
        found = _with_symbols(core, found, symbols, again)
        stacks = tuple(named(_scanned(core, found.stacks, symbols), symbols))
    except (UserError, OSError) as error:  # the core went away meanwhile, or there is no temporary folder
        return replace(found, gaps=(*found.gaps, Gap(what="names of frames", why=str(error))))
    rung = next((stack.rung for stack in stacks if stack.crashed), found.rung)
    return replace(found, stacks=stacks, rung=rung, gaps=(*found.gaps, *_gaps(found, stacks, symbols)))


def _with_symbols(core: Core, found: Unwound, symbols: Symbols, again: Callable[[Path], Unwound]) -> Unwound:
    """Unwound once more where files were found that the tool did not have; the better of the two."""
    if not any(_is_news(path, symbols) for path in _nameless_files(core, found)):
        return found
    with farm(core, symbols) as folder:
        if folder is None or ":" in str(folder):  # the tool's search path is split at colons
            return found
        second = again(folder)
    return second if _worth(second) > _worth(found) else found


def _nameless_files(core: Core, found: Unwound) -> set[str]:
    """The mapped files that frames without a name are in."""
    addresses = (f.ip for stack in found.stacks for f in stack.frames if f.function is None and f.ip)
    rows = (core.mapped_at(address) for address in addresses)
    return {row.path for row in rows if row is not None}


def _is_news(path: str, symbols: Symbols) -> bool:
    """Files that the tool had no way to find: it looks at the core's own path itself."""
    files = symbols.of(path)
    return files is not None and (files.debug is not None or files.program not in (None, Path(path)))


def _worth(found: Unwound) -> int:
    return sum(frame.function is not None for stack in found.stacks for frame in stack.frames)


def _scanned(core: Core, stacks: tuple[StackFact, ...], symbols: Symbols) -> list[StackFact]:
    from analyzers.stacks.ladder import is_poor

    def program(mapped: str) -> Path | None:
        files = symbols.of(mapped)
        return files.program if files else None

    result = list(stacks)
    with Memory(core) as memory, Text(core, memory, program) as text:
        scan = Scan(core, memory, text)
        poor = [at for at, stack in enumerate(stacks) if is_poor(stack) and len(stack.frames) <= 1]
        for at in poor[:MAX_SCANNED]:
            thread = core.thread(stacks[at].tid)
            seen = scan.stack(thread, stacks[at].crashed) if thread else None
            result[at] = seen or replace(stacks[at], rung="notes")
    return result


def _gaps(found: Unwound, stacks: tuple[StackFact, ...], symbols: Symbols) -> list[Gap]:
    gaps = [Gap(what="a symbol file", why=f"{line}, which is not the core's") for line in symbols.refused]
    crashed = next((stack for stack in stacks if stack.crashed), None)
    untold = not any(gap.what == NO_TOOL for gap in found.gaps)
    if crashed is None or not (crashed.rung == "scan" or (crashed.rung == "notes" and untold)):
        return gaps
    if crashed.rung == "scan":
        why = "no unwind tables were at hand: its callers are words found on the stack, some may be old"
    else:
        why = "no caller is on what the core holds of its stack: only its own instruction is known"
    return [*gaps, Gap(what="the crashed thread's callers", why=why, command=_command(symbols.core, crashed))]


def _command(core: Core, crashed: StackFact) -> str | None:
    """What to fetch: the build-ids of the files that its nameless frames are in."""
    nameless = [frame for frame in crashed.frames if frame.function is None]
    rows = [core.mapped_at(frame.ip) if frame.ip is not None else None for frame in nameless]
    ids = dict.fromkeys(core.build_ids.get(row.path) for row in rows if row is not None)
    wanted = [build_id for build_id in ids if build_id][:MAX_WANTED]
    return FETCH.format(id=" ".join(wanted)) if wanted else None
