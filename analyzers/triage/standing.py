"""What the catalogue says of the very build that failed. It is told beside the verdict and never feeds it."""

from __future__ import annotations

from analyzers.catalogue.known import Defects
from analyzers.catalogue.loader import known_defects
from analyzers.catalogue.model import Recognised, Standing
from analyzers.contracts.report import Gap
from analyzers.triage.marks import names_in
from analyzers.verdict.case import Case

SAID = {
    "affected": "is known to have {defect}",
    "presumed-affected": "is presumed to have {defect}",
    "fixed": "is known to be free of {defect}, which speaks against this verdict",
    "presumed-fixed": "is presumed to be free of {defect}, which speaks against this verdict",
    "absent": "has no code that could have {defect}, which speaks against this verdict",
    "unmeasured": "was not measured for {defect}",
}


def standing_line(case: Case, build_id: str | None, defect: str | None) -> str | None:
    """One sentence about the build and ``defect``; None without a defect, or when nothing names the build."""
    known = known_defects()
    if defect is None or known.defect(defect) is None:
        return None
    names = tuple(name for seen in case.marks for name in names_in(seen.fact))
    texts = [seen.fact.build for seen in case.log if seen.fact.build]
    found = known.recognise(build_id or _build_id(case), names, texts[-1] if texts else None)
    own = known.affected_wheel(defect, build_id)
    if found.how == "unknown" and own is None:
        return None
    return sentence(known, defect, found, own or known.standing(defect, found, names))


def sentence(known: Defects, defect: str, found: Recognised, standing: Standing) -> str:
    who = f"This build ({found})" if found.how != "unknown" else "This very binary (by its build-id)"
    said = SAID[standing.status].format(defect=defect)
    return f"{who} {said}{_range(known, defect, found)}. {standing.because}."


def _range(known: Defects, defect: str, found: Recognised) -> str:
    entry = known.defect(defect)
    rows = entry.builds if entry is not None else ()
    row = next((row for row in rows if found.build is not None and found.build in row), None)
    return f" ({row})" if row is not None else ""


def _build_id(case: Case) -> str | None:
    return next((seen.fact.build_id for seen in case.marks if seen.fact.build_id), None)


def catalogue_gaps() -> list[Gap]:
    """What of the packs and the local overlay could not be used."""
    return [Gap(what="part of the catalogue", why=note) for note in known_defects().notes]


def deployment_of(case: Case) -> str | None:
    """systemd or docker, when the evidence names one of them and not the other."""
    seen = {exit.fact.by for exit in case.exits} & {"systemd", "docker"}
    return seen.pop() if len(seen) == 1 else None
