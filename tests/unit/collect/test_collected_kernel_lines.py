"""Of the kernel's lines a bundle takes the server's and the machine's, not other programs'."""

from __future__ import annotations

import pytest

from collector.gather.kernellines import of_server_or_machine
from collector.sources.kernel import KernelLine

OWN = "llama-server[4712]: segfault at 8 ip 000055 sp 00007f error 6 in llama-server[55,1000+2000]"
OTHER = "payroll[99]: segfault at 8 ip 000055 sp 00007f error 6 in payroll[55,1000+2000]"
CODE = "Code: 48 89 e5 <c7> 04 25"


def kept(*told: tuple[float, str]) -> list[str]:
    lines = [KernelLine(mono, text) for mono, text in told]
    return [line.text for line in of_server_or_machine(lines, frozenset({4711, 4712}))]


def test_its_own_fault_and_what_follows_it() -> None:
    assert kept((1.0, OWN), (1.0, CODE), (1.0, OTHER), (1.0, CODE), (9.0, "eth0: link up")) == [OWN, CODE]


@pytest.mark.parametrize(
    "text",
    [
        "mypayroll invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "amdgpu 0000:03:00.0: ring gfx timeout",
        "I/O error, dev sda, sector 123456 op 0x0:(READ)",
        "llama-blackbox: PID 4713 was not captured: no space",
        "audit: type=1701 auid=0 pid=4711 comm=x",
    ],
)
def test_the_machine_s_troubles_and_lines_that_name_it(text: str) -> None:
    assert kept((1.0, text)) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "audit: type=1701 auid=0 pid=471 comm=payroll",
        "docker0: port 1(veth47110) entered blocking state",
        "IPv4: martian source 10.0.0.1",
        OTHER,
    ],
)
def test_other_programs_lines_stay_where_they_are(text: str) -> None:
    assert kept((1.0, text)) == []
