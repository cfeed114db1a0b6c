"""Real servers found as they come and go: hosted, native under any name, a router's family, a namespace's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.discovery.events import COREDUMP, EXIT, Connector
from collector.discovery.model import Changes, Ended, Found
from collector.discovery.watch import Discovery
from collector.lab.native.build import find_build
from collector.lab.native.recipe import Recipe
from collector.lab.reference.environments import prepare
from collector.lab.reference.gguf import cached_model
from collector.lab.reference.ports import free_port
from collector.lab.reference.router import RoutedModel, RouterSpec, start_router
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec

pytestmark = pytest.mark.real

DEADLINE = 20.0  # a busy machine takes seconds for what takes milliseconds
VERSIONS = {"2026.9.11063": "b11063 by its build-id", "2026.10.11549": "b11549 by its build-id"}
KEY = "sk-not-to-be-kept-0123456789"


class Seen:
    """A discovery and all that it told. Other servers of this machine may be among it."""

    def __init__(self, events: bool = True) -> None:
        self.watch = Discovery(events=events)
        self.told: list[Changes] = []

    def until(self, there: Callable[[], object]) -> bool:
        """Poll until ``there`` says so."""
        end = time.monotonic() + DEADLINE
        while not there():
            if time.monotonic() > end:
                return False
            self.told.append(self.watch.poll())
            time.sleep(0 if self.watch.pending else 0.01)
        return True

    def now(self, pid: int) -> Found | None:
        return next((one for one in self.watch.known() if one.pid == pid), None)

    def listens(self, pid: int) -> bool:
        found = self.now(pid)
        return found is not None and bool(found.listening)

    def born(self, pid: int) -> list[Found]:
        return [one for each in self.told for one in each.born if one.pid == pid]

    def changed(self, pid: int) -> list[Found]:
        return [one for each in self.told for one in each.changed if one.pid == pid]

    def ended(self, pid: int) -> list[Ended]:
        return [one for each in self.told for one in each.ended if one.found.pid == pid]

    def brief(self, pid: int) -> list[Ended]:
        return [one for each in self.told for one in each.brief if one.found.pid == pid]


@pytest.fixture(params=[True, False], ids=["events", "polling"])
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    made = Seen(events=request.param)
    if request.param and made.watch.fileno() is None:
        pytest.skip("PROCESS EVENTS ARE NOT TESTED: they need CAP_NET_ADMIN in the host's own namespaces")
    yield made
    made.watch.close()


@pytest.fixture
def told() -> Iterator[Seen]:
    made = Seen()
    if made.watch.fileno() is None:
        pytest.skip("PROCESS EVENTS ARE NOT TESTED: they need CAP_NET_ADMIN in the host's own namespaces")
    yield made
    made.watch.close()


@pytest.fixture(scope="module")
def native() -> Path:
    found = find_build(Recipe(11368))
    if found is None:
        pytest.skip("NATIVE SERVERS ARE NOT TESTED: no cached build of b11368")
    return found.binary


@contextlib.contextmanager
def started(*argv: str | Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours, ended at the end."""
    variables = {**os.environ, **env}
    process = subprocess.Popen(
        [str(word) for word in argv],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE)


def server_words(binary: Path, port: int, *more: str) -> list[str | Path]:
    common = ["--model", cached_model(), "--port", str(port), "--ctx-size", "256", "--parallel", "1"]
    return [binary, *common, "--no-warmup", "--threads", "1", *more]


def setting(found: Found | None, name: str) -> tuple[str, str] | None:
    assert found is not None
    return next(((one.value, one.origin) for one in found.settings if one.name == name), None)


def test_hosted_servers_of_two_builds_at_once(seen: Seen) -> None:
    # GIVEN a discovery that runs already, and two servers in Python programs of two releases
    seen.until(lambda: True)
    with ReferenceServer() as lab:
        made = {v: lab.start(ServerSpec(model=cached_model(), python=prepare(v))) for v in VERSIONS}
        # WHEN it has looked
        assert seen.until(lambda: all(seen.listens(one.pid) for one in made.values()))
        # THEN each is a hosted server of its own build and address; what its program set is not guessed
        for version, server in made.items():
            found = seen.now(server.pid)
            assert found is not None
            assert (found.role, found.hosted, found.build) == ("hosted", True, VERSIONS[version])
            assert (found.port, found.sleep_idle_seconds, found.settings) == (server.port, None, ())
            assert found.incarnation.boot_id
        assert "D1" in (seen.now(made["2026.9.11063"].pid) or found).defects
        assert "D1" not in (seen.now(made["2026.10.11549"].pid) or found).defects
        # AND their ends are told once each
        pids = [server.pid for server in made.values()]
        for server in made.values():
            server.take_down()
        assert seen.until(lambda: all(seen.ended(pid) for pid in pids))
        assert [len(seen.ended(pid)) for pid in pids] == [1, 1]
        assert [len(seen.born(pid)) for pid in pids] == [1, 1]


