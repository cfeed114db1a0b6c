"""Plain core files: taken once complete, whoever writes them; links, pipes and other people's are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture_cores import core_bytes_written

from analyzers.core.notes import read_core
from analyzers.errors import UserError
from collector.capture.intake import take as taking
from collector.capture.intake import watch as watching
from collector.capture.intake.take import FOREIGN, KNOWN, TAKEN, UNUSABLE, take
from collector.capture.intake.watch import STILL_SECONDS, Watch
from collector.capture.kept.captures import captures
from collector.capture.watching import run

NOBODY = 65534


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cores"
    made.mkdir()
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(folder: Path, clock: Clock) -> Watch:
    return Watch([folder], clock=clock)


def names(watch: Watch) -> list[str]:
    return [found.path.name for found in watch.ready() if found.path is not None]


def test_a_complete_core_is_given_once(folder: Path, watch: Watch) -> None:
    core_bytes_written(folder / "core.1")
    assert names(watch) == ["core.1"]
    assert names(watch) == []


def test_a_core_that_is_still_written_waits_for_its_writer(folder: Path, watch: Watch, clock: Clock) -> None:
    # GIVEN a core whose size is right already and whose writer has it open
    path = core_bytes_written(folder / "core.1")
    program = "import sys; f = open(sys.argv[1], 'r+b'); print(flush=True); sys.stdin.read()"
    writer = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    assert names(watch) == []
    writer.communicate(b"")
    assert names(watch) == ["core.1"]


def test_a_core_that_grows_waits_and_a_cut_one_is_taken_once_it_is_still(
    folder: Path, watch: Watch, clock: Clock
) -> None:
    path = core_bytes_written(folder / "core.1")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert names(watch) == []
    clock.now += STILL_SECONDS - 1
    path.write_bytes(data[: len(data) * 3 // 4])
    assert names(watch) == []
    clock.now += STILL_SECONDS - 1
    assert names(watch) == []
    clock.now += 2
    assert names(watch) == ["core.1"]


def test_the_same_name_written_anew_is_another_core(folder: Path, watch: Watch) -> None:
    core_bytes_written(folder / "core")
    assert names(watch) == ["core"]
    core_bytes_written(folder / "new", 4712)
    os.replace(folder / "new", folder / "core")
    assert names(watch) == ["core"]


def test_links_pipes_folders_and_second_names_are_refused(
    folder: Path, watch: Watch, clock: Clock, tmp_path: Path
) -> None:
    core_bytes_written(tmp_path / "elsewhere")
    (folder / "core.link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "core.pipe")
    (folder / "core.folder").mkdir()
    os.link(tmp_path / "elsewhere", folder / "core.hard")
    assert names(watch) == []
    clock.now += 100
    assert names(watch) == []
    told = " ".join(watch.refused)
    for name in ("core.link", "core.pipe", "core.folder", "core.hard"):
        assert told.count(name) == 1, told


def test_files_that_are_no_cores_are_passed_by(folder: Path, watch: Watch, clock: Clock) -> None:
    (folder / "core.txt").write_text("x" * 9999)
    (folder / "core.elf").write_bytes(b"\x7fELF\x02\x01" + b"\xff" * 9999)
    (folder / "core.empty").touch()
    names(watch)
    clock.now += 100
    assert names(watch) == []


def test_a_core_says_whose_it_is_and_belongs_to_that_user(folder: Path, watch: Watch) -> None:
    core_bytes_written(folder / "core.other", uid=os.geteuid() + 1 if os.geteuid() else 0)
    forged = core_bytes_written(folder / "core.forged", uid=0)
    if os.geteuid() == 0:
        os.chown(forged, NOBODY, NOBODY)
        assert names(watch) == ["core.other"]
        assert "of user 0's process and belongs to user 65534" in " ".join(watch.refused)


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        list(Watch([tmp_path / "gone"]).ready())


def test_one_run_takes_servers_cores_and_leaves_the_files(folder: Path, tmp_path: Path) -> None:
    server = core_bytes_written(folder / "core.1")
    core_bytes_written(folder / "core.2", 4712, library=b"/usr/lib/libother.so")
    before = server.read_bytes()
    said: list[str] = []
    run([folder], tmp_path / "store", 0, once=True, say=said.append)
    found = captures(tmp_path / "store")
    assert [one.pid for one in found] == [4711]
    assert (found[0].origin, found[0].core is not None) == ("watch", True)
    assert server.read_bytes() == before
    assert len(said) == 1
    # AND a second run knows it
    run([folder], tmp_path / "store", 0, once=True, say=said.append)
    assert len(captures(tmp_path / "store")) == 1
    assert KNOWN in said[-1]


def test_what_becomes_of_each(folder: Path, tmp_path: Path) -> None:
    core_bytes_written(folder / "core.1")
    found = next(Watch([folder]).ready())
    assert take(found, tmp_path / "store", 0).state == TAKEN
    foreign = core_bytes_written(folder / "core.2", 4712, library=b"/usr/lib/libother.so")
    states = {take(each, tmp_path / "store", 0).state for each in Watch([folder]).ready()}
    assert states == {KNOWN, FOREIGN}
    assert foreign.exists()


def test_a_store_without_room_costs_that_core_only(folder: Path, tmp_path: Path) -> None:
    core_bytes_written(folder / "core.1")
    said: list[str] = []
    run([folder], tmp_path / "store", 1 << 60, once=True, say=said.append)
    assert "not taken" in said[0]
    assert "bytes are free" in said[0]


def test_leases_that_a_file_system_does_not_know_leave_size_and_stillness(
    folder: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "no leases")

    monkeypatch.setattr(watching.fcntl, "fcntl", refuse)
    core_bytes_written(folder / "core.1")
    assert names(watch) == ["core.1"]


@pytest.mark.parametrize("kind", ["another core", "link"])
def test_what_is_put_in_a_cores_place_after_the_look_is_not_taken(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    # GIVEN a core that was looked at, and another one in its place since
    core_bytes_written(folder / "core.1")
    [found] = Watch([folder]).ready()
    secret = core_bytes_written(tmp_path / "secret", 4799)
    (folder / "core.1").unlink()
    if kind == "link":
        (folder / "core.1").symlink_to(secret)
    else:
        os.rename(secret, folder / "core.1")
    # WHEN it is taken
    outcome = take(found, tmp_path / "store", 0)
    # THEN nothing is
    assert (outcome.state, captures(tmp_path / "store")) == (UNUSABLE, [])
    assert "left alone" in outcome.words


def test_a_core_that_is_replaced_while_it_is_read_is_read_to_its_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core_bytes_written(folder / "core.1")
    [found] = Watch([folder]).ready()
    real = taking.core_is_servers

    def replaced(path: Path) -> bool:
        answer = real(path)
        os.rename(core_bytes_written(tmp_path / "other", 4799), folder / "core.1")
        return answer

    monkeypatch.setattr(taking, "core_is_servers", replaced)
    assert take(found, tmp_path / "store", 0).state == TAKEN
    [one] = captures(tmp_path / "store")
    assert (one.pid, read_core(one.path / "core").pid) == (4711, 4711)
