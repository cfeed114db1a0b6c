"""Bundles that are given together: each is judged by what it holds, whatever the other one says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, Fact, StackFact, to_evidence
from analyzers.contracts.report import Process
from analyzers.triage.from_bundle import bundle_materials
from analyzers.triage.group import group
from analyzers.triage.material import CoreWork, Material, numbering
from analyzers.triage.run import judge_all

LOG = b"""\
0.00.000.300 I srv          init: initializing ...
0.00.030.948 I srv          init: model loaded
0.00.030.949 I srv          init: listening on http://127.0.0.1:44425
0.01.043.870 I que    start_loop: entering sleeping state
0.02.043.870 I que    start_loop: exiting sleeping state
0.02.053.870 I srv          init: model loaded
"""
AWAKE = b"".join(LOG.splitlines(keepends=True)[:3])
next_id = numbering()


def kernel(tid: int, ip: int = 0x7F0000001000) -> bytes:
    base = ip - 0x1000
    line = f"llama-server[{tid}]: segfault at 0 ip {ip:x} sp 7ffe0 error 4 in libllama.so[1000,{base:x}+3000]"
    return f"[ 4646.{tid:06d}] {line}\n".encode()


def core_facts(pid: int, ip: int) -> list[Evidence]:
    facts: list[Fact] = [
        CoreFact(signal=11, pid=pid, crashed_tid=pid + 1, instruction_pointer=ip, stack_pointer=pid * 4096),
        StackFact(tid=pid + 1, crashed=True, rung="eu-stack"),
    ]
    who = Incarnation(pid=pid)
    made = [
        to_evidence(f, id=f"core-{n}", source="core", text=f.KIND, trust=Trust.KERNEL)
        for n, f in enumerate(facts)
    ]
    return [item.model_copy(update={"incarnation": who}) for item in made]


def bundle(
    folder: Path,
    name: str,
    pid: int | None,
    evidence: Sequence[Evidence] = (),
    **files: bytes,
) -> list[Material]:
    named = {key.replace("_", "."): data for key, data in files.items()}
    parts = ManifestParts(created=1.0, process=Process(pid=pid) if pid is not None else None)
    write_bundle(folder / name, parts, named, evidence)
    with ExitStack() as stack:
        return bundle_materials(folder / name, (), None, next_id, stack)


def sources(items: Sequence[Evidence]) -> list[str]:
    return sorted(item.source.partition(":")[0] for item in items)


def tids(items: Sequence[Evidence]) -> set[int]:
    return {item.data["tid"] for item in items if item.kind == "kernel"}


def test_the_kernels_line_of_one_bundle_says_nothing_of_the_other_ones_death(tmp_path: Path) -> None:
    """GIVEN two bundles of two deaths WHEN they are given together THEN each is what it is alone."""
    one = bundle(tmp_path, "a.bundle", 7, server_log=LOG, kernel_txt=kernel(8))
    other = bundle(tmp_path, "b.bundle", 30, server_log=AWAKE, kernel_txt=kernel(31, 0x7F0000002000))
    alone = [judge_all(parts)[0][0] for parts in (one, other)]
    assert [item.finding.class_ for item in alone] == ["SEGV-UAF-SLEEP", "SEGV"]
    for order in permutations((one, other)):
        both, gaps = judge_all([part for parts in order for part in parts])
        assert {item.group.process.pid for item in both} == {7, 30}
        for mine in alone:
            (same,) = [item for item in both if item.group.process.pid == mine.group.process.pid]
            assert same.finding == mine.finding
            assert sources(same.group.evidence) == sources(mine.group.evidence)
        assert not any("kernel" in gap.what for gap in gaps)


def test_what_was_read_in_two_cores_is_not_mixed(tmp_path: Path) -> None:
    parts = [
        part
        for pid, ip in ((7, 1), (30, 2))
        for part in bundle(
            tmp_path, f"{pid}.bundle", pid, core_facts(pid, ip), server_log=LOG, kernel_txt=kernel(pid + 1)
        )
    ]
    groups, _ = group(parts)
    assert {one.process.pid: tids(one.evidence) for one in groups} == {7: {8}, 30: {31}}
    for one in groups:
        stacks = [item for item in one.evidence if item.kind in ("core", "stack")]
        assert {item.incarnation.pid for item in stacks} == {one.process.pid}


@pytest.mark.parametrize("cores", [1, 2])
def test_a_core_beside_the_bundle_of_its_process_belongs_to_it(tmp_path: Path, cores: int) -> None:
    """As `triage --since` hands them over: a bundle and its core for each death."""
    one = bundle(tmp_path, "a.bundle", 7, server_log=LOG, kernel_txt=kernel(8) + kernel(31))
    other = bundle(tmp_path, "b.bundle", 30, server_log=LOG, kernel_txt=kernel(8) + kernel(31))
    beside = [anchor(pid, ip) for pid, ip in ((7, 1), (30, 2))[:cores]]
    groups, _ = group([*one, *other, *beside])
    assert {one.process.pid for one in groups} == {7, 30}
    (first,) = [one for one in groups if one.process.pid == 7]
    assert tids(first.evidence) == {8}
    assert [item.kind for item in first.evidence].count("core") == 1


def anchor(pid: int, ip: int) -> Material:
    return Material(
        evidence=tuple(item.model_copy(update={"id": next_id()}) for item in core_facts(pid, ip)),
        process=Process(pid=pid),
        anchor=True,
        tids=frozenset({pid, pid + 1}),
        core=CoreWork(Path(f"core{pid}"), None),
    )


def test_two_bundles_of_one_death_are_one_incident_and_its_core_is_counted_once(tmp_path: Path) -> None:
    parts = [
        part
        for name in ("a.bundle", "b.bundle")
        for part in bundle(tmp_path, name, 7, core_facts(7, 1), server_log=LOG)
    ]
    groups, _ = group(parts)
    assert [one.process.pid for one in groups] == [7]
    assert [item.kind for item in groups[0].evidence].count("stack") == 1


def test_two_bundles_of_a_pid_that_was_used_again_are_two(tmp_path: Path) -> None:
    parts = [
        part
        for name, ip in (("a.bundle", 1), ("b.bundle", 2))
        for part in bundle(tmp_path, name, 7, core_facts(7, ip), server_log=LOG)
    ]
    assert len(group(parts)[0]) == 2


def test_a_log_beside_two_bundles_is_still_nobodys(tmp_path: Path) -> None:
    one = bundle(tmp_path, "a.bundle", 7, server_log=LOG, kernel_txt=kernel(8))
    other = bundle(tmp_path, "b.bundle", 30, server_log=LOG, kernel_txt=kernel(31))
    third = bundle(tmp_path, "c.bundle", None, other_log=AWAKE)
    stray = [replace(part, bundle=None) for part in third]
    groups, gaps = group([*one, *other, *stray])
    assert len(groups) == 2
    assert not any("other.log" in item.source for one in groups for item in one.evidence)
    assert any("do not say to which of these incidents" in gap.why for gap in gaps)
