"""Kernel and supervisor lines."""

from __future__ import annotations

import pytest

from analyzers.contracts.facts import ExitFact, KernelFact
from analyzers.logs.kernel import parse_kernel_line
from analyzers.logs.supervisor import parse_supervisor_line

SEGFAULT = (
    "python[3004]: segfault at 170 ip 00007f7e14a22c81 sp 00007f7e0b7fc100 error 4 "
    "in xllamacpp.abi3.so[c22c81,7f7e1408f000+e03000] likely on CPU 0 (core 0, socket 0)"
)


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[  167.931895] ",
        "[Tue Dec  2 00:31:05 2025] ",
        "Dec  2 00:31:05 host kernel: ",
        "<6>[  1.000000] ",
        "Dec  2 00:31:05 host kernel: [  167.931895] ",
        "kern  :info  : [  167.931895] ",
        "2025-12-02T00:31:05.123456+00:00 host kernel: ",
    ],
)
def test_a_segfault_is_read_behind_every_prefix(prefix: str) -> None:
    assert parse_kernel_line(prefix + SEGFAULT) == KernelFact(
        shape="segfault",
        name="python",
        tid=3004,
        address=0x170,
        ip=0x7F7E14A22C81,
        sp=0x7F7E0B7FC100,
        error=4,
        object="xllamacpp.abi3.so",
        object_offset=0xC22C81,
    )


def test_an_older_kernel_gives_only_base_and_size() -> None:
    fact = parse_kernel_line(
        "llama-server[7]: segfault at 0 ip 1010 sp 20 error 4 in libc-2.31.so[1000+15b000]"
    )
    assert fact is not None
    assert fact.object_offset == 0x10


@pytest.mark.parametrize(
    ("address", "sp", "error", "overflow"),
    [
        ("7fd70a8fcff8", "00007fd70a8fd000", "6", True),
        ("7fd70a8fcff8", "00007fd70a8fd000", "4", False),
        ("7fd70a8fcff8", "00007fd70a9fd000", "6", False),
        ("170", "00007fd70a8fd000", "6", False),
    ],
)
def test_stack_overflow_is_a_user_write_at_the_stack_pointer(
    address: str, sp: str, error: str, overflow: bool
) -> None:
    fact = parse_kernel_line(f"python[3923]: segfault at {address} ip 00007fd70eab536f sp {sp} error {error}")
    assert fact is not None
    assert fact.stack_overflow is overflow


@pytest.mark.parametrize(
    ("line", "shape", "name", "tid"),
    [
        (
            "traps: python[3260] general protection fault ip:7f6e6ec22c81 sp:7f6e66ffb100 error:0 in "
            "xllamacpp.abi3.so[c22c81,7f6e6e28f000+e03000]",
            "gpf",
            "python",
            3260,
        ),
        (
            "traps: llama-server[12] trap invalid opcode ip:55 sp:7f error:0 in libggml.so[1,2+3]",
            "invalid-opcode",
            "llama-server",
            12,
        ),
        ("traps: a b[12] trap divide error ip:55 sp:7f error:0", "divide-error", "a b", 12),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/a,task_memcg=/a,"
            "task=llama-server,pid=4242,uid=0",
            "oom-kill",
            "llama-server",
            4242,
        ),
        (
            "Memory cgroup out of memory: Killed process 4242 (llama-server) total-vm:1kB, anon-rss:1kB",
            "oom-kill",
            "llama-server",
            4242,
        ),
        ("Out of memory: Killed process 4242 (llama-server) total-vm:1kB", "oom-kill", "llama-server", 4242),
        (
            "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=llama-server, GPU has fallen off the bus.",
            "gpu-fault",
            "llama-server",
            1234,
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "gpu-fault",
            "<unknown>",
            None,
        ),
        (
            "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            "gpu-fault",
            None,
            None,
        ),
        (
            "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in llama-server [1234]",
            "gpu-fault",
            "llama-server",
            1234,
        ),
        ("Pid 123(llama-server) over core_pipe_limit", "other", "llama-server", 123),
    ],
)
def test_other_shapes(line: str, shape: str, name: str | None, tid: int | None) -> None:
    fact = parse_kernel_line(line)
    assert fact is not None
    assert (fact.shape, fact.name, fact.tid) == (shape, name, tid)


