"""The fast rung: every thread's frames of a core by elfutils' eu-stack.

Flags, tried on real 180 MB cores of a hosted server (11 threads, warm cache): plain, ``-m``, ``-b`` or both
about a tenth of a second; ``-i`` several times and ``-s`` some ten times that, with three times the memory.
So module and build-id are asked for here, and inlined frames and lines are left to gdb.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.contracts.facts import Frame, StackFact
from analyzers.contracts.report import Gap
from analyzers.core.model import Core
from analyzers.stacks import confine
from analyzers.stacks.command import (
    DEEP_FRAMES,
    FIRST_FRAMES,
    MEMORY_BYTES,
    OUTPUT_BYTES,
    SECONDS,
    TOOL,
    eu_stack,
)
from analyzers.stacks.loosened import loose_gap
from analyzers.stacks.trust import REGISTER

__all__ = ["DEEP_FRAMES", "FIRST_FRAMES", "EuStacks", "parse_eu_stack", "read_stacks", "run_on"]

NO_TOOL = "stacks of all threads"  # the gap of a host without it
INSTALL = "apt-get install --no-install-recommends elfutils"
ENDS = ("clone", "clone3", "__clone", "__clone3", "_start", "main", "__libc_start_main")

LOST = "lost"  # only while one core's text is read
_THREAD = re.compile(r"^TID (\d+)(?: .*)?:$")
_FRAME = re.compile(r"^#(\d+)\s+0x([0-9a-f]{1,16})(?:\s+-\s\d)?(?:\s(.*))?$")
_BUILD = re.compile(r"^\s+\[([0-9a-f]*)\]@0x([0-9a-f]+)(?:\+0x([0-9a-f]+))?$")
_SOURCE = re.compile(r"^\s+(\S.*?):(\d+)(?::\d+)?$")
_SHOWN_MAXIMUM = re.compile(r"tid (\d+): shown max number of frames")


@dataclass(frozen=True)
class EuStacks:
    """All threads in the core's order, the crashed one first. ``limited``: threads cut at the frame limit."""

    stacks: tuple[StackFact, ...] = ()
    limited: frozenset[int] = frozenset()
    gaps: tuple[Gap, ...] = ()
    seconds: float = 0.0
    peak_memory: int = 0

    @property
    def usable(self) -> bool:
        return any(stack.frames for stack in self.stacks)


def read_stacks(
    core: Core,
    exe: str | Path | None = None,
    *,
    frames: int = FIRST_FRAMES,
    symbols: Path | None = None,
) -> EuStacks:
    """Run eu-stack on the core; whatever goes wrong becomes a gap, never an exception.

    ``symbols``: a folder laid out by build-id that is searched for program and debug files.
    """
    return run_on(str(core.path), core, exe, frames=frames, symbols=symbols)


def run_on(
    path: str,
    core: Core,
    exe: str | Path | None,
    *,
    frames: int,
    pass_fds: tuple[int, ...] = (),
    symbols: Path | None = None,
) -> EuStacks:
    """As ``read_stacks``, on the view of ``core`` that stands at ``path``."""
    argv = eu_stack(path, exe, frames, symbols)
    if argv is None:
        return EuStacks(gaps=(missing_tool(),))
    try:
        done = confine.run(
            argv,
            seconds=SECONDS,
            memory_bytes=MEMORY_BYTES,
            output_bytes=OUTPUT_BYTES,
            mapped_bytes=core.file_size,
            pass_fds=pass_fds,
        )
    except OSError as error:
        return EuStacks(gaps=(Gap(what="stacks", why=f"{TOOL} did not start: {error.strerror}"),))
    stacks = parse_eu_stack(done.stdout.decode("utf-8", "replace"), core)
    complaint = done.stderr.decode("utf-8", "replace")
    limited = frozenset(int(tid) for tid in _SHOWN_MAXIMUM.findall(complaint))
    gaps = (*_gaps(done, stacks, complaint), *loose_gap(TOOL, done.loose))
    return EuStacks(stacks, limited, gaps, done.seconds, done.peak_memory)


def missing_tool() -> Gap:
    """The gap of a host without elfutils."""
    return Gap(what=NO_TOOL, why=f"{TOOL} is not installed", command=INSTALL)


