"""Where a process runs, by its cgroup's path."""

from __future__ import annotations

import pytest

from collector.discovery.model import Place
from collector.discovery.place import inner_pid, place_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("path", "unit", "runtime", "container"),
    [
        ("/system.slice/llama.service", "llama.service", None, None),
        ("/system.slice/system-llama.slice/llama@big.service", "llama@big.service", None, None),
        (r"/system.slice/llama\x2dserver.service", r"llama\x2dserver.service", None, None),
        ("/system.slice/_cpu.service", "cpu.service", None, None),
        ("/system.slice/llama.service/worker", "llama.service", None, None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/my.service", "my.service", None, None),
        ("/user.slice/user-1000.slice/user@1000.service", None, None, None),
        ("/user.slice/user-1000.slice/session-4.scope", None, None, None),
        ("/init.scope", None, None, None),
        (f"/system.slice/docker-{ID}.scope", None, "docker", ID),
        (f"/docker/{ID}", None, "docker", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", None, "podman", ID),
        (f"/system.slice/llama.service/libpod-payload-{ID}", "llama.service", "podman", ID),
        (f"/kubepods.slice/kubepods-burstable.slice/cri-containerd-{ID}.scope", None, "containerd", ID),
        (f"/kubepods/burstable/pod1-2/{ID}", None, "kubernetes", ID),
        (
            f"/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}",
            "containerd.service",
            "containerd",
            ID,
        ),
        (f"/kubepods.slice/crio-{ID}.scope", None, "cri-o", ID),
        ("/lxc.payload.web/system.slice/llama.service", None, "lxc", "web"),
        (
            "/machine.slice/machine-box.scope/payload/system.slice/llama.service",
            "llama.service",
            "nspawn",
            "box",
        ),
    ],
)
def test_shapes(path: str, unit: str | None, runtime: str | None, container: str | None) -> None:
    made = place_of(f"0::{path}\n")
    assert (made.unit, made.runtime, made.container) == (unit, runtime, container)
    assert made.cgroup == path


def test_the_first_version_and_both() -> None:
    old = "11:memory:/other\n1:name=systemd:/system.slice/llama.service\n"
    assert place_of(old).unit == "llama.service"
    assert place_of(old + "0::/\n").unit == "llama.service"
    assert place_of(f"5:cpu:/docker/{ID}\n").container == ID


@pytest.mark.parametrize("text", ["", "\n", "garbage", "0::", "0::/", "::::", "0::/" + "a/" * 50_000])
def test_nothing_to_be_told(text: str) -> None:
    made = place_of(text)
    assert (made.unit, made.container) == (None, None)
    assert len(made.cgroup or "") <= 4096


def test_a_path_with_escapes() -> None:
    made = place_of("0::/\x1b[31m/evil\u202e.service/x (deleted)\n")
    assert made.unit is None
    assert made.cgroup == "/?[31m/evil?.service/x"


def test_the_number_inside() -> None:
    assert inner_pid(b"Name:\tx\nNSpid:\t300\t7\t1\n") == 1
    assert inner_pid(b"NSpid:\t300\n") is None
    assert inner_pid(b"NSpid:\nrubbish") is None
    assert Place().inner_pid is None
