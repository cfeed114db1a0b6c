"""A program whose own file is gone: kept in full, slimmed, and every library where it was in both tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from crash_lab import THREADS, compiled, installed, manifest, needs_gcc, needs_root, until

from collector.capture.crash.writing import CORE, FULL_CORE
from collector.capture.kept.captures import captures
from collector.capture.kept.filing import slim_full

pytestmark = [
    pytest.mark.real,
    needs_root,
    needs_gcc,
    pytest.mark.skipif(
        not shutil.which("gdb") or not shutil.which("eu-stack"), reason="the tools are missing"
    ),
]
# Waits for a line, so that its file can be deleted before its thread crashes.
WAITING = THREADS.replace("usleep(200000);", "getchar();").replace(
    "#include <string.h>", "#include <stdio.h>\n#include <string.h>"
)


def libraries(core: Path, exe: Path) -> tuple[list[str], list[str]]:
    """What gdb and elfutils say is mapped where."""
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    told = subprocess.run(
        [*words, "-ex", "info sharedlibrary", str(exe), f"--core={core}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    modules = subprocess.run(
        ["eu-unstrip", "-n", f"--core={core}"], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"^0x\w+ +0x\w+ .*$", told, re.MULTILINE), sorted(
        " ".join(line.split()[:2]) for line in modules.splitlines()
    )


def test_its_own_program_unlinked_a_full_core_is_slimmed(tmp_path: Path) -> None:
    # GIVEN a server whose program is deleted while it runs, under a handler that keeps full cores
    program = compiled(tmp_path, "llama-server", WAITING)
    original = program.read_bytes()
    with installed(mode="full") as place:
        running = subprocess.Popen([program], stdin=subprocess.PIPE, cwd=tmp_path)
        assert until(lambda: len(os.listdir(f"/proc/{running.pid}/task")) == 20)
        program.unlink()
        running.communicate(b"\n")
        capture = place.of(running.pid)
        told = manifest(capture)
        assert told["full_core"]["whole"]
        assert told["process"]["exe"]["deleted"]
        assert (capture / "exe").read_bytes() == original
        # THEN both cores show the same libraries at the same places, though the minimal one holds no
        # segment for what it leaves out
        full, slim = (libraries(capture / name, capture / "exe") for name in (FULL_CORE, CORE))
        assert full == slim
        assert any("libc.so.6" in row for row in full[0])
        assert len(full[1]) >= 4
        # AND the full core goes, because every stack is the same
        assert slim_full(captures(place.store)[0]) == f"{capture.name}: slimmed"
        assert not (capture / FULL_CORE).exists()
        stacks = subprocess.run(
            ["eu-stack", f"--core={capture / CORE}", "-e", str(capture / "exe")],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        assert stacks.count("TID ") == 21
        assert stacks.split("TID ")[1].count(" deep") == 31  # of the thread that died; others may just begin