def _gaps(done: confine.Finished, stacks: tuple[StackFact, ...], complaint: str) -> tuple[Gap, ...]:
    if done.cut_off:
        why = f"{TOOL} was cut off at its {done.cut_off} bound; what it gave is used"
        return (Gap(what="stacks", why=why),)
    if any(stack.frames for stack in stacks):
        return ()
    last = next((line for line in reversed(complaint.splitlines()) if line.strip()), f"status {done.status}")
    return (Gap(what="stacks", why=f"{TOOL} could not read this core: {_printable(last)[:200]}"),)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def parse_eu_stack(text: str, core: Core | None = None, *, rung: str = "eu-stack") -> tuple[StackFact, ...]:
    """eu-stack's text, whole or cut anywhere, as stacks. ``core`` names the crashed thread and fills in
    module offsets where the text has none. ``Frame.module`` is the file's base name."""
    crashed = core.threads[0].tid if core is not None and core.threads else None
    stacks: list[StackFact] = []
    tid, frames = None, list[Frame]()
    for line in text.splitlines():
        thread = _THREAD.match(line)
        if thread:
            _finish(stacks, tid, frames, crashed, rung)
            tid, frames = int(thread[1]), []
        elif tid is not None:
            _add_line(frames, line, core)
    _finish(stacks, tid, frames, crashed, rung)
    return tuple(stacks)


def _finish(
    stacks: list[StackFact], tid: int | None, frames: list[Frame], crashed: int | None, rung: str
) -> None:
    if tid is not None:
        kept = _trusted(frames)
        complete = reaches_end(kept)
        stacks.append(StackFact(tid=tid, crashed=tid == crashed, rung=rung, frames=kept, complete=complete))


def reaches_end(frames: list[Frame] | tuple[Frame, ...]) -> bool:
    """True when the outermost frame is where every thread or program begins."""
    return bool(frames) and (frames[-1].function or "").partition("@")[0].partition("(")[0] in ENDS


def _add_line(frames: list[Frame], line: str, core: Core | None) -> None:
    frame = _FRAME.match(line)
    if frame:
        frames.append(_frame(int(frame[2], 16), frame[3] or "", core))
        return
    build = _BUILD.match(line)
    if build and frames:
        load = int(build[2], 16)
        misplaced = core is not None and _misplaced(core, frames[-1], load)
        frames[-1] = _by_map(core, frames[-1]) if misplaced else _with_build(frames[-1], build[1], load)
        return
    source = _SOURCE.match(line)
    if source and frames:
        frames[-1] = replace(frames[-1], file=source[1], line=int(source[2]))


def _frame(ip: int, rest: str, core: Core | None) -> Frame:
    # The last " - " parts symbol and module: a demangled name may itself hold one (`(N - 1)`).
    name, _, module = f" {rest}".rpartition(" - ")
    inlined = name.lstrip().startswith("[inlined]")
    function = name.replace("[inlined]", "", 1).strip() if module else rest.strip()
    offset, path = module_offset(core, ip) if core is not None else (None, None)
    base = Path(module.strip() or path or "").name
    return Frame(function=function or None, module=base or None, offset=offset, ip=ip, inlined=inlined)


def module_offset(core: Core, ip: int) -> tuple[int | None, str | None]:
    """(offset from the module's load address, path of the mapped file) of a code address."""
    row = core.mapped_at(ip)
    if row is None:
        return None, None
    start = core.load_address(row.path)
    return (ip - start if start is not None and start <= ip else None), row.path


def _misplaced(core: Core, frame: Frame, load: int) -> bool:
    """The tool took the module to begin where the kernel's own table does not have it.

    Measured: on cores without the linker's lists it guessed the base of a wheel 1 MB too low, and gave every
    frame another function's name.
    """
    row = core.mapped_at(frame.ip) if frame.ip is not None else None
    starts = {each.start for each in core.mapped if row and each.path == row.path}
    return row is not None and core.load_address(row.path) is not None and load not in starts


def _by_map(core: Core | None, frame: Frame) -> Frame:
    """The frame as the kernel's table places it: without the name, which was another place's."""
    row = core.mapped_at(frame.ip) if core is not None and frame.ip is not None else None
    if core is None or row is None or frame.ip is None:
        return frame
    offset, path = module_offset(core, frame.ip)
    build_id = core.build_ids.get(row.path)
    return Frame(
        ip=frame.ip, offset=offset, module=Path(path or row.path).name, build_id=build_id, trust=LOST
    )


def _trusted(frames: list[Frame]) -> tuple[Frame, ...]:
    """Up to the first misplaced frame: whatever was unwound from there followed another place's tables."""
    last = next((at for at, frame in enumerate(frames) if frame.trust == LOST), len(frames) - 1)
    kept = tuple(replace(f, trust=None) if f.trust == LOST else f for f in frames[: last + 1])
    alone = len(kept) == 1 and not reaches_end(kept)  # no caller was found: the registers' own instruction
    return (replace(kept[0], trust=REGISTER),) if alone else kept


def _with_build(frame: Frame, build_id: str, load: int) -> Frame:
    # eu-stack prints the offset of the call instruction (one less); the return address itself is kept,
    # so that every rung gives the same offset for the same frame.
    offset = frame.ip - load if frame.ip is not None and frame.ip >= load else frame.offset
    return replace(frame, build_id=build_id or None, offset=offset)
