"""Plain logs beside cores: tied by the port that both name, else by the user's word, and never by a guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import CoreFact, LogFact, to_evidence
from analyzers.contracts.report import Gap, Parent, Process
from analyzers.triage.dying import one_life
from analyzers.triage.from_text import text_material
from analyzers.triage.group import group
from analyzers.triage.lives import Life
from analyzers.triage.material import Material, numbering

next_id = numbering()


def log(folder: Path, name: str, port: int | None) -> Material:
    """A server that slept; it says where it listens, or that line is lost."""
    lines = ["0.00.000.100 I srv  llama_server: initializing ..."]
    if port is not None:
        lines.append(f"0.00.040.000 I srv  llama_server: listening on http://127.0.0.1:{port}")
    lines += [
        "0.02.000.000 I que    start_loop: entering sleeping state",
        "0.02.000.100 I srv  handle_sleep: server is entering sleeping state",
    ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return text_material(path, name, "server-log", next_id)


def core(pid: int, port: int | None) -> Material:
    return Material(process=Process(pid=pid, port=port), anchor=True, tids=frozenset({pid}))


def counts(*materials: Material) -> tuple[list[int], list[Gap]]:
    groups, gaps = group(materials)
    return [len(each.evidence) for each in groups], gaps


def test_each_log_joins_the_core_with_its_port(tmp_path: Path) -> None:
    logs = log(tmp_path, "b.log", 9002), log(tmp_path, "a.log", 9001)
    found, gaps = counts(core(1, 9001), core(2, 9002), *logs)
    assert found == [4, 4]
    assert gaps == []


def test_among_several_cores_a_log_without_a_tie_is_used_by_none_and_a_gap_says_so(tmp_path: Path) -> None:
    found, gaps = counts(core(1, 9001), core(2, None), log(tmp_path, "a.log", None))
    assert found == [0, 0]
    assert any("do not say to which of these incidents" in gap.why for gap in gaps)


def test_two_cores_of_one_port_make_no_tie(tmp_path: Path) -> None:
    # GIVEN a server that was restarted on its port and died again: the port does not tell which life it was
    found, gaps = counts(core(1, 9001), core(2, 9001), log(tmp_path, "a.log", 9001))
    assert found == [0, 0]
    assert gaps != []


def test_with_one_core_and_no_tie_only_the_users_word_ties_and_a_gap_says_so(tmp_path: Path) -> None:
    found, gaps = counts(core(7, None), log(tmp_path, "a.log", 9001))
    assert found == [4]
    (gap,) = gaps
    assert "a.log" in gap.what
    assert "PID 7" in gap.why
    assert "given together" in gap.why
    assert gap.command is not None


def test_an_equal_port_is_every_lifes_of_a_restarted_server(tmp_path: Path) -> None:
    found, (gap,) = counts(core(7, 9001), log(tmp_path, "a.log", 9001))
    assert found == [4]
    assert "port 9001, which every life of a restarted server takes again" in gap.why


def test_a_log_of_another_port_is_another_servers(tmp_path: Path) -> None:
    found, gaps = counts(core(7, 9001), log(tmp_path, "a.log", 9002))
    assert found == [0]
    assert "port 9002" in gaps[0].why
    assert "port 9001" in gaps[0].why


def test_a_log_that_lost_its_beginning_is_not_called_foreign(tmp_path: Path) -> None:
    found, gaps = counts(core(7, 9001), log(tmp_path, "a.log", None))
    assert found == [3]
    assert any("given together" in gap.why for gap in gaps)


def test_a_log_that_names_its_process_needs_no_word(tmp_path: Path) -> None:
    item = to_evidence(
        LogFact("enter-sleep"),
        id=next_id(),
        source="t",
        text="t",
        trust=Trust.SERVER,
        incarnation=Incarnation(pid=7),
    )
    named = Material(evidence=(item,), lives=(Life((item,), "a.export"),))
    assert counts(core(7, None), named) == ([1], [])


def test_no_core_no_question(tmp_path: Path) -> None:
    assert counts(log(tmp_path, "a.log", None)) == ([3], [])


@pytest.mark.parametrize(("pid", "known"), [(7, True), (8, False)])
def test_a_manifest_adds_what_the_core_of_its_process_cannot_know(pid: int, known: bool) -> None:
    told = Process(pid=pid, start_time=12.5, parent=Parent(pid=6, start_time=11.0), port=1)
    dead = core(7, 9001)
    routed = dead.process.model_copy(update={"parent": Parent(tid=60, port=9000)})
    groups, _ = group([Material(process=routed, anchor=True, tids=frozenset({7})), Material(process=told)])
    process = groups[0].process
    assert process.port == 9001  # the core's own word stands
    assert process.parent is not None
    assert (process.parent.tid, process.parent.port) == (60, 9000)
    assert (process.parent.pid, process.parent.start_time) == ((6, 11.0) if known else (None, None))
    assert process.start_time == (12.5 if known else None)


def test_of_two_lives_on_one_port_the_dead_pids_is_read() -> None:
    # GIVEN a server that was restarted on its port: the first life slept, the second one, of PID 7, never
    first, second = (life_of(pid, event) for pid, event in ((6, "enter-sleep"), (7, "loaded")))
    lives = [Life(first, "a.export"), Life(second, "a.export")]
    dead = to_evidence(
        CoreFact(pid=7),
        id=next_id(),
        source="core",
        text="core",
        trust=Trust.KERNEL,
        incarnation=Incarnation(pid=7),
    )
    chosen = one_life([*first, *second, dead], lives, 9001)
    assert chosen.life is not None
    assert chosen.life.pid == 7


def life_of(pid: int, event: str) -> tuple[Evidence, ...]:
    facts = (LogFact("listening", value=9001.0), LogFact(event))
    return tuple(
        to_evidence(
            fact,
            id=next_id(),
            source="t",
            text="t",
            trust=Trust.SERVER,
            incarnation=Incarnation(pid=pid),
        )
        for fact in facts
    )
