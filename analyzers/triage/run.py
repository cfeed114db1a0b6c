"""The way through: inputs → evidence → incidents → verdict → report; then what takes longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzers.contracts.report import Advice, Gap, InputFile, Report
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.triage.build import Judged, Table, judge, report_of
from analyzers.triage.from_core import core_material
from analyzers.triage.group import group
from analyzers.triage.inputs import (
    Source,
    copies_beside,
    demand_folders,
    demand_program,
    given,
    lost,
    with_hashes,
)
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.sound import sound

JournalReader = Callable[[Sequence[Path], Path], None]
Progress = Callable[[int, Sequence[Source]], None]


@dataclass(frozen=True)
class Options:
    """What the user asked for. ``exe``: the executable of the core(s), ``symbols`` folders of symbol files.
    ``journals`` writes a bundle of raw journal files into an empty folder; the collector's, handed in by the
    dispatcher. ``incident``: the number
    of the one to report on when there are several, the best-founded one if not given. ``progress`` is told
    how many of the inputs are read, before the first one and after each."""

    exe: Path | None = None
    symbols: tuple[Path, ...] = ()
    fast: bool = False
    include_private: bool = False
    journals: JournalReader | None = None
    incident: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Triage:
    """A report, and what may still be asked: the debugger and the hashes. ``cores``: that of its incident."""

    report: Report
    options: Options
    inputs: tuple[Source, ...] = ()
    cores: tuple[CoreWork, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    finished: bool = False

    @property
    def pending(self) -> bool:
        return not self.finished and not self.options.fast


def triage(paths: Sequence[Path], options: Options, stack: ExitStack) -> Triage:
    """The verdict on any mix of inputs. Raises UserError for an input that cannot be used, and for the number
    of an incident that there is not.

    Unpacked copies live as long as ``stack``; ``finish`` needs them.
    """
    if options.exe is not None:
        demand_program(options.exe)
    demand_folders(options.symbols)
    next_id = numbering()
    inputs = given(paths, stack)
    materials: list[Material] = []
    failed: list[UserError] = []
    for number, source in enumerate(inputs):
        _tell(options, number, inputs)
        materials += _read(source, options, next_id, stack, failed)
    if failed and not any(material.core is not None for material in materials):
        raise failed[0]
    _tell(options, len(inputs), inputs)
    redactor = Redactor().knowing(values=[s for m in materials for s in m.secrets])
    table, loose = _judged(materials)
    report = sound(_report(materials, table, loose, options))
    if not options.include_private:
        report = redacted(report, redactor)
    core = table.judged[report.incident - 1].group.core
    cores = (core,) if core is not None else ()
    return Triage(report, options, tuple(inputs), cores, redactor)


def _tell(options: Options, read: int, inputs: Sequence[Source]) -> None:
    if options.progress is not None:
        options.progress(read, inputs)


def judge_all(materials: Sequence[Material]) -> tuple[list[Judged], list[Gap]]:
    """Every incident, judged by itself, in the order of their table; and the gaps that belong to none."""
    table, loose = _judged(materials)
    return list(table.judged), loose


def _judged(materials: Sequence[Material]) -> tuple[Table, list[Gap]]:
    groups, loose = group(materials)
    judged = tuple(judge(item) for item in groups)
    if len(judged) < 2:
        return Table(judged), loose
    from analyzers.triage.table import table_of  # the clustering: not for one incident

    names = [listed.name for material in materials for listed in material.inputs]
    return table_of(judged, names), loose


def _read(
    source: Source,
    options: Options,
    next_id: Callable[[], str],
    stack: ExitStack,
    failed: list[UserError],
) -> list[Material]:
    """One input's materials. What cannot be used is listed as such, and added to ``failed`` when it was given
    by name: beside a core that can be used it costs only itself."""
    try:
        if source.problem is not None:
            raise source.problem
        return read_input(source, options, next_id, stack)
    except UserError as problem:
        if not source.found:
            failed.append(problem)
        from analyzers.triage.readers.reading import unused

        return [unused(source, problem)]
    except OSError as error:
        raise lost(source, error) from error


def read_input(
    source: Source, options: Options, next_id: Callable[[], str], stack: ExitStack
) -> list[Material]:
    """One input's materials; a bundle has several. Unpacked copies live as long as ``stack``."""
    path, name = source.path, source.name
    kind = source.look.kind if source.look is not None else ""
    listed = (InputFile(name=name, kind=kind, size=source.size or 0),)
    if kind == "core":
        unpacked = stack.enter_context(opened(path))
        redactor = Redactor() if not options.include_private else None
        exe, symbols = copies_beside(source)
        symbols = (*options.symbols, *symbols)
        material = core_material(unpacked, name, options.exe or exe, next_id, redactor, str(path), symbols)
        return [replace(_with_store(material, path, name, next_id), inputs=listed)]
    if kind == "bundle":
        return _bundle(path, listed, options, next_id, stack)
    from analyzers.triage.readers.reading import other_materials  # the log readers: not for a core

    def of_journals(folder: Path, listed: Sequence[InputFile]) -> list[Material]:
        return _bundle(folder, listed, options, next_id, stack)

    return other_materials(source, options.journals, of_journals, next_id, stack)


