"""Everything that is neither a core nor a bundle: texts of every kind, journal files, what folders hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from analyzers.contracts.report import Gap, InputFile
from analyzers.core.packed import Limits, opened
from analyzers.errors import UserError
from analyzers.triage.from_text import text_material
from analyzers.triage.inputs import UNUSED, Source
from analyzers.triage.material import Material
from analyzers.triage.readers.deaths import several
from analyzers.triage.readers.line_ends import readable
from analyzers.triage.readers.special import SPECIAL, special_material
from analyzers.triage.sniff import ARCHIVE, FOLDER, JOURNAL, Look

NextId = Callable[[], str]
JournalReader = Callable[[Sequence[Path], Path], None]
BundleReader = Callable[[Path, Sequence[InputFile]], list[Material]]
# A log repeats itself: gzip packs one 20 to 100 times, zstd some hundred times.
TEXT_LIMITS = Limits(unpacked=16 << 30, ratio=1100)
EXPORT = "journalctl --file FILE -o export > server.export"
NOT_HERE = f"run: pip install 'llama-blackbox[journal]'; or: {EXPORT}"


def other_materials(
    source: Source,
    journals: JournalReader | None,
    bundle: BundleReader,
    next_id: NextId,
    stack: ExitStack,
) -> list[Material]:
    """One input's materials; the first lists it. Raises UserError, OSError."""
    found = source.look
    kind = found.kind if found is not None else UNUSED
    listed = (InputFile(name=source.name, kind=kind, size=source.size or 0),)
    if found is None or kind in (FOLDER, ARCHIVE):
        return [Material(inputs=listed, gaps=source.gaps)]
    if kind == JOURNAL:
        parts = bundle(_from_journals(source, found, journals, stack), listed)
        # A journal is everybody's: its bundle was made only to be read.
        return [one for part in parts for one in several(replace(part, bundle=None))]
    read = text_materials(source.path, source.name, found, next_id, stack)
    first, *rest = several(read[0]) if len(read) == 1 else read
    return [replace(first, inputs=(*listed, *first.inputs)), *rest]


def text_materials(path: Path, name: str, found: Look, next_id: NextId, stack: ExitStack) -> list[Material]:
    """A text's materials: an issue's parts, which list themselves, or each core record. Raises UserError."""
    if found.packed:
        path = stack.enter_context(opened(path, limits=TEXT_LIMITS, magic=b""))
    path = readable(path, stack)
    if found.kind == "issue":
        from analyzers.triage.readers.issue import issue_materials

        return issue_materials(path, name, next_id, stack)
    if found.kind == "core-record":
        from analyzers.triage.readers.core_records import core_record_materials

        return core_record_materials(path, name, next_id)
    if found.kind in SPECIAL:
        return [special_material(path, name, found.kind, next_id)]
    return [text_material(path, name, found.kind, next_id)]


def unused(source: Source, problem: UserError) -> Material:
    """A folder's file that looked like evidence and is none."""
    listed = InputFile(name=source.name, kind=UNUSED, size=source.size or 0)
    return Material(inputs=(listed,), gaps=(Gap(what=source.name, why=f"not used: {problem.what}"),))


def _from_journals(source: Source, found: Look, journals: JournalReader | None, stack: ExitStack) -> Path:
    """A bundle's folder that the collector wrote of the journal files."""
    where = str(source.path)
    if journals is None:
        raise UserError("a journal file; only the collector reads these", where=where, remedy=NOT_HERE)
    files = source.files
    if found.packed:
        files = (stack.enter_context(opened(source.path, limits=TEXT_LIMITS, magic=b"")),)
    from shutil import rmtree

    try:
        target = Path(mkdtemp(prefix="llama-blackbox-"))
    except OSError as error:
        raise UserError(
            "no temporary folder", where=where, remedy="set TMPDIR to a folder that can be written"
        ) from error
    stack.callback(rmtree, target, ignore_errors=True)
    journals(files, target)
    return target
