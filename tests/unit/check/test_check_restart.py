"""Who starts a crashed server again, and whether that would really happen."""

from __future__ import annotations

import os

import pytest
from check_scenes import unit

from collector.check.model import Level
from collector.check.restart import Restart, restart_of
from collector.check.supervisor import Container, container_of, unit_name

PID = 4711


def by_unit(sleep: int | None = None, **properties: str) -> Restart:
    rows = {"MainPID": str(PID), "StartLimitBurst": "5", "StartLimitIntervalUSec": "10s", **properties}
    return restart_of("standalone", unit(**rows), None, PID, parent=1, sleep=sleep)


@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        *(("always", "yes"), ("on-failure", "yes"), ("on-abnormal", "yes"), ("on-abort", "yes")),
        *(("no", "no"), ("", "no"), ("on-success", "no"), ("on-watchdog", "no")),
    ],
)
def test_which_policies_act_on_a_signal(policy: str, fires: str) -> None:
    made = by_unit(Restart=policy)
    assert made.fires == fires
    assert (made.finding.level is Level.RISK) == (fires == "no")
    if fires == "no":
        assert "Restart=on-failure in /etc/systemd/system/llama.service.d" in (made.finding.change or "")


@pytest.mark.parametrize(
    ("properties", "fires"),
    [
        ({"RestartPreventExitStatus": "3 SEGV"}, "no"),
        ({"SuccessExitStatus": "SIGABRT"}, "no"),
        ({"SuccessExitStatus": "SEGV", "Restart": "always"}, "yes"),
        ({"SuccessExitStatus": "143"}, "yes"),
        ({"MainPID": "12"}, "unknown"),
    ],
)
def test_what_keeps_a_policy_from_firing(properties: dict[str, str], fires: str) -> None:
    assert by_unit(**properties).fires == fires


def test_the_start_limit_and_how_fast_sleep_can_crash() -> None:
    # GIVEN five starts in ten seconds, and a restart after 0.1 s
    assert "stays down" in by_unit().finding.why
    assert "RestartSec=3" in (by_unit().finding.change or "")
    # THEN a server that must idle for a minute first cannot reach it, nor one without a limit
    assert "too rarely" in by_unit(sleep=60).finding.why
    assert "no start limit" in by_unit(StartLimitIntervalUSec="0").finding.why


def test_a_child_is_back_at_the_next_request_only() -> None:
    made = restart_of("child", unit(), None, PID)
    assert (made.by, made.fires) == ("router", "at-next-request")


def test_containers() -> None:
    def made(container: Container, inner: int | None = 1) -> Restart:
        return restart_of("standalone", None, container, PID, inner_pid=inner)

    assert made(Container("docker", "abc")).fires == "unknown"
    assert made(Container("docker", "abc", read=True, restart="no")).fires == "no"
    assert made(Container("docker", "abc", read=True, restart="always")).fires == "yes"
    assert made(Container("docker", "abc", read=True, restart="always"), inner=7).fires == "unknown"
    assert made(Container("containerd", "abc", kubernetes=True)).by == "kubernetes"


def test_the_policy_as_docker_says_it() -> None:
    from check_scenes import answering

    said = b'[{"HostConfig": {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}}]'
    found = container_of(f"0::/system.slice/docker-{'a' * 64}.scope\n", answering({"docker": said}))
    assert found is not None
    assert (found.restart, found.restart_most) == ("on-failure", 3)
    hostile = b'[{"HostConfig": {"RestartPolicy": {"Name": ["x"], "MaximumRetryCount": "y"}}}]'
    odd = container_of(f"0::/system.slice/docker-{'a' * 64}.scope\n", answering({"docker": hostile}))
    assert odd is None or odd.restart_most == 0


def test_a_unit_that_nobody_can_be_asked_about() -> None:
    name = unit_name("0::/system.slice/llama.service\n")
    assert name == "llama.service"
    made = restart_of("standalone", None, None, PID, unit_named=name)
    assert (made.fires, made.finding.level) == ("unknown", Level.UNREAD)
    assert unit_name("0::/user.slice/session-1.scope\n") is None


def test_without_anybody_and_below_another_program() -> None:
    assert restart_of("standalone", None, None, PID, parent=1).fires == "no"
    assert restart_of("standalone", None, None, PID, parent=1).finding.level is Level.RISK
    assert restart_of("standalone", None, None, PID, parent=os.getpid()).fires == "unknown"
