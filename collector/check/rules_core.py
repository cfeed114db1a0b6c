"""Would the kernel take a core of this process, and would it be whole?"""

from __future__ import annotations

from collections.abc import Iterator

from collector.check.image import ANON_PRIVATE, ANON_SHARED, ELF_HEADERS
from collector.check.model import CORE, Finding, Level, size_text
from collector.check.pattern import APPORT, FILE, NONE, OURS, PIPE, SYSTEMD
from collector.check.scene import Scene
from collector.check.subject import UNLIMITED

# fs/coredump.c: below ELF_EXEC_PAGESIZE there is no core; of a pipe, 1 means that a handler itself crashed.
SMALLEST, RECURSION_MARK = 4096, 1
BIG = 4 << 30  # bytes; a core of this size keeps a process dying for most of a minute


def core_rules(scene: Scene) -> Iterator[Finding]:
    """Dumpable, the limit, the filter, and what the core would hold."""
    yield from _unread(scene)
    yield from _dumpable(scene)
    yield from _limit(scene)
    yield from _filter(scene)
    yield from _weights(scene)
    yield from _tracer(scene)


def _unread(scene: Scene) -> Iterator[Finding]:
    needed = [name for name in ("limits", "coredump_filter", "smaps") if name in scene.subject.unread]
    if needed:
        pid = scene.subject.server.pid
        yield Finding(
            "process-unread",
            CORE,
            Level.UNREAD,
            f"{', '.join(needed)} of the process could not be read",
            "the size of its core and what bounds it are not known",
            f"sudo llama-blackbox check --cores --pid {pid}",
        )


def _dumpable(scene: Scene) -> Iterator[Finding]:
    now = scene.subject.dumpable
    suid = scene.host.sysctl("fs/suid_dumpable") or "unknown"
    present = f"fs.suid_dumpable = {suid.strip()}"
    if now == "no":
        yield Finding(
            "not-dumpable",
            CORE,
            Level.LOST,
            "the process is not dumpable",
            "it changed its identity, its program is unreadable or set-uid, or it asked for it (prctl): the "
            "kernel then takes no core",
            "fs.suid_dumpable = 2 in /etc/sysctl.d/60-cores.conf (then restart the server), or start it "
            "without set-uid bits and file capabilities",
            present,
        )
    elif (
        now == "root"
        and scene.pattern
        and scene.pattern.kind == FILE
        and not scene.pattern.path.startswith("/")
    ):
        yield Finding(
            "relative-and-guarded",
            CORE,
            Level.LOST,
            "the process is guarded (dumpable as root only) and core_pattern is a relative path",
            "of such a process the kernel writes no core to a relative path",
            "kernel.core_pattern = an absolute path or a handler in /etc/sysctl.d/60-cores.conf",
            f"kernel.core_pattern = {scene.pattern.text}",
        )


def _limit(scene: Scene) -> Iterator[Finding]:
    limit, pattern = scene.subject.limit, scene.pattern
    if limit is None or pattern is None or pattern.kind == NONE:
        return
    present = "unlimited" if limit >= UNLIMITED else f"{limit} bytes"
    change = _limit_setting(scene)
    if pattern.kind == FILE:
        yield from _limited(scene, limit, change, present, "the kernel")
    elif pattern.kind == PIPE and limit == RECURSION_MARK:
        what = "the core limit is 1 byte"
        why = "to the kernel that marks a crashing handler: it starts none"
        yield Finding("core-limit", CORE, Level.LOST, what, why, change, present)
    elif pattern.kind == PIPE and pattern.handler in (SYSTEMD, APPORT):
        yield from _limited(scene, limit, change, present, pattern.handler)
    elif pattern.kind == PIPE and pattern.handler != OURS and limit < UNLIMITED and "%c" in pattern.text:
        why = "the kernel does not apply the limit to a handler, but this one is handed it (%c) and may obey"
        yield Finding("core-limit", CORE, Level.RISK, f"the core limit is {present}", why, change, present)


