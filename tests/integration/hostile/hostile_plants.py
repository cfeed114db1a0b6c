"""A crashed program whose files ask gdb to run code, in every way that gdb knows.

Each plant makes the canary file when its code is run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Entry 4 of the section is a Python script in the file itself (gdb's manual, "dotdebug_gdb_scripts section").
SOURCE = r"""
asm(".pushsection \".debug_gdb_scripts\", \"MS\", @progbits, 1\n"
    ".byte 4\n"
    ".ascii \"gdb.inlined-script\\n\"\n"
    ".ascii \"open('%(canary)s', 'w').close()\\n\"\n"
    ".byte 0\n"
    ".popsection\n");
int llama_planted(int *where) { return *where; }
int main(void) { return llama_planted((int *)8); }
"""
PLAIN = (
    "int llama_planted(int *where) { return *where; }\nint main(void) { return llama_planted((int *)8); }\n"
)
PYTHON = "open({canary!r}, 'w').close()\n"
GDB = "shell touch {canary}\n"
OFF = ["-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]


@dataclass(frozen=True)
class Scene:
    """``program`` and the ``core`` it left, the folders gdb looks into, and the file no code may make."""

    folder: Path
    program: Path
    core: Path
    canary: Path

    @property
    def cwd(self) -> Path:
        return self.folder / "cwd"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def symbols(self) -> Path:
        return self.folder / "symbols"


def scene(folder: Path, source: str = PLAIN) -> Scene:
    """A compiled program and its core, taken by a gdb that runs nothing of its."""
    made = Scene(folder, folder / "planted-server", folder / "core", folder / "canary")
    for place in (made.cwd, made.home, made.symbols):
        place.mkdir(parents=True)
    text = folder / "planted.c"
    text.write_text(source % {"canary": made.canary} if "%(" in source else source)
    subprocess.run(["gcc", "-g", "-O0", "-Wl,--build-id", "-o", made.program, text], check=True)
    words = [*OFF, "-ex", "run", "-ex", f"generate-core-file {made.core}", str(made.program)]
    subprocess.run(["gdb", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert made.core.exists()
    folder.chmod(0o777)  # whatever user a tool is run as, nothing but its settings keeps code from the canary
    assert not made.canary.exists()
    return made


def section(folder: Path) -> Scene:
    """A script inside the program."""
    return scene(folder, SOURCE)


def beside(folder: Path) -> Scene:
    """NAME-gdb.py beside the program."""
    made = scene(folder)
    (folder / "planted-server-gdb.py").write_text(PYTHON.format(canary=str(made.canary)))
    return made


def beside_gdb(folder: Path) -> Scene:
    """NAME-gdb.gdb beside the program."""
    made = scene(folder)
    (folder / "planted-server-gdb.gdb").write_text(GDB.format(canary=made.canary))
    return made


def in_cwd(folder: Path) -> Scene:
    """.gdbinit in the folder that the command is run in."""
    made = scene(folder)
    (made.cwd / ".gdbinit").write_text(GDB.format(canary=made.canary))
    return made


def in_home(folder: Path) -> Scene:
    """.gdbinit in the home folder."""
    made = scene(folder)
    (made.home / ".gdbinit").write_text(GDB.format(canary=made.canary))
    return made


def in_config(folder: Path) -> Scene:
    """gdb/gdbinit in the configuration folder."""
    made = scene(folder)
    (made.home / ".config" / "gdb").mkdir(parents=True)
    (made.home / ".config" / "gdb" / "gdbinit").write_text(GDB.format(canary=made.canary))
    return made


def in_symbols(folder: Path) -> Scene:
    """A debug file with a script inside and scripts beside it, in a folder of symbols."""
    made = scene(folder, SOURCE)
    told = subprocess.run(["readelf", "-n", made.program], check=True, capture_output=True, text=True)
    build_id = told.stdout.split("Build ID:")[1].split()[0]
    place = made.symbols / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    debug = place / f"{build_id[2:]}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", made.program, debug], check=True)
    (place / f"{debug.name}-gdb.py").write_text(PYTHON.format(canary=str(made.canary)))
    (place / f"{debug.name}-gdb.gdb").write_text(GDB.format(canary=made.canary))
    subprocess.run(["strip", "--strip-all", "-R", ".debug_gdb_scripts", made.program], check=True)
    return made


PLANTS: tuple[Callable[[Path], Scene], ...] = (
    *(section, beside, beside_gdb, in_cwd, in_home, in_config, in_symbols),
)


def plain_gdb(made: Scene, *words: str, env: dict[str, str] | None = None) -> str:
    """What a trusting user's gdb does with it: everything allowed, the symbols' folder known."""
    trusting = [
        "-iex",
        "set auto-load safe-path /",
        "-iex",
        f"set debug-file-directory {made.symbols}",
        *words,
    ]
    done = subprocess.run(
        ["gdb", "-batch", *trusting, "-ex", "bt", str(made.program), str(made.core)],
        cwd=made.cwd,
        env={**os.environ, "HOME": str(made.home), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr
