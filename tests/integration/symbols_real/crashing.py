"""Small C programs that crash in a shared library, built here, run at whatever base the kernel chooses."""

from __future__ import annotations

import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

LIBRARY = """
__attribute__((noinline)) static int read_it(int *where) { return *where + 1; }
__attribute__((noinline)) static int wanted(int *where) { return read_it(where) + 2; }
int (*const volatile table[])(int *) = {wanted};
"""
PROGRAM = """
extern int (*const volatile table[])(int *);
__attribute__((noinline)) static int serve(int *where) { return table[0](where) + 3; }
int main(int count, char **args) { return serve((int *)(long)(count + 15)) + count; }
"""
# gdb's manual, "Which flavor to choose?": byte 4 announces Python text in the object itself.
SCRIPT = """
__asm__(".pushsection \\".debug_gdb_scripts\\", \\"MS\\",@progbits,1\\n"
        ".byte 4\\n.ascii \\"inlined\\\\nopen('{marker}', 'w').write('ran')\\\\n\\"\\n.byte 0\\n.popsection");
"""
SECONDS = 30.0


@dataclass(frozen=True)
class Crash:
    """One core and the folder it was made in."""

    core: Path
    folder: Path
    program: Path
    library: Path


def tools(*names: str) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def build(folder: Path, *, pie: bool = True, extra: str = "") -> tuple[Path, Path]:
    """(program, library) with debug information."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lib.c").write_text(LIBRARY)
    (folder / "main.c").write_text(PROGRAM + extra)
    flags = ["-O1", "-g", "-Wl,--build-id", "-fomit-frame-pointer"]
    library, program = folder / "libllama.so", folder / "llama-server"
    gcc(["-shared", "-fPIC", *flags, "-o", str(library), str(folder / "lib.c")])
    kind = ["-pie", "-fPIE"] if pie else ["-no-pie"]
    search = [f"-L{folder}", "-l:libllama.so", "-Wl,-rpath,$ORIGIN"]
    gcc([*kind, *flags, "-o", str(program), str(folder / "main.c"), *search])
    return program, library


def gcc(arguments: list[str]) -> None:
    subprocess.run(["gcc", *arguments], check=True, timeout=SECONDS, capture_output=True)


def strip(*paths: Path) -> None:
    subprocess.run(["strip", "--strip-all", *map(str, paths)], check=True, timeout=SECONDS)


def crash(program: Path, library: Path, folder: Path) -> Crash:
    """Copy the build to ``folder``, as on another host, and let it crash there."""
    folder.mkdir(parents=True, exist_ok=True)
    here = [Path(shutil.copy2(path, folder / path.name)) for path in (program, library)]
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    done = subprocess.run(
        [str(here[0])],
        cwd=folder,
        timeout=SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited),
    )
    assert done.returncode == -11
    found = [path for path in folder.iterdir() if path.name.startswith("core")]
    if not found:
        pytest.skip("this machine's core_pattern leaves no core in the current folder")
    return Crash(found[0], folder, *here)
