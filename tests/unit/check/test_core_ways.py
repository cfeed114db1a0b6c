"""core_pattern's shapes and handlers, and what keeps a core from being taken or whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from check_scenes import GIB, SYSTEMD_PATTERN, found, host, readiness, scene, subject, unit

from collector.capture.crash.limits import STORED
from collector.check.image import Image
from collector.check.model import AT_RISK, BLIND, READY, Level
from collector.check.pattern import parse_pattern
from collector.check.rules_place import listens, system_at
from collector.check.subject import Who, core_limit, who_of


@pytest.mark.parametrize(
    ("text", "kind", "handler"),
    [
        ("core", "file", ""),
        ("/var/cores/%e.%p", "file", ""),
        (SYSTEMD_PATTERN, "pipe", "systemd-coredump"),
        ("|/usr/share/apport/apport -p%p", "pipe", "apport"),
        ("|/usr/libexec/abrt-hook-ccpp %s", "pipe", "abrt"),
        ("|/bin/false", "pipe", "nobody (false)"),
        ("|/usr/lib/llama-blackbox/crash %P", "pipe", "llama-blackbox"),
        ("|", "none", ""),
        ("", "none", ""),
        ("@/run/core.sock", "socket", ""),
        ("@@/run/core.sock", "socket", ""),
    ],
)
def test_the_shapes_of_core_pattern(text: str, kind: str, handler: str) -> None:
    made = parse_pattern(text)
    assert (made.kind, made.handler) == (kind, handler)


def test_a_name_without_the_pid_overwrites_unless_the_kernel_adds_it() -> None:
    assert not parse_pattern("core").named_by_pid
    assert parse_pattern("core", uses_pid=True).named_by_pid
    assert parse_pattern("core.%e.%P").named_by_pid


def test_a_sound_host_is_ready(tmp_path: Path) -> None:
    made = readiness(scene(host(tmp_path), unit=unit()))
    assert [one for one in made.findings if one.level.costs] == []
    assert made.verdict == READY
    assert "whole" in made.headline


@pytest.mark.parametrize(
    ("limit", "level", "verdict"),
    [(0, Level.LOST, BLIND), (GIB // 4, Level.RISK, AT_RISK), (4 * GIB, None, READY)],
)
def test_the_limit_against_the_core(tmp_path: Path, limit: int, level: Level | None, verdict: str) -> None:
    # GIVEN
    made = scene(host(tmp_path), subject(limit=limit), unit=unit())
    # WHEN
    finding = found(made).get("core-limit")
    # THEN
    assert (finding.level if finding else None) == level
    assert readiness(made).verdict == verdict
    if finding is not None:
        assert (
            finding.change
            == "[Service] LimitCORE=infinity in /etc/systemd/system/llama.service.d/override.conf"
        )


def test_our_own_handler_needs_its_code_and_room(tmp_path: Path) -> None:
    # GIVEN the handler as `capture install` names it
    code = "usr/local/lib/llama-blackbox/code/__main__.py"
    line = f"|/usr/bin/python3 -ISB /{code} %P,%p %h %e %E"
    made = host(tmp_path, {code: "", "usr/bin/python3": "x"}, pattern=line)
    (tmp_path / "usr/bin/python3").chmod(0o755)
    (tmp_path / "var/lib/llama-blackbox/captures").mkdir(parents=True)
    # WHEN
    good = readiness(scene(made, subject(limit=0, image=Image(90 * GIB, 90 * GIB)), unit=unit()))
    # THEN stacks are taken at any size, whatever the limit
    assert good.expected is not None
    assert good.expected.seconds < 1
    assert {one.id for one in good.findings if one.level.costs} == set()
    (tmp_path / code).unlink()
    assert found(scene(made))["capture-code"].level is Level.LOST


def test_a_handler_that_is_not_bound_by_the_limit_keeps_the_core(tmp_path: Path) -> None:
    path = "usr/lib/llama-blackbox/crash"
    made = host(tmp_path, {path: "x"}, pattern=f"|/{path} %P")
    (tmp_path / path).chmod(0o755)
    assert "core-limit" not in found(scene(made, subject(limit=0)))
    assert found(scene(made, subject(limit=1)))["core-limit"].level is Level.LOST


@pytest.mark.parametrize(
    ("bits", "id", "level"),
    [(0x32, "filter-private", Level.LOST), (0x23, "filter-headers", Level.RISK), (0x33, None, None)],
)
def test_the_filter(tmp_path: Path, bits: int, id: str | None, level: Level | None) -> None:
    seen = {name: one.level for name, one in found(scene(host(tmp_path), subject(filter_bits=bits))).items()}
    assert {name: each for name, each in seen.items() if name.startswith("filter")} == (
        {id: level} if id else {}
    )


def test_a_process_that_is_not_dumpable_leaves_nothing(tmp_path: Path) -> None:
    made = readiness(scene(host(tmp_path), subject(dumpable="no")))
    assert made.verdict == BLIND
    assert "suid_dumpable" in (made.findings[0].change or "")


def test_a_handler_that_cannot_be_started(tmp_path: Path) -> None:
    made = host(tmp_path)
    program = tmp_path / "usr/lib/systemd/systemd-coredump"
    program.chmod(0o644)
    assert "not executable" in found(scene(made))["handler-missing"].what
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert "/no/such/interpreter" in found(scene(made))["handler-missing"].what
    program.unlink()
    assert "not there" in found(scene(made))["handler-missing"].what
    assert readiness(scene(made)).verdict == BLIND


def test_inside_of_a_container_the_handler_is_not_seen_and_nothing_is_promised(tmp_path: Path) -> None:
    made = readiness(scene(host(tmp_path), first_namespaces=False))
    assert made.verdict == AT_RISK
    assert any(one.level is Level.UNREAD and "on the host" in (one.change or "") for one in made.findings)


def test_more_servers_than_the_kernel_dumps_at_once(tmp_path: Path) -> None:
    made = host(tmp_path, {"proc/sys/kernel/core_pipe_limit": "2\n"})
    assert found(scene(made, servers=3))["pipe-limit"].level is Level.RISK
    assert "pipe-limit" not in found(scene(made, servers=2))


def test_without_a_listener_a_socket_takes_no_core(tmp_path: Path) -> None:
    head = "Num RefCount Protocol Flags Type St Inode Path\n"
    live = "0000: 00000002 00000000 00010000 0005 01 77 /run/core.sock\n"
    made = host(tmp_path, {"proc/net/unix": head + live}, pattern="@@/run/core.sock")
    assert found(scene(made)).keys().isdisjoint({"socket-silent", "socket-unread"})
    (tmp_path / "proc/net/unix").write_text(head + live.replace("00010000", "00000000"))
    assert found(scene(made))["socket-silent"].level is Level.LOST
    assert listens(None, "/x") is None


def file_scene(tmp_path: Path, pattern: str, **changes: object) -> dict[str, object]:
    made = host(tmp_path / "host", pattern=pattern)
    # Its root is this process's own, its working folder too.
    return dict(found(scene(made, subject(**changes))))


def test_a_folder_that_is_missing_or_not_writable(tmp_path: Path) -> None:
    # GIVEN
    stranger = Who(65533, frozenset({65533}), False)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    # WHEN / THEN
    assert "folder-missing" in file_scene(tmp_path, f"{tmp_path}/none/core.%p")
    assert "folder-not-writable" in file_scene(tmp_path, f"{closed}/core.%p", who=stranger)
    assert "folder-not-writable" not in file_scene(
        tmp_path, f"{closed}/core.%p", who=Who(65533, frozenset(), True)
    )


def test_something_else_with_the_cores_name(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    assert "in-the-way" in file_scene(tmp_path, f"{tmp_path}/core")
    (tmp_path / "core").rmdir()
    (tmp_path / "core").write_text("an older core")
    seen = file_scene(tmp_path, f"{tmp_path}/core")
    assert "in-the-way" not in seen
    assert "one-name" in seen


def test_a_disk_that_is_too_small(tmp_path: Path) -> None:
    huge = Image(1 << 60, 1 << 60)
    assert "disk" in file_scene(tmp_path, f"{tmp_path}/core.%p", image=huge)
    assert "disk" not in file_scene(tmp_path, f"{tmp_path}/core.%p", image=Image(4096, 4096))


def test_a_core_in_memory_or_in_a_container_is_at_risk(tmp_path: Path) -> None:
    mounts = "20 1 0:1 / / rw - overlay overlay rw\n21 20 0:2 / /dev/shm rw - tmpfs tmpfs rw\n"
    assert system_at(mounts, "/dev/shm/x") == "tmpfs"
    assert system_at(mounts, "/dev/shmx") == "overlay"
    seen = file_scene(tmp_path, f"{tmp_path}/core.%p", mounts=mounts, own_mounts=True)
    assert "core-in-container" in seen


def test_what_could_not_be_read_is_said_and_nothing_is_promised(tmp_path: Path) -> None:
    one = subject(
        image=None,
        limit=None,
        filter_bits=None,
        unread=["limits", "coredump_filter", "smaps"],
        outputs=("", ""),
    )
    made = readiness(scene(host(tmp_path), one))
    assert made.verdict == AT_RISK
    assert {"process-unread", "output-unread"} <= {
        one.id for one in made.findings if one.level is Level.UNREAD
    }


def test_figures_of_proc() -> None:
    line = "Limit                     Soft Limit           Hard Limit           Units     \n"
    assert (
        core_limit(line + "Max core file size        0                    unlimited            bytes\n") == 0
    )
    assert (
        core_limit(line + "Max core file size        unlimited            unlimited            bytes\n")
        == 1 << 62
    )
    assert core_limit(line) is None
    assert who_of("Uid:\t1\t1\t1\t5\nGid:\t1\t1\t1\t6\nGroups:\t7 8\nCapEff:\t2\n") == Who(
        5, frozenset({6, 7, 8}), True
    )
    assert who_of("Uid:\tx\n") is None
    assert Who(0, frozenset(), False).may_write(os.stat("/")) is (os.stat("/").st_uid == 0)


@pytest.mark.parametrize("prefix", ["usr/local/lib/llama-blackbox", "opt/kept"])
@pytest.mark.parametrize("held", [STORED - 1, STORED])
def test_a_store_that_takes_no_more_loses_the_crash(tmp_path: Path, prefix: str, held: int) -> None:
    # GIVEN a handler at any place, whose settings stand beside its code
    line = f"|/usr/bin/python3 -ISB /{prefix}/crash/__main__.py %P,%s %h %e %E"
    files = {
        "usr/bin/python3": "program",
        f"{prefix}/crash/__main__.py": "code",
        f"{prefix}/capture.conf": "mode = minimal\nstore = /srv/kept\nreserve = 1\n",
    }
    made = host(tmp_path, files, pattern=line)
    (tmp_path / "usr/bin/python3").chmod(0o755)
    for number in range(held):
        (tmp_path / f"srv/kept/{number}").mkdir(parents=True)
    # THEN a full store is a lost crash
    seen = found(scene(made))
    assert ("capture-full" in seen) == (held == STORED)
    assert not {"handler-unknown", "capture-store"} & set(seen)


def test_the_room_of_the_socket_servers_store_counts(tmp_path: Path) -> None:
    path = "/run/llama-blackbox/coredump.sock"
    table = f"Num RefCount\n0: 00000002 00000000 00010000 0001 01 1 {path}\n"
    made = host(tmp_path, {"proc/net/unix": table}, pattern=f"@@{path}")
    # GIVEN no capture yet, which is no fault
    first = found(scene(made))["capture-store"]
    assert (first.level, "nothing captured yet" in first.what) == (Level.NOTE, True)
    store = tmp_path / "var/lib/llama-blackbox/captures"
    for number in range(STORED):
        (store / str(number)).mkdir(parents=True)
    assert found(scene(made))["capture-full"].level is Level.LOST