def _bundle(
    path: Path,
    listed: Sequence[InputFile],
    options: Options,
    next_id: Callable[[], str],
    stack: ExitStack,
) -> list[Material]:
    from analyzers.triage.from_bundle import bundle_materials  # tar and hashing: not for every start

    return bundle_materials(
        path,
        listed,
        options.exe,
        next_id,
        stack,
        check_hashes=not options.fast,
        include_private=options.include_private,
        symbols=options.symbols,
    )


def _with_store(material: Material, path: Path, name: str, next_id: Callable[[], str]) -> Material:
    """What systemd-coredump's store says of a core beside its bytes."""
    if not path.name.startswith("core."):
        return material
    from analyzers.triage.readers.store import store_part

    evidence, gaps, boot_id = store_part(path, name, material.evidence, next_id)
    process = material.process.model_copy(update={"boot_id": boot_id or material.process.boot_id})
    return replace(
        material,
        evidence=(*material.evidence, *evidence),
        gaps=(*material.gaps, *gaps),
        process=process,
    )


def _report(materials: Sequence[Material], table: Table, loose: Sequence[Gap], options: Options) -> Report:
    host = next((material.host for material in materials if material.host is not None), None)
    inputs = [listed for material in materials for listed in material.inputs]
    redaction = "none" if options.include_private else "default"
    number = _wanted(options.incident, len(table.judged))
    return report_of(
        table.judged[number - 1],
        inputs=inputs,
        gaps=loose,
        host=host,
        redaction=redaction,
        incidents=table.incidents,
        overview=table.overview,
        incident=number,
    )


def _wanted(number: int | None, incidents: int) -> int:
    if number is None or 1 <= number <= incidents:
        return number or 1
    raise UserError(
        f"there is no incident {number}",
        where="--incident",
        remedy=f"give 1 to {incidents}" if incidents > 1 else "there is one incident, number 1",
    )


def redacted(report: Report, redactor: Redactor) -> Report:
    """The report without secrets and prompts. Advice is the catalogue's own text: its commands stay whole."""
    advice = report.verdict.advice
    clean = redactor.report(_with_advice(report, []))  # 6 ms of patterns that only commands would need
    return _with_advice(clean, advice)


def _with_advice(report: Report, advice: list[Advice]) -> Report:
    verdict = report.verdict.model_copy(update={"advice": advice})
    return report.model_copy(update={"verdict": verdict})


def finish(result: Triage) -> Triage:
    """Hash the inputs and ask gdb about the verdict's core. The verdict does not change by it."""
    if not result.pending:
        return result
    hashed, gaps = with_hashes(result.report.inputs, result.inputs)
    report = result.report.model_copy(update={"inputs": hashed, "gaps": [*result.report.gaps, *gaps]})
    if result.cores:
        report = _asked(report, result.cores[0])
    if not result.options.include_private:
        report = redacted(report, result.redactor)
    return replace(result, report=report, finished=True)


def _asked(report: Report, work: CoreWork) -> Report:
    """The verdict is out: a core that cannot be read any more costs only the debugger's part."""
    from analyzers.triage.debugger import debugger_part

    try:
        return debugger_part(report, work)
    except UserError as problem:
        gap = Gap(what="what only gdb can tell", why=problem.what, command=problem.remedy)
        return report.model_copy(update={"gaps": [*report.gaps, gap]})
