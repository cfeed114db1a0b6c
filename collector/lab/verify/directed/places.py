"""What is known before the first trial: the subject runs, it can sleep, and where a thread can be held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from analyzers.errors import UserError
from collector.lab.reference.conditions import asleep
from collector.lab.reference.server import ReferenceServer, RunningServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.points import POINTS, Point
from collector.lab.verify.directed.symbols import Binary, read_binary, slim_copy

# Idle limit of every trial: the shortest there is. The loop looks once a second, so sleep comes within two.
IDLE_SECONDS = 1
SLEEP_DEADLINE = 30.0
# A server maps some dozens of files; only those beside the program or the wheel's library are its own.
MAPPED_LIMIT = 256
ROUTES = "_ZN13server_routes"  # the handlers: their file is needed to see who holds what


@dataclass(frozen=True)
class Places:
    """The server's own files that matter, with the slim copy of each."""

    copies: tuple[tuple[Binary, Path], ...]

    @property
    def found(self) -> dict[str, int]:
        """Symbol prefix → how many functions have it."""
        counts: dict[str, int] = {}
        for binary, _ in self.copies:
            for prefix, functions in binary.functions.items():
                counts[prefix] = counts.get(prefix, 0) + len(functions)
        counts.pop(ROUTES, None)
        return counts

    def symbol(self, point: Point) -> str:
        """The alternative this build has; the point is usable."""
        return next(each for each in point.symbols if each in self.found)

    def learn(self, server: DebuggedServer) -> dict[str, list[int]]:
        """Show gdb the copies where the server has the files, and give each prefix's addresses there."""
        bases = mapped_files(server.pid)
        addresses: dict[str, list[int]] = {}
        for binary, copy in self.copies:
            base = bases.get(binary.path)
            if base is None:
                continue
            bias = base - binary.first_address
            server.gdb.console(f"add-symbol-file ../{copy.parent.name}/{copy.name} -o {bias:#x}")
            for prefix, functions in binary.functions.items():
                addresses.setdefault(prefix, []).extend(bias + each.address for each in functions)
        return addresses


def explore(lab: ReferenceServer, spec: ServerSpec) -> Places:
    """Start the server once without a debugger and read its files.

    Raises UserError when it does not start, cannot or does not sleep, or there is no room for the copies.
    """
    _demand_no_script(spec)
    with lab.start(replace(spec, idle_seconds=IDLE_SECONDS)) as server:
        _demand_sleep_mode(server)
        _demand_sleep(server)
        paths = own_files(mapped_files(server.pid), spec)
    wanted = [ROUTES, *(symbol for point in POINTS for symbol in point.symbols)]
    return Places(tuple(_copied(paths, wanted, lab.folder / "symbols")))


def _copied(paths: Iterable[Path], wanted: list[str], folder: Path) -> Iterable[tuple[Binary, Path]]:
    folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(paths):
        binary = read_binary(path, wanted)
        if binary is None or not binary.functions:
            continue
        copy = folder / f"{number}.elf"
        try:
            slim_copy(path, copy)
        except OSError as error:
            raise UserError(
                f"no copy of the server's symbols can be made ({error.strerror})",
                where=str(folder),
                remedy="free some space, or give another --output folder",
            ) from None
        yield binary, copy


def _demand_no_script(spec: ServerSpec) -> None:
    """gdb starts a program, not the shell before it, and looks for the server's files beside its own."""
    if spec.binary is None or not spec.binary.is_file():
        return
    with spec.binary.open("rb") as program:
        script = program.read(2) == b"#!"
    if script:
        raise UserError(
            "this is a wrapper script, and a debugger needs the program itself",
            where=str(spec.binary),
            remedy="name the llama-server that it starts, or use: llama-blackbox verify pinned",
        )


def _demand_sleep_mode(server: RunningServer) -> None:
    answer = server.get("/props").json()
    if not isinstance(answer, dict) or "is_sleeping" not in answer:
        raise UserError(
            "it has no sleep mode (GET /props does not say is_sleeping)",
            where=str(server.spec.program),
            remedy="test a build with --sleep-idle-seconds (b7500 or later)",
        )


def _demand_sleep(server: RunningServer) -> None:
    """A server that never sleeps would answer every held request, and would look sound."""
    if not server.wait_until(asleep, SLEEP_DEADLINE):
        raise UserError(
            f"it did not sleep within {SLEEP_DEADLINE:.0f} s, idle and with a limit of {IDLE_SECONDS} s",
            where=str(server.spec.program),
            remedy="test a build whose sleep works, on a machine that is less busy",
        )


def own_files(mapped: dict[Path, int], spec: ServerSpec) -> list[Path]:
    """Of the mapped files, those that stand beside the native program, or belong to the wheel."""
    if spec.binary is not None:
        home = spec.binary.resolve().parent
        return [path for path in mapped if path.parent == home]
    return [path for path in mapped if any("xllamacpp" in part for part in path.parts[-2:])]


def mapped_files(pid: int) -> dict[Path, int]:
    """Path → lowest address of each file mapped from its start, by /proc/PID/maps; see proc(5)."""
    found: dict[Path, int] = {}
    try:
        text = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:
        return found
    for line in text.splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[5].startswith("/") and int(parts[2], 16) == 0:
            found.setdefault(Path(parts[5]), int(parts[0].split("-")[0], 16))
        if len(found) >= MAPPED_LIMIT:
            break
    return found
