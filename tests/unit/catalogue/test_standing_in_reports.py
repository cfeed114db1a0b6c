"""A report says what the failed build is and where the catalogue has it, and no verdict grows by it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.catalogue.overlay import overlay_path
from analyzers.contracts.evidence import Evidence, Trust
from analyzers.contracts.facts import ExitFact, LogFact, MarkFact, to_evidence
from analyzers.contracts.report import Report
from analyzers.core.model import Core
from analyzers.core.notes import read_core
from analyzers.triage.marks import NAMES, mark_evidence, names_in
from analyzers.triage.run import Options, triage
from analyzers.triage.standing import catalogue_gaps, deployment_of, standing_line
from analyzers.verdict.case import Case, build_case
from tests.fixtures.elfcore import CoreBuilder, R, shared_object

ID = bytes(range(20))
B11063 = bytes.fromhex("093f29465c094a0b3e60216f55169f0dde60f676")
TAKES_VOCAB = "_ZN13server_routes19handle_count_tokensEPK11llama_vocabP9something"
REQUEST_ONLY = "_ZN13server_routes19handle_count_tokensERK15server_http_req18task_response_type"


@pytest.fixture(autouse=True)
def _no_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def crashed(folder: Path, *names: str, build_id: bytes = ID, on_disk: bytes | None = None) -> Path:
    """A core of a server whose program lies in ``folder``; ``on_disk`` is the build-id of the file there."""
    program = folder / "llama-server"
    image = shared_object(build_id, names)
    builder = CoreBuilder(auxv={3: 0x10040}).thread(1)
    builder.load(0x10000, image[:4096], R).file(0x10000, 0x11000, 0, str(program))
    program.write_bytes(shared_object(on_disk or build_id, names))
    return builder.write(folder / "core")


def marks(core: Path, exe: Path | None = None) -> list[MarkFact]:
    numbers = iter(range(100))
    found: Core = read_core(core)
    rows = mark_evidence(found, exe, "core", lambda: f"e{next(numbers)}")
    return [MarkFact(**{k: v for k, v in row.data.items() if k != "kind"}) for row in rows]


def case(*facts: MarkFact | LogFact | ExitFact) -> Case:
    items: list[Evidence] = [
        to_evidence(fact, id=f"e{n}", source="test", text="x", trust=Trust.KERNEL)
        for n, fact in enumerate(facts)
    ]
    return build_case(items)


def test_a_known_wheel_is_named_without_opening_its_file(tmp_path: Path) -> None:
    core = crashed(tmp_path, TAKES_VOCAB, build_id=B11063)
    (tmp_path / "llama-server").unlink()
    (fact,) = marks(core)
    assert (fact.mark, fact.build, fact.build_id) == ("known-build-id", "b11063", B11063.hex())


def test_the_program_at_hand_is_dated_by_its_names(tmp_path: Path) -> None:
    (fact,) = marks(crashed(tmp_path, TAKES_VOCAB, "_ZN10server_mcpD1Ev"))
    assert names_in(fact) == ("d1-count-tokens-takes-vocab", "after-10068")
    assert (fact.defect, fact.affected, fact.build) == ("D1", True, None)


def test_another_file_at_that_path_is_not_believed(tmp_path: Path) -> None:
    core = crashed(tmp_path, TAKES_VOCAB, on_disk=b"\x01" * 20)
    assert marks(core) == []
    # the user's own word for it is checked alike
    assert marks(core, tmp_path / "llama-server") == []
    good = tmp_path / "kept"
    good.write_bytes(shared_object(ID, (TAKES_VOCAB,)))
    assert len(marks(core, good)) == 1


def test_a_stripped_or_missing_program_gives_nothing(tmp_path: Path) -> None:
    core = crashed(tmp_path)
    assert marks(core) == []
    (tmp_path / "llama-server").unlink()
    assert marks(core) == []


def test_both_shapes_at_once_name_no_defect(tmp_path: Path) -> None:
    (fact,) = marks(crashed(tmp_path, TAKES_VOCAB, REQUEST_ONLY))
    assert (fact.defect, fact.affected) == (None, None)


def test_names_alone_make_no_verdict(tmp_path: Path) -> None:
    """GIVEN two cores that differ only in the affected handler's name THEN their verdicts are the same."""
    reports: list[Report] = []
    for names in ((), (TAKES_VOCAB,)):
        folder = tmp_path / f"with{len(names)}"
        folder.mkdir()
        with ExitStack() as stack:
            reports.append(triage([crashed(folder, *names)], Options(fast=True), stack).report)
    plain, marked = (report.verdict for report in reports)
    kept = {"evidence"}  # its rows name the folder
    assert plain.model_dump(exclude=kept) == marked.model_dump(exclude=kept)
    assert marked.defect is None


