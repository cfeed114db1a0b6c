"""One function per reader: feeds it the bytes and raises when a promise is broken.

Imported under instrumentation: only what is imported here counts as coverage. Errors that a reader documents
(UserError, MiError) are answers; everything else that escapes is a finding.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from analyzers.bundle.read import open_bundle
from analyzers.cli.output import printable_json
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import FrameView, Report, Thread
from analyzers.core import elf
from analyzers.core.notes import read_core
from analyzers.core.packed import Limits, opened
from analyzers.core.records import MAX_MAPPED_FILES, MAX_THREADS, Records, read_records
from analyzers.errors import UserError
from analyzers.logs.journal import read_export, read_json
from analyzers.logs.kernel import parse_kernel_line
from analyzers.logs.scan import read_text
from analyzers.render.html import render_html
from analyzers.render.markdown import render_markdown
from analyzers.render.terminal import render_terminal
from analyzers.stacks import confine
from analyzers.stacks.eustack import parse_eu_stack
from analyzers.stacks.gdb import _Session, _Talk
from analyzers.stacks.mi import ANSWER_BYTES, LINE_BYTES, MiError, parse_line
from analyzers.stacks.pasted import MAX_FRAMES, MAX_STACKS, parse_pasted
from analyzers.triage.from_core import core_material
from analyzers.triage.material import numbering
from analyzers.triage.readers.issue import issue_materials
from analyzers.triage.readers.special import SPECIAL, special_material
from analyzers.triage.readers.verbose import read_verbose
from analyzers.triage.run import Options, triage
from analyzers.triage.threads import frame_view
from collector.capture import listing
from collector.capture.crash import corefile
from collector.capture.crash import notes as crash_notes
from collector.capture.kept.bundling import death_of
from collector.capture.kept.captures import Capture, captures
from tests.fuzz.guard import demand, inert

TALK_BYTES = 60_000  # what a pipe takes without a reader
SMALL = Limits(unpacked=8 << 20, ratio=200, ratio_floor=1 << 20)
SECRET = "sk-planted0fuzz1value2"  # noqa: S105 - what must not come out again
NOISE = ("lorem ipsum dolor sit amet", "backup finished in 3 s", "user asked for the weather", "~" * 40)
ORDER = ("undetermined", "weak", "strong", "proven")


def answered(check: Callable[[bytes, Path], None], data: bytes, folder: Path) -> None:
    """Run a check; a documented refusal is an answer, when it is one harmless line."""
    try:
        check(data, folder)
    except (UserError, MiError) as error:
        inert(str(error))
        demand("\n" not in str(error), "an error of several lines")


def without_tools() -> None:
    """No reader finds an outside program: a process started all the same is a finding."""
    confine.find_tool = lambda name: None  # type: ignore[assignment]


def put(folder: Path, data: bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def core(data: bytes, folder: Path) -> None:
    found = read_core(put(folder, data))
    demand(len(found.threads) <= MAX_THREADS, "more threads than the bound")
    demand(len(found.mapped) <= MAX_MAPPED_FILES, "more mapped files than the bound")
    demand(
        all(0 <= segment.file_size <= len(data) for segment in found.segments), "a segment beyond the file"
    )
    for segment in found.segments[:8]:
        demand(len(found.read(segment.address, 64)) <= 64, "more bytes than asked for")


def core_material_(data: bytes, folder: Path) -> None:
    found = core_material(put(folder, data), "core", None, numbering(), None)
    shown(found.evidence)
    for gap in found.gaps:
        inert(gap.why)


def notes(data: bytes, folder: Path) -> None:
    """Two readers of notes, written apart, see the same ones; and what is made can be read."""
    ours = [(note.owner, note.type, note.body) for note in elf.notes(data)]
    theirs = crash_notes.parse(data, len(data))
    demand(ours == [(note.owner, note.type, note.body) for note in theirs], "the two readers of notes differ")
    read_records(data, 64, Records())
    crash_notes.auxv(crash_notes.body_of(theirs, crash_notes.AUXV))
    crash_notes.fault(crash_notes.body_of(theirs, crash_notes.SIGINFO))
    made = b"".join(crash_notes.prstatus(t.tid, t.registers) for t in crash_notes.threads(theirs))
    again = crash_notes.threads(crash_notes.parse(made))
    demand(
        [t.registers for t in again] == [t.registers for t in crash_notes.threads(theirs)], "registers lost"
    )


def corefile_(data: bytes, folder: Path) -> None:
    """Segments of any place and size: refused before anything is written, or read back as they were."""
    words = memoryview(data[: len(data) // 8 * 8]).cast("Q")[:64]
    rows = [corefile.Segment(at, data[: size % 300], size=max(size % 300, more % 5000))
            for at, size, more in zip(words[::3], words[1::3], words[2::3], strict=False)]  # fmt: skip
    path = put(folder, b"", "made")
    with path.open("r+b") as file:
        try:
            corefile.write_core(file.fileno(), data[:400], rows, limit=4 << 20)
        except ValueError:
            demand(path.stat().st_size == 0, "refused, and yet something was written")
            return
    back = read_core(path)
    wanted = sorted((row.address, len(row.data), row.size) for row in rows)
    got = sorted((row.address, row.file_size, row.size) for row in back.segments)
    demand(wanted == got, f"written {wanted[:3]}, read {got[:3]}")


def mi(data: bytes, folder: Path) -> None:
    """gdb's words through the transport into frames, and those into every rendering."""
    for line in data.splitlines()[:200]:
        parse_line(line)
    talk = _Talk("core", None, None)
    with _gdb_of(data[:TALK_BYTES]) as child:
        talk.run(_Session(cast(Any, child), time.monotonic() + 20))
    answer = talk.answer(0.1, 4.5)
    demand(
        sum(len(str(frame)) for frame in answer.frames) < min(ANSWER_BYTES, 4 * LINE_BYTES), "too much kept"
    )
    rendered(_with_frames([frame_view(frame, rung="gdb") for frame in answer.frames], answer.notes))