def test_xid_number_is_kept() -> None:
    fact = parse_kernel_line("NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=x, GPU has fallen off the bus.")
    assert fact is not None
    assert fact.error == 79


@pytest.mark.parametrize(
    "line", ["", "Code: 48 8b", "x invoked oom-killer: gfp_mask=0x1", "he said segfault at 5"]
)
def test_other_kernel_text_is_nothing(line: str) -> None:
    assert parse_kernel_line(line) is None


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "llama.service: Main process exited, code=dumped, status=11/SEGV",
            ExitFact(by="systemd", signal=11, result="core-dump", unit="llama.service"),
        ),
        (
            "llama.service: Main process exited, code=exited, status=1/FAILURE",
            ExitFact(by="systemd", code=1, unit="llama.service"),
        ),
        (
            "llama.service: Main process exited, code=killed, status=9/KILL",
            ExitFact(by="systemd", signal=9, unit="llama.service"),
        ),
        (
            "llama.service: Failed with result 'core-dump'.",
            ExitFact(by="systemd", result="core-dump", unit="llama.service"),
        ),
        (
            "llama.service: Failed with result 'oom-kill'.",
            ExitFact(by="systemd", result="oom-kill", oom=True, unit="llama.service"),
        ),
        (
            "llama.service: Watchdog timeout (limit 30s)!",
            ExitFact(by="systemd", result="watchdog", unit="llama.service"),
        ),
        (
            "llama.service: A process of this unit has been killed by the OOM killer.",
            ExitFact(by="systemd", result="oom-kill", oom=True, unit="llama.service"),
        ),
        (
            "llama.service: Scheduled restart job, restart counter is at 5.",
            ExitFact(by="systemd", result="scheduled-restart", unit="llama.service"),
        ),
        (
            "llama.service: Start request repeated too quickly.",
            ExitFact(by="systemd", result="start-limit-hit", unit="llama.service"),
        ),
        (
            "llama.service: State 'stop-sigterm' timed out. Killing.",
            ExitFact(by="systemd", result="timeout", requested=True, unit="llama.service"),
        ),
        (
            "Stopping llama.service - A server...",
            ExitFact(by="systemd", result="stopping", requested=True, unit="llama.service"),
        ),
        ("llama-1 exited with code 139", ExitFact(by="docker", signal=11, unit="llama-1")),
        ("llama-1 exited with code 1", ExitFact(by="docker", code=1, unit="llama-1")),
        ("      Exit Code:    137", ExitFact(by="docker", signal=9)),
        ("      Reason:       OOMKilled", ExitFact(by="docker", signal=9, oom=True)),
        (
            "srv    operator(): instance name=tiny exited with status 1",
            ExitFact(by="router", code=1, unit="tiny"),
        ),
        (
            "srv           run: instance name=tiny exited with status 1",
            ExitFact(by="router", code=1, unit="tiny"),
        ),
        ("Segmentation fault (core dumped)", ExitFact(by="shell", signal=11, result="core-dump")),
        (
            "./run.sh: line 3: 12345 Segmentation fault      (core dumped) ./llama-server -m x",
            ExitFact(by="shell", signal=11, result="core-dump"),
        ),
        ("Aborted (core dumped)", ExitFact(by="shell", signal=6, result="core-dump")),
        ("Killed", ExitFact(by="shell", signal=9)),
        ("Killed by a bug", None),
        ("it exited with code x", None),
    ],
)
def test_supervisors(line: str, fact: ExitFact | None) -> None:
    assert parse_supervisor_line(line) == fact