WHEEL = MarkFact(mark="known-build-id", build="b11063", build_id=B11063.hex())
LOG = LogFact(event="build", build="version: 11063 (abcdef012)")


@pytest.mark.parametrize(
    ("facts", "build_id", "defect", "said"),
    [
        ((WHEEL,), None, "D1", "This build (b11063 by its build-id) is known to have D1"),
        ((WHEEL,), None, "D1", "affected: b9713 to b11138"),
        ((), B11063.hex(), "D2", "This build (b11063 by its build-id) is known to have D2"),
        ((LOG,), None, "D1", "This build (b11063 by its version text) is known to have D1"),
        ((LogFact(build="b10000"),), None, "D1", "is presumed to have D1"),
        ((LogFact(build="b12000"),), None, "D1", "is presumed to be free of D1, which speaks against"),
        ((LogFact(build="b11368"),), None, "D1", "is known to be free of D1, which speaks against"),
        ((LogFact(build="b11145"),), None, "D1", "was not measured for D1"),
        ((LogFact(build="b9294"),), None, "D1", "has no code that could have D1, which speaks against"),
        (
            (MarkFact(mark=f"{NAMES} d1-count-tokens-takes-vocab after-10809", build_id=ID.hex()),),
            ID.hex(),
            "D1",
            "This build (between b10810 and b11148 by its marks) is known to have D1. D1 affected by",
        ),
    ],
)
def test_the_sentence(
    facts: tuple[MarkFact | LogFact, ...], build_id: str | None, defect: str, said: str
) -> None:
    line = standing_line(case(*facts), build_id, defect)
    assert line is not None
    assert said in line
    assert line.isprintable()


def test_without_a_defect_or_a_build_nothing_is_said() -> None:
    assert standing_line(case(WHEEL), B11063.hex(), None) is None
    assert standing_line(case(), None, "D1") is None
    assert standing_line(case(LogFact(build="b0-unknown")), "00" * 20, "D1") is None
    assert standing_line(case(WHEEL), None, "D99") is None


def test_what_was_found_here_in_this_very_binary_is_said(tmp_path: Path) -> None:
    path = overlay_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text(
        "schema = 1\n[[witness]]\n"
        f'defect = "D2"\nstatus = "affected"\nbuild_id = "{ID.hex()}"\nstock = false\n'
        'date = "2026-12-02"\nhow = "verify pinned: 19 of 20 trials showed it"\ntrials = 20\n'
    )
    line = standing_line(case(), ID.hex(), "D2")
    assert line is not None
    assert line.startswith("This very binary (by its build-id) is known to have D2")
    assert "19 of 20" in line
    assert catalogue_gaps() == []
    with ExitStack() as stack:
        report = triage([crashed(tmp_path)], Options(fast=True), stack).report
    assert report.tool.catalogue.endswith("+local.1")


def test_a_broken_overlay_is_a_gap_of_the_report_and_sinks_nothing(tmp_path: Path) -> None:
    path = overlay_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text("not = = toml")
    with ExitStack() as stack:
        report = triage([crashed(tmp_path)], Options(fast=True), stack).report
    gaps = [gap.why for gap in report.gaps if gap.what == "part of the catalogue"]
    assert len(gaps) == 1
    assert "overlay was left out" in gaps[0]
    assert report.verdict.class_


@pytest.mark.parametrize(
    ("by", "told"),
    [(("systemd",), "systemd"), (("docker",), "docker"), (("docker", "systemd"), None), (("waitpid",), None)],
)
def test_steps_are_for_the_deployment_the_evidence_names(by: tuple[str, ...], told: str | None) -> None:
    assert deployment_of(case(*(ExitFact(by=each) for each in by))) == told