@pytest.mark.parametrize("name", ["foo", "llama-server"])
def test_a_native_server_under_any_name(seen: Seen, native: Path, tmp_path: Path, name: str) -> None:
    # GIVEN the server's program by another name, told by its symbols alone
    seen.until(lambda: True)
    program = tmp_path / name
    try:
        os.link(native, program)
    except OSError:
        shutil.copyfile(native, program)
        program.chmod(0o755)
    port = free_port()
    words = server_words(program, port, "--sleep-idle-seconds", "60", "--api-key", KEY)
    with started(*words, LLAMA_ARG_ENDPOINT_METRICS="1", LLAMA_ARG_BATCH="64") as process:
        # WHEN it serves
        assert seen.until(lambda: seen.listens(process.pid))
        found = seen.now(process.pid)
        assert found is not None
        # THEN it is a server of its own, with its settings and where they come from
        assert (found.role, found.hosted, found.exe, found.port) == ("standalone", False, str(program), port)
        assert found.sleep_idle_seconds == 60
        assert setting(found, "sleep-idle-seconds") == ("60", "command-line")
        assert setting(found, "batch-size") == ("64", "environment")
        assert setting(found, "host") == ("127.0.0.1", "default")
        assert (found.metrics, found.needs_key, found.tls) == (True, True, False)
        assert found.model_files == (str(cached_model()),)
        # AND the key is nowhere
        assert setting(found, "api-key") == ("set", "command-line")
        assert KEY not in repr(found)
        # AND its build is told by its marks, and D1 is no defect of it
        assert found.build is not None
        assert "D2" in found.defects
        assert "D1" not in found.defects


