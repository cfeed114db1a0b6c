"""systemd-coredump's records: names, attributes and coredumpctl's text, believed as far as they agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import CoreFact, ExitFact, StackFact, fact_of, to_evidence
from analyzers.triage.material import Material, numbering
from analyzers.triage.readers import store
from analyzers.triage.readers.core_records import core_record_material
from analyzers.triage.readers.looks import text_kind
from analyzers.triage.readers.store import store_part, stored_of

BOOT = "0123456789abcdef0123456789abcdef"
NAME = f"core.llama-server.0.{BOOT}.4242.1796187355000000.zst"


def core(pid: int | None = 4242, signal: int | None = 11, program: str = "llama-server"):
    fact = CoreFact(pid=pid, signal=signal, program=program)
    return [to_evidence(fact, id="E1", source="core", text="core", trust=Trust.KERNEL)]


def test_the_name_tells_boot_time_and_program(tmp_path: Path) -> None:
    stored = stored_of(tmp_path / NAME)
    assert stored is not None
    assert (stored.pid, stored.boot_id, stored.wall, stored.name) == (
        4242,
        BOOT,
        1796187355.0,
        "llama-server",
    )


@pytest.mark.parametrize(
    "name", ["core", "core.4242", "core.llama-server.4242", "server.log", f"x{NAME}", "core.a.zst"]
)
def test_other_names_tell_nothing(tmp_path: Path, name: str) -> None:
    assert stored_of(tmp_path / name) is None


def test_escaped_names_are_read_and_shown_harmless(tmp_path: Path) -> None:
    stored = stored_of(tmp_path / NAME.replace("llama-server", "a\\x2eb\\x1b"))
    assert stored is not None
    assert stored.name == "a.b\\x1b"


def test_a_record_that_agrees_with_the_core_is_evidence(tmp_path: Path) -> None:
    evidence, gaps, boot = store_part(tmp_path / NAME, "core", core(), numbering())
    (item,) = evidence
    assert (boot, gaps) == (BOOT, [])
    assert (item.trust, item.wall, item.incarnation.boot_id) == (Trust.SUPERVISOR, 1796187355.0, BOOT)


def test_a_renamed_core_is_not_believed(tmp_path: Path) -> None:
    evidence, gaps, boot = store_part(tmp_path / NAME, "core", core(pid=9999), numbering())
    assert (evidence, boot) == ([], None)
    assert "PID 4242, the core 9999" in gaps[0].why


def test_in_a_container_the_process_has_another_number(tmp_path: Path) -> None:
    # GIVEN the host's number in the name and the container's in the core, and the same program
    evidence, gaps, boot = store_part(tmp_path / NAME, "core", core(pid=1), numbering())
    # THEN the time is known, and nothing is claimed of the boot by which other evidence would be tied
    assert (len(evidence), gaps, boot) == (1, [], None)
    assert evidence[0].incarnation.pid == 1


def test_attributes_are_read_and_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"user.coredump.signal": b"6", "user.coredump.pid": b"4242", "user.coredump.comm": b"llama-server"}

    def getxattr(path: object, name: str) -> bytes:
        if name not in told:
            raise OSError(61, "No data available")
        return told[name]

    monkeypatch.setattr(store.os, "getxattr", getxattr)
    evidence, gaps, _ = store_part(tmp_path / NAME, "core", core(signal=11), numbering())
    assert evidence == []
    assert "signal 6, the core 11" in gaps[0].why
    evidence, gaps, _ = store_part(tmp_path / NAME, "core", core(signal=6), numbering())
    fact = fact_of(evidence[0], ExitFact)
    assert fact is not None
    assert (fact.signal, fact.by, gaps) == (6, "coredump-store", [])


def test_real_attributes_of_a_real_file(tmp_path: Path) -> None:
    path = tmp_path / "core.copied"
    path.write_bytes(b"x")
    try:
        os.setxattr(path, "user.coredump.pid", b"77")
    except OSError:
        pytest.skip("this file system keeps no user attributes")
    stored = stored_of(path)
    assert stored is not None
    assert (stored.pid, stored.attributes, stored.boot_id) == (77, True, None)


INFO = f"""           PID: 4242 (llama-server)
           UID: 0 (root)
        Signal: 11 (SEGV)
     Timestamp: Wed 2026-12-02 04:55:55 UTC (3min ago)
    Executable: /usr/bin/llama-server
          Unit: llama.service
       Boot ID: {BOOT}
       Storage: /var/lib/systemd/coredump/{NAME} (truncated)
       Message: Process 4242 (llama-server) of user 0 dumped core.

                Stack trace of thread 4250:
                #0  0x00007f0000001234 _ZNK11llama_vocab13token_to_pieceEi (libllama.so + 0x1234)
                #1  0x00007f0000001260 start_thread (libc.so.6 + 0x1260)
