"""What every rule is handed: the host, one server, who supervises it, where its core would go."""

from __future__ import annotations

from dataclasses import dataclass

from collector.capture.crash.settings import MINIMAL, Settings, read_settings
from collector.check.host import Host
from collector.check.model import Expected
from collector.check.pattern import FILE, OURS, PIPE, SYSTEMD, Pattern
from collector.check.subject import Subject
from collector.check.supervisor import Container, UnitView
from collector.sources.process import option

# Seconds a GiB of core, the slowest measured with 2 GB of dirty memory and 8 threads: a plain file 2.7-4.2 s,
# a pipe into a file 1.6-3.4 s, a pipe into zstd level 3 (systemd-coredump's) up to 22 s.
FILE_RATE, PIPE_RATE, ZSTD_RATE = 2.1, 1.7, 11.0
MINIMAL_SECONDS = (
    0.3  # of `capture` in its minimal mode at any size: 0.16-0.26 s measured, 2-11 ms of them its own
)

# common/arg.cpp: one option in b11138 and later, switches before.
_HANDLER_CODE = "/crash/__main__.py"
CAPTURE_FOLDER = "usr/local/lib/llama-blackbox"  # where `capture install` puts the handler and its settings
LOAD_MODE, UNMAPPED_MODES = ("-lm", "--load-mode"), ("none", "mlock", "dio")
UNMAPPED_OPTIONS = ("--no-mmap", "-dio", "--direct-io")


@dataclass(frozen=True)
class Scene:
    """``servers``: how many were found on this host; ``first_namespaces``: whether the handler's files can be
    seen from here (False inside of a container)."""

    host: Host
    subject: Subject
    pattern: Pattern | None = None
    unit: UnitView | None = None
    container: Container | None = None
    servers: int = 1
    first_namespaces: bool = True
    model_bytes: int | None = None

    @property
    def expected(self) -> Expected | None:
        """The core of a crash, with weights that are not in memory now but will be after a wake."""
        image = self.subject.image
        if image is None:
            return None
        absent = self.absent_weights
        size, written = image.size + absent, image.written + absent
        if self.minimal:
            return Expected(size, written, MINIMAL_SECONDS)
        rate, amount = PIPE_RATE, size
        if self.pattern is not None and self.pattern.kind == FILE:
            rate, amount = FILE_RATE, written
        elif self.pattern is not None and self.pattern.handler == SYSTEMD:
            rate = ZSTD_RATE
        return Expected(size, written, amount / (1 << 30) * rate)

    @property
    def private_weights(self) -> bool:
        """Whether a load puts the weights into memory of its own (dumped) instead of mapping them."""
        args, env = list(self.subject.args), self.subject.env
        mode = option(args, LOAD_MODE) or env.get("LLAMA_ARG_LOAD_MODE")
        if mode is not None:
            return mode in UNMAPPED_MODES
        off = env.get("LLAMA_ARG_MMAP", "").lower() in ("0", "false", "off", "disabled")
        return off or "LLAMA_ARG_NO_MMAP" in env or any(word in args for word in UNMAPPED_OPTIONS)

    @property
    def absent_weights(self) -> int:
        """Bytes of such weights that no map is large enough to hold now: it sleeps, or still loads."""
        image = self.subject.image
        if image is None or not self.private_weights or self.model_bytes is None:
            return 0
        return self.model_bytes if image.anonymous < self.model_bytes else 0

    @property
    def minimal(self) -> bool:
        """Whether our own handler takes stacks instead of the whole core."""
        ours = self.pattern is not None and self.pattern.kind == PIPE and self.pattern.handler == OURS
        return ours and capture_settings(self.host).mode == MINIMAL


def capture_settings(host: Host) -> Settings:
    """The handler's settings as it reads them, beside the code that core_pattern names; its defaults where
    there are none."""
    words = (host.sysctl("kernel/core_pattern") or "").split()
    code = next((word for word in words if word.endswith(_HANDLER_CODE)), "")
    return read_settings(str(host.root / (code.removesuffix(_HANDLER_CODE).lstrip("/") or CAPTURE_FOLDER)))
