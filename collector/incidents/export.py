"""An incident as a bundle for `llama-blackbox triage`: its record, its evidence, its attachments."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from analyzers.bundle.read import OpenBundle, open_bundle
from analyzers.contracts.bundle import CONTEXT, Manifest
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.outbox import KEPT, AttachmentRow, IncidentRow
from analyzers.contracts.outbox_read import OutboxReader
from analyzers.contracts.report import Report
from analyzers.errors import UserError
from collector.gather.haul import Haul

REPORT_KIND, BUNDLE_KIND = "report", "bundle"
MAX_REPORT = 64 << 20


def write(
    outbox: OutboxReader, row: IncidentRow, target: Path, *, private: bool = False, force: bool = False
) -> Manifest:
    """Write ``target``. A bundle among the attachments is unfolded into it: triage reads none inside another.

    Raises UserError as ``write_bundle``.
    """
    haul = Haul()
    with ExitStack() as stack:
        for attached in outbox.attachments(row.id):
            _add(haul, outbox, attached, stack, private)
        record = row.record
        if record is None:
            haul.gap("the incident's record", row.problem or "it cannot be read")
        else:
            haul.context("incident.json", record.model_dump_json(by_alias=True, indent=1))
            haul.facts(_new(haul, [*record.signs, *outbox.evidence_of(record.server.incarnation)]))
            haul.missed(record.gaps)
        return haul.write(target, private=private, overwrite=force)


def _new(haul: Haul, items: list[Evidence]) -> list[Evidence]:
    """Each fact once, however many of the three places have it."""
    seen = {(item.kind, item.text, item.wall, item.mono) for item in haul.evidence}
    fresh = []
    for item in items:
        what = (item.kind, item.text, item.wall, item.mono)
        if what not in seen:
            seen.add(what)
            fresh.append(item)
    return fresh


def _add(haul: Haul, outbox: OutboxReader, row: AttachmentRow, stack: ExitStack, private: bool) -> None:
    path = outbox.attachment_path(row)
    if path is None or row.state != KEPT:
        haul.gap(row.name, "it was dropped from the outbox for want of space")
    elif row.private and not private:
        haul.gap(row.name, "it is private", "incidents export --include-private")
    elif row.kind == BUNDLE_KIND:
        try:
            _unfold(haul, stack.enter_context(open_bundle(path)))
        except UserError as error:
            haul.gap(row.name, f"the attached bundle cannot be read: {error.what}")
    elif row.kind == REPORT_KIND:
        haul.add(f"context/{row.name}", path, CONTEXT)
    else:
        haul.add(f"attachments/{row.name}", path, row.kind)


def _unfold(haul: Haul, bundle: OpenBundle) -> None:
    for file in bundle.files:
        name = file.name if file.name not in haul.files else f"attachments/{PurePosixPath(file.name).name}"
        haul.add(name, file.path, file.kind)
    haul.facts(bundle.evidence)
    haul.missed(bundle.gaps)
    haul.host = bundle.manifest.host
    haul.process = bundle.manifest.process or haul.process


def report_of(outbox: OutboxReader, row: IncidentRow) -> Report | None:
    """The report that is attached; None when there is none any more. Raises UserError for a broken one."""
    for attached in outbox.attachments(row.id):
        path = outbox.attachment_path(attached)
        if attached.kind != REPORT_KIND or path is None:
            continue
        try:
            with path.open("rb") as file:
                return Report.from_json(file.read(MAX_REPORT))
        except (OSError, ValueError) as error:
            remedy = "run: llama-blackbox incidents export, then triage"
            raise UserError("the report cannot be read", where=attached.name, remedy=remedy) from error
    return None
