"""Whether the server's words are kept past its death, and whether a dump is given the time it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_scenes import GIB, answering, found, host, scene, subject, unit

from collector.check.image import Image
from collector.check.model import Level
from collector.check.supervisor import Container, container_of, unit_of

BASE = ("/usr/bin/llama-server", "-m", "/m.gguf")
BIG = Image(20 * GIB, 20 * GIB, anonymous=20 * GIB, largest=18 * GIB)
ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("args", "env", "id", "level"),
    [
        (("--log-disable",), {}, "log-disabled", Level.LOST),
        (("-lv", "2"), {}, "verbosity", Level.RISK),
        (("--verbosity=1",), {}, "verbosity", Level.RISK),
        ((), {"LLAMA_ARG_LOG_VERBOSITY": "0"}, "verbosity", Level.RISK),
        ((), {}, "verbosity", Level.NOTE),
        (("--log-file", "/srv/x.log", "-v"), {}, "log-file", Level.RISK),
    ],
)
def test_what_it_says(
    tmp_path: Path, args: tuple[str, ...], env: dict[str, str], id: str, level: Level
) -> None:
    seen = found(scene(host(tmp_path), subject(args=(*BASE, *args), env=env)))
    assert seen[id].level is level


@pytest.mark.parametrize("args", [("-lv", "4"), ("-v",), ("--log-verbosity", "5")])
def test_a_talkative_server_is_not_complained_about(tmp_path: Path, args: tuple[str, ...]) -> None:
    assert "verbosity" not in found(scene(host(tmp_path), subject(args=(*BASE, *args))))


@pytest.mark.parametrize(
    ("target", "level"),
    [
        ("/dev/null", Level.LOST),
        ("/dev/pts/3", Level.RISK),
        ("/var/log/llama.log (deleted)", Level.LOST),
        ("/var/log/llama.log", None),
        ("pipe:[5]", Level.NOTE),
    ],
)
def test_where_its_words_go(tmp_path: Path, target: str, level: Level | None) -> None:
    seen = found(scene(host(tmp_path), subject(outputs=(target, target)))).get("output")
    assert (seen.level if seen else None) == level


def test_a_unit_that_writes_over_its_log(tmp_path: Path) -> None:
    made = scene(
        host(tmp_path),
        subject(outputs=("/var/log/x.log",) * 2),
        unit=unit(StandardError="truncate:/var/log/x.log"),
    )
    assert "append:/var/log/x.log" in (found(made)["output"].change or "")


def test_the_journal(tmp_path: Path) -> None:
    # GIVEN
    rate = unit(LogRateLimitIntervalUSec="0", LogRateLimitBurst="0")
    files = {"etc/systemd/journald.conf.d/a.conf": "[Journal]\nStorage=volatile\nMaxLevelStore=warning\n"}
    # WHEN
    seen = found(scene(host(tmp_path, files), unit=rate))
    # THEN
    assert seen["journal"].level is Level.RISK
    assert seen["journal-level"].level is Level.LOST
    assert seen["journal-rate"].level is Level.RISK  # at verbosity 4
    assert "10000 in 30 s" in seen["journal-rate"].what
    assert "journal-rate" not in found(scene(host(tmp_path), unit=unit()))


def test_a_namespace_has_a_configuration_of_its_own(tmp_path: Path) -> None:
    files = {"etc/systemd/journald@llm.conf": "[Journal]\nStorage=none\n"}
    seen = found(scene(host(tmp_path, files), unit=unit(LogNamespace="llm")))
    assert seen["journal"].level is Level.LOST


def test_a_journal_without_its_folder_is_volatile(tmp_path: Path) -> None:
    made = host(tmp_path)
    (tmp_path / "var/log/journal/here").unlink()
    (tmp_path / "var/log/journal").rmdir()
    assert "memory only" in found(scene(made, unit=unit()))["journal"].what


def test_everybody_who_may_lose_patience_with_a_large_core(tmp_path: Path) -> None:
    # GIVEN twenty GiB that systemd-coredump compresses
    made = scene(host(tmp_path), subject(image=BIG), unit=unit(WatchdogUSec="30s"))
    # WHEN
    seen = found(made)
    # THEN
    assert made.expected is not None
    assert made.expected.seconds > 90
    assert {"abort-timeout", "stop-timeout", "slow-death", "weights-dumped"} <= seen.keys()
    assert "TimeoutAbortSec=" in (seen["abort-timeout"].change or "")
    assert "abort-timeout" not in found(scene(host(tmp_path), subject(image=BIG), unit=unit()))


def test_a_small_core_bothers_nobody(tmp_path: Path) -> None:
    seen = found(scene(host(tmp_path), unit=unit(WatchdogUSec="30s")))
    assert seen.keys().isdisjoint({"abort-timeout", "stop-timeout", "slow-death"})
    assert seen["restart"].level is Level.NOTE


@pytest.mark.parametrize("words", [("--no-mmap",), ("--load-mode", "none"), ("-lm", "dio")])
def test_weights_that_a_wake_will_bring_back_are_counted(tmp_path: Path, words: tuple[str, ...]) -> None:
    asleep = subject(args=(*BASE, *words), image=Image(GIB, GIB, anonymous=GIB))
    made = scene(host(tmp_path), asleep, model_bytes=8 * GIB)
    assert made.expected is not None
    assert made.expected.size == 9 * GIB
    assert "weights-absent" in found(made)
    mapped = subject(args=(*BASE, "-lm", "mmap+mlock"))
    assert scene(host(tmp_path), mapped, model_bytes=8 * GIB).expected.size == GIB  # type: ignore[union-attr]


def inspected(**changes: object) -> bytes:
    host_config = {
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "gelf-address": "udp://secret"}}
    }
    said = {"HostConfig": {**host_config, **changes}, "Config": {"StopTimeout": 60}}
    return json.dumps([said]).encode()


def test_a_container_as_its_engine_describes_it(tmp_path: Path) -> None:
    # GIVEN
    cgroup = f"0::/system.slice/docker-{ID}.scope\n"
    made = container_of(cgroup, answering({"docker": inspected(AutoRemove=True)}))
    # WHEN
    assert made is not None
    seen = found(scene(host(tmp_path), subject(outputs=("pipe:[5]",) * 2, limit=0), container=made))
    # THEN
    assert (made.stop_seconds, made.removed, made.read) == (60.0, True, True)
    assert "log-removed" in seen
    assert "max-size=10m" in (seen["log-removed"].present or "")
    assert not any("secret" in str(one) for one in seen.values())
    assert "--ulimit core=-1" in (seen["core-limit"].change or "")


@pytest.mark.parametrize("said", [b"", b"[]", b"[7]", b'[{"HostConfig": 5}]', b"\xff", b"[" * 100_000])
def test_an_engine_that_answers_nonsense_is_not_read(said: bytes) -> None:
    made = container_of(f"0::/docker/{ID}\n", answering({"docker": said}))
    assert made is None or not made.read


def test_a_container_that_could_not_be_asked_promises_nothing(tmp_path: Path) -> None:
    blind = Container("docker", ID[:12])
    seen = found(scene(host(tmp_path), subject(outputs=("pipe:[5]",) * 2, image=BIG), container=blind))
    assert seen["log-driver"].level is Level.UNREAD
    assert "its own was not read" in (seen["stop-timeout"].present or "")


def test_the_unit_is_found_by_the_cgroup_and_a_session_is_none() -> None:
    said = b"Id=llama.service\nLoadState=loaded\nRestart=always\nExecStart=secret\n"
    made = unit_of("0::/system.slice/llama.service\n", answering({"systemctl": said}))
    assert made is not None
    assert (made.name, made.properties["Restart"]) == ("llama.service", "always")
    assert "ExecStart" not in made.properties
    assert unit_of("0::/user.slice/user-0.slice/session-1.scope\n", answering({"systemctl": said})) is None
    assert unit_of("0::/system.slice/--help.service\n", answering({})) is None


@pytest.mark.parametrize(("scope", "level"), [("3", Level.RISK), ("1", Level.NOTE), ("0", None)])
def test_live_snapshots(tmp_path: Path, scope: str, level: Level | None) -> None:
    seen = found(scene(host(tmp_path, {"proc/sys/kernel/yama/ptrace_scope": f"{scope}\n"}))).get("ptrace")
    assert (seen.level if seen else None) == level
