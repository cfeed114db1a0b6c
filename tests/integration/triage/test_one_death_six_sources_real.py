"""One death as six sources tell it, beside another death of the same kind: six facts are one incident."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path

import pytest
from crash_loop import Dead, died, journal, records

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage
from collector.lab.faults import wake_reload
from collector.lab.faults.provoked import Stage
from collector.lab.reference import ReferenceServer, ServerSpec, cached_model
from collector.lab.reference.environments import UNLOAD_VERSION, prepare

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Dead]]:
    """Two servers that could not load their model again; each printed its own backtrace, by a debugger."""
    folder = tmp_path_factory.mktemp("reloads")
    with ReferenceServer(folder / "servers") as lab:
        stage = Stage(lab, ServerSpec(cached_model(), python=prepare(UNLOAD_VERSION)))
        found = [died(wake_reload.provoke(stage, damage)) for damage in (wake_reload.delete, wake_reload.cut)]
        if any(one.provoked.core.path is None for one in found):
            pytest.skip(f"no core: {found[0].provoked.core.reason}")
        yield found
    shutil.rmtree(folder, ignore_errors=True)


def read(paths: list[Path]) -> Report:
    with ExitStack() as stack:
        return triage(paths, Options(fast=True), stack).report


def test_each_death_is_one_incident_whoever_tells_of_it(dead: list[Dead], tmp_path: Path) -> None:
    # GIVEN cores, each server's own output with its self-printed trace, the unit's journal and the records
    logs = []
    for one in dead:
        logs.append(tmp_path / f"server-{one.pid}.log")
        logs[-1].write_text("".join(f"{line.text}\n" for line in one.lines))
    texts = {"journal.export": journal(dead), "records.txt": records(dead)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [*(one.core for one in dead), *logs, *(tmp_path / name for name in texts)]
    reports = [read(list(order)) for order in list(permutations(paths))[:: len(paths) * 20]]
    # THEN there are two deaths, in one group, for every order of the inputs
    for report in reports:
        (incident,) = report.incidents
        assert incident.class_ == "ABRT-WAKE-RELOAD"
        assert report.overview.startswith("2 of 2 are D7")
        assert sorted(incident.pids) == sorted(one.pid for one in dead)
        # AND each has all its witnesses, its own log alone, and the clocks of the two texts of its lines
        for death in incident.deaths:
            assert {"core", "self-trace", "abort text", "core record", "supervisor", "log"} <= set(
                death.witnesses
            )
            assert {name for name in death.inputs if name.endswith(".log")} == {f"server-{death.pid}.log"}
    assert len({report.overview for report in reports}) == 1
    assert len({tuple(d.number for i in report.incidents for d in i.deaths) for report in reports}) == 1
