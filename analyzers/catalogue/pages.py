"""Pages of help: one for every defect, class, phase, cause, confidence and state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from analyzers.catalogue.model import Advice, Defect, LookAlike, Page, Section
from analyzers.catalogue.reading import read_advice, read_look_alike
from analyzers.catalogue.tables import Table
from analyzers.contracts.registry import CAUSES, CLASSES, CONFIDENCES, PHASES, STATES

# Order matters where an id names two things (``asleep`` is a phase and a state): the first leads the page.
REGISTRY: dict[str, Mapping[str, str]] = {
    "class": CLASSES,
    "phase": PHASES,
    "cause": CAUSES,
    "confidence": CONFIDENCES,
    "state": STATES,
}
DO_NOW = "What to do now"  # the section whose steps a report gives as advice


def read_pages(table: Table) -> tuple[Page, ...]:
    """Every page of classes.toml. Raises UserError when an id of the registry has none, or is unknown."""
    found: list[Page] = []
    for kind, ids in REGISTRY.items():
        entries = table.named(kind)
        _same_ids(table, kind, set(entries), set(ids))
        found += [_page(kind, id, line, entries[id]) for id, line in ids.items()]
    table.finish()
    return tuple(found)


def _same_ids(table: Table, kind: str, written: set[str], registered: set[str]) -> None:
    for id in sorted(registered - written):
        raise table.fail(f"the registry's {kind} '{id}' has no page")
    for id in sorted(written - registered):
        raise table.fail(f"the registry has no {kind} '{id}'")


def _page(kind: str, id: str, line: str, entry: Table) -> Page:
    sections = (
        Section("What it means", (entry.text("meaning"),)),
        Section(DO_NOW, steps=entry.rows("do", read_advice)),
        Section("How it is told", entry.texts("told")),
        _look_alikes(entry.rows("look_alike", read_look_alike)),
        Section("What to collect next time", steps=entry.rows("collect", read_advice)),
    )
    entry.finish()
    return Page(id, kind, line, filled(sections))


def filled(sections: Iterable[Section]) -> tuple[Section, ...]:
    """The sections that say something."""
    return tuple(section for section in sections if section.lines or section.steps)


def _look_alikes(rows: tuple[LookAlike, ...]) -> Section:
    return Section("What looks like it", tuple(f"{row.what}: {row.apart}" for row in rows))


def defect_page(defect: Defect, proofs: Mapping[str, str]) -> Page:
    """The page of one defect, made from the same data the verdict rules use."""
    sections = (
        Section("What it is", (defect.summary, defect.detail)),
        Section(DO_NOW, steps=defect.advice),
        Section("What it looks like", _signs(defect)),
        _look_alikes(defect.look_alikes),
        Section("Routes it can be hit through", defect.routes),
        Section("Builds", tuple(str(row) for row in defect.builds)),
        Section("Builds that were looked at", tuple(str(w) for row in defect.builds for w in row.witnesses)),
        Section("Marks in the binary", tuple(str(mark) for mark in defect.marks)),
        Section("What proves it (one of each line)", _proof_lines(defect, proofs)),
        Section("What does not prove it", defect.not_enough),
        Section("Upstream", tuple(str(reference) for reference in defect.references)),
    )
    return Page(defect.id, "defect", defect.title, filled(sections))


def _signs(defect: Defect) -> tuple[str, ...]:
    rows = (
        ("class", defect.classes),
        ("cause", (defect.cause,)),
        ("phase", defect.phases),
        ("handlers", defect.handlers),
        ("frames", defect.frames),
    )
    return tuple(f"{name}: {', '.join(values)}" for name, values in rows if values)


def _proof_lines(defect: Defect, proofs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(" or ".join(f"{proofs[name]} [{name}]" for name in group) for group in defect.proven_by)


def merged(pages: list[Page]) -> Page:
    """One page for an id that names several things; the later meanings follow under their own headings."""
    first, *rest = pages
    extra = [
        replace(section, heading=f"As a {page.kind} ({page.title}) - {section.heading}")
        for page in rest
        for section in page.sections
    ]
    return replace(first, sections=(*first.sections, *extra))


def commands(page: Page) -> tuple[Advice, ...]:
    """Every step of a page that carries a command."""
    return tuple(step for section in page.sections for step in section.steps if step.command)
