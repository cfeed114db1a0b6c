"""The way through: inputs → evidence → incidents → verdict → report; then what takes longer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from analyzers.contracts.report import Gap, InputFile, Report
from analyzers.core.packed import opened
from analyzers.errors import UserError
from analyzers.privacy.redact import Redactor
from analyzers.triage.build import Judged, judge, report_of
from analyzers.triage.from_core import core_material
from analyzers.triage.from_text import text_material
from analyzers.triage.group import group
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.sniff import sniff

HASH_BLOCK = 1 << 20


@dataclass(frozen=True)
class Options:
    """What the user asked for. ``exe``: the executable of the core(s)."""

    exe: Path | None = None
    fast: bool = False
    include_private: bool = False


@dataclass(frozen=True)
class Triage:
    """A report, and what may still be asked: the debugger and the hashes."""

    report: Report
    options: Options
    paths: tuple[Path, ...] = ()
    cores: tuple[CoreWork, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    finished: bool = False

    @property
    def pending(self) -> bool:
        return not self.finished and not self.options.fast


def triage(paths: Sequence[Path], options: Options, stack: ExitStack) -> Triage:
    """The verdict on any mix of inputs. Raises UserError for an input that cannot be used.

    Unpacked copies live as long as ``stack``; ``finish`` needs them.
    """
    if options.exe is not None and not options.exe.is_file():
        raise UserError(
            "there is no such executable", where=str(options.exe), remedy="give the right --exe FILE"
        )
    next_id = numbering()
    materials = [m for path in _unique(paths) for m in read_input(path, options, next_id, stack)]
    redactor = Redactor().knowing(values=[s for m in materials for s in m.secrets])
    judged, loose = judge_all(materials)
    report = _report(materials, judged, loose, options)
    if not options.include_private:
        report = redacted(report, redactor)
    cores = tuple(m.core for m in materials if m.core is not None)
    return Triage(report, options, tuple(paths), cores, redactor)


def judge_all(materials: Sequence[Material]) -> tuple[list[Judged], list[Gap]]:
    """Group, then judge each incident."""
    groups, loose = group(materials)
    return [judge(item) for item in groups], loose


def _unique(paths: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def read_input(path: Path, options: Options, next_id: Callable[[], str], stack: ExitStack) -> list[Material]:
    """One input's materials; a bundle has several. Unpacked copies live as long as ``stack``."""
    kind = sniff(path)
    name = path.name or str(path)
    listed = (InputFile(name=name, kind=kind, size=_size(path)),)
    if kind == "core":
        plain = stack.enter_context(opened(path))
        redactor = Redactor() if not options.include_private else None
        return [replace(core_material(plain, name, options.exe, next_id, redactor), inputs=listed)]
    if kind == "bundle":
        from analyzers.triage.from_bundle import bundle_materials  # tar and hashing: not for every start

        return bundle_materials(path, listed, options.exe, next_id, stack, check_hashes=not options.fast)
    return [replace(text_material(path, name, kind, next_id), inputs=listed)]


def _size(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


def _report(
    materials: Sequence[Material], judged: Sequence[Judged], loose: Sequence[Gap], options: Options
) -> Report:
    host = next((material.host for material in materials if material.host is not None), None)
    inputs = [listed for material in materials for listed in material.inputs]
    redaction = "none" if options.include_private else "default"
    return report_of(judged, inputs=inputs, gaps=loose, host=host, redaction=redaction)


def redacted(report: Report, redactor: Redactor) -> Report:
    """The report without secrets and prompts. Advice is the catalogue's own text: its commands stay whole."""
    clean = redactor.report(report)
    verdict = clean.verdict.model_copy(update={"advice": report.verdict.advice})
    return clean.model_copy(update={"verdict": verdict})


def finish(result: Triage) -> Triage:
    """Hash the inputs and ask gdb about the first core. The verdict does not change by it."""
    if not result.pending:
        return result
    from analyzers.triage.debugger import debugger_part

    report = result.report
    hashes = {path.name: sha256(path) for path in result.paths if path.is_file()}
    inputs = [item.model_copy(update={"sha256": hashes.get(item.name)}) for item in report.inputs]
    report = report.model_copy(update={"inputs": inputs})
    if result.cores:
        report = debugger_part(report, result.cores[0])
    if not result.options.include_private:
        report = redacted(report, result.redactor)
    return replace(result, report=report, finished=True)


def sha256(path: Path) -> str:
    """Of a file of any size, in flat memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()
