"""eu-stack's command line and bounds, apart from its parser: what starts it early must import little."""

from __future__ import annotations

from pathlib import Path

from analyzers.stacks import confine

TOOL = "eu-stack"
SYSTEM_SYMBOLS = "/usr/lib/debug"  # elfutils' default, which an explicit search path replaces
# Frames per thread. A route handler's whole stack is 16-25 frames; unwinding is quadratic in depth, and
# 64 frames of an endless recursion cost 10 ms where 256 cost 150 ms.
FIRST_FRAMES = 64
DEEP_FRAMES = 256  # asked for once more when a stack is deep without being a recursion
SECONDS = 20.0  # a cold cache on a slow disk took 0.9 s; this is for a tool that hangs
MEMORY_BYTES = 192 << 20  # private memory; measured 24 MB resident
OUTPUT_BYTES = 32 << 20  # 1,000 threads of 256 frames with long template names


def eu_stack(path: str, exe: str | Path | None, frames: int, symbols: Path | None = None) -> list[str] | None:
    """The arguments that unwind all threads of the core at ``path``; None where the tool is missing.

    ``symbols``: a folder with ``.build-id``, searched before the system's own.
    """
    tool = confine.find_tool(TOOL)
    if tool is None:
        return None
    search = [f"--debuginfo-path=:.debug:{symbols}:{SYSTEM_SYMBOLS}"] if symbols else []
    program = ["-e", str(exe)] if exe else []
    return [tool, f"--core={path}", "-n", str(frames), "-m", "-b", *search, *program]
