"""Kernel lines, exits and core records of other programs, units, boots and lives are nobody's death here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import ExitFact, Fact, KernelFact, LogFact, StackFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.faults import FATAL_SHAPES
from analyzers.triage.from_text import text_material
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import Material, numbering

next_id = numbering()
UNIT = "llama.service"
LOG = """\
0.00.000.300 I srv          init: initializing ...
0.00.030.948 I srv          init: model loaded
0.01.043.870 I que    start_loop: entering sleeping state
"""


def made(
    fact: Fact,
    pid: int | None = None,
    *,
    boot: str | None = None,
    mono: float | None = None,
    trust: Trust = Trust.KERNEL,
) -> Evidence:
    who = Incarnation(pid=pid, boot_id=boot)
    return to_evidence(fact, id=next_id(), source="t:1", text="t", trust=trust, mono=mono, incarnation=who)


def oom(tid: int, name: str) -> Evidence:
    return made(KernelFact("oom-kill", tid=tid, name=name))


def served(pid: int | None = None, began: float | None = None, boot: str | None = None) -> Material:
    item = made(LogFact("enter-sleep"), pid, boot=boot, mono=began)
    return Material(evidence=(item,), lives=(Life((item,), "log", UNIT, form="journal"),))


def joined(*materials: Material) -> tuple[list[Evidence], str]:
    """What joins the only incident beside log lines and stacks, and all gaps' words."""
    (one,), loose = group(materials)
    gaps = " ".join(f"{gap.what}: {gap.why}" for gap in (*one.gaps, *loose))
    return [item for item in one.evidence if item.kind not in ("log", "stack")], gaps


def lines(*items: Evidence) -> Material:
    return Material(evidence=items)


@pytest.mark.parametrize("shape", ["oom-kill", "gpu-fault"])
def test_a_victim_the_kernel_names_joins_only_its_own_process(shape: str) -> None:
    other = made(KernelFact(shape, tid=999, name="postgres"))
    own = made(KernelFact(shape, tid=7, name="whatever"))
    assert joined(served(7), lines(other, own))[0] == [own]
    found, gaps = joined(served(7), lines(other))
    assert found == []
    assert "other processes" in gaps
    core = Material(process=Process(pid=7), anchor=True, tids=frozenset({7, 8}))
    worker = made(KernelFact(shape, tid=8))
    assert joined(core, lines(other, worker))[0] == [worker]


def test_without_a_pid_the_only_victim_with_a_servers_name_joins() -> None:
    twice = (oom(5, "llama-server"), oom(5, "llama-server"))
    assert joined(served(), lines(*twice, oom(9, "postgres")))[0] == list(twice)
    for strangers in (
        (oom(9, "postgres"),),
        (oom(9, "python3"),),
        (oom(5, "llama-server"), oom(6, "llama-cli")),
    ):
        found, gaps = joined(served(), lines(*strangers))
        assert found == []
        assert "kernel lines about other processes" in gaps


def test_a_gpu_line_that_names_nobody_still_joins() -> None:
    nobody = made(KernelFact("gpu-fault"))
    assert joined(served(7), lines(nobody))[0] == [nobody]


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory: Killed process 999 (postgres) total-vm:1kB",
        "Out of memory: Killed process 4 (llama-server) total-vm:1kB",
        "[  100.5] traps: llama-server[4] general protection ip:7f00 sp:7f10 error:0",
        "traps: llama-server[4] general protection ip:7f00 sp:7f10 error:0 in libllama.so[7f00+10]",
        "NVRM: Xid (PCI:0000:01:00): 13, pid=4, name=llama-server, Graphics SM Warp Exception",
        "llama.service: Main process exited, code=killed, status=9/KILL",
        "llama-1 exited with code 139",
        "    Exit Code:    139",
    ],
)
def test_words_of_others_in_a_servers_log_join_nothing_and_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.log").write_text(
        f"{LOG}{line}\n0.02.043.870 I que    start_loop: exiting sleeping state\n"
    )
    found, gaps = joined(text_material(tmp_path / "a.log", "a.log", "server-log", numbering()))
    assert found == []
    assert "read and not believed" in gaps


@pytest.mark.parametrize(
    ("name", "thing", "ours"),
    [
        ("chrome", "chrome", False),
        ("nginx", "nginx", False),
        ("chrome", None, False),
        ("python3", "libtorch.so", False),
        ("python3", "python3.11", False),
        ("python3", "libc.so.6", True),
        ("python3", "xllamacpp.abi3.so", True),
        ("worker-3", "libc.so.6", True),
        ("worker-3", "libggml-base.so", True),
        ("llama-server", None, True),
        ("llama-server", "anything.so", True),
    ],
)
def test_a_lone_fault_is_ours_only_when_name_or_object_fit(name: str, thing: str | None, ours: bool) -> None:
    fault = made(KernelFact("segfault", tid=777, name=name, object=thing))
    found, gaps = joined(served(7), lines(fault))
    assert (found == [fault]) is ours
    assert ("other faults" in gaps) is not ours


def test_the_thread_of_a_pasted_stack_names_its_fault() -> None:
    fault = made(KernelFact("segfault", tid=777, name="x", object="y"))
    assert joined(lines(made(StackFact(tid=777)), fault))[0] == [fault]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from((*FATAL_SHAPES, "oom-kill", "gpu-fault")), st.integers(8, 1 << 22))
def test_no_kernel_line_of_another_program_ever_joins_a_named_process(shape: str, tid: int) -> None:
    assert joined(served(7), lines(made(KernelFact(shape, tid=tid, name="chrome", object="chrome"))))[0] == []


def exit_of(unit: str | None, mono: float | None = None, **more: object) -> Evidence:
    fact = ExitFact("systemd", unit=unit, **{"signal": 9, **more})  # type: ignore[arg-type]
    return made(fact, mono=mono, trust=Trust.SUPERVISOR)


