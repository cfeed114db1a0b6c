"""Prepared environments: named by content, never half-built, made once by many."""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference import environments
from collector.lab.reference.cache import cache_folder, drafted, exclusive, publish
from collector.lab.reference.environments import environment_key, is_complete, prepare, require_platform

VERSION = "2026.9.11063"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def steps(monkeypatch):
    """Stands in for venv and pip: remembers what would have been run, and makes an interpreter."""
    ran = []

    def run(argv, failed, progress=environments.quiet):
        ran.append(argv)
        if argv[1:3] == ["-m", "venv"]:
            python = Path(argv[3]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)

    monkeypatch.setattr(environments, "_run", run)
    return ran


def test_an_environment_is_made_once_and_used_again(cache, steps):
    # GIVEN an empty cache WHEN the same version is asked for twice
    said = []
    first = prepare(VERSION, progress=said.append)
    made = len(steps)
    second = prepare(VERSION, offline=True)
    # THEN the second costs nothing, and pip was asked for exactly this version, wheels only
    assert first == second
    assert len(steps) == made == 3
    assert steps[1][-1] == f"xllamacpp=={VERSION}"
    assert "--only-binary" in steps[1]
    assert not any("index" in part for part in steps[1])
    assert said[-1].endswith("is ready")


def test_its_name_tells_wheel_and_python_version():
    assert VERSION in environment_key(VERSION)
    assert ".".join(map(str, sys.version_info[:3])) in environment_key(VERSION)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_failed_step_leaves_nothing_that_looks_complete(cache, steps, monkeypatch, broken):
    # GIVEN a build that fails at one of its steps
    working = environments._run

    def run(argv, failed, progress=environments.quiet):
        if len(steps) == broken:
            raise failed("it broke")
        working(argv, failed, progress)

    monkeypatch.setattr(environments, "_run", run)
    # WHEN it is tried THEN the user is told, and the folder is as if it had not been tried
    with pytest.raises(UserError, match="it broke"):
        prepare(VERSION)
    servers = cache / "llama-blackbox" / "servers"
    assert [path.name for path in servers.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("step", [0, 1])
def test_a_full_disk_is_named_as_one_and_not_as_a_missing_package(cache, steps, monkeypatch, step):
    # GIVEN a step that fails with what pip and venv print when the disk is full
    working = environments._run

    def run(argv, failed, progress=environments.quiet):
        if len(steps) == step:
            raise failed(
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
            )
        working(argv, failed, progress)

    monkeypatch.setattr(environments, "_run", run)
    # WHEN THEN
    with pytest.raises(UserError) as caught:
        prepare(VERSION)
    assert "free some space" in caught.value.remedy
    assert "apt-get" not in caught.value.remedy


PIP = (
    "ERROR: Could not find a version that satisfies the requirement xllamacpp==2026.9.99 (from versions: "
    "0.2.7, 2026.8.10229, 2026.8.10566, 2026.9.10809, 2026.10.11549)"
)


@pytest.fixture
def index(cache, steps, monkeypatch):
    """pip that fails with ``said``; everything else pretends to succeed."""

    def failing(said):
        working = environments._run

        def run(argv, failed, progress=environments.quiet):
            if "install" in argv:
                raise failed(said)
            working(argv, failed, progress)

        monkeypatch.setattr(environments, "_run", run)

    return failing


def test_a_version_that_is_not_published_is_answered_with_its_neighbours(index):
    index(PIP)
    with pytest.raises(UserError) as caught:
        prepare("2026.9.99")
    assert str(caught.value) == (
        "--version 2026.9.99: no wheel of xllamacpp 2026.9.99 for this machine is published; "
        "choose a published one: 2026.8.10229, 2026.8.10566, 2026.9.10809, 2026.10.11549"
    )


@pytest.mark.parametrize("listed", ["none", "x" * 9000])
def test_an_index_that_lists_nothing_is_one_out_of_reach(index, listed):
    index(f"ERROR: Could not find a version that satisfies the requirement x (from versions: {listed})")
    with pytest.raises(UserError, match="cannot be installed") as caught:
        prepare(VERSION)
    assert "with a package index in reach" in caught.value.remedy
    assert len(str(caught.value)) < 1000


def test_an_error_of_pip_is_said_once(cache, monkeypatch):
    said = []
    command = ["sh", "-c", "echo Downloading x; echo 'ERROR: no'; exit 1"]
    failed = lambda last: UserError(last, where="x", remedy="y")  # noqa: E731
    with pytest.raises(UserError, match="ERROR: no"):
        environments._run(command, failed, said.append)
    assert said == ["Downloading x"]


def test_leftovers_of_a_killed_builder_are_cleared_and_not_used(cache, steps):
    home = cache_folder("servers") / environment_key(VERSION)
    leftover = home.parent / f".{home.name}.dead"
    (leftover / "bin").mkdir(parents=True)
    home.mkdir()  # without its mark of completeness
    assert not is_complete(home)
    prepare(VERSION)
    assert is_complete(home)
    assert not leftover.exists()


def test_offline_and_not_cached_says_what_to_run(cache):
    with pytest.raises(UserError) as caught:
        prepare(VERSION, offline=True)
    assert f"pip download --no-deps -d wheels xllamacpp=={VERSION}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["", "1.0; rm -rf ~", "../../etc", "-r file", "1.0 --pre x", "\x1b[31m"])
def test_what_is_not_a_version_reaches_neither_path_nor_pip(cache, steps, version):
    with pytest.raises(UserError) as caught:
        prepare(version)
    assert steps == []
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("system", "machine"), [("darwin", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64")]
)
def test_other_platforms_are_refused_in_one_line(system, machine):
    with pytest.raises(UserError) as caught:
        require_platform(system, machine)
    assert machine in str(caught.value)
    assert "\n" not in str(caught.value)


def _hold(lock, ready, release):
    with exclusive(lock):
        ready.set()
        release.wait(20)


def _take(lock, waited, entered):
    with exclusive(lock, waited.set):
        entered.set()


def test_a_second_process_waits_for_the_first(tmp_path):
    # GIVEN one process that holds the lock
    context = multiprocessing.get_context("spawn")
    ready, release, waited, entered = (context.Event() for _ in range(4))
    lock = tmp_path / "lock"
    first = context.Process(target=_hold, args=(lock, ready, release))
    first.start()
    assert ready.wait(20)
    # WHEN a second one wants it THEN it says that it waits, and enters only after the first let go
    second = context.Process(target=_take, args=(lock, waited, entered))
    second.start()
    assert waited.wait(20)
    assert not entered.is_set()
    release.set()
    assert entered.wait(20)
    first.join(20)
    second.join(20)


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, never = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", ready, never))
    holder.start()
    assert ready.wait(20)
    holder.kill()
    holder.join(20)
    waits = []
    with exclusive(tmp_path / "lock", lambda: waits.append(1)):
        assert waits == []


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"), exclusive(tmp_path / "lock"):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_reader_never_sees_a_part_of_a_published_file(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")

    def write(draft):
        draft.write_text("ne")
        assert target.read_text() == "old"
        draft.write_text("new")

    publish(target, write)
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_the_cache_follows_the_users_setting_only_when_it_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder("x") == tmp_path / ".cache" / "llama-blackbox" / "x"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert cache_folder("x") == tmp_path / "c" / "llama-blackbox" / "x"


def test_a_draft_takes_its_place_whole_and_goes_when_it_fails(tmp_path):
    # GIVEN what stood there before, and what a killed maker left
    target = tmp_path / "made"
    (tmp_path / ".made.dead").mkdir()
    target.mkdir()
    (target / "old").write_text("x")
    # WHEN a maker fails THEN nothing has changed but that the leftover is gone
    with pytest.raises(FileNotFoundError), drafted(target) as draft:
        (draft / "nowhere" / "new").write_text("x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["made"]
    assert [each.name for each in target.iterdir()] == ["old"]
    # WHEN one succeeds THEN only its own is there
    with drafted(target) as draft:
        (draft / "new").write_text("x")
    assert [each.name for each in target.iterdir()] == ["new"]
    assert os.listdir(tmp_path) == ["made"]
