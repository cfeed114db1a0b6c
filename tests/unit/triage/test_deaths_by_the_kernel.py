"""Several deaths of which only kernel lines tell, in one text or in several."""

from __future__ import annotations

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import Fact, KernelFact, LogFact, to_evidence
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import Material, numbering

next_id = numbering()
BASE = 0x7F25979B6000


def said(fact: Fact, mono: float | None = None, trust: Trust = Trust.KERNEL) -> Evidence:
    return to_evidence(
        fact, id=next_id(), source="k:1", text="t", trust=trust, mono=mono, incarnation=Incarnation()
    )


def fault(
    tid: int, mono: float, base: int = BASE, name: str = "llama-server", thing: str = "libllama.so"
) -> Evidence:
    fact = KernelFact("segfault", name=name, tid=tid, ip=base + 0x10F9, object=thing, object_offset=0x10F9)
    return said(fact, mono)


def threads(*materials: Material) -> list[list[object]]:
    groups, _ = group(list(materials))
    return sorted([item.data.get("tid") for item in one.evidence] for one in groups)


def test_faults_of_two_servers_in_a_kernel_log_are_two_deaths() -> None:
    first, second = fault(10, 5.0), fault(20, 5.2, BASE + 0x1000)
    assert threads(Material((first, second))) == [[10], [20]]
    assert threads(Material((first,)), Material((second,))) == [[10], [20]]


def test_faults_at_one_place_but_apart_in_time_are_two_deaths() -> None:
    assert threads(Material((fault(10, 5.0), fault(20, 65.0)))) == [[10], [20]]


def test_two_threads_of_one_process_that_fault_at_once_are_no_two_deaths() -> None:
    assert len(threads(Material((fault(10, 5.0), fault(11, 5.001))))) == 1


def test_one_line_in_two_texts_is_one_death() -> None:
    assert len(threads(Material((fault(10, 5.0),)), Material((fault(10, 5.0),)))) == 1


def test_another_programs_fault_is_no_death_of_a_server() -> None:
    other = fault(20, 90.0, BASE + 0x1000, "chrome", "chrome")
    assert threads(Material((fault(10, 5.0), other))) == [[10]]


def test_beside_a_log_that_names_none_they_stay_a_gap() -> None:
    own = (said(LogFact("loaded"), trust=Trust.SERVER),)
    log = Material(own, lives=(Life(own, "a.log"),))
    (one,), gaps = group([log, Material((fault(10, 5.0), fault(20, 65.0)))])
    assert [item.kind for item in one.evidence] == ["log"]
    assert any("2 other faults" in gap.what for gap in gaps)