def test_a_server_that_dies_of_a_signal(told: Seen, native: Path) -> None:
    # GIVEN a server that may write no core (its memory is nobody's evidence here)
    words = server_words(native, free_port())
    with started("sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *words) as process:
        assert told.until(lambda: told.listens(process.pid))
        # WHEN it is killed as a fault does
        before = time.monotonic()
        process.send_signal(signal.SIGSEGV)
        assert told.until(lambda: told.ended(process.pid))
        # THEN the kernel's own word says of what, when, and that nothing was written
        (end,) = told.ended(process.pid)
        assert (end.signal, end.code, end.dumped) == (signal.SIGSEGV, None, False)
        assert before <= end.mono <= time.monotonic()
        assert abs(end.wall - time.time()) < DEADLINE
        assert told.watch.dumping.isdisjoint({process.pid})


def test_the_exit_code_of_a_server(told: Seen, native: Path) -> None:
    # GIVEN a server that cannot load its model
    words = [native, "--model", "/nonexistent.gguf", "--port", str(free_port())]
    with started(*words) as process:
        # WHEN it gives up
        assert told.until(lambda: told.ended(process.pid) or told.brief(process.pid))
        # THEN its code is known, whether or not there was time for a look
        (end,) = told.ended(process.pid) + told.brief(process.pid)
        assert (end.signal, end.code) == (None, process.wait(DEADLINE))
        assert end.found.exe.endswith(native.name)


def test_a_server_that_lived_for_a_moment(told: Seen, tmp_path: Path) -> None:
    # GIVEN a program of that name which lives for 50 ms
    program = copied("sleep", tmp_path / "llama-server")
    told.until(lambda: True)
    process = subprocess.Popen([str(program), "0.05"])
    # WHEN the events are taken as they come
    assert told.until(lambda: told.ended(process.pid) or told.brief(process.pid))
    # THEN it is told once, with its program and how it ended
    (end,) = told.ended(process.pid) + told.brief(process.pid)
    assert (end.found.exe, end.code, end.signal, end.dumped) == (str(program), 0, None, False)
    assert end.found.incarnation.boot_id
    process.wait(DEADLINE)


def test_a_name_in_the_arguments_makes_no_server(told: Seen) -> None:
    # GIVEN another program that only calls itself so
    disguised = subprocess.Popen(["bash", "-c", "exec -a llama-server sleep 0.3"])
    assert told.until(lambda: disguised.poll() is not None)
    # THEN it is none, dead or alive
    told.told.append(told.watch.poll())
    assert told.born(disguised.pid) == []
    assert told.ended(disguised.pid) + told.brief(disguised.pid) == []


def copied(tool: str, to: Path) -> Path:
    """One of the host's own small programs under another name."""
    shutil.copyfile(shutil.which(tool) or f"/bin/{tool}", to)
    to.chmod(0o755)
    return to


@pytest.mark.parametrize("limit", ["unlimited", "0"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_says_whether_a_core_was_written(tmp_path: Path, limit: str, threads: int) -> None:
    # GIVEN a subscription of its own
    try:
        connector = Connector()
    except OSError:
        pytest.skip("PROCESS EVENTS ARE NOT TESTED: they need CAP_NET_ADMIN in the host's own namespaces")
    # WHEN a process is killed as a fault does, by its main thread or beside it
    beside = "import os,threading as t; t.Timer(0, os.kill, (os.getpid(), 11)).start(); t.Event().wait(60)"
    argv = ["sh", "-c", "kill -SEGV $$"] if threads == 1 else [sys.executable, "-c", beside]
    words = ["sh", "-c", f'ulimit -c {limit}; exec "$@"', "sh", *argv]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status
    events = [one for one in connector.take(1_000_000)[0] if one.pid == process.pid]
    connector.close()
    # THEN the events agree with what the parent is told
    assert [one.signal for one in events if one.kind == EXIT and one.whole] == [signal.SIGSEGV]
    assert [one for one in events if one.kind == COREDUMP]
    assert any(one.dumped for one in events) == os.WCOREDUMP(status)


def test_a_zombie_leaves_its_name(told: Seen, tmp_path: Path) -> None:
    # GIVEN a server that ended before anybody looked, and whose parent has not asked for it
    program = copied("true", tmp_path / "llama-server")
    told.until(lambda: True)
    process = subprocess.Popen([str(program)])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # WHEN the events come
    assert told.until(lambda: told.brief(process.pid))
    # THEN it is told with its name and its end
    (end,) = told.brief(process.pid)
    assert (end.found.exe, end.code, end.signal) == ("llama-server", 0, None)
    assert end.found.problems
    process.wait(DEADLINE)


BEGIN_AGAIN = """
import os, signal, socket, sys
first = socket.create_server(("127.0.0.1", int(sys.argv[2])))
signal.signal(signal.SIGUSR1, lambda *_: os.execv(sys.argv[3], sys.argv[3:]))
while True:
    signal.pause()
"""


def test_execution_in_place_is_no_death(seen: Seen, native: Path, tmp_path: Path) -> None:
    # GIVEN a process that serves, and starts its server over in its own place as --sleep-mode rst does
    program = tmp_path / "llama-server"
    shutil.copyfile(os.path.realpath(sys.executable), program)
    program.chmod(0o755)
    first, second = free_port(), free_port()
    words = server_words(native, second, "--alias", "again")
    home = {"PYTHONHOME": sys.base_prefix}
    with started(program, "-c", BEGIN_AGAIN, "--port", str(first), *words, **home) as process:
        assert seen.until(lambda: seen.listens(process.pid))
        before = seen.now(process.pid)
        assert before is not None
        assert before.port == first
        # WHEN it executes its program anew
        process.send_signal(signal.SIGUSR1)
        assert seen.until(lambda: (found := seen.now(process.pid)) is not None and found.port == second)
        # THEN it is the same life with other settings: changed, and nothing ended
        found = seen.now(process.pid)
        assert found is not None
        assert (found.incarnation, found.model, found.exe) == (before.incarnation, "again", str(native))
        assert seen.changed(process.pid)
        assert seen.ended(process.pid) == []
        assert len(seen.born(process.pid)) == 1


def test_a_router_its_preset_and_a_sleeping_child(seen: Seen, native: Path, tmp_path: Path) -> None:
    # GIVEN a real router with two models in its preset file
    models = (
        RoutedModel("tiny", cached_model(), idle_seconds=1),
        RoutedModel("other model", cached_model()),
    )
    with start_router(RouterSpec(native, models, models_max=2), tmp_path) as router:
        assert seen.until(lambda: seen.listens(router.pid))
        # WHEN one child is loaded, and sleeps
        child = router.load("tiny")
        assert seen.until(lambda: seen.listens(child.pid))
        found, parent = seen.now(child.pid), seen.now(router.pid)
        assert found is not None
        assert parent is not None
        # THEN the lineage is told: whose child, which model, which port
        assert (parent.role, parent.parent, parent.port, parent.model) == ("router", None, router.port, None)
        assert (found.role, found.parent, found.model, found.port) == (
            "child",
            parent.incarnation,
            "tiny",
            child.port,
        )
        # AND a child's settings name the section that gave them, the router's those of every model
        assert found.sleep_idle_seconds == 1
        assert setting(found, "sleep-idle-seconds") == ("1", "preset:tiny")
        assert setting(found, "port") == (str(child.port), "command-line")
        assert {one.origin for one in parent.settings} >= {
            "command-line",
            "preset:tiny",
            "preset:other model",
        }
        assert parent.needs_key
        assert router.api_key not in repr((found, parent))
        assert (found.problems, parent.problems) == ((), ())
        # AND a planned unload is the end of the child alone
        assert router.unload("tiny")
        assert seen.until(lambda: seen.ended(child.pid))
        assert seen.now(router.pid) is not None


def test_another_network_and_pid_namespace(seen: Seen, native: Path) -> None:
    # GIVEN a server in namespaces of its own, as in a container
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("NAMESPACES ARE NOT TESTED: they need root and unshare")
    up = 'ip link set lo up 2>/dev/null; exec "$@"'
    words = server_words(native, 8081, "--host", "0.0.0.0")  # noqa: S104  in a network of its own
    unshare = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    with started(*unshare, "sh", "-c", up, "sh", *words) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert seen.until(lambda: children.read_text().split())
        pid = int(children.read_text().split()[0])
        # WHEN it listens
        assert seen.until(lambda: seen.listens(pid))
        found = seen.now(pid)
        assert found is not None
        # THEN its address says in which network, and its place which number it has there
        (address,) = found.listening
        assert address.port == 8081
        assert address.netns == os.stat(f"/proc/{pid}/ns/net").st_ino
        assert found.place.inner_pid == 1
