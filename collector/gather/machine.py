"""The machine around the server: versions, GPU, limits, container, where cores go. Context for people."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from analyzers.contracts.report import Host
from analyzers.version import __version__
from collector.gather.haul import Haul
from collector.gather.tools import read_text, run
from collector.sources.procfs import GoneError, Process

CGROUP = Path("/sys/fs/cgroup")
KERNEL_SETTINGS = (
    *("kernel/core_pattern", "kernel/core_pipe_limit", "kernel/core_uses_pid", "fs/suid_dumpable"),
    *("kernel/yama/ptrace_scope", "kernel/dmesg_restrict", "kernel/print-fatal-signals"),
    *("vm/overcommit_memory", "vm/max_map_count", "vm/swappiness"),
)
CGROUP_FILES = (
    *("memory.current", "memory.peak", "memory.high", "memory.max", "memory.swap.max", "memory.events"),
    *("cpu.max", "cpu.stat", "pids.current", "pids.max", "memory.pressure", "io.pressure", "cpu.pressure"),
)
COREDUMP_CONF = ("/etc/systemd/coredump.conf", "/usr/lib/systemd/coredump.conf")
# Read-only questions; each bounded by itself.
GPU_TOOLS: tuple[tuple[str, ...], ...] = (
    (
        "nvidia-smi",
        "--query-gpu=index,name,driver_version,memory.total,memory.used,memory.free,utilization.gpu,pstate",
        "--format=csv",
    ),
    ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv"),
    ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showpids"),
    ("xpu-smi", "discovery"),
)
GPU_NODES = (("/dev/nvidia0", "nvidia-smi"), ("/dev/kfd", "rocm-smi"))
_CONTAINER = re.compile(r"(docker|libpod|cri-containerd|crio|lxc)[-/.:]?(?:payload\.)?([0-9a-f]{12,64})?")
_DRM = re.compile(rb"^drm-[\w-]{1,40}:.{1,80}$", re.MULTILINE)
MAX_FDINFO = 4096


def machine(haul: Haul) -> None:
    """What is the same for every process of the host."""
    libc = " ".join(part for part in platform.libc_ver() if part) or None
    haul.host = Host(arch=platform.machine(), libc=libc, kernel=platform.release(), gpu=_gpu_name())
    haul.context("versions.txt", "\n".join(_versions(libc)) + "\n")
    haul.context("kernel-settings.txt", "".join(_kernel_settings()))
    haul.context("coredump.conf", next(filter(None, (read_text(Path(p)) for p in COREDUMP_CONF)), None))
    _gpu(haul)


def _versions(libc: str | None) -> Iterator[str]:
    yield f"llama-blackbox {__version__}"
    yield f"kernel {platform.release()} {platform.version()} {platform.machine()}"
    yield f"libc {libc or 'unknown'}"
    release = read_text(Path("/etc/os-release"), 1 << 14) or b""
    for line in release.decode("utf-8", "replace").splitlines():
        if line.startswith(("PRETTY_NAME=", "VERSION_ID=")):
            yield line
    systemd = run(["systemctl", "--version"]).out.decode("utf-8", "replace").splitlines()
    yield systemd[0] if systemd else "no systemd"
    yield f"cpus {os.cpu_count()}"
    memory = read_text(Path("/proc/meminfo"), 1 << 14) or b""
    yield from memory.decode("ascii", "replace").splitlines()[:5]


def _kernel_settings() -> Iterator[str]:
    for name in KERNEL_SETTINGS:
        value = read_text(Path("/proc/sys") / name, 4096)
        text = "not there" if value is None else value.decode("utf-8", "replace").strip()
        yield f"{name.replace('/', '.')} = {text}\n"


def _gpu_name() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    ran = run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return ran.out.decode("utf-8", "replace").splitlines()[0][:100] if ran.ok and ran.out.strip() else None


def _gpu(haul: Haul) -> None:
    said = []
    for argv in GPU_TOOLS:
        ran = run(argv)
        if ran.outcome == "missing":
            continue
        if ran.ok:
            said.append(f"$ {' '.join(argv)}\n{ran.out.decode('utf-8', 'replace')}\n")
        else:
            haul.gap("GPU state", f"{argv[0]}: {ran.why}", " ".join(argv))
    for node, tool in GPU_NODES:
        if Path(node).exists() and shutil.which(tool) is None:
            haul.gap("GPU state", f"there is a GPU ({node}) and {tool} is not installed", tool)
    haul.context("gpu.txt", "".join(said) or "no tool of a GPU driver is installed\n")


def process_context(haul: Haul, pid: int) -> None:
    """What /proc says of one living process: mappings, limits, cgroup, descriptors, device memory."""
    try:
        with Process(pid) as process:
            for name in ("maps", "limits", "cgroup", "status", "io", "sched", "oom_score_adj", "mountinfo"):
                _take(haul, process, name)
            for name in ("environ", "cmdline"):
                _take(haul, process, name, kind=name)
            haul.context("device-memory.txt", _device_memory(process))
            groups = process.read("cgroup").decode("utf-8", "replace")
    except GoneError:
        haul.gap("what /proc says of the process", f"process {pid} is gone")
        return
    haul.context("cgroup-limits.txt", cgroup_limits(groups))
    haul.context("container.txt", container_of(groups))


def _take(haul: Haul, process: Process, name: str, kind: str | None = None) -> None:
    try:
        data = process.read(name)
    except (PermissionError, GoneError):
        haul.gap(f"{name} of the process", "another user's process", f"sudo cat /proc/{process.pid}/{name}")
        return
    except OSError:
        return
    if kind is None:
        haul.context(f"{name}.txt", data)
    else:
        haul.context(name, data, kind)


def _device_memory(process: Process) -> bytes:
    """What the kernel's DRM drivers count for this process, per open device."""
    found: dict[bytes, None] = {}
    try:
        numbers = process.names("fdinfo")[:MAX_FDINFO]
    except (PermissionError, GoneError):
        return b""
    for number in numbers:
        try:
            text = process.read(f"fdinfo/{number}")
        except (PermissionError, GoneError, OSError):
            continue
        if b"drm-" in text:
            found.update(dict.fromkeys([b"\n".join(_DRM.findall(text)) + b"\n\n"]))
    return b"".join(found)


def cgroup_limits(groups: str) -> str:
    """Memory, CPU and task limits of the cgroup that ``/proc/PID/cgroup`` names, its parents included."""
    path = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    if path is None or ".." in path.split("/"):
        return ""
    parts = [part for part in path.split("/") if part]
    rows = []
    for depth in range(len(parts), 0, -1):
        folder = CGROUP.joinpath(*parts[:depth])
        for name in CGROUP_FILES:
            value = read_text(folder / name, 4096)
            if value:
                flat = " | ".join(value.decode("ascii", "replace").split("\n")).strip(" |")
                rows.append(f"{'/'.join(parts[:depth])}: {name} = {flat}\n")
    return "".join(rows)


def container_of(groups: str) -> str | None:
    """One line when the process runs in a container of a known engine."""
    found = _CONTAINER.search(groups)
    return f"container: engine {found[1]}, id {found[2] or 'unknown'}\n" if found else None


def container_id(groups: str) -> str | None:
    """The id of the container, where the cgroup's name has it."""
    found = _CONTAINER.search(groups)
    return found[2] if found else None
