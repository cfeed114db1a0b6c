"""What discovery says of one server: origin, addresses, settings, build."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.contracts.evidence import Incarnation


@dataclass(frozen=True)
class Setting:
    """One effective setting. ``name`` is the long option without dashes; ``origin``: command-line |
    environment | preset:SECTION | config:PATH | hosted | default; ``value`` is free of secrets ("set" for a
    key)."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True)
class Listening:
    """One address the process itself listens on: numeric ``host`` and ``port``, or a unix ``socket`` path as
    the process sees it. ``netns``: inode of its network namespace, None when it is the agent's own."""

    host: str = "127.0.0.1"
    port: int = 0
    socket: str | None = None
    netns: int | None = None


@dataclass(frozen=True)
class Place:
    """Where a process runs: systemd unit, container id and its runtime, cgroup path; pid inside its own PID
    namespace where that is another one. ``invocation``: systemd's id of this run of the unit
    (systemd.exec(5))."""

    unit: str | None = None
    container: str | None = None
    runtime: str | None = None
    cgroup: str | None = None
    inner_pid: int | None = None
    invocation: str | None = None


@dataclass(frozen=True)
class Found:
    """One llama-server. ``role``: standalone | router | child | hosted. ``parent`` is the router's
    incarnation of a child. ``model`` is the name a router or client knows, else the file's own name.

    ``build`` is what its binary's marks and build-id say (None: unknown), ``defects`` ids of the catalogue
    that are measured or presumed for it. ``args`` went through redaction. ``prefix`` is --api-prefix;
    ``tls`` whether it serves https; ``needs_key`` whether it was started with a key (the key itself is
    never kept). ``model_files`` are paths for use on this host only.
    """

    incarnation: Incarnation
    exe: str
    role: str
    hosted: bool = False
    parent: Incarnation | None = None
    model: str | None = None
    listening: tuple[Listening, ...] = ()
    place: Place = Place()
    settings: tuple[Setting, ...] = ()
    args: tuple[str, ...] = ()
    build: str | None = None
    build_id: str | None = None
    defects: tuple[str, ...] = ()
    prefix: str = ""
    tls: bool = False
    needs_key: bool = False
    metrics: bool = False
    sleep_idle_seconds: int | None = None
    log_file: str | None = None
    model_files: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def pid(self) -> int:
        """The process's number in the agent's own PID namespace."""
        assert self.incarnation.pid is not None  # noqa: S101  found by its number
        return self.incarnation.pid

    @property
    def port(self) -> int | None:
        """The TCP port it serves on."""
        return next((one.port for one in self.listening if one.port), None)


@dataclass(frozen=True)
class Ended:
    """A server's process is gone. ``code`` its exit status, ``signal`` its deadly signal as the kernel says
    them, both None when only its absence was seen; ``dumped`` True when a core was written. Clocks of the
    moment it was seen: Unix seconds and CLOCK_MONOTONIC."""

    found: Found
    wall: float
    mono: float
    code: int | None = None
    signal: int | None = None
    dumped: bool | None = None


@dataclass(frozen=True)
class Changes:
    """What one poll of discovery saw. ``brief`` are servers that came and went between two looks (seen only
    in the kernel's process events; no more than PID, name and end may be known of them)."""

    born: tuple[Found, ...] = ()
    ended: tuple[Ended, ...] = ()
    changed: tuple[Found, ...] = ()
    brief: tuple[Ended, ...] = ()
