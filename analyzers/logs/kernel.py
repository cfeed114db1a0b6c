"""Kernel lines: segfaults, traps, the OOM killer, GPU faults. Shapes read from real kernels (6.18) and
their sources; the number in brackets is a thread id, the name may be a thread's and is cut to 15."""

from __future__ import annotations

import re

from analyzers.contracts.facts import KernelFact
from analyzers.logs.prefix import strip

STACK_REACH = 64 * 1024  # a function's first touch of a new stack page lies at most its frame below sp
WRITE_FROM_USER = 0x6  # x86 page-fault error bits: 2 = write, 4 = user mode

_NAME = r"(?P<name>.{1,64}?)\[(?P<tid>\d{1,10})\]"
_IN = (
    r"(?: in (?P<object>[^\[\n]{1,200})\[(?:(?P<offset>[0-9a-f]{1,16}),)?"
    r"(?P<base>[0-9a-f]{1,16})\+(?P<size>[0-9a-f]{1,16})\])?"
)
_SEGFAULT = re.compile(
    rf"{_NAME}: segfault at (?P<address>[0-9a-f]{{1,16}}|\(null\)) ip (?P<ip>[0-9a-f]{{1,16}}|\(null\)) "
    rf"sp (?P<sp>[0-9a-f]{{1,16}}|\(null\)) error (?P<error>[0-9a-f]{{1,8}}){_IN}.{{0,120}}"
)
_TRAP = re.compile(
    rf"(?:traps: )?{_NAME} (?P<what>general protection(?: fault)?|trap invalid opcode|trap"
    rf" divide error|trap [\w ]{{1,40}}?)"
    rf" ip:(?P<ip>[0-9a-f]{{1,16}}) sp:(?P<sp>[0-9a-f]{{1,16}}) error:"
    rf"(?P<error>[0-9a-f]{{1,8}}){_IN}.{{0,120}}"
)
_ARM = re.compile(
    rf"{_NAME}: unhandled [\w ()]{{1,60}}fault \(\d{{1,3}}\) at 0x"
    rf"(?P<address>[0-9a-f]{{1,16}}), esr 0x(?P<error>[0-9a-f]{{1,8}})"
    r"(?:, in (?P<object>[^\[\n]{1,200})\[(?P<base>[0-9a-f]{1,16})\+(?P<size>[0-9a-f]{1,16})\])?.{0,120}"
)
_OOM: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"oom-kill:constraint=.{1,2000}?,task=(?P<name>[^,\n]{1,16}),pid=(?P<tid>\d{1,10}),uid=\d{1,10}"
    ),
    re.compile(
        r"(?:Memory cgroup out|Out) of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)?"
        r" process (?P<tid>\d{1,10}),? \((?P<name>[^)\n]{1,64})\).{0,300}"
    ),
    re.compile(
        r"oom_reaper: (?:reaped|unable to reap) process (?:pid:)?(?P<tid>\d{1,10}) \("
        r"(?P<name>[^)\n]{1,64})\).{0,300}"
    ),
)
_GPU: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"NVRM: Xid \([\w:. ]{1,40}\): (?P<code>\d{1,4}),(?: pid='?(?P<tid>\d{1,10}"
        r"|<unknown>)'?,)?(?: name=(?P<name>[^,\n]{1,64}),)?.{0,300}"
    ),
    re.compile(r"NVRM: GPU [0-9a-f:.]{7,16}: GPU has fallen off the bus\..{0,200}"),
    re.compile(
        r"amdgpu [0-9a-f:.]{7,16}: (?:amdgpu: )?(?:\[drm\] )?(?:\*ERROR\* )?ring [\w.]{1,24} timeout.{0,300}"
    ),
    re.compile(r"\[drm:amdgpu_job_timedout \[amdgpu\]\] \*ERROR\* .{1,300}"),
    re.compile(
        r"(?:i915|xe) [0-9a-f:.]{7,16}: \[drm\] (?:GT\d: )?GPU HANG: ecode [0-9a-f:]{1,40}(?:,"
        r" in (?P<name>.{1,64}?) \[(?P<tid>\d{1,10})\])?.{0,200}"
    ),
)
_CORE: tuple[re.Pattern[str], ...] = (
    re.compile(r"Pid (?P<tid>\d{1,10})\((?P<name>.{1,64}?)\) over core_pipe_limit.{0,80}"),
    re.compile(r"coredump: (?P<tid>\d{1,10})\((?P<name>.{1,64}?)\): .{1,200}"),
    re.compile(r"Core dump to .{1,200}? (?:pipe failed|aborted.{0,80})|Skipping core dump.{0,80}"),
)
# About the machine, not the server. Corrected errors are left out: they harm nobody. Sources: the kernel's
# mm/memory-failure.c, block/blk-core.c, fs/ext4/super.c, drivers/nvme/host, panic.c, watchdog.c, power/.
_HOST: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "memory-corruption",
        re.compile(
            r"Memory failure: 0x[0-9a-f]{1,16}: (?:Killing|Sending SIGBUS to) "
            r"(?P<name>.{1,64}?):(?P<tid>\d{1,10}) due to hardware memory corruption.{0,120}"
        ),
    ),
    (
        "machine-check",
        re.compile(
            r"(?:mce: )?\[Hardware Error\]: CPU \d{1,4}: Machine Check Exception: .{1,200}"
            r"|(?:\{\d{1,6}\})?\[Hardware Error\]: event severity: (?:fatal|recoverable)"
        ),
    ),
    (
        "storage-error",
        re.compile(
            r"(?:blk_update_request: )?(?:critical medium|I/O) error, dev [\w-]{1,32}, sector \d.{0,200}"
            r"|Buffer I/O error on dev(?:ice)? [\w-]{1,32}, logical block .{1,200}"
            r"|(?:EXT4|BTRFS|F2FS)-fs error \(device [\w-]{1,32}\).{0,300}"
            r"|XFS \([\w-]{1,32}\): (?:metadata I/O error|log I/O error|Corruption of).{0,200}"
            r"|nvme nvme\d{1,4}: controller is down; will reset.{0,120}"
            r"|nfs: server \S{1,200} not responding, (?:still trying|timed out)"
        ),
    ),
    ("panic", re.compile(r"Kernel panic - not syncing: .{1,300}")),
    (
        "lockup",
        re.compile(
            r"watchdog: BUG: soft lockup - CPU#\d{1,5} stuck for \d{1,6}s!.{0,120}"
            r"|(?:NMI )?watchdog: Watchdog detected hard LOCKUP on cpu \d{1,5}.{0,60}"
        ),
    ),
    ("suspend", re.compile(r"PM: suspend entry \([\w-]{1,20}\)|PM: hibernation: hibernation entry")),
    ("resume", re.compile(r"PM: suspend exit|PM: hibernation: hibernation exit")),
    ("boot", re.compile(r"Linux version \d{1,3}\.\d{1,4}\.\S{1,120} \(.{1,400}")),
)
_SHAPES = {
    "general protection": "gpf",
    "trap invalid opcode": "invalid-opcode",
    "trap divide error": "divide-error",
}


