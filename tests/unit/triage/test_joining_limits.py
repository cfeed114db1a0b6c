"""Many deaths, foreign programs and containers: what is joined stays quick, and takes nobody else's words."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_joining import core, incidents, kinds, log, loose, made, next_id, record

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import CoreFact, ExitFact, KernelFact, LogFact, StackFact
from analyzers.contracts.report import Process
from analyzers.logs.scan import read_text
from analyzers.triage import clocks, relations
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import CoreWork, Material
from analyzers.triage.relations import SAME_DEATH_S
from analyzers.triage.ties import ties
from tests.fixtures.elfcore import CoreBuilder

PYTHON = "python3"


def test_many_uses_of_one_pid_are_compared_by_their_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN records of one PID, hours apart WHEN they are joined THEN no two need the long look."""
    looks = []
    real = relations.same_death
    monkeypatch.setattr("analyzers.triage.joining.same_death", lambda *two: looks.append(two) or real(*two))
    groups, _ = group([record(7, wall=at * 10 * SAME_DEATH_S) for at in range(200)])
    assert len(groups) == 200
    assert len(looks) < 200


def test_a_jump_is_found_where_it_is_and_a_long_log_costs_its_length() -> None:
    steady = [(float(at), float(at)) for at in range(3000)]
    moved = [(at + 5.0 if at >= 2000 else at, elapsed) for at, elapsed in steady]
    assert clocks.jumped(steady) is None
    assert clocks.jumped(moved) == 5.0
    late = [(at + (9.0 if at == 1500 else 0.0), elapsed) for at, elapsed in steady]
    assert clocks.jumped(late) is None


def test_kernel_faults_that_were_not_kept_are_counted(tmp_path: Path) -> None:
    line = "[ 1.{0:06d}] llama-server[{0}]: segfault at 0 ip 1000 sp 2 error 4 in libllama.so[1000,0+3000]\n"
    path = tmp_path / "kernel.txt"
    path.write_text("".join(line.format(number) for number in range(100, 1100)))
    reading = read_text(path)
    assert any("of 1000 kernel or supervisor lines" in gap.why for gap in reading.gaps)


def ended(unit: str | None, wall: float) -> Material:
    return loose(made(ExitFact("systemd", signal=11, result="core-dump", unit=unit), wall=wall))


@pytest.mark.parametrize(
    ("unit", "taken"), [("nginx.service", False), ("llama-a.service", True), (None, True)]
)
def test_a_unit_that_ends_soon_after_is_not_the_cores_for_that(unit: str | None, taken: bool) -> None:
    groups, gaps = incidents(core(7, wall=1000.0), core(8, wall=9000.0), ended(unit, 1060.0))
    (one,) = [each for each in groups if each.process.pid == 7]
    assert ("systemd" in {item.data.get("by") for item in one.evidence}) is taken
    assert any("do not say to which of these incidents" in gap.why for gap in gaps) is not taken


def test_the_unit_of_its_own_record_is_the_deaths() -> None:
    known = made(ExitFact("systemd", signal=11, result="core-dump", unit="ai.service"), 7, wall=1000.0)
    groups, _ = incidents(loose(known), record(9, wall=9000.0), ended("ai.service", 1005.0))
    (one,) = [each for each in groups if each.process.pid == 7]
    assert kinds(one) == ["exit", "exit"]


def of_python(pid: int, unit: str | None = None) -> Material:
    fact = ExitFact("systemd", signal=11, result="core-dump", name=PYTHON, unit=unit)
    return loose(made(fact, pid, wall=1000.0))


def test_a_record_of_python_is_no_servers_death_by_its_name() -> None:
    groups, gaps = incidents(record(7, wall=50.0), of_python(99), record(8, wall=90_000.0))
    assert {one.process.pid for one in groups} == {7, 8}
    assert any("core records of Python (PID 99)" in gap.what for gap in gaps)


@pytest.mark.parametrize(
    "tie",
    [
        loose(made(StackFact(tid=100), 99)),
        log(made(LogFact("loaded"), 99)),
        log(made(LogFact("loaded"))),  # a log that names no process may be its own
        loose(made(KernelFact(shape="segfault", name=PYTHON, tid=103, object="xllamacpp.abi3.so"))),
        Material(process=Process(pid=99)),
    ],
)
def test_what_ties_it_to_llama_cpp_makes_it_one(tie: Material) -> None:
    groups, gaps = group([record(7, wall=50.0), of_python(99), tie])
    assert 99 in {one.process.pid for one in groups}
    assert not any("of Python" in gap.what for gap in gaps)


def test_its_units_name_does_too() -> None:
    groups, _ = incidents(record(7, wall=50.0), of_python(99, "llama.service"))
    assert {one.process.pid for one in groups} == {7, 99}


def contained(pid: int, ip: int) -> Material:
    """A core of a container with an init: its server is not process 1."""
    fact = CoreFact(signal=11, pid=pid, crashed_tid=pid + 2, instruction_pointer=ip, stack_pointer=ip * 4096)
    return Material(
        evidence=(made(fact, pid),),
        process=Process(pid=pid, port=8080),
        anchor=True,
        tids=frozenset({pid, pid + 2}),
        core=CoreWork(Path(f"core{ip}"), None),
        apart=True,
    )


def test_two_containers_use_the_same_numbers_and_neither_takes_the_hosts_record_for_its_own() -> None:
    groups, _ = incidents(contained(7, 1), contained(7, 2), record(7, wall=9.0))
    assert sorted(kinds(one) for one in groups) == [["core"], ["core"], ["exit"]]


@pytest.mark.parametrize(("pid", "apart"), [(1, True), (7, True), (3142, False)])
def test_a_pid_that_no_host_gives_a_program_is_a_containers(tmp_path: Path, pid: int, apart: bool) -> None:
    from analyzers.triage.from_core import core_material

    path = tmp_path / "core"
    path.write_bytes(CoreBuilder(pid=pid, arguments=b"llama-server").thread(pid, rip=1).bytes())
    assert core_material(path, "core", None, next_id, None).apart is apart


@pytest.mark.parametrize(("form", "tied"), [("compose", False), ("kubectl", False), (None, True)])
def test_every_container_has_a_port_8080_of_its_own(form: str | None, tied: bool) -> None:
    line = made(LogFact("listening", value=8080.0), trust=Trust.SERVER)
    life = Life((line,), "a.log", "web", form=form)
    assert bool(ties([life], [8080, 8081])[0]) is tied
    one, other = core(7), core(9)
    ported = [
        Material(**{**vars(m), "process": Process(pid=m.process.pid, port=p)})
        for m, p in ((one, 8080), (other, 8081))
    ]
    groups, _ = incidents(*ported, Material(evidence=(line,), lives=(life,)))
    (own,) = [each for each in groups if each.process.pid == 7]
    assert ("log" in kinds(own)) is tied
