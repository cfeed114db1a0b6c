"""The case folders of tests/cases: read, run through triage, and compared with what they expect.

A case is a folder ``NNN-slug`` with ``case.toml`` and its inputs. ``case.toml``:

- ``source``: the public report whose shape was rebuilt (``owner/repository#number``), or
  "shape of this project's own run". The texts are written anew with values that do not exist.
- ``kind``: "recorded" (a shape people reported) or "provoked" (the lab makes it on purpose).
- ``journal``: the inputs are a journal's export text, and triage is given the raw journal that systemd's own
  tool makes of it (the text itself where that tool is not installed).
- ``inputs``: what triage is given, in this order. ``why``: one sentence that gives the reason of the verdict.
- ``[expect]``: ``class``; ``cause``, ``phase``, ``defect`` where they matter (no ``defect`` means that none
  may be named); ``at_most`` and ``at_least`` for the confidence; ``not``: classes that would be wrong;
  ``collect``: words that the list of what to collect must hold; ``absent``: client text kept out of it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analyzers.cli.journals import journals_into
from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage
from analyzers.verdict.finding import CONFIDENCE_ORDER

toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
CASES = Path(__file__).resolve().parents[2] / "cases"
OWN = "shape of this project's own run"
UNDETERMINED = "UNDETERMINED"
PLACES = (Path("/lib/systemd/systemd-journal-remote"), Path("/usr/lib/systemd/systemd-journal-remote"))
REMOTE = next((str(path) for path in PLACES if path.exists()), None)
READER = REMOTE is not None and find_spec("systemd") is not None


@dataclass(frozen=True)
class PublicCase:
    """One case folder; ``expect`` is its ``[expect]`` table."""

    name: str
    source: str
    kind: str
    inputs: tuple[Path, ...]
    why: str
    expect: dict[str, Any] = field(default_factory=dict)
    journal: bool = False

    @property
    def wanted(self) -> str:
        """The class the case expects."""
        return str(self.expect["class"])


def every_case() -> list[PublicCase]:
    """All cases, by number."""
    return [_read(folder) for folder in sorted(CASES.glob("[0-9][0-9][0-9]-*"))]


def _read(folder: Path) -> PublicCase:
    table = toml.loads((folder / "case.toml").read_text("utf-8"))
    return PublicCase(
        folder.name,
        table["source"],
        table["kind"],
        tuple(folder / name for name in table["inputs"]),
        table["why"],
        table["expect"],
        table.get("journal", False),
    )


def run_case(case: PublicCase) -> Report:
    """The report that ``llama-blackbox triage --fast`` gives for the case's inputs."""
    with ExitStack() as stack:
        inputs = case.inputs
        if case.journal and READER:
            inputs = tuple(_raw(path, stack) for path in inputs)
        return triage(inputs, Options(fast=True, journals=journals_into), stack).report


def _raw(export: Path, stack: ExitStack) -> Path:
    """A folder with the journal file of an export text."""
    folder = Path(stack.enter_context(TemporaryDirectory()))
    assert REMOTE is not None
    argv = [REMOTE, f"--output={folder / 'system.journal'}", str(export)]
    subprocess.run(argv, check=True, capture_output=True)
    return folder


def differences(case: PublicCase, report: Report) -> list[str]:
    """What the report says otherwise than the case expects; empty when it is right."""
    verdict, expect = report.verdict, case.expect
    said = {"class": verdict.class_, "cause": verdict.cause, "phase": verdict.phase}
    wrong = [
        f"{key} is {said[key]}, not {expect[key]}"
        for key in said
        if key in expect and said[key] != expect[key]
    ]
    if verdict.defect != expect.get("defect"):
        wrong.append(f"defect is {verdict.defect}, not {expect.get('defect')}")
    wrong += [f"it must not be {one}" for one in expect.get("not", ()) if one == verdict.class_]
    wrong += _confidence(verdict.confidence, expect)
    asked = " ".join(f"{gap.what} {gap.why}" for gap in report.gaps).lower()
    wrong += [f"nothing asks for {word!r}" for word in expect.get("collect", ()) if word.lower() not in asked]
    shown = report.to_json()
    return wrong + [f"{word!r} is in the report" for word in expect.get("absent", ()) if word in shown]


def _confidence(said: str, expect: dict[str, Any]) -> list[str]:
    rank = CONFIDENCE_ORDER.index(said)
    low, high = expect.get("at_least", CONFIDENCE_ORDER[0]), expect.get("at_most", CONFIDENCE_ORDER[-1])
    if CONFIDENCE_ORDER.index(low) <= rank <= CONFIDENCE_ORDER.index(high):
        return []
    return [f"confidence is {said}, not {low} to {high}"]


def catalogue_page(cases: list[PublicCase]) -> str:
    """docs/cases.md."""
    lines = [_HEAD.format(count=len(cases), public=sum(case.source != OWN for case in cases))]
    for case in cases:
        number, _, title = case.name.partition("-")
        row = (number, title.replace("-", " "), case.source, _verdict(case), case.why)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _verdict(case: PublicCase) -> str:
    parts = [f"`{case.wanted}`", case.expect.get("defect"), case.expect.get("cause")]
    limit = f"at most {case.expect['at_most']}" if "at_most" in case.expect else None
    return ", ".join(str(part) for part in (*parts, limit) if part)


_HEAD = """\
# Cases

{count} inputs as people have them, each with the verdict that is right for it and the reason. {public}
of them are shapes of public reports, rebuilt with other texts and values that do not exist; the number leads
to the report. The files stand in `tests/cases`; `tests/unit/cases` runs every one through the triage verb.
This page is written by `python tests/unit/cases/case_files.py` and checked by a test.

| no. | case | source | right verdict | why |
|---|---|---|---|---|"""

if __name__ == "__main__":
    page = CASES.parents[1] / "docs" / "cases.md"
    page.write_text(catalogue_page(every_case()), "utf-8")
