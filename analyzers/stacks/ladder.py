"""The ladder of stack tools: the quickest rung that answers, each stack labelled with the rung it is from.

``unwind`` is on the way to the verdict (a tenth of a second); ``slow`` comes after it and is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.contracts.facts import Frame, StackFact
from analyzers.contracts.report import Gap
from analyzers.core.buildid import Mismatch, Unknown, compare, find_executable
from analyzers.core.model import Core, ThreadRegisters
from analyzers.errors import UserError
from analyzers.stacks import eustack, stride

if TYPE_CHECKING:  # gdb's transport and parser are not on the way to the verdict
    from analyzers.stacks.gdb import GdbAnswer

PROGRAM_COUNTERS = ("rip", "pc")
_LEND = "give the program with --exe, the folder of its libraries with --symbols"
LINK_REGISTER = "x30"  # aarch64 keeps the caller's address in a register


@dataclass(frozen=True)
class Unwound:
    """Stacks of all threads, the crashed one first, what was missing, and the best rung that answered."""

    stacks: tuple[StackFact, ...] = ()
    gaps: tuple[Gap, ...] = ()
    rung: str = "notes"
    seconds: float = 0.0
    peak_memory: int = 0

    @property
    def crashed(self) -> StackFact | None:
        return next((stack for stack in self.stacks if stack.crashed), None)


def unwind(core: Core, exe: str | Path | None = None, folders: Sequence[Path] = ()) -> Unwound:
    """The core's stacks; never raises. ``exe``: the executable, where it is not where the core says.

    ``folders`` may hold symbol files; looked at only when frames of the thread that died, or a
    whole other stack, have no names.
    """
    found = _unwind(core, exe)
    if not any(is_poor(stack) or _nameless(stack) for stack in found.stacks):
        return found
    from analyzers.stacks import poor  # most cores need none of it

    def again(symbols: Path) -> Unwound:
        return _unwind(core, exe, symbols)

    return poor.improved(core, found, poor.places(folders), again)


def is_poor(stack: StackFact) -> bool:
    """The unwinder got nowhere: no frame of it has a name, and it does not reach the thread's beginning."""
    return not stack.complete and not any(frame.function for frame in stack.frames)


def _nameless(stack: StackFact) -> bool:
    """The thread that died has a frame in some file, and no name for it."""
    return stack.crashed and any(frame.function is None and frame.module for frame in stack.frames)


def _unwind(core: Core, exe: str | Path | None, symbols: Path | None = None) -> Unwound:
    exe, exe_gaps = checked_program(core, exe)
    first = eustack.read_stacks(core, exe, symbols=symbols)
    first = replace(first, gaps=(*exe_gaps, *first.gaps))
    notes = tuple(_from_registers(core, thread, index == 0) for index, thread in enumerate(core.threads))
    if not first.usable:
        return _result(core, None, notes, (), first)
    crashed = next((stack for stack in first.stacks if stack.crashed), None)
    if crashed is None or crashed.tid in first.limited or not crashed.complete:
        crashed = stride.fold(core, exe, crashed, symbols) or _deeper(core, exe, crashed, first, symbols)
    return _result(core, crashed, notes, first.stacks, first)


def _deeper(
    core: Core,
    exe: str | Path | None,
    crashed: StackFact | None,
    first: eustack.EuStacks,
    symbols: Path | None = None,
) -> StackFact | None:
    """A deep stack that is no endless recursion is unwound once more, further."""
    if crashed is None or crashed.tid not in first.limited:
        return crashed
    again = eustack.read_stacks(core, exe, frames=eustack.DEEP_FRAMES, symbols=symbols)
    return next((stack for stack in again.stacks if stack.crashed), crashed)


def _result(
    core: Core,
    crashed: StackFact | None,
    notes: tuple[StackFact, ...],
    unwound: tuple[StackFact, ...],
    first: eustack.EuStacks,
) -> Unwound:
    best: dict[int | None, StackFact] = {stack.tid: stack for stack in notes}
    best |= {stack.tid: stack for stack in unwound if stack.frames}
    if crashed is not None and crashed.frames:
        best[crashed.tid] = crashed
    stacks = tuple(sorted(best.values(), key=lambda stack: not stack.crashed))
    rung = next((stack.rung for stack in stacks if stack.crashed), "notes")
    gaps = (*first.gaps, *_gaps(core, stacks)) if unwound else first.gaps
    return Unwound(stacks, gaps, rung, first.seconds, first.peak_memory)


def _from_registers(core: Core, thread: ThreadRegisters, crashed: bool) -> StackFact:
    """The notes rung: where the thread was, as module and offset, from its registers alone."""
    addresses = [thread.registers.get(name) for name in (*PROGRAM_COUNTERS, LINK_REGISTER)]
    frames = tuple(_located(core, address) for address in addresses if address)
    return StackFact(tid=thread.tid, crashed=crashed, rung="notes", frames=frames)


def _located(core: Core, address: int) -> Frame:
    offset, path = eustack.module_offset(core, address)
    build_id = core.build_ids.get(path) if path else None
    return Frame(ip=address, offset=offset, module=Path(path).name if path else None, build_id=build_id)


def _gaps(core: Core, stacks: tuple[StackFact, ...]) -> tuple[Gap, ...]:
    crashed = next((stack for stack in stacks if stack.crashed), None)
    if crashed is None or crashed.complete:
        return ()
    unnamed = [frame for frame in crashed.frames if frame.function is None]
    if core.cut:
        why = "the core was cut while it was written; what lies behind the cut is lost"
        return (Gap(what="the crashed thread's whole stack", why=why),)
    if unnamed:
        return (Gap(what="names of the crashed thread's frames", why=_missing_objects(core, unnamed)),)
    why = f"it was followed for {len(crashed.frames)} frames and not to its thread's beginning"
    return (Gap(what="the crashed thread's whole stack", why=why, command=_LEND),)


def _missing_objects(core: Core, frames: list[Frame]) -> str:
    names = sorted({frame.module for frame in frames if frame.module})
    wanted = [f"{name} (build-id {_build_id(core, name) or 'unknown'})" for name in names]
    if not wanted:
        return "it ran outside every mapped file"
    return f"these files are not here as the server ran them: {', '.join(wanted)}"


def _build_id(core: Core, name: str) -> str | None:
    return next((value for path, value in core.build_ids.items() if Path(path).name == name), None)


def slow(core: Core, exe: str | Path | None = None, *, loop_tid: int | None = None) -> GdbAnswer:
    """What only gdb can say, within its budget. Without ``exe``, the program is taken from where the core
    says it was, when it still is there and still is that build."""
    from analyzers.stacks import gdb

    program, gaps = checked_program(core, exe or find_executable(core).main)
    answer = gdb.ask(core.path, program, loop_tid=loop_tid)
    return replace(answer, notes=(*answer.notes, *(gap.why for gap in gaps)))


def checked_program(core: Core, exe: str | Path | None) -> tuple[str | None, tuple[Gap, ...]]:
    """``exe`` unless it cannot be read or is another build than the core's: then None, and a gap says so."""
    if exe is None:
        return None, ()
    try:
        found = compare(core, Path(exe), find_executable(core).main)
    except UserError as error:
        return None, (Gap(what="the executable", why=str(error)),)
    if isinstance(found, Unknown):
        return str(exe), (Gap(what="proof that the executable is the core's", why=found.why),)
    if not isinstance(found, Mismatch):
        return str(exe), ()
    why = f"{Path(exe).name} has build-id {found.file_id}, the core was made by {found.core_id}"
    return None, (Gap(what="the executable", why=why, command="give the matching file with --exe"),)
