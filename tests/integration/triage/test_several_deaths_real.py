"""Real deaths of two defects in one call: one incident each, whatever tells of it, and one table over all."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from crash_loop import Dead, died, journal, kernel, records

from analyzers.contracts.report import Death, Report
from analyzers.triage.run import Options, triage
from collector.lab.faults import d1_stale_capture
from collector.lab.faults import d2_unload_under_reader as d2
from collector.lab.faults.provoked import Stage
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, UNLOAD_VERSION, prepare

pytestmark = pytest.mark.real
SEED = 20261202
FEW, ALL = (2, 1), (5, 3)  # deaths of D1 and of D2: in the gate, and as the table's example has them


@pytest.fixture(scope="module", params=[FEW, pytest.param(ALL, marks=pytest.mark.full)], ids=["few", "eight"])
def dead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Dead]]:
    """In the order of their deaths. Skipped aloud where this machine leaves no cores."""
    folder = tmp_path_factory.mktemp("deaths")
    wanted = ["D1"] * request.param[0] + ["D2"] * request.param[1]
    random.Random(SEED).shuffle(wanted)
    with ReferenceServer(folder / "servers") as lab:
        found = [_one(lab, defect) for defect in wanted]
        if any(one.provoked.core.path is None for one in found):
            pytest.skip(f"no core: {found[0].provoked.core.reason}")
        yield found
    shutil.rmtree(folder, ignore_errors=True)


def _one(lab: ReferenceServer, defect: str) -> Dead:
    version = STALE_CAPTURE_VERSION if defect == "D1" else UNLOAD_VERSION
    base = ServerSpec(cached_model(), python=prepare(version))
    stage = Stage(lab, replace(base, environment={"GGML_NO_BACKTRACE": "1"}))
    provoked = d1_stale_capture.provoke(stage) if defect == "D1" else d2.provoke(stage)
    assert provoked.happened, provoked.notes
    return died(provoked)


def asked(folder: Path, dead: list[Dead], incident: int | None = None, **texts: str) -> Report:
    paths = [one.core for one in dead]
    for name, text in texts.items():
        (folder / name).write_text(text)
        paths.append(folder / name)
    random.Random(SEED).shuffle(paths)
    with ExitStack() as stack:
        return triage(paths, Options(fast=True, incident=incident), stack).report


def deaths(report: Report) -> list[Death]:
    return [death for incident in report.incidents for death in incident.deaths]


def defects(dead: list[Dead]) -> dict[int, str | None]:
    return {one.pid: one.provoked.expected.defect for one in dead}


def test_cores_alone_are_one_incident_each(dead: list[Dead], tmp_path: Path) -> None:
    report = asked(tmp_path, dead)
    assert sorted(death.pid or 0 for death in deaths(report)) == sorted(defects(dead))
    assert [death.number for death in deaths(report)] == list(range(1, len(dead) + 1))
    # AND the loop thread of its own core tells D2; D1's twin without sleep has the same core
    told = {death.pid: death.defect for death in deaths(report)}
    assert all(told[pid] == "D2" for pid, defect in defects(dead).items() if defect == "D2")


def test_with_the_units_journal_and_the_kernels_log_every_death_is_its_defect(
    dead: list[Dead], tmp_path: Path
) -> None:
    # GIVEN the cores, the journal of the whole crash loop, systemd-coredump's records and the kernel's lines
    lines = kernel(dead)
    texts = {"journal": journal(dead), "records": records(dead), **({"dmesg": lines} if lines else {})}
    report = asked(tmp_path, dead, **texts)
    # THEN each is one incident, with its own sleep, and nobody's else
    assert {death.pid: death.defect for death in deaths(report)} == defects(dead)
    for death in deaths(report):
        assert {"core", "core record", "supervisor", "log"} <= set(death.witnesses)
        own = next(one for one in dead if one.pid == death.pid)
        assert ("kernel" in death.witnesses) is bool(own.provoked.kernel.lines)
        assert death.at == pytest.approx(own.wall, abs=2.0)
    # AND the sentence is true
    counted = sorted(defects(dead).values(), key=str)
    assert report.overview.startswith(f"{counted.count('D1')} of {len(dead)} are D1")
    assert f"{counted.count('D2')} D2" in report.overview
    assert "undetermined" not in report.overview
    groups = {incident.defect: incident.count for incident in report.incidents}
    assert groups == {defect: counted.count(defect) for defect in ("D1", "D2")}


def test_each_is_told_in_detail_with_its_own_process_and_clocks(dead: list[Dead], tmp_path: Path) -> None:
    texts = {"journal": journal(dead)}
    table = deaths(asked(tmp_path, dead, **texts))
    for death in table:
        report = asked(tmp_path, dead, death.number, **texts)
        own = next(one for one in dead if one.pid == death.pid)
        assert (report.incident, report.process.pid) == (death.number, own.pid)
        assert report.verdict.defect == own.provoked.expected.defect
        assert {item.incarnation.pid for item in report.verdict.evidence} <= {own.pid, None}
        # AND the server's clock began where the lab saw it start, give or take the loading of the program
        offset = next(c for c in report.clocks if c.clock.startswith("mono") and c.to.startswith("elapsed"))
        assert own.provoked.server.started_mono <= offset.seconds <= own.lines[-1].mono
        assert offset.pairs >= 2


def test_the_journal_alone_tells_the_loops_deaths_apart(dead: list[Dead], tmp_path: Path) -> None:
    report = asked(tmp_path, [], journal=journal(dead))
    assert sorted(death.pid or 0 for death in deaths(report)) == sorted(defects(dead))
    # without cores and kernel lines nothing is proven
    assert all(death.confidence in ("weak", "strong", "undetermined") for death in deaths(report))


def test_a_damaged_core_costs_only_itself(dead: list[Dead], tmp_path: Path) -> None:
    cut = tmp_path / "core.cut"
    with dead[0].core.open("rb") as whole:
        cut.write_bytes(whole.read(40))
    with ExitStack() as stack:
        report = triage([cut, *(one.core for one in dead)], Options(fast=True), stack).report
    assert len(deaths(report)) == len(dead)
    assert any(gap.what == "core.cut" for gap in report.gaps)


def test_logs_that_name_no_process_join_no_core_by_guess(dead: list[Dead], tmp_path: Path) -> None:
    # GIVEN the servers' own logs, with no stamp but the server's own
    logs = {f"server-{one.pid}.log": "".join(f"{line.text}\n" for line in one.lines) for one in dead}
    report = asked(tmp_path, dead, **logs)
    ported = {one.pid for one in dead} - {
        death.pid for death in deaths(report) if "log" not in death.witnesses
    }
    named = {gap.what.split(" of ")[-1] for gap in report.gaps if "do not say to which" in gap.why}
    # THEN each is used by the one core that names its port, or named as used by none
    assert len(ported) + len(named) == len(dead)
    # AND no other server's lines stand beside a core
    for death in deaths(report):
        assert {name for name in death.inputs if name.endswith(".log")} <= {f"server-{death.pid}.log"}
