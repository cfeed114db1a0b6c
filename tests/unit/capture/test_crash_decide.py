"""Ours or not, by the name of the executed file and the files it has mapped."""

from __future__ import annotations

from typing import Any

import pytest

from collector.capture.crash.decide import server_mark

LIBRARY = b"7f00-7f01 r-xp 0 00:00 1 /opt/lib/libggml-base.so.0\n"


class Dying:
    """A process as the decision looks at it; its program is too small to be searched for texts."""

    def __init__(self, name: str, maps: bytes = b"") -> None:
        self.name, self.maps = name, maps

    def link(self, _name: str) -> str:
        return f"/srv/bin/{self.name}"

    def read(self, name: str, _most: int = 0) -> bytes:
        return self.maps if name == "maps" else b""

    def open(self, _name: str) -> int:
        import os

        return os.open("/dev/null", os.O_RDONLY)


def mark(name: str, maps: bytes = b"") -> str | None:
    dying: Any = Dying(name, maps)
    return server_mark(dying)


@pytest.mark.parametrize(
    "name",
    [
        *("llama-server", "llama_server", "llamaserver", "llama.server", "llama-server (deleted)"),
        *("llama-server-cuda", "llama-server-cuda12", "llama-server-b11138", "llama-server-4df29be4f"),
        *("ollama_llama_server", ".llama-server-wrapped", "llama-server.real", "llama-server-vulkan-b9000"),
    ],
)
def test_a_server_by_its_name_alone(name: str) -> None:
    assert mark(name) == f"program {name.removesuffix(' (deleted)')}"


@pytest.mark.parametrize(
    "name",
    [
        *("my-llama-server-proxy", "llama-server-exporter", "wait-for-llama-server", "llama-server-watchdog"),
        *("llama-serverless", "llamaservers", "llama-observer", "llama", "python3"),
    ],
)
def test_a_program_about_the_server_keeps_its_core(name: str) -> None:
    assert mark(name) is None


def test_a_server_of_another_name_is_known_by_the_libraries() -> None:
    assert mark("team7-llama-server", LIBRARY) == "program team7-llama-server with llama.cpp's libraries"
    assert mark("another", LIBRARY) is None
