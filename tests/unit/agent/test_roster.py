"""Whose a fact is: by PID and life, by unit and time, by the thread that the kernel names."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, KernelFact, LogFact, to_evidence
from collector.agent.roster import FAULT_TO_END_SECONDS, MAX_REMEMBERED, Roster, thread_owner
from collector.discovery.model import Ended, Found, Place

BOOT = "0123456789abcdef0123456789abcdef"


def server(pid: int, start: float = 1.0, unit: str | None = "llama.service", **more: Any) -> Found:
    values: dict[str, Any] = {"role": "standalone", "place": Place(unit=unit), **more}
    who = Incarnation(pid=pid, start_time=start, boot_id=BOOT)
    return Found(who, "/usr/bin/llama-server", **values)


def fact(
    payload: Any, pid: int | None = None, mono: float | None = 100.0, start: float | None = None
) -> Evidence:
    who = Incarnation(pid=pid, start_time=start)
    return to_evidence(payload, id="e", source="s", text="t", trust=Trust.KERNEL, mono=mono, incarnation=who)


def end(found: Found, mono: float = 100.0, sig: int | None = 11) -> Ended:
    return Ended(found, mono, mono, None, sig)


@pytest.fixture
def roster() -> Roster:
    return Roster(mono=lambda: 100.0, owner_of_thread={71: 7}.get)


def test_a_line_with_a_pid_is_that_life_s(roster):
    roster.born(server(7, 5.0))
    assert roster.of(fact(LogFact(), pid=7)) is not None
    assert roster.of(fact(LogFact(), pid=7, start=5.0)) is not None
    assert roster.of(fact(LogFact(), pid=7, start=2.0)) is None
    assert roster.of(fact(LogFact(), pid=8)) is None


def test_a_thread_id_of_the_kernel_is_not_a_pid(roster):
    roster.born(server(7))
    roster.born(server(8))
    assert roster.of(fact(KernelFact(shape="segfault", tid=71))).pid == 7
    assert roster.of(fact(KernelFact(shape="segfault", tid=99))) is None


def test_a_fault_whose_thread_is_gone_is_the_server_s_that_ended_by_it(roster):
    roster.ended(end(server(7)))
    line = KernelFact(shape="segfault", tid=75, name="llama-server")
    assert roster.of(fact(line)).pid == 7
    assert roster.of(fact(KernelFact(shape="invalid-opcode", tid=75, name="llama-server"))) is None
    assert roster.of(fact(KernelFact(shape="segfault", tid=75, name="firefox"))) is None
    assert roster.of(fact(line, mono=100.0 + FAULT_TO_END_SECONDS + 1)) is None


def test_of_two_that_ended_alike_no_one_is_chosen(roster):
    roster.ended(end(server(7)))
    roster.ended(end(server(8)))
    assert roster.of(fact(KernelFact(shape="segfault", tid=75, name="llama-server"))) is None
    assert roster.of(fact(KernelFact(shape="segfault", tid=8, name="llama-server"))).pid == 8


def test_words_on_an_end_are_about_the_one_that_ended_not_its_successor(roster):
    roster.ended(end(server(7)))
    roster.born(server(8, 9.0))
    exited = ExitFact(by="systemd", signal=11, unit="llama.service")
    assert roster.of(fact(exited)).pid == 7
    assert roster.of(fact(exited, mono=500.0)).pid == 8
    stopping = ExitFact(by="systemd", result="stopping", unit="llama.service")
    assert roster.of(fact(stopping)).pid == 8


def test_words_on_an_end_are_about_the_run_that_they_name(roster):
    old = server(7, place=Place(unit="llama.service", invocation="a" * 32))
    new = server(8, 9.0, place=Place(unit="llama.service", invocation="b" * 32))
    roster.ended(end(old, sig=15))
    roster.born(new)
    exited = fact(ExitFact(by="systemd", signal=6, unit="llama.service"))
    for run, pid in (("a" * 32, 7), ("b" * 32, 8)):
        told = exited.model_copy(update={"data": {**exited.data, "invocation": run}})
        assert roster.of(told).pid == pid
    unknown = exited.model_copy(update={"data": {**exited.data, "invocation": "c" * 32}})
    assert roster.of(unknown) is None


def test_words_said_well_after_an_end_are_about_the_successor(roster):
    roster.ended(end(server(7), sig=15))
    roster.born(server(8, 9.0))
    exited = ExitFact(by="systemd", signal=6, unit="llama.service")
    assert roster.of(fact(exited, mono=100.5)).pid == 7
    assert roster.of(fact(exited, mono=103.0)).pid == 8


def test_a_unit_s_words_are_about_its_router_and_not_a_child(roster):
    router = server(7, role="router")
    child = server(9, role="child", parent=router.incarnation)
    roster.born(router)
    roster.born(child)
    assert roster.of(fact(ExitFact(by="systemd", result="stopping", unit="llama.service"))).pid == 7
    assert roster.children_of(router) == [child]


def test_a_number_of_another_pid_namespace_is_looked_up_there(roster):
    roster.born(server(41))
    roster.born(server(5000, place=Place(unit="llama.service", inner_pid=41)))
    assert roster.by_inner_pid(41, "llama.service").pid == 5000
    assert roster.by_inner_pid(41, "other.service") is None
    assert roster.by_inner_pid(5000, "llama.service") is None
    roster.born(server(6000, place=Place(unit="llama.service", inner_pid=41)))
    assert roster.by_inner_pid(41, "llama.service") is None


def test_two_servers_in_one_unit_are_not_told_apart_by_it(roster):
    roster.born(server(7))
    roster.born(server(8))
    assert roster.of(fact(ExitFact(by="systemd", result="stopping", unit="llama.service"))) is None


def test_another_unit_s_words_are_nobody_s(roster):
    roster.born(server(7))
    assert roster.of(fact(ExitFact(by="systemd", signal=11, unit="other.service"))) is None


def test_the_dead_are_forgotten_in_the_end(roster):
    for pid in range(10, 10 + 2 * MAX_REMEMBERED):
        roster.ended(end(server(pid)))
    assert roster.of(fact(LogFact(), pid=10)) is None
    assert roster.of(fact(LogFact(), pid=9 + 2 * MAX_REMEMBERED)) is not None


def test_a_real_thread_belongs_to_its_process():
    seen = []
    worker = threading.Thread(target=lambda: seen.append(thread_owner(threading.get_native_id())))
    worker.start()
    worker.join()
    assert seen == [os.getpid()]
    assert thread_owner(2**22 + 1) is None