"""
LIST = """TIME                            PID UID GID SIG     COREFILE EXE                    SIZE
Wed 2026-12-02 04:55:55 UTC    4242   0   0 SIGSEGV present  /usr/bin/llama-server  1.2M
Wed 2026-12-02 05:55:55 UTC    5242   0   0 SIGABRT missing  /usr/bin/other         n/a
"""


def read(tmp_path: Path, text: str) -> Material:
    path = tmp_path / "record.txt"
    path.write_text(text)
    assert text_kind(text.encode()) == "core-record"
    return core_record_material(path, "record.txt", numbering())


def end(material: Material) -> tuple[ExitFact, object]:
    (item,) = (item for item in material.evidence if item.kind == ExitFact.KIND)
    fact = fact_of(item, ExitFact)
    assert fact is not None
    return fact, item.incarnation


def test_info_gives_the_end_the_stacks_and_whose_they_are(tmp_path: Path) -> None:
    found = read(tmp_path, INFO)
    fact, who = end(found)
    assert (fact.by, fact.signal, fact.unit, fact.name) == ("systemd", 11, "llama.service", "llama-server")
    stacks = [item for item in found.evidence if item.kind == StackFact.KIND]
    assert [item.incarnation for item in stacks] == [who]
    assert any("is cut" in gap.why for gap in found.gaps)


def test_a_unit_of_a_container_engine_does_not_say_who_ran_the_server(tmp_path: Path) -> None:
    fact, _ = end(read(tmp_path, INFO.replace("llama.service", "docker.service")))
    assert fact.by == "coredump-store"


def test_two_records_are_two_deaths(tmp_path: Path) -> None:
    newer = INFO.replace("4242", "5252").replace("04:55:55", "05:55:55").replace("token_to_piece", "other")
    found = read(tmp_path, INFO + "\n" + newer)
    _, who = end(found)
    assert getattr(who, "pid", None) == 5252
    assert sum(item.kind == StackFact.KIND for item in found.evidence) == 1
    assert any("PID 4242" in gap.what for gap in found.gaps)


def test_a_list_gives_the_newest_death_of_a_server(tmp_path: Path) -> None:
    found = read(tmp_path, LIST)
    fact, who = end(found)
    assert (fact.signal, getattr(who, "pid", None)) == (11, 4242)
    assert any("5242" in gap.what for gap in found.gaps)


def test_an_empty_list_is_a_gap(tmp_path: Path) -> None:
    found = read(tmp_path, LIST.splitlines(keepends=True)[0])
    assert found.evidence == ()
    assert "no rows" in found.gaps[0].why


@pytest.mark.parametrize(
    "line",
    [
        "           PID: 4242 (llama",
        f"           PID: 4242 ({'x' * 70})",
        "     PID: 4242 (llama-server) and more",
    ],
)
def test_a_record_whose_first_row_is_cut_is_a_gap(tmp_path: Path, line: str) -> None:
    # GIVEN a record that is one by its form, and whose first row cannot be read
    (tmp_path / "record.txt").write_text(f"{line}\n        Signal: 11 (SEGV)\n")
    assert text_kind((tmp_path / "record.txt").read_bytes()) == "core-record"
    # WHEN it is read THEN that is said, and nothing is raised
    material = core_record_material(tmp_path / "record.txt", "record.txt", numbering())
    assert material.evidence == ()
    assert [gap.what for gap in material.gaps] == ["a core record in record.txt"]
