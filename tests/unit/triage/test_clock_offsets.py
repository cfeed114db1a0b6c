"""How the clocks of one incident's sources stand to each other, and what a clock that jumped may not do."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import Fact, KernelFact, LogFact, to_evidence
from analyzers.contracts.report import ClockOffset, Report
from analyzers.triage.clocks import clock_offsets, jumped, mover, wall_steps
from analyzers.triage.material import numbering
from analyzers.triage.run import Options, triage

next_id = numbering()
START = 5000.0  # seconds since boot at which the server's own clock began


def made(fact: Fact, source: str = "j", boot: str | None = None, **clocks: float) -> Evidence:
    return to_evidence(
        fact,
        id=next_id(),
        source=f"{source}:1",
        text=str(clocks.get("elapsed")),
        trust=Trust.SERVER,
        incarnation=Incarnation(boot_id=boot),
        **clocks,
    )


def line(elapsed: float, late: float, source: str = "j") -> Evidence:
    return made(LogFact("request"), source, mono=START + elapsed + late, elapsed=elapsed)


def one(found: list[ClockOffset], clock: str) -> ClockOffset:
    (offset,) = [each for each in found if each.clock.startswith(clock)]
    return offset


def test_the_least_late_line_is_nearest_to_the_true_offset() -> None:
    lines = [line(at, late) for at, late in ((0.1, 0.02), (1.0, 0.001), (2.0, 0.3), (3.0, 0.004))]
    found = one(clock_offsets(lines, ["j"]), "mono")
    assert found.to == "elapsed (j)"
    assert found.seconds == pytest.approx(START + 0.001)
    assert found.pairs == 4
    assert 0 <= (found.spread or 0) <= 0.3
    assert "never early" in found.explain


def test_a_line_alone_compares_nothing() -> None:
    assert clock_offsets([line(1.0, 0.0)], ["j"]) == []


STEPPED = [(100.0, 10.0), (110.0, 20.0), (3720.0, 30.0), (3730.0, 40.0)]


def both(pairs: list[tuple[float, float]], boot: str | None = "a") -> list[Evidence]:
    return [made(LogFact("request"), boot=boot, wall=wall, mono=mono) for wall, mono in pairs]


def test_a_wall_clock_that_was_set_or_a_suspend_is_said() -> None:
    (step,) = wall_steps(both(STEPPED))
    assert step.seconds == pytest.approx(3600.0)
    found = one(clock_offsets(both(STEPPED), ["j"]), "wall")
    assert found.spread == pytest.approx(3600.0)
    assert "jumped by +3600.000 s" in found.explain


def test_slewing_is_no_step_and_two_boots_are_none() -> None:
    slewed = [(1000.0 + at + 0.0001 * at, float(at)) for at in range(0, 40000, 10000)]
    assert wall_steps(both(slewed)) == []
    assert wall_steps([*both([(100.0, 10.0)], "a"), *both([(9000.0, 10.5)], "b")]) == []


@pytest.mark.parametrize(
    ("pairs", "moved"),
    [
        ([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)], None),
        ([(1.0, 1.0), (2.0, 2.0), (13.0, 3.0), (14.0, 4.0)], 10.0),
        ([(11.0, 1.0), (12.0, 2.0), (3.0, 3.0), (4.0, 4.0)], -10.0),
        # lines that a pipe held back and let go at once: late by less and less, and no step
        ([(5.0, 1.0), (5.0, 2.0), (5.0, 3.0), (5.0, 4.9), (6.0, 6.0), (7.0, 7.0)], None),
    ],
)
def test_a_step_is_told_from_a_delay(pairs: list[tuple[float, float]], moved: float | None) -> None:
    found = jumped(pairs)
    assert found == moved if moved is None else found == pytest.approx(moved)


def test_the_kernels_clock_against_the_journals_by_their_common_line() -> None:
    fact = KernelFact("segfault", tid=7, address=1, ip=2, sp=3)
    found = clock_offsets(
        [made(fact, "dmesg", mono=100.0), made(fact, "journal", mono=100.004)], ["dmesg", "journal"]
    )
    offset = one(found, "kernel")
    assert (offset.clock, offset.to) == ("kernel (dmesg)", "mono (journal)")
    assert offset.seconds == pytest.approx(-0.004)


def test_two_faults_of_one_thread_number_are_no_common_line() -> None:
    first, second = (KernelFact("segfault", tid=7, address=at, ip=2, sp=3) for at in (1, 9))
    assert clock_offsets([made(first, "dmesg", mono=1.0), made(second, "journal", mono=2.0)], ["dmesg"]) == []


def test_a_containers_stamps_against_the_hosts() -> None:
    lines = [
        made(LogFact("request"), name, elapsed=at, wall=base + at)
        for name, base in (("docker", 1000.0), ("host", 1002.5))
        for at in (0.5, 1.5)
    ]
    (offset,) = [
        each
        for each in clock_offsets(lines, ["docker", "host"])
        if "host" in each.to + each.clock and "docker" in each.to + each.clock
    ]
    assert offset.seconds == pytest.approx(-2.5)
    assert offset.spread == pytest.approx(0.0)
    assert offset.pairs == 2


def test_a_fact_is_moved_only_over_clocks_that_held() -> None:
    kernel = made(KernelFact("segfault", tid=7), mono=25.0)
    steady = [(100.0, 10.0), (110.0, 20.0)]
    assert mover([*both(steady), kernel])(kernel, "wall") == pytest.approx(115.0)
    assert mover([*both(STEPPED), kernel])(kernel, "wall") is None


BOOT = "0a1b2c3d000040008000" + "0000000000ff"


def entry(wall: float, mono: float, message: str, **fields: object) -> str:
    told = {
        "__REALTIME_TIMESTAMP": int(wall * 1e6),
        "__MONOTONIC_TIMESTAMP": int(mono * 1e6),
        "_BOOT_ID": BOOT,
        "_TRANSPORT": "stdout",
        "_SYSTEMD_UNIT": "llama.service",
        "_PID": 41,
        "_COMM": "llama-server",
        **fields,
        "MESSAGE": message,
    }
    return "".join(f"{key}={value}\n" for key, value in told.items() if value is not None) + "\n"


SERVER = (
    (0.0003, "0.00.000.300 I srv  llama_server: initializing ..."),
    (0.030948, "0.00.030.948 I srv  llama_server: model loaded"),
    (1.04387, "0.01.043.870 I que    start_loop: entering sleeping state"),
)
FAULT = "llama-server[43]: segfault at 8 ip 00007f00 sp 00007f10 error 4 in libllama.so[7f00,7000+1000]"


def journal(step: float = 0.0) -> str:
    """A journal whose wall clock was set by ``step`` seconds before its last line."""
    wall = 1_764_000_000.0
    rows = [entry(wall + at, START + at + 0.001, text) for at, text in SERVER]
    rows.append(
        entry(
            wall + 2.0 + step,
            START + 2.0,
            "0.01.999.000 I srv  log_server_r: done request: GET /props 127.0.0.1 200",
        )
    )
    end = {"_PID": 1, "_UID": 0, "_COMM": "systemd", "_TRANSPORT": "journal", "_SYSTEMD_UNIT": "init.scope"}
    dumped = "llama.service: Main process exited, code=dumped, status=11/SEGV"
    rows.append(entry(wall + 3.4 + step, START + 3.4, dumped, **end))
    return "".join(rows)


def read(folder: Path, **texts: str) -> Report:
    paths = []
    for name, text in texts.items():
        (folder / name).write_text(text)
        paths.append(folder / name)
    with ExitStack() as stack:
        return triage(paths, Options(fast=True), stack).report


def test_a_report_shows_its_clocks_and_places_the_fault_among_the_lines(tmp_path: Path) -> None:
    kernel = f"[{START + 3.0:.6f}] {FAULT}\n"
    report = read(tmp_path, journal=journal(), kernel=kernel)
    names = {(each.clock, each.to) for each in report.clocks}
    assert {("mono (journal)", "elapsed (journal)"), ("wall (journal)", "mono (journal)")} <= names
    own = one([each for each in report.clocks if each.to.startswith("elapsed")], "mono")
    assert own.seconds == pytest.approx(START + 0.001, abs=0.0011)
    events = [item.event for item in report.timeline]
    assert events.index("enter-sleep") < events.index("fault") < events.index("exit")
    assert all(item.dated for item in report.timeline)


def test_a_jump_of_the_wall_clock_is_told_and_does_not_turn_the_timeline_round(tmp_path: Path) -> None:
    report = read(tmp_path, journal=journal(step=-7200.0))
    told = [each.explain for each in report.clocks if each.to == "mono (journal)"]
    assert any("jumped by -7199.999 s" in text for text in told)
    assert not any(each.clock.startswith("wall") and each.to.startswith("elapsed") for each in report.clocks)
    assert {item.clock for item in report.timeline} == {"mono"}
    assert [item.event for item in report.timeline][-1] == "exit"


def test_a_log_alone_has_no_clocks_to_compare(tmp_path: Path) -> None:
    assert read(tmp_path, log="\n".join(text for _, text in SERVER) + "\n").clocks == []


@pytest.mark.parametrize("start", [0.0, 0.2, 0.5, 0.75, 0.99])
def test_whole_seconds_of_a_short_journal_are_no_clock_that_was_set(start: float) -> None:
    # GIVEN lines of a server whose wall clock was cut to seconds
    elapsed = [start + 0.31 * number for number in range(12)]
    pairs = [(float(int(1_700_000_000 + each)), each) for each in elapsed]
    # THEN nothing moved, and a real step is seen still
    assert jumped(pairs) is None
    late = [(at + 3600.0 if number > 5 else at, each) for number, (at, each) in enumerate(pairs)]
    assert jumped(late) is not None