class _gdb_of:  # noqa: N801 - a context manager
    """A gdb of three pipes that has said ``data`` and ended."""

    def __init__(self, data: bytes) -> None:
        out, self._in = os.pipe(), os.pipe()
        os.write(out[1], data)
        os.close(out[1])
        self._files = [os.fdopen(out[0], "rb", 0), os.fdopen(self._in[1], "wb", 0)]
        stdout, stdin = self._files
        self.process = SimpleNamespace(stdout=stdout, stderr=None, stdin=stdin)

    def __enter__(self) -> _gdb_of:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._in[0])
        for file in self._files:
            file.close()


def _with_frames(frames: list[FrameView], told: Iterable[str] = ()) -> Report:
    from analyzers.contracts.report import Gap, Tool, Verdict

    verdict = Verdict.model_validate({"class": "SEGV"})
    gaps = [Gap(what=f"{text} 1", why=text) for text in told]
    threads = [Thread(tid=1, crashed=True, rung="gdb", frames=frames)]
    return Report(tool=Tool(version="0", catalogue="0"), verdict=verdict, threads=threads, gaps=gaps)


def eu_stack(data: bytes, folder: Path) -> None:
    stacks = parse_eu_stack(data.decode("utf-8", "replace"))
    frames = [frame_view(frame, rung="eu-stack") for stack in stacks[:4] for frame in stack.frames[:50]]
    rendered(_with_frames(frames))


def pasted(data: bytes, folder: Path) -> None:
    stacks = parse_pasted(data.decode("utf-8", "replace"))
    demand(len(stacks) <= MAX_STACKS, "more stacks than the bound")
    demand(all(len(stack.frames) <= MAX_FRAMES for stack in stacks), "more frames than the bound")
    demand(sum(stack.crashed for stack in stacks) <= 1, "two threads died")


def log(data: bytes, folder: Path) -> None:
    """From a file and from a stream that cannot seek: the same evidence."""
    by_file = read_text(put(folder, data), "x")
    shown(by_file.evidence)
    if not data.startswith(b"\0"):
        by_stream = read_text(cast(Any, _Stream(data)), "x")
        demand(
            [item.text for item in by_file.evidence] == [item.text for item in by_stream.evidence],
            "a file and a stream of the same bytes differ",
        )


class _Stream(io.BytesIO):
    def seekable(self) -> bool:
        return False


def journal_export(data: bytes, folder: Path) -> None:
    shown(read_export(io.BytesIO(data), "x").evidence)


def journal_json(data: bytes, folder: Path) -> None:
    shown(read_json(io.BytesIO(data), "x").evidence)


def journal_verbose(data: bytes, folder: Path) -> None:
    shown(read_verbose(io.BytesIO(data), "x").evidence)


def kernel(data: bytes, folder: Path) -> None:
    for line in data.decode("utf-8", "replace").split("\n")[:200]:
        fact = parse_kernel_line(line)
        if fact is not None and fact.stack_overflow:
            demand(fact.address is not None and fact.sp is not None, "an overflow without addresses")