def _limited(scene: Scene, limit: int, change: str, present: str, by: str) -> Iterator[Finding]:
    expected = scene.expected
    if limit < SMALLEST:
        why = f"{by} keeps no core of a process whose RLIMIT_CORE is below a page"
        yield Finding("core-limit", CORE, Level.LOST, f"the core limit is {present}", why, change, present)
    elif expected is not None and limit < (expected.written if by == "the kernel" else expected.size):
        what = f"the core limit ({size_text(limit)}) cuts a core of {size_text(expected.size)}"
        why = (
            f"{by} stops writing there; of a cut core the last maps are missing, the stacks often among them"
        )
        yield Finding("core-limit", CORE, Level.RISK, what, why, change, present)


def _limit_setting(scene: Scene) -> str:
    if scene.container is not None:
        return "docker run --ulimit core=-1, or ulimits: core: -1 in compose.yaml"
    if scene.unit is not None:
        return scene.unit.override("LimitCORE=infinity")
    return (
        "ulimit -c unlimited in the script that starts it, "
        "or '* soft core unlimited' in /etc/security/limits.d/60-cores.conf"
    )


def _filter(scene: Scene) -> Iterator[Finding]:
    bits, image = scene.subject.filter_bits, scene.subject.image
    if bits is None:
        return
    present = f"coredump_filter = 0x{bits:x}"
    change = "echo 0x33 > /proc/self/coredump_filter before it is started (children inherit it)"
    if scene.unit is not None:
        change = scene.unit.override("CoredumpFilter=default")
    if not bits >> ANON_PRIVATE & 1:
        why = "stacks and heap are private anonymous memory: the core would name threads and show no frame"
        what = "coredump_filter leaves private memory out"
        yield Finding("filter-private", CORE, Level.LOST, what, why, change, present)
    if not bits >> ELF_HEADERS & 1:
        why = "without the first page of each library its build-id is missing: its frames lose their names"
        what = "coredump_filter leaves ELF headers out"
        yield Finding("filter-headers", CORE, Level.RISK, what, why, change, present)
    if image is not None and image.left_out and not bits >> ANON_SHARED & 1:
        what = f"{size_text(image.left_out)} of shared memory are left out by the filter"
        why = "seldom needed for stacks"
        yield Finding("filter-shared", CORE, Level.NOTE, what, why, change, present)


def _weights(scene: Scene) -> Iterator[Finding]:
    image, expected = scene.subject.image, scene.expected
    if image is None or expected is None or scene.minimal:
        return
    weights = f"{size_text(scene.absent_weights)} of weights" if scene.absent_weights else ""
    if weights:
        why = (
            "it runs with mmap off and sleeps or still loads; after a wake the weights are memory of its own"
        )
        what = f"a core after the next wake holds {weights} more than its memory now"
        yield Finding("weights-absent", CORE, Level.NOTE, what, why)
    elif scene.private_weights or image.largest >= BIG:
        what = f"the core would hold {size_text(image.anonymous)} of private memory, weights included"
        why = (
            "weights that are not mapped from the file are dumped: they cost time and disk and prove nothing"
        )
        change = "--load-mode mmap on its command line (older builds: remove --no-mmap)"
        level = Level.RISK if image.anonymous >= BIG else Level.NOTE
        yield Finding("weights-dumped", CORE, level, what, why, change, size_text(image.largest))
    if image.withheld:
        what = f"{size_text(image.withheld)} are marked MADV_DONTDUMP"
        yield Finding("withheld", CORE, Level.NOTE, what, "no setting brings that memory into a core")
    if image.device:
        what = f"{size_text(image.device)} of maps belong to a GPU's driver"
        yield Finding(
            "device", CORE, Level.NOTE, what, "device memory is in no core; the driver's log is its evidence"
        )


def _tracer(scene: Scene) -> Iterator[Finding]:
    if scene.subject.tracer:
        what = f"process {scene.subject.tracer} traces it"
        why = "a debugger sees a fatal signal first, and may hold the process or end it without a core"
        yield Finding(
            "traced", CORE, Level.RISK, what, why, f"end process {scene.subject.tracer}, if it is forgotten"
        )
