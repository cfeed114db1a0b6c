"""Device memory of a server's process: from the driver's own accounting under /proc, or from NVML.

fdinfo keys: Documentation/gpu/drm-usage-stats.rst of the kernel. NVML is used where its Python binding
(nvidia-ml-py) is installed; without it an NVIDIA card's memory is simply not told.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.contracts.watched import MemoryFact
from analyzers.logs.text import visible
from collector.sources.procfs import PROC

MAX_FDS = 4096
_FDINFO = 1 << 14  # bytes of one fdinfo file; an amdgpu one has 1.5 KB
_LINE = re.compile(rb"drm-(?:resident|memory|total)-(\w{1,32}):\s+(\d{1,15})(?: (KiB|MiB))?")
_UNITS = {b"": 1, b"KiB": 1 << 10, b"MiB": 1 << 20}
# A region of the card; what lies in the host's memory (gtt, system, cpu) is not the device's.
_DEVICE_REGION = re.compile(rb"vram\d*|local\d*|stolen")
_ORDER = (b"drm-resident-", b"drm-memory-", b"drm-total-")


@dataclass(frozen=True)
class Held:
    """Bytes that one process holds on one device; ``free`` what the device has left, where that is told."""

    device: str
    bytes: int
    free: int | None = None


def device_memory(pid: int, *, proc: Path = PROC, nvml: Any = None) -> list[Held]:
    """Every device's share of process ``pid``; empty where no driver tells. Raises nothing."""
    return [*_drm(proc / str(pid) / "fdinfo"), *_nvidia(pid, nvml if nvml is not None else nvml_module())]


def _drm(folder: Path) -> list[Held]:
    """A client that is open more than once has one id and counts once."""
    clients: dict[tuple[str, bytes], int] = {}
    with suppress(OSError):
        for name in os.listdir(folder)[:MAX_FDS]:
            with suppress(OSError):
                text = _read(folder / name)
                if b"drm-driver:" in text:
                    device, client = _named(text)
                    clients[device, client] = max(clients.get((device, client), 0), _bytes(text))
    sums: dict[str, int] = {}
    for (device, _), size in clients.items():
        sums[device] = sums.get(device, 0) + size
    return [Held(device, size) for device, size in sorted(sums.items())]


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _FDINFO)
    finally:
        os.close(descriptor)


def _named(text: bytes) -> tuple[str, bytes]:
    rows = dict(_pairs(text))
    device = rows.get(b"drm-pdev") or rows.get(b"drm-driver") or b"device"
    return visible(device.decode("ascii", "replace"), 64), rows.get(b"drm-client-id", b"")


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in text.splitlines():
        name, colon, value = line.partition(b":")
        if colon:
            yield name, value.strip()


def _bytes(text: bytes) -> int:
    """Resident bytes on the card; older drivers say memory, others only what was allocated."""
    for start in _ORDER:
        sizes = [
            int(match[2]) * _UNITS[match[3] or b""]
            for line in text.splitlines()
            if line.startswith(start)
            and (match := _LINE.fullmatch(line.strip())) is not None
            and _DEVICE_REGION.fullmatch(match[1])
        ]
        if sizes:
            return sum(sizes)
    return 0


@cache
def nvml_module() -> Any:
    """NVML's binding, started; None where it or its driver is not here."""
    try:
        pynvml: Any = import_module("pynvml")
        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - a binding without its driver fails in its own ways
        return None
    return pynvml


def _nvidia(pid: int, nvml: Any) -> list[Held]:
    found: list[Held] = []
    if nvml is None:
        return found
    with suppress(Exception):
        for number in range(nvml.nvmlDeviceGetCount()):
            card = nvml.nvmlDeviceGetHandleByIndex(number)
            used = [
                one.usedGpuMemory
                for one in nvml.nvmlDeviceGetComputeRunningProcesses(card)
                if one.pid == pid and one.usedGpuMemory
            ]
            if used:
                found.append(Held(f"nvidia{number}", sum(used), int(nvml.nvmlDeviceGetMemoryInfo(card).free)))
    return found


def device_evidence(pid: int, who: Incarnation, *, phase: str, cycle: int | None = None) -> list[Evidence]:
    """``phase`` awake | asleep, as the caller knows it; ``cycle`` how often it has slept."""
    mono = time.monotonic()
    return [
        to_evidence(
            MemoryFact(
                where="device",
                device=held.device,
                phase=phase,
                cycle=cycle,
                bytes=held.bytes,
                free_bytes=held.free,
            ),
            id=f"device-{held.device}-{pid}-{int(mono * 1000)}",
            source=f"driver's accounting of process {pid}",
            text=f"{phase}: {held.bytes / (1 << 20):.1f} MiB on {held.device}",
            trust=Trust.KERNEL,
            wall=time.time(),
            mono=mono,
            incarnation=who,
        )
        for held in device_memory(pid)
    ]