def parse_kernel_line(text: str) -> KernelFact | None:
    """The fact of one kernel line, with or without dmesg, kern.log or journal prefix; None for all others.

    For an NVIDIA Xid ``error`` is the Xid number. ``stack_overflow``: a user-mode write within
    STACK_REACH of the stack pointer.
    """
    return parse_kernel_body(strip(text[:4096])[1])


def parse_kernel_body(body: str) -> KernelFact | None:
    """The same for a line whose prefixes are already gone."""
    return _fault(body) or _oom(body) or _gpu(body) or _core(body) or _host(body)


def _fault(body: str) -> KernelFact | None:
    match = _SEGFAULT.fullmatch(body)
    if match is not None:
        return _faulted("segfault", match, _hex(match["address"]), _hex(match["ip"]), _hex(match["sp"]))
    match = _TRAP.fullmatch(body)
    if match is not None:
        shape = next((s for start, s in _SHAPES.items() if match["what"].startswith(start)), "other")
        return _faulted(shape, match, None, _hex(match["ip"]), _hex(match["sp"]))
    match = _ARM.fullmatch(body)
    return _faulted("segfault", match, _hex(match["address"]), None, None) if match else None


def _faulted(
    shape: str, match: re.Match[str], address: int | None, ip: int | None, sp: int | None
) -> KernelFact:
    error = int(match["error"], 16)
    return KernelFact(
        shape=shape,
        name=match["name"],
        tid=int(match["tid"]),
        address=address,
        ip=ip,
        sp=sp,
        error=error,
        object=match["object"],
        object_offset=_offset(match.groupdict(), ip),
        stack_overflow=is_stack_overflow(address, sp, error),
    )


def is_stack_overflow(address: int | None, sp: int | None, error: int | None) -> bool:
    """A user-mode write right at the stack pointer: the stack's guard page was reached."""
    if address is None or sp is None or error is None or error & WRITE_FROM_USER != WRITE_FROM_USER:
        return False
    return abs(address - sp) <= STACK_REACH


def _offset(found: dict[str, str | None], ip: int | None) -> int | None:
    offset, base = found.get("offset"), found.get("base")
    if offset:
        return int(offset, 16)
    if base and ip is not None and ip >= int(base, 16):
        return ip - int(base, 16)
    return None


def _oom(body: str) -> KernelFact | None:
    return _named("oom-kill", _OOM, body)


def _gpu(body: str) -> KernelFact | None:
    return _named("gpu-fault", _GPU, body)


def _core(body: str) -> KernelFact | None:
    return _named("other", _CORE, body)


def _host(body: str) -> KernelFact | None:
    return next((found for shape, pattern in _HOST if (found := _named(shape, (pattern,), body))), None)


def _named(shape: str, patterns: tuple[re.Pattern[str], ...], body: str) -> KernelFact | None:
    match = next((m for m in (p.fullmatch(body) for p in patterns) if m), None)
    if match is None:
        return None
    found = match.groupdict()
    tid, code = found.get("tid") or "", found.get("code")
    return KernelFact(
        shape=shape,
        name=found.get("name"),
        tid=int(tid) if tid.isdecimal() else None,
        error=int(code) if code else None,
    )


def _hex(text: str) -> int:
    return 0 if text == "(null)" else int(text, 16)
