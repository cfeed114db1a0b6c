"""A cache for each test, a small tree shaped like llama.cpp's server, and tools that only pretend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "skeleton"
# What the pretended cmake and ninja print and do; "$@" decides.
CMAKE = """#!/bin/sh
case "$1" in --version) echo "cmake version 3.99.0"; exit 0;; esac
{configure}
mkdir -p build/bin && echo "CMAKE_CXX_COMPILER:FILEPATH=$(command -v c++)" > build/CMakeCache.txt
touch build/build.ninja
"""
NINJA = """#!/bin/sh
[ -n "$CCACHE_STATSLOG" ] && printf '# a\\ndirect_cache_hit\\n# b\\ncache_miss\\n' > "$CCACHE_STATSLOG"
echo "[1/2] Building CXX object server.cpp.o"
{build}
printf '#!/bin/sh\\ncat {source}\\n' > build/bin/llama-server && chmod +x build/bin/llama-server
echo "[2/2] Linking CXX executable bin/llama-server"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache folder of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "llama-blackbox"


@pytest.fixture
def skeleton(tmp_path):
    """A writable tree with the declarations the fixes look for, as b11138 has them."""
    tree = tmp_path / "mine"
    server = tree / "tools" / "server"
    server.mkdir(parents=True)
    (tree / "CMakeLists.txt").write_text("project(llama.cpp)\n")
    for file in FILES.iterdir():
        (server / file.name.removesuffix(".txt")).write_text(file.read_text())
    return tree


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Puts pretended tools first on PATH; call it with shell lines to run while configuring or building."""

    def make(*, configure: str = ":", build: str = ":") -> Path:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        scripts = {
            "cmake": CMAKE.format(configure=configure),
            "ninja": NINJA.format(build=build, source="llama.cpp/CMakeLists.txt"),
            "c++": "#!/bin/sh\necho 'pretend c++ 99.1'\n",
            "cc": "#!/bin/sh\necho 'pretend cc 99.1'\n",
        }
        for name, text in scripts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
        return folder

    return make
