"""Where everything of an installation stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from collector.capture.crash.settings import PREVIOUS, SETTINGS, STORE
from collector.capture.setup.kernel import Kernel

PREFIX = Path("/usr/local/lib/llama-blackbox")
SYSCTL_FOLDERS = tuple(
    Path(place)
    for place in (
        "/etc/sysctl.d",
        "/run/sysctl.d",
        "/usr/local/lib/sysctl.d",
        "/usr/lib/sysctl.d",
        "/lib/sysctl.d",
    )
)
SYSCTL_NAME = "99-llama-blackbox-capture.conf"  # after systemd's own 50-coredump.conf
SOCKET = "/run/llama-blackbox/coredump.sock"
STATE = "capture.state"
RETENTION = "retention.conf"
CRASH, SERVER = "crash", "coresocket"


@dataclass(frozen=True)
class Layout:
    """``prefix``: the folder of code, settings and state; ``sysctls``: sysctl.d folders, ours the first."""

    prefix: Path = PREFIX
    store: Path = Path(STORE)
    sysctls: tuple[Path, ...] = SYSCTL_FOLDERS
    kernel: Kernel = field(default_factory=Kernel)
    source: Path = Path(__file__).parents[1]

    @property
    def state(self) -> Path:
        return self.prefix / STATE

    @property
    def main(self) -> Path:
        """What the kernel runs."""
        return self.prefix / CRASH / "__main__.py"

    @property
    def server(self) -> Path:
        """What listens on the coredump socket."""
        return self.prefix / SERVER / "__main__.py"

    @property
    def settings(self) -> Path:
        return self.prefix / SETTINGS

    @property
    def previous(self) -> Path:
        return self.prefix / PREVIOUS

    @property
    def retention(self) -> Path:
        return self.prefix / RETENTION

    @property
    def sysctl_file(self) -> Path:
        return self.sysctls[0] / SYSCTL_NAME
