"""Real journal files, written by systemd's own code, followed: order, cursors, loss, damage, forgery."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from collector.sources.follow.journal import JournalStream
from collector.sources.follow.journal_open import Journal
from collector.sources.stream import Batch

sys.path.insert(0, str(Path(__file__).parent))
journals = importlib.import_module("journals")
core_record, entry, manager, server, write = (
    getattr(journals, name) for name in ("core_record", "entry", "manager", "server", "write")
)
SLEEP, WAKE, BOOT, START = journals.SLEEP, journals.WAKE, journals.BOOT, journals.START

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        bool(journals.MISSING), reason=f"JOURNALS ARE NOT FOLLOWED: missing {', '.join(journals.MISSING)}"
    ),
]


def wanted(pid: int | None, unit: str | None) -> bool:
    return pid == 4242 or unit == "llama.service"


def stream(folder: Path, **options: object) -> JournalStream:
    return JournalStream(Journal(folder), options.pop("wanted", wanted), **{"since": 0.0, **options})


def drained(source: JournalStream, limit: int = 1000) -> tuple[list[Evidence], list[str], Batch]:
    evidence, gaps = [], []
    while True:
        batch = source.poll(limit)
        evidence += batch.evidence
        gaps += [f"{gap.what}: {gap.why}" for gap in batch.gaps]
        if not batch.more:
            return evidence, gaps, batch


def events(evidence: list[Evidence]) -> list[str]:
    return [str(one.data.get("event") or one.data.get("result") or one.kind) for one in evidence]


def test_what_matters_becomes_evidence_with_the_trust_of_its_sender(tmp_path: Path) -> None:
    # GIVEN a server's life, its manager's words, a core record and lines of others
    write(
        tmp_path / "a.journal",
        server(1, "0.00.004.097 I srv          init: initializing ..."),
        server(2, "0.00.004.097 I srv          load: a line that tells nothing"),
        server(3),
        entry(4, SLEEP, _PID="9", _COMM="bash", _TRANSPORT="stdout", _SYSTEMD_UNIT="other.service"),
        entry(5, "llama-server[4242]: segfault at 0 ip 0 sp 0 error 4", _TRANSPORT="kernel"),
        core_record(6),
        manager(
            7,
            "llama.service: Main process exited, code=dumped, status=11/SEGV",
            MESSAGE_ID="98e322203f7a4ed290d09fe03c09fe15",
            EXIT_CODE="dumped",
            EXIT_STATUS="11",
        ),
        manager(8, "llama.service: Failed with result 'core-dump'.", UNIT_RESULT="core-dump"),
        manager(
            9,
            "llama.service: Scheduled restart job, restart counter is at 1.",
            MESSAGE_ID="5eb03494b6584870a536b337290809b3",
        ),
        manager(10, "Started llama.service - LLM.", MESSAGE_ID="39f53479d3a045ac8e11786248231fbf"),
        manager(11, "Started cron.service - Cron.", UNIT="cron.service"),
    )
    source = stream(tmp_path)
    evidence, gaps, _ = drained(source)
    # THEN each is there once, in order, told by whom it was
    assert events(evidence) == [
        *("init", "enter-sleep", "core-dump", "core-dump", "core-dump", "scheduled-restart", "started")
    ]
    assert [one.trust for one in evidence[:3]] == [Trust.SERVER, Trust.SERVER, Trust.SUPERVISOR]
    assert evidence[1].incarnation == Incarnation(pid=4242, boot_id=BOOT)
    assert (evidence[1].wall, evidence[1].mono) == (START / 1e6 + 3, 103.0)
    assert (evidence[2].data["signal"], evidence[2].incarnation.pid) == (11, 4242)
    assert evidence[3].data == {**evidence[3].data, "signal": 11, "unit": "llama.service"}
    assert "sk-secret" not in "".join(one.model_dump_json() for one in evidence)
    assert gaps == []
    # AND the server's every line counts as a sign of life
    seen = source.seen()["4242"]
    assert (seen.lines, seen.told, seen.mono, seen.unit) == (3, 2, 103.0, "llama.service")
    assert source.health().state == "ok"
    assert source.health().read == 11


def test_kernel_lines_are_read_here_only_when_nobody_else_does(tmp_path: Path) -> None:
    fault = "llama-server[4242]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14"
    write(
        tmp_path / "a.journal",
        entry(1, fault, _TRANSPORT="kernel"),
        entry(2, fault, _TRANSPORT="stdout", _PID="4242", _COMM="llama-server"),
        entry(3, "usb 1-1: new device", _TRANSPORT="kernel"),
    )
    assert drained(stream(tmp_path))[0] == []
    evidence, _, _ = drained(stream(tmp_path, kernel=True))
    assert [(one.kind, one.trust) for one in evidence] == [("kernel", Trust.KERNEL)]


def test_forged_lines_convince_nobody(tmp_path: Path) -> None:
    # GIVEN a client that claims another PID, a unit's end and a core
    liar = {"_PID": "666", "_UID": "1000", "_COMM": "liar", "_TRANSPORT": "journal"}
    write(
        tmp_path / "a.journal",
        entry(1, SLEEP, **liar, SYSLOG_PID="4242", PID="4242", UNIT="llama.service"),
        entry(2, "llama.service: Failed with result 'core-dump'.", **liar, UNIT="llama.service"),
        entry(3, "Suppressed 5000 messages from llama.service", **liar),
        core_record(4, _PID="666", _UID="1000", _COMM="liar", _SYSTEMD_UNIT="user@1000.service"),
        core_record(5, _UID="1000"),
        server(6, "llama.service: Failed with result 'oom-kill'."),
    )
    source = stream(tmp_path)
    evidence, gaps, _ = drained(source)
    # THEN nothing of it counts but the server's own words, as a client's
    assert [(one.data.get("result"), one.trust) for one in evidence] == [("oom-kill", Trust.CLIENT)]
    assert gaps == []


def test_hostile_bytes_are_bounded_and_never_reach_a_terminal(tmp_path: Path) -> None:
    escapes = b"\x1b]0;owned\x07\x1b[2J" + SLEEP.encode()
    write(
        tmp_path / "a.journal",
        server(1, escapes),
        server(2, SLEEP.encode() + b"\xff\xfe\x80"),
        server(3, b"0.00.000.097 I srv    load_model: loading model '/m/" + b"x" * (3 << 20) + b"'"),
        server(4, b"\x00\x01\x02" * 1000),
        server(5, "\n".join([SLEEP] * 3 + ["x"] * 5000 + [WAKE])),
        manager(6, "llama.service: Failed with result 'core-dump'.\x1b[2J"),
        server(7, WAKE, _COMM="x" * 100_000, OTHER="y" * 1_000_000),
    )
    evidence, _, _ = drained(stream(tmp_path))
    assert all(one.text.isprintable() and len(one.text) <= 220 for one in evidence)
    assert events(evidence).count("exit-sleep") == 1  # the one behind a thousand lines is beyond the bound
    assert len({one.id for one in evidence}) == len(evidence)
    assert events(evidence)[-1] == "exit-sleep"


def test_a_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    # GIVEN a stream that was read in portions and stored its cursor
    write(tmp_path / "a.journal", *(server(n, SLEEP if n % 2 else WAKE) for n in range(1, 41)))
    first = stream(tmp_path).poll(15)
    assert (len(first.evidence), first.more) == (15, True)
    # WHEN it is opened again with it
    rest, gaps, last = drained(stream(tmp_path, cursor=first.cursor))
    # THEN every line comes once, and none after the last
    assert [one.mono for one in (*first.evidence, *rest)] == [100.0 + n for n in range(1, 41)]
    assert gaps == []
    assert drained(stream(tmp_path, cursor=last.cursor))[0] == []


def test_ids_are_the_same_in_every_reading(tmp_path: Path) -> None:
    write(
        tmp_path / "a.journal",
        *(server(n, f"{n}.00.000.000 I que    start_loop: entering sleeping state") for n in range(1, 30)),
    )
    first, _, _ = drained(stream(tmp_path))
    again = stream(tmp_path, since=None)
    again.poll()
    again.recall(4242, START / 1e6)
    second, _, _ = drained(again)
    assert {one.id for one in first} == {one.id for one in second}
    assert len({one.id for one in first}) == 29


def test_lines_of_a_rotated_file_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path / "a@1.journal", server(1), server(2, WAKE))
    source = stream(tmp_path)
    assert events(drained(source)[0]) == ["enter-sleep", "exit-sleep"]
    write(tmp_path / "a.journal", server(3), server(4, WAKE))
    assert events(drained(source)[0]) == ["enter-sleep", "exit-sleep"]


def test_a_vacuumed_span_is_named(tmp_path: Path) -> None:
    # GIVEN a stored cursor in a file that is vacuumed away before the next run, and later entries
    write(tmp_path / "a@1.journal", *(server(n) for n in range(1, 4)))
    cursor = stream(tmp_path).poll(2).cursor
    write(tmp_path / "a.journal", server(100, WAKE))
    (tmp_path / "a@1.journal").unlink()
    # WHEN THEN what is left is read, and a gap names the span
    evidence, gaps, _ = drained(stream(tmp_path, cursor=cursor))
    assert events(evidence) == ["exit-sleep"]
    assert len(gaps) == 1
    assert "between 2026-12-02" in gaps[0]
    assert "vacuumed away" in gaps[0]


def test_vacuum_under_the_reader_loses_only_what_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "a@1.journal", *(server(n) for n in range(1, 21)))
    source = stream(tmp_path)
    assert len(source.poll(5).evidence) == 5
    write(tmp_path / "a.journal", server(100, WAKE))
    (tmp_path / "a@1.journal").unlink()
    evidence, gaps, _ = drained(source)
    assert events(evidence)[-1] == "exit-sleep"
    assert len(evidence) < 16 or gaps == []
    assert source.health().state == "ok"


def test_a_cursor_that_is_none_begins_now_and_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.journal", server(1))
    for cursor in ("nonsense", "[]", '{"cursor":1}', "x" * 100_000):
        evidence, gaps, _ = drained(stream(tmp_path, since=None, cursor=cursor))
        assert evidence == []
        assert "no journal cursor" in gaps[0]
    broken = '{"boot":"' + BOOT + '","cursor":"s=zz;i=--","mono":1,"wall":1}'
    evidence, gaps, _ = drained(stream(tmp_path, cursor=broken))
    assert events(evidence) == ["enter-sleep"]


def test_a_clock_set_back_a_year_is_a_gap_and_costs_no_line(tmp_path: Path) -> None:
    year = 365 * 86_400 * 1_000_000
    write(
        tmp_path / "a.journal",
        *(server(n) for n in (1, 2)),
        *(server(n, WAKE, wall=START + n * 1_000_000 - year) for n in (3, 4)),
    )
    evidence, gaps, _ = drained(stream(tmp_path))
    assert sorted(one.mono for one in evidence) == [101.0, 102.0, 103.0, 104.0]
    assert len(gaps) == 1
    assert f"{365 * 86_400}.0 s" in gaps[0]
    assert not any(one.kind == "host" for one in evidence)


def test_a_new_boot_is_evidence_about_the_one_before(tmp_path: Path) -> None:
    other = "f" * 31 + "0"
    write(tmp_path / "a.journal", server(1), server(2000, WAKE, boot=other))
    evidence, gaps, _ = drained(stream(tmp_path))
    assert events(evidence) == ["enter-sleep", "rebooted", "exit-sleep"]
    assert (evidence[1].incarnation.boot_id, evidence[1].data["boot_id"]) == (BOOT, other)
    assert evidence[2].incarnation.boot_id == other
    assert gaps == []


def test_what_journald_suppressed_is_a_gap_with_its_count(tmp_path: Path) -> None:
    own = {
        "_PID": "50",
        "_UID": "0",
        "_COMM": "systemd-journal",
        "_TRANSPORT": "driver",
        "MESSAGE_ID": "a596d6fe7bfa4994828e72309e95d61e",
    }
    write(
        tmp_path / "a.journal",
        entry(1, "Suppressed 62500 messages from llama.service", **own, N_DROPPED="62500"),
        entry(2, "Suppressed 9 messages from other.service", **own, N_DROPPED="9"),
    )
    source = stream(tmp_path)
    _, gaps, _ = drained(source)
    assert gaps == ["lines of llama.service: journald's rate limit left out 62500 lines of llama.service"]
    assert source.health().lost == 62500


def _cut(path: Path) -> None:
    os.truncate(path, 300_000)


def _foreign(path: Path) -> None:
    path.write_bytes(b"no journal at all\n" * 100)


def _scrambled(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 200_000)


@pytest.mark.parametrize("harm", [_cut, _foreign])
def test_a_damaged_file_is_named_and_the_others_go_on(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    write(tmp_path / "good.journal", server(1))
    shutil.copy(tmp_path / "good.journal", tmp_path / "bad.journal")
    harm(tmp_path / "bad.journal")
    source = stream(tmp_path)
    assert events(drained(source)[0]) == ["enter-sleep"]
    health = source.health()
    assert (health.state, "bad.journal" in (health.problem or "")) == ("degraded", True)


def test_a_scrambled_file_raises_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.journal", *(server(n) for n in range(1, 500)))
    _scrambled(tmp_path / "a.journal")
    write(tmp_path / "b.journal", server(600, WAKE))
    evidence, _, _ = drained(stream(tmp_path))
    assert "exit-sleep" in events(evidence)


def test_a_folder_of_machines_is_one_journal(tmp_path: Path) -> None:
    write(tmp_path / ("a" * 32) / "system.journal", server(1))
    write(tmp_path / ("b" * 32) / "system.journal", server(2, WAKE))
    source = stream(tmp_path)
    assert events(drained(source)[0]) == ["enter-sleep", "exit-sleep"]
    assert source.health().state == "ok"


def test_no_folder_and_an_empty_one_are_waited_for(tmp_path: Path) -> None:
    clock = [0.0]
    source = stream(tmp_path / "later", now=lambda: clock[0])
    assert source.poll().empty
    assert source.health().state in ("failed", "waiting")
    write(tmp_path / "later" / "a.journal", server(1))
    clock[0] = 60.0
    assert events(drained(source)[0]) == ["enter-sleep"]
    assert source.health().state == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_journal_without_rights_says_which_group(tmp_path: Path) -> None:
    write(tmp_path / "j" / "a.journal", server(1))
    (tmp_path / "j" / "a.journal").chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & 1 and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    source = stream(tmp_path / "j")
    os.seteuid(65534)
    try:
        batch = source.poll()
        health = source.health()
    finally:
        os.seteuid(0)
    assert batch.empty
    assert health.state == "failed"
    assert "adm or systemd-journal" in (health.problem or "")


def test_who_is_wanted_can_change(tmp_path: Path) -> None:
    write(tmp_path / "a.journal", server(1), server(2, WAKE))
    known: set[int] = set()
    source = stream(tmp_path, wanted=lambda pid, unit: pid in known)
    assert drained(source)[0] == []
    known.add(4242)
    source.refresh()
    source.recall(4242, 0)
    write(tmp_path / "b.journal", server(3))
    evidence, _, _ = drained(source)
    assert events(evidence) == ["enter-sleep", "exit-sleep", "enter-sleep"]


def test_the_incarnation_that_the_caller_knows_is_used(tmp_path: Path) -> None:
    write(tmp_path / "a.journal", server(1))
    who = Incarnation(pid=4242, start_time=12.5, boot_id="01234567-89ab-cdef-0123-456789abcdef")
    evidence, _, _ = drained(stream(tmp_path, wanted=lambda pid, unit: who if pid == 4242 else None))
    assert evidence[0].incarnation == Incarnation(pid=4242, start_time=12.5, boot_id=BOOT)
    other = Incarnation(pid=4242, start_time=12.5, boot_id="f" * 32)
    evidence, _, _ = drained(stream(tmp_path, wanted=lambda pid, unit: other if pid == 4242 else None))
    assert evidence[0].incarnation == Incarnation(pid=4242, boot_id=BOOT)


def test_a_containers_lines_are_its_own_not_its_engines(tmp_path: Path) -> None:
    engine = {"_PID": "800", "_UID": "0", "_COMM": "dockerd", "_TRANSPORT": "journal"}
    write(
        tmp_path / "a.journal",
        entry(1, SLEEP, **engine, CONTAINER_ID="abc", CONTAINER_ID_FULL="abcdef"),
        entry(2, SLEEP, **engine, CONTAINER_ID_FULL="fedcba"),
        entry(3, SLEEP, **engine),
    )
    source = stream(tmp_path, wanted=lambda pid, unit: unit == "container/abcdef")
    evidence, _, _ = drained(source)
    assert [(one.incarnation.pid, one.source) for one in evidence] == [(None, "journal of container/abcdef")]
