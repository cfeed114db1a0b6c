"""Several incidents as one table: numbers that hold, one true sentence, and the one told in detail."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, ExitFact, Fact, Frame, LoopFact, StackFact, to_evidence
from analyzers.contracts.report import Process, Report
from analyzers.errors import UserError
from analyzers.triage.build import Group, Judged, judge
from analyzers.triage.material import CoreWork, numbering
from analyzers.triage.run import Options, Triage, finish, triage
from analyzers.triage.table import table_of

next_id = numbering()
TOKENIZE, PARTITION = "llama_vocab::impl::tokenize", "tokenizer_st_partition"
UNDER = ("llama_vocab::tokenize", "common_tokenize", "server_routes::handle_count_tokens(task_params)")


def made(fact: Fact, pid: int, wall: float | None = None, source: str = "core: x") -> Evidence:
    return to_evidence(
        fact,
        id=next_id(),
        source=source,
        text="t",
        trust=Trust.KERNEL,
        wall=wall,
        incarnation=Incarnation(pid=pid),
    )


def stack(*names: str) -> StackFact:
    frames = tuple(Frame(name, "llama-server", 0x100 + at, "ab" * 10) for at, name in enumerate(names))
    return StackFact(tid=1, crashed=True, rung="eu-stack", frames=frames, complete=True)


def fault(pid: int, top: str = TOKENIZE, *, asleep: bool = False, at: float | None = None) -> Judged:
    """A memory fault of a reader beneath a handler; ``asleep`` makes it the defect that sleep makes of it."""
    facts: list[Fact] = [CoreFact(signal=11, si_code=1, server=True, pid=pid), stack(top, *UNDER)]
    if asleep:
        facts.append(LoopFact(phase="asleep", how=("flags",), sleeping=True))
    items = [made(fact, pid, at) for fact in facts]
    return judge(Group(tuple(items), process=Process(pid=pid)))


def silent(pid: int) -> Judged:
    return judge(Group((made(ExitFact(by="router", code=1), pid),), process=Process(pid=pid)))


def numbers(*items: Judged) -> list[tuple[int, int | None]]:
    table = table_of(items, ["core"])
    return [(d.number, d.pid) for incident in table.incidents for d in incident.deaths]


def test_numbers_do_not_depend_on_the_order_of_the_inputs() -> None:
    items = [fault(5, asleep=True), fault(3), fault(4, PARTITION, asleep=True), silent(9)]
    first = numbers(*items)
    assert [number for number, _ in first] == [1, 2, 3, 4]
    assert {pid for _, pid in first} == {3, 4, 5, 9}
    assert all(numbers(*order) == first for order in permutations(items))


def test_the_time_of_death_orders_equals() -> None:
    late, early, undated = fault(1, at=200.0), fault(2, at=100.0), fault(3)
    assert [pid for _, pid in numbers(late, early, undated)] == [2, 1, 3]


def test_one_sentence_tells_of_all() -> None:
    same = [fault(pid, asleep=True) for pid in range(1, 6)]
    rest = [fault(pid, PARTITION, asleep=True) for pid in range(6, 9)]
    table = table_of([*same, *rest], ["core"])
    defect = table.judged[0].finding.defect
    assert defect is not None
    assert (
        table.overview == f"8 of 8 are {defect}; top frames tokenize 5, tokenizer_st_partition 3; one group"
    )
    (incident,) = table.incidents
    assert [(frame.function, frame.count) for frame in incident.top_frames] == [(TOKENIZE, 5), (PARTITION, 3)]
    assert incident.defect == defect
    assert incident.keys == [table.judged[0].signature.bug_key]
    assert incident.explain


def test_a_mixture_is_told_as_one_and_nobodys_bug_is_no_group() -> None:
    table = table_of([fault(1, asleep=True), fault(2, asleep=True), silent(3), silent(4)], ["core"])
    assert table.overview.startswith("2 of 4 are D")
    assert "2 undetermined" in table.overview
    assert table.overview.endswith("one group, 2 in no group")
    last = table.incidents[-1]
    assert (last.class_, last.count) == ("UNDETERMINED", 2)
    assert "each is an incident of its own" in last.explain[0]


def test_what_is_weak_is_called_so() -> None:
    items = [fault(1), fault(2)]
    assert {item.finding.confidence for item in items} == {"weak"}
    assert "2 of 2 are SEGV (2 of them weak)" in table_of(items, ["core"]).overview


def test_an_awake_twin_is_no_member_of_the_defects_group() -> None:
    table = table_of([fault(1, asleep=True), fault(2)], ["core"])
    assert [incident.count for incident in table.incidents] == [1, 1]
    assert "two groups" in table.overview
    assert any("kept apart" in line for incident in table.incidents for line in incident.explain)


def record(pid: int, second: int) -> str:
    return (
        f"           PID: {pid} (llama-server)\n           UID: 0 (root)\n        Signal: 11 (SEGV)\n"
        f"     Timestamp: Wed 2026-12-02 07:02:{second:02} UTC\n    Executable: /usr/bin/llama-server\n"
        f"          Unit: llama.service\n       Boot ID: {'0a' * 16}\n"
        f"       Message: Process {pid} (llama-server) of user 0 dumped core.\n\n"
        f"                Stack trace of thread {pid}:\n"
        f"                #0  0x0000000000001234 {TOKENIZE} (llama-server + 0x{pid:x})\n"
        "                #1  0x0000000000001235 server_routes::handle_count_tokens (llama-server + 0x12)\n\n"
    )


def asked(folder: Path, **options: object) -> Triage:
    path = folder / "records.txt"
    path.write_text("".join(record(pid, second) for pid, second in ((41, 1), (52, 9), (63, 30))))
    with ExitStack() as opened:
        return triage([path], Options(fast=True, **options), opened)  # type: ignore[arg-type]


def test_another_incident_fills_every_detailed_part(tmp_path: Path) -> None:
    first, third = (asked(tmp_path, incident=number).report for number in (1, 3))
    assert (first.incident, third.incident) == (1, 3)
    pids = [death.pid for incident in first.incidents for death in incident.deaths]
    assert (first.process.pid, third.process.pid) == (pids[0], pids[2])
    assert {e.incarnation.pid for e in third.verdict.evidence} == {pids[2]}
    assert first.incidents == third.incidents
    assert first.overview == third.overview


def test_without_a_choice_the_first_is_told(tmp_path: Path) -> None:
    assert asked(tmp_path).report == asked(tmp_path, incident=1).report


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_number_that_is_none_is_refused_with_the_range(tmp_path: Path, number: int) -> None:
    with pytest.raises(UserError, match=r"--incident: there is no incident .*give 1 to 3"):
        asked(tmp_path, incident=number)


def test_with_one_incident_the_refusal_says_so(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text(record(41, 1))
    with ExitStack() as opened, pytest.raises(UserError, match="there is one incident"):
        triage([path], Options(fast=True, incident=2), opened)


def test_a_line_of_the_table_names_its_inputs_and_its_witnesses(tmp_path: Path) -> None:
    report: Report = asked(tmp_path).report
    deaths = [death for incident in report.incidents for death in incident.deaths]
    assert [death.at for death in deaths] == sorted(death.at or 0 for death in deaths)
    for death in deaths:
        assert death.inputs == ["records.txt"]
        assert death.witnesses == ["pasted trace", "core record"]
        assert death.top_frame == TOKENIZE


def test_gdb_is_asked_about_the_chosen_incidents_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(tmp_path)
    seen: list[CoreWork] = []

    def tell(report: Report, work: CoreWork) -> Report:
        seen.append(work)
        return report

    monkeypatch.setattr("analyzers.triage.debugger.debugger_part", tell)
    chosen = CoreWork(tmp_path / "third", None)
    finish(Triage(found.report, Options(incident=3), (), (chosen,)))
    assert seen == [chosen]


# A header and nothing behind it: a core that was cut at once.
CORE = b"\x7fELF\x02\x01\x01" + bytes(9)
CORE += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0)


def given(folder: Path, **files: bytes) -> Report:
    paths = []
    for name, content in files.items():
        (folder / name).write_bytes(content)
        paths.append(folder / name)
    with ExitStack() as opened:
        return triage(paths, Options(fast=True), opened).report


@pytest.mark.parametrize("bad", [b"", CORE[:40], b"\x7fELF\x01" + bytes(80), bytes(range(256)) * 40])
def test_a_bad_core_beside_others_costs_only_itself(tmp_path: Path, bad: bytes) -> None:
    report = given(tmp_path, one=CORE, bad=bad, two=CORE)
    assert [item.kind for item in report.inputs] == ["core", "unused", "core"]
    (gap,) = [gap for gap in report.gaps if gap.what == "bad"]
    assert gap.why.startswith("not used: ")


@pytest.mark.parametrize("bad", [b"", CORE[:40]])
def test_a_bad_core_alone_or_beside_a_log_is_refused(tmp_path: Path, bad: bytes) -> None:
    with pytest.raises(UserError):
        given(tmp_path, bad=bad)
    with pytest.raises(UserError):
        given(tmp_path, bad=bad, log=b"0.00.030.948 I srv  llama_server: model loaded\n")


def test_a_file_that_is_not_there_is_refused_even_beside_cores(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(CORE)
    with ExitStack() as opened, pytest.raises(UserError, match="typo"):
        triage([tmp_path / "one", tmp_path / "typo"], Options(fast=True), opened)