def test_an_exit_joins_its_own_unit_only() -> None:
    own, other, unnamed = exit_of(UNIT), exit_of("nginx.service"), exit_of(None)
    found, gaps = joined(served(), lines(other, own, unnamed))
    assert found == [own, unnamed]
    assert "another unit" in gaps


def test_where_the_log_names_no_unit_the_only_one_or_the_servers_is_taken() -> None:
    plain = Material(lives=(Life((made(LogFact("loaded")),), "log", "llama-server", form="syslog"),))
    own, other = exit_of("ai.service"), exit_of("nginx.service")
    assert joined(plain, lines(own))[0] == [own]
    assert joined(plain, lines(own, other))[0] == []
    named = exit_of(UNIT)
    assert joined(plain, lines(named, other))[0] == [named]


def test_a_container_is_named_by_its_stream() -> None:
    item = made(LogFact("loaded"))
    life = Life((item,), "log", "llama-7d4/llama", form="kubectl")
    own, other = (
        made(ExitFact("docker", signal=11, unit="llama")),
        made(ExitFact("docker", code=0, unit="proxy")),
    )
    assert joined(Material(evidence=(item,), lives=(life,)), lines(other, own))[0] == [own]


def test_ends_and_stops_outside_the_life_are_not_its_own() -> None:
    began = served(7, 100.0, "a")
    again = made(LogFact("init"), 8, boot="a", mono=300.0)
    later = Material(evidence=(again,), lives=(Life((again,), "log", UNIT, form="journal"),))
    record = made(ExitFact("systemd", signal=11, result="core-dump"), 7, boot="a", mono=200.0)
    before = exit_of(UNIT, 50.0, signal=None, result="oom-kill", oom=True)
    stop = exit_of(UNIT, 60.0, signal=None, result="stopping", requested=True)
    own, after = exit_of(UNIT, 201.0), exit_of(UNIT, 400.0)
    xid = made(KernelFact("gpu-fault"), mono=5.0)
    found, gaps = joined(began, later, lines(before, stop, record, own, after, xid))
    assert found == [record, own]
    assert "before this life began" in gaps
    assert "after the next life began" in gaps


@pytest.mark.parametrize(
    ("pid", "boot", "name", "joins"),
    [
        (7, "a", "llama-server", True),
        (777, "a", "chrome", False),
        (777, "a", "llama-server", False),
        (7, "b", "llama-server", False),
        (None, "a", "chrome", False),
        (None, "a", "llama-server", True),
    ],
)
def test_a_core_record_must_be_of_the_same_process_and_boot(
    pid: int | None, boot: str, name: str, joins: bool
) -> None:
    record = made(ExitFact("systemd", signal=11, result="core-dump", name=name), pid, boot=boot)
    found, gaps = joined(served(7, boot="a"), lines(record, made(StackFact(crashed=True))))
    assert (found == [record]) is joins
    assert ("not about this life" in gaps) is not joins


def test_without_a_log_the_first_fact_that_names_a_server_seeds_the_incident() -> None:
    chrome = made(ExitFact("systemd", signal=11, result="core-dump", name="chrome"), 777)
    first = made(ExitFact("systemd", signal=11, result="core-dump", name="llama-server"), 7)
    second = made(ExitFact("systemd", signal=6, result="core-dump", name="llama-server"), 8)
    assert joined(lines(chrome, first, second))[0] == [first]


def test_a_worker_that_started_later_does_not_end_the_life_that_the_kernel_names() -> None:
    worker = made(LogFact("enter-sleep"), 99, boot="a", mono=300.0)
    beside = Material(evidence=(worker,), lives=(Life((worker,), "log", UNIT, form="journal"),))
    fault = made(KernelFact("segfault", tid=7, name="llama-server"), boot="a", mono=500.0)
    assert joined(served(7, 100.0, "a"), beside, lines(fault))[0] == [fault]


@pytest.mark.parametrize(
    ("name", "own", "lent"),
    [("llama-server", False, False), ("llama-server", True, True), ("chrome", False, True)],
)
def test_a_stack_beside_another_servers_death_borrows_no_sleep(name: str, own: bool, lent: bool) -> None:
    # GIVEN a log, a pasted stack, and the core record of the same PID in another boot
    elsewhere = made(ExitFact("systemd", signal=11, result="core-dump", name=name), 7, boot="b")
    stack = lines(made(StackFact(crashed=True)), made(ExitFact("trace", signal=11)))
    more = lines(made(ExitFact("systemd", signal=11, unit=UNIT), boot="a")) if own else lines()
    (one,), _ = group([served(7, boot="a"), stack, more, lines(elsewhere)])
    sleeps = [item for item in one.evidence if item.data.get("event") == "enter-sleep"]
    # THEN the log lends its sleep only when the death is its own
    assert (sleeps[0].trust is not Trust.CLIENT) is lent
    assert any("whose death" in gap.what for gap in one.gaps) is not lent


def test_a_bundles_manifest_names_the_process_among_its_recorded_facts() -> None:
    before = made(ExitFact("waitpid", signal=9), 6)
    own = made(ExitFact("waitpid", signal=11), 7)
    bundle = Material(evidence=(before, own), process=Process(pid=7))
    assert joined(bundle)[0] == [own]


def test_a_boot_is_the_same_with_and_without_dashes() -> None:
    dashed, bare = "0a1b2c3d-0000-4000-8000-00000000000f", "0a1b2c3d000040008000" + "00000000000f"
    record = made(ExitFact("systemd", signal=11, result="core-dump", name="llama-server"), 7, boot=bare)
    assert joined(served(7, boot=dashed), lines(record))[0] == [record]
