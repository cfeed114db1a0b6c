"""Cores that others kept: whose word counts, each death once, cut ones as far as they go."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path

import pytest
import zstandard
from capture_cores import BOOT, capture_made, core_bytes_written

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from analyzers.logs.journal_lives import COREDUMP_MESSAGE
from collector.capture.importing import found_in, run
from collector.capture.intake import systemd
from collector.capture.intake.files import in_files
from collector.capture.intake.found import SYSTEMD, Found
from collector.capture.intake.take import FOREIGN, KNOWN, RAISE, TAKEN, UNUSABLE, Outcome, take
from collector.capture.kept.captures import captures, manifest
from collector.gather.journal import Journal, Slice

BARE = BOOT.replace("-", "")
STAMP = 1796195973_000000
NAME = f"core.llama-server.0.{BARE}.4711.{STAMP}"
NONE = Path("/nonexistent")


@pytest.fixture
def coredumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(systemd, "unsafe", lambda path: None)
    made = tmp_path / "coredump"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def record(path: Path | None, **more: str) -> bytes:
    fields = {
        "__REALTIME_TIMESTAMP": str(STAMP),
        "MESSAGE_ID": COREDUMP_MESSAGE,
        "_BOOT_ID": BARE,
        "_UID": "0",
        "_TRANSPORT": "journal",
        "_SYSTEMD_UNIT": "systemd-coredump@1-2-3.service",
        "COREDUMP_PID": "4711",
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_COMM": "llama-server",
        "COREDUMP_EXE": "/usr/bin/llama-server",
        "COREDUMP_UNIT": "llama.service",
        "COREDUMP_TIMESTAMP": str(STAMP),
        **({"COREDUMP_FILENAME": str(path)} if path is not None else {}),
        **more,
    }
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode() + b"\n"


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Entries that the journal answers with."""
    entries: list[bytes] = []
    monkeypatch.setattr(Journal, "slice", lambda self, *_, **__: Slice(b"".join(entries)))
    return entries


def imported(store: Path, coredumps: Path) -> list[Outcome]:
    rows, _ = found_in([], None, coredumps, NONE)
    return run(rows, store, 0)


def test_a_record_and_its_file_are_one_death(journal: list[bytes], coredumps: Path, store: Path) -> None:
    journal.append(record(core_bytes_written(coredumps / NAME)))
    assert [one.state for one in imported(store, coredumps)] == [TAKEN]
    told = manifest(captures(store)[0].path)
    assert (told["process"]["pid"], told["process"]["boot_id"], told["crash"]["signal"]) == (4711, BOOT, 11)
    assert told["imported"]["from"] == SYSTEMD
    # AND a second run takes nothing
    assert [one.state for one in imported(store, coredumps)] == [KNOWN]
    assert len(captures(store)) == 1


