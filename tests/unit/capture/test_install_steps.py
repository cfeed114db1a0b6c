"""Installing and removing: shown first, restored exactly, and undone from wherever a kill left it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from capture_cores import PATTERN_BEFORE, layout_in, pretend_root

from analyzers.errors import UserError
from collector.capture.crash.settings import read_settings
from collector.capture.setup import code, install, state, status, undo
from collector.capture.setup.install import Wanted
from collector.capture.setup.kernel import LIMIT, PATTERN, SOCKET, WATCH, Kernel, alone
from collector.capture.setup.layout import Layout
from collector.capture.setup.safe import unsafe

_ENOUGH = 400  # more fsyncs than any installation makes


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    """Its prefix is short: the kernel takes 127 characters."""
    pretend_root(monkeypatch)
    short = Path(tempfile.mkdtemp(prefix="lbx", dir="/tmp"))
    yield replace(layout_in(tmp_path), prefix=short / "p")
    shutil.rmtree(short)


def installed(layout: Layout, wanted: Wanted | None = None) -> None:
    install.apply(install.plan(layout, wanted or Wanted(python="/bin/true")))


def removed(layout: Layout, *, force: bool = False) -> None:
    undo.apply(undo.removal(layout, force=force))


def test_every_change_is_shown_and_none_is_made_by_showing(layout: Layout, tmp_path: Path) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    # WHEN an installation is planned
    lines = list(install.plan(layout, Wanted(python="/bin/true")).lines())
    # THEN each sysctl with both values, each file and what stays is named
    text = "\n".join(lines)
    for part in (PATTERN_BEFORE, f"{LIMIT}: '0' -> '16'", str(layout.sysctl_file), "suid_dumpable at 2"):
        assert part in text
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_installed_then_removed_leaves_what_was_there(layout: Layout, tmp_path: Path) -> None:
    before = layout.kernel.settings()
    installed(layout, Wanted(mode="full", names=("my-server",), python="/bin/true"))
    # THEN the handler would read what was asked for, and passes on to what was there
    settings = read_settings(str(layout.prefix))
    assert (settings.mode, settings.names, settings.store) == ("full", ("my-server",), str(layout.store))
    assert layout.previous.read_text() == PATTERN_BEFORE + "\n"
    assert layout.main.is_file()
    assert layout.kernel.read(PATTERN).split()[2] == str(layout.main)
    assert status.look(layout).fine
    # AND removing restores exactly
    removed(layout)
    assert layout.kernel.settings() == before
    assert not layout.prefix.exists()
    assert list((tmp_path / "etc").iterdir()) == []
    assert status.look(layout).state == status.NONE


def test_not_over_itself(layout: Layout) -> None:
    installed(layout)
    with pytest.raises(UserError, match="installed already"):
        install.plan(layout, Wanted(python="/bin/true"))
    # nor another one beside it
    with pytest.raises(UserError, match="another installation's"):
        install.plan(replace(layout, prefix=layout.prefix.parent / "q"), Wanted(python="/bin/true"))


def test_a_setting_that_somebody_changed_is_not_overwritten_unasked(layout: Layout) -> None:
    installed(layout)
    layout.kernel.write(PATTERN, "core.%p")
    found = status.look(layout)
    assert (found.state, found.fine) == (status.CHANGED, False)
    assert any("core.%p" in fault and "--force" in fault for fault in found.faults)
    with pytest.raises(UserError, match=r"somebody changed it since: kernel.core_pattern is 'core.%p'"):
        undo.removal(layout)
    removed(layout, force=True)
    assert layout.kernel.read(PATTERN) == PATTERN_BEFORE


def test_two_at_once_are_one_after_the_other(layout: Layout) -> None:
    # GIVEN two installations that were planned at the same moment
    first, second = (install.plan(layout, Wanted(python="/bin/true")) for _ in range(2))
    with alone(layout.kernel), pytest.raises(UserError, match="another installation or removal is at work"):
        install.apply(first)
    assert layout.kernel.read(PATTERN) == PATTERN_BEFORE
    # WHEN one is made, the other is refused, and what was before is not lost
    install.apply(first)
    with pytest.raises(UserError, match="installed already"):
        install.apply(second)
    with alone(layout.kernel), pytest.raises(UserError, match="at work"):
        removed(layout)
    removed(layout)
    assert layout.kernel.read(PATTERN) == PATTERN_BEFORE


def test_settings_that_changed_after_the_plan_are_not_taken_for_those_before(layout: Layout) -> None:
    made = install.plan(layout, Wanted(python="/bin/true"))
    layout.kernel.write(PATTERN, "core.%p")
    with pytest.raises(UserError, match="the settings have changed meanwhile"):
        install.apply(made)
    assert layout.kernel.read(PATTERN) == "core.%p"


def test_without_a_store_nothing_was_captured_yet(layout: Layout) -> None:
    installed(layout)
    assert not layout.store.exists()
    found = status.look(layout)
    assert found.fine
    assert "nothing captured yet" in found.facts


def test_settings_that_somebody_restored_already_are_no_quarrel(layout: Layout) -> None:
    installed(layout)
    layout.kernel.write(PATTERN, PATTERN_BEFORE)
    removed(layout)
    assert layout.kernel.read(LIMIT) == "0"


def _killed_at(number: int, work: object, *given: object) -> bool:
    """Runs it in a child that is gone at its ``number``-th sync; False when it finished before."""
    child = os.fork()
    if child == 0:
        count = 0
        real = os.fsync

        def sync(descriptor: int) -> None:
            nonlocal count
            count += 1
            if count == number:
                os._exit(9)
            real(descriptor)

        os.fsync = sync
        try:
            work(*given)  # type: ignore[operator]
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("shape", ["pipe", "socket", "watch"])
def test_a_kill_at_any_step_of_installing_is_told_and_can_be_undone(layout: Layout, shape: str) -> None:
    before = layout.kernel.settings()
    wanted = Wanted(shape=shape, python="/bin/true")
    words = set()
    for number in range(1, _ENOUGH):
        if not _killed_at(number, installed, layout, wanted):
            break
        found = status.look(layout)
        words.add(found.state)
        # THEN it is as before, or half-done with the way out, or done
        if found.state == status.NONE:
            assert layout.kernel.settings() == before
            continue
        assert found.state == status.HALF_INSTALLED or layout.kernel.settings() != before or shape == "watch"
        if found.state == status.HALF_INSTALLED:
            assert any("capture remove" in fault for fault in found.faults)
        with pytest.raises(UserError):
            install.plan(layout, wanted)
        removed(layout)
        assert layout.kernel.settings() == before
        assert status.look(layout).state == status.NONE
    assert {status.NONE, status.HALF_INSTALLED} <= words
    assert number < _ENOUGH - 1


def test_a_kill_at_any_step_of_removing_is_told_and_can_be_finished(layout: Layout) -> None:
    before = layout.kernel.settings()
    words = set()
    for number in range(1, _ENOUGH):
        installed(layout)
        killed = _killed_at(number, removed, layout)
        found = status.look(layout)
        words.add(found.state)
        if found.state != status.NONE:
            removed(layout)
        assert layout.kernel.settings() == before
        assert status.look(layout).state == status.NONE
        if not killed:
            break
    assert status.HALF_REMOVED in words


def test_a_kernel_that_refuses_leaves_nothing_behind(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    before = layout.kernel.settings()
    real = Kernel.write

    def refuse(self: Kernel, name: str, value: str) -> None:
        if name == PATTERN and value.startswith("|/bin/true"):
            raise UserError("cannot be set", where=name, remedy="run it as root")
        real(self, name, value)

    monkeypatch.setattr(type(layout.kernel), "write", refuse)
    with pytest.raises(UserError, match="cannot be set"):
        installed(layout)
    assert layout.kernel.settings() == before
    assert status.look(layout).state == status.NONE


def test_a_damaged_state_is_never_guessed(layout: Layout) -> None:
    installed(layout)
    for text in (
        "",
        "{",
        '{"schema": "llama-blackbox/capture-state/9"}',
        "[]",
        layout.state.read_text()[:-40],
    ):
        layout.state.write_text(text)
        with pytest.raises(UserError, match="cannot be used"):
            state.load(layout.state)


@pytest.mark.parametrize(
    ("release", "modes", "expected"),
    [
        ("6.18.3", "file\npipe\nsocket\n", "@@/run/s"),
        ("6.17.0-generic", None, "@@/run/s"),
        ("6.16.1", None, "@/run/s"),
        ("6.12.0", None, None),
        ("5.15", None, None),
        ("6.18.0", "file\npipe\n", None),
    ],
)
def test_the_socket_s_shape_is_what_the_kernel_knows(
    tmp_path: Path, release: str, modes: str | None, expected: str | None
) -> None:
    (tmp_path / "kernel").mkdir()
    if modes is not None:
        (tmp_path / "kernel/core_modes").write_text(modes)
    kernel = Kernel(tmp_path, release)
    if expected is None:
        with pytest.raises(UserError, match="no coredump socket"):
            kernel.socket_pattern("/run/s")
    else:
        assert kernel.socket_pattern("/run/s") == expected


@pytest.mark.parametrize("path", ["run/s", "/run/../s", "/run/a b", "/run/", "/run/%p", "/" + "x" * 120])
def test_paths_that_the_kernel_does_not_take(tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match="no such path"):
        Kernel(tmp_path, "6.18").socket_pattern(path)


def test_socket_shape_without_a_server_says_that_no_core_is_written(layout: Layout) -> None:
    installed(layout, Wanted(shape=SOCKET, socket="/run/nobody-listens-here.sock", python="/bin/true"))
    found = status.look(layout)
    assert any("writes no core of any program" in fault for fault in found.faults)
    assert layout.kernel.read(LIMIT) == "0"


def test_watch_shape_changes_no_sysctl_and_says_when_there_is_nothing_to_watch(layout: Layout) -> None:
    made = install.plan(layout, Wanted(shape=WATCH, python="/bin/true"))
    assert made.sysctls == {}
    assert any("nothing to watch" in line for line in made.lines())
    install.apply(made)
    assert layout.kernel.read(PATTERN) == PATTERN_BEFORE
    removed(layout)


def test_what_systemd_s_own_file_would_do_after_a_reboot(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/50-coredump.conf").write_text("kernel.core_pattern=|/lib/systemd/systemd-coredump %P\n")
    lines = list(install.plan(layout, Wanted(python="/bin/true")).lines())
    assert any("50-coredump.conf" in line and "ours is applied after it" in line for line in lines)
    # AND a file that comes after ours is a fault of the installation
    installed(layout)
    (tmp_path / "etc/zz-mine.conf").write_text("# x\nkernel/core_pattern = core\n")
    assert any("zz-mine.conf" in fault and "after ours" in fault for fault in status.look(layout).faults)


def test_an_empty_file_of_the_same_name_masks_systemd_s(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/50-coredump.conf").write_text("kernel.core_pattern=x\n")
    (tmp_path / "etc/50-coredump.conf").write_text("")
    lines = list(install.plan(layout, Wanted(python="/bin/true")).lines())
    assert not any("50-coredump" in line for line in lines)


def test_a_sysctl_file_that_went_missing_is_told(layout: Layout) -> None:
    installed(layout)
    layout.sysctl_file.unlink()
    assert any("next boot" in fault for fault in status.look(layout).faults)


def test_a_handler_that_is_gone_is_told(layout: Layout) -> None:
    installed(layout)
    layout.main.unlink()
    found = status.look(layout)
    assert found.state == status.BROKEN
    assert any("not whole" in fault for fault in found.faults)


def test_only_root_and_sound_wishes(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no number of handlers"):
        install.plan(layout, Wanted(pipe_limit=0, python="/bin/true"))
    with pytest.raises(UserError, match="without blanks"):
        install.plan(replace(layout, prefix=Path("/a b")), Wanted(python="/bin/true"))
    with pytest.raises(UserError, match="127"):
        install.plan(replace(layout, prefix=Path("/" + "x" * 100)), Wanted(python="/bin/true"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="only root"):
        install.plan(layout, Wanted(python="/bin/true"))


@pytest.mark.skipif(os.geteuid() != 0, reason="files of root's are needed")
def test_every_folder_on_the_way_must_be_root_s(tmp_path: Path) -> None:
    # GIVEN a folder below one that anybody may write (pytest's is below /tmp)
    assert unsafe(tmp_path) is not None
    assert unsafe(Path("/usr/bin/env")) is None
    # and a link in a safe folder that leads to an unsafe one
    link = Path(f"/run/lbx-{os.getpid()}")
    link.symlink_to(tmp_path)
    try:
        fault = unsafe(link / "anything")
    finally:
        link.unlink()
    assert fault is not None
    assert "can be written by others" in fault


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a user to drop to")
def test_a_python_that_only_root_can_load_is_refused(tmp_path: Path) -> None:
    # GIVEN an interpreter that everybody can run, and one in a folder of root's alone
    assert code._for_all("/bin/true")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    shutil.copy2("/bin/true", private / "python3")
    # THEN the second one is of no use to a reader without rights
    assert not code._for_all(str(private / "python3"))
