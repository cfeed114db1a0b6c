"""kernel.core_pattern in its three shapes, and who takes the core."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from collector.check.host import Host

NONE, FILE, PIPE, SOCKET = "none", "file", "pipe", "socket"
SYSTEMD, APPORT, ABRT, OURS, OTHER = "systemd-coredump", "apport", "abrt", "llama-blackbox", "another handler"
_MADE_FOR_NOTHING = ("false", "true", "null")
_SPECIFIER = re.compile(r"%(.)")


@dataclass(frozen=True)
class Pattern:
    """``kind``: none | file | pipe | socket. ``path``: the file's pattern, the handler's program, or the
    socket; ``handshake`` of the ``@@`` shape. ``named_by_pid``: each core of one thread has its own name."""

    text: str
    kind: str
    path: str = ""
    handler: str = ""
    handshake: bool = False
    named_by_pid: bool = True

    @property
    def where(self) -> str:
        """Where cores go, in words."""
        if self.kind == FILE:
            place = "" if self.path.startswith("/") else " in the server's working folder"
            return f"to a plain file ({self.path}){place}"
        return {PIPE: f"by {self.handler}", SOCKET: f"to the socket {self.path}"}.get(self.kind, "to nobody")


def read_pattern(host: Host) -> Pattern | None:
    """None when the kernel's setting cannot be read."""
    text = host.sysctl("kernel/core_pattern")
    return (
        parse_pattern(text, uses_pid=host.number("kernel/core_uses_pid") == 1) if text is not None else None
    )


def parse_pattern(text: str, *, uses_pid: bool = False) -> Pattern:
    """As core(5) and the kernel's fs/coredump.c read it."""
    if text.startswith("|"):
        words = text[1:].split()
        program = words[0] if words else ""
        return Pattern(text, PIPE, program, _handler(text)) if program else Pattern(text, NONE)
    if text.startswith("@"):
        return Pattern(text, SOCKET, text.lstrip("@"), handshake=text.startswith("@@"))
    if not text:
        return Pattern(text, FILE if uses_pid else NONE, ".%p" if uses_pid else "")
    own = any(letter in "pPiI" for letter in _SPECIFIER.findall(text))
    return Pattern(text, FILE, text, named_by_pid=own or uses_pid)


def _handler(text: str) -> str:
    name = PurePosixPath(text[1:].split()[0]).name
    elsewhere = " -ISB /" in text and "/crash/__main__.py " in text  # capture install --prefix
    if elsewhere or "llama-blackbox" in text or "llama_blackbox" in text:
        return OURS
    if name.startswith("systemd-coredump"):
        return SYSTEMD
    if name.startswith("apport"):
        return APPORT
    if name.startswith("abrt"):
        return ABRT
    return f"nobody ({name})" if name in _MADE_FOR_NOTHING else OTHER