def test_a_death_that_the_handler_captured_is_known(
    journal: list[bytes], coredumps: Path, store: Path
) -> None:
    crash = {"signal": 11, "time": STAMP // 10**6, "ns_pid": 7}
    capture_made(store, "20261202T071933Z-4711-100", core=False, more={"crash": crash})
    core_bytes_written(coredumps / NAME)
    assert [one.state for one in imported(store, coredumps)] == [KNOWN]


def test_a_pid_of_another_boot_or_hour_is_another_death(
    journal: list[bytes], coredumps: Path, store: Path
) -> None:
    core_bytes_written(coredumps / NAME)
    core_bytes_written(coredumps / f"core.llama-server.0.{'2' * 32}.4711.{STAMP}")
    core_bytes_written(coredumps / f"core.llama-server.0.{BARE}.4711.{STAMP + 3600 * 10**6}")
    assert [one.state for one in imported(store, coredumps)] == [TAKEN] * 3
    assert len(captures(store)) == 3


@pytest.mark.parametrize(
    "forged",
    [
        {"_UID": "1000"},
        {"_TRANSPORT": "stdout"},
        {"_SYSTEMD_UNIT": "evil.service"},
        {"_SYSTEMD_UNIT": "systemd-coredump@x.service.evil.scope"},
    ],
)
def test_a_record_that_any_user_can_send_is_left_out(
    journal: list[bytes], coredumps: Path, store: Path, tmp_path: Path, forged: dict[str, str]
) -> None:
    journal.append(record(core_bytes_written(tmp_path / NAME), **forged))
    assert imported(store, coredumps) == []


def test_a_path_in_a_record_is_only_taken_in_the_store_s_form(
    journal: list[bytes], coredumps: Path, store: Path, tmp_path: Path
) -> None:
    journal.append(record(core_bytes_written(tmp_path / "secret")))
    imported(store, coredumps)
    assert captures(store)[0].core is None


def test_a_truncated_core_is_read_as_far_as_it_goes_and_the_setting_named(
    journal: list[bytes], coredumps: Path, store: Path
) -> None:
    path = core_bytes_written(coredumps / NAME, size=1 << 20)
    os.truncate(path, path.stat().st_size // 2)
    journal.append(record(path, COREDUMP_TRUNCATED="1"))
    imported(store, coredumps)
    found = captures(store)[0]
    why = [gap["why"] for gap in found.told["gaps"]]
    assert RAISE in why
    assert "ProcessSizeMax=" in RAISE
    assert "ExternalSizeMax=" in RAISE
    assert found.core is not None
    assert read_core(found.core).signal == 11


def test_a_record_whose_core_is_gone_or_never_was_says_so(
    journal: list[bytes], coredumps: Path, store: Path
) -> None:
    journal += [record(coredumps / NAME), record(None, COREDUMP_PID="5")]
    imported(store, coredumps)
    told = {one.pid: one.told["gaps"][0]["why"] for one in captures(store)}
    assert "no longer there" in told[4711]
    assert "none was stored" in told[5]


def test_packed_files_are_unpacked_and_their_attributes_read(
    journal: list[bytes], coredumps: Path, store: Path, tmp_path: Path
) -> None:
    packed = coredumps / f"{NAME}.zst"
    packed.write_bytes(zstandard.compress(core_bytes_written(tmp_path / "c").read_bytes()))
    try:
        os.setxattr(packed, "user.coredump.exe", b"/opt/llama-server")
    except OSError:
        pytest.skip("no extended attributes here")
    imported(store, coredumps)
    assert captures(store)[0].exe == ("/opt/llama-server" if os.geteuid() == 0 else "")


def test_a_store_that_others_can_write_is_not_believed(
    journal: list[bytes], coredumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core_bytes_written(coredumps / NAME)
    monkeypatch.setattr(systemd, "unsafe", lambda path: "mode 777")
    assert found_in([], None, coredumps, NONE)[0] == []


def report(path: Path, core: bytes | None, exe: str = "/usr/bin/llama-server") -> Path:
    text = f"ProblemType: Crash\nExecutablePath: {exe}\nSignal: 11\n"
    if core is not None:
        packer = zlib.compressobj(wbits=31)
        data = packer.compress(core) + packer.flush()
        text += f"CoreDump: base64\n {base64.b64encode(data).decode()}\n"
    path.write_text(text)
    return path


def test_an_apport_report_is_taken_once_and_named_as_a_user_s(
    journal: list[bytes], store: Path, tmp_path: Path
) -> None:
    crash = tmp_path / "crash"
    crash.mkdir()
    report(crash / "_usr_bin_llama-server.0.crash", core_bytes_written(tmp_path / "c").read_bytes())
    report(crash / "_usr_bin_other.0.crash", None, "/usr/bin/other")
    for expected in (TAKEN, KNOWN):
        outcomes = run(found_in([], None, NONE, crash)[0], store, 0)
        assert [one.state for one in outcomes if one.state != UNUSABLE] == [expected]
    found = captures(store)
    assert [one.origin for one in found] == ["apport"]
    assert any("who can have written anything" in gap["why"] for gap in found[0].told["gaps"])


def test_a_layer_s_folder_is_walked_without_following_anything(store: Path, tmp_path: Path) -> None:
    layer = tmp_path / "diff"
    (layer / "app/deep").mkdir(parents=True)
    (layer / "proc").mkdir()
    core_bytes_written(layer / "app/deep/core.1", 1)
    core_bytes_written(layer / "proc/core.2", 2)
    outside = tmp_path / "outside"
    outside.mkdir()
    core_bytes_written(outside / "core.3", 3)
    (layer / "link").symlink_to(outside)
    (layer / "core.4").symlink_to(outside / "core.3")
    os.mkfifo(layer / "core.5")
    (layer / "core.txt").write_text("x" * 9000)
    core_bytes_written(layer / "core.6", 6, library=b"/lib/libother.so")
    outcomes = run(found_in([layer], None, NONE, NONE)[0], store, 0)
    assert [one.state for one in outcomes] == [TAKEN]
    assert [one.pid for one in captures(store)] == [1]
    assert [one.state for one in run(found_in([layer], None, NONE, NONE)[0], store, 0)] == [KNOWN]


def test_a_named_thing_that_is_none_is_told(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for thing, words in (("gone", "no such file"), ("link", "a link or no plain file")):
        with pytest.raises(UserError, match=words):
            list(in_files(tmp_path / thing))
    foreign = core_bytes_written(tmp_path / "core", library=b"/lib/libother.so")
    assert [one.state for one in run(list(in_files(foreign)), store, 0)] == [FOREIGN]
    (tmp_path / "text").write_text("no core")
    assert [one.state for one in run(list(in_files(tmp_path / "text")), store, 0)] == [UNUSABLE]


def test_nothing_half_written_stays_when_the_store_is_full(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = core_bytes_written(tmp_path / "core")
    with pytest.raises(UserError, match="bytes are free"):
        take(Found("file", core, 1.0), store, 1 << 60)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("collector.capture.intake.take.slim", full)
    with pytest.raises(UserError, match="no space left"):
        take(Found("file", core, 1.0), store, 0)
    assert list(store.iterdir()) == []