def listings(data: bytes, folder: Path) -> None:
    kind = tuple(SPECIAL)[data[0] % len(SPECIAL)] if data else "sockets"
    shown(special_material(put(folder, data[1:]), "x", kind, numbering()).evidence)


def issue(data: bytes, folder: Path) -> None:
    with ExitStack() as stack:
        for material in issue_materials(put(folder, data), "x", numbering(), stack):
            shown(material.evidence)


def bundle(data: bytes, folder: Path) -> None:
    """Nothing is left behind, and nothing stands outside the private folder (the guard sees to that)."""
    path = put(folder, data)
    try:
        with open_bundle(path) as found:
            for file in found.files:
                demand(file.path.resolve().is_relative_to(found.root.resolve()), "a file outside the bundle")
                demand(not file.path.is_symlink(), "a link was unpacked")
            shown(found.evidence)
    except UserError as error:
        inert(str(error))
    demand(sorted(os.listdir(folder)) == ["input"], f"left behind: {os.listdir(folder)}")


def packed(data: bytes, folder: Path) -> None:
    try:
        with opened(put(folder, data), limits=SMALL) as path:
            demand(path.stat().st_size <= max(SMALL.unpacked, len(data)), "unpacked past the limit")
    except UserError as error:
        inert(str(error))
    demand(sorted(os.listdir(folder)) == ["input"], f"left behind: {os.listdir(folder)}")


def capture(data: bytes, folder: Path) -> None:
    """A store with one capture whose manifest says ``data``: everything that lists captures reads it."""
    place = folder / "store" / "20261202T080000Z-4242-5"
    place.mkdir(parents=True, exist_ok=True)
    put(place, data, "capture.json")
    for found in captures(place.parent):
        _looked_at(found)
    inert(listing.table(place.parent))
    json.loads(listing.as_text(place.parent))


def _looked_at(found: Capture) -> None:
    death_of(found)
    str((found.id, found.pid, found.boot_id, found.start_seconds, found.wall, found.signal, found.size))
    str((found.exe, found.origin, found.refused, found.core, found.full, found.copied_exe))


def shown(evidence: Iterable[Evidence]) -> None:
    """What a renderer is handed is already free of control characters where the reader promises it."""
    for item in evidence:
        inert(item.text)
        inert(item.source)


def rendered(report: Report) -> str:
    """Every form that a person or a program gets, each checked."""
    out = io.StringIO()
    render_terminal(report, Console(file=out, width=100, highlight=False, no_color=True), details=True)
    forms = [out.getvalue(), render_markdown(report), render_html(report), printable_json(report.to_json())]
    for form in forms:
        inert(form)
    return "\n".join(forms)


def report(data: bytes, folder: Path) -> None:
    """A text through the whole way: refused in one line, or a report that keeps its promises."""
    first = _triaged(put(folder, data, "server.log"))
    if first is None:
        return
    rendered(first)
    rows = data.split(b"\n")
    at = len(data) % (len(rows) + 1)
    secret = f"0.05.112.000 D srv  operator(): Authorization: Bearer {SECRET}".encode()
    planted = _triaged(put(folder, b"\n".join((*rows[:at], secret, *rows[at:])), "server.log"))
    demand(planted is None or SECRET not in rendered(planted), "a planted key came out")
    noisy = [row for pair in zip(rows, _noise(len(rows)), strict=True) for row in pair if row is not None]
    louder = _triaged(put(folder, b"\n".join(noisy), "server.log"))
    if louder is not None:
        before, after = (ORDER.index(str(r.verdict.confidence)) for r in (first, louder))
        demand(
            after <= before or first.verdict.class_ != louder.verdict.class_ or after < 2,
            f"noise made {first.verdict.class_} {first.verdict.confidence} {louder.verdict.confidence}",
        )
        demand(
            after < 2 or before >= 2 or first.verdict.class_ == louder.verdict.class_,
            f"noise made {first.verdict.class_} {first.verdict.confidence} into {louder.verdict.class_}",
        )


def _noise(count: int) -> list[bytes | None]:
    return [NOISE[at % len(NOISE)].encode() if at % 5 == 4 else None for at in range(count)]


def _triaged(path: Path) -> Report | None:
    try:
        with ExitStack() as stack:
            return triage([path], Options(fast=True), stack).report
    except UserError as error:
        inert(str(error))
        return None
