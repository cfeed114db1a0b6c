"""The loop: every connection is accepted at once, and worked on as soon as one of the few workers is free.

A connection that waits costs a descriptor; its process stays as it died, with everything under /proc.
"""

import os
import socket
import stat
import sys
from collections import deque
from select import POLLIN, poll
from signal import SIGCHLD, SIGINT, SIGKILL, SIGTERM, set_wakeup_fd, signal
from time import monotonic

from collector.capture.coresocket import limits, rights
from collector.capture.coresocket.worker import work
from collector.capture.crash.handling import previous
from collector.capture.crash.kmsg import tell

_PATTERN = "/proc/sys/kernel/core_pattern"


class Server:
    """``serve`` until told to stop; crashes that were accepted are finished first."""

    def __init__(self, listener: socket.socket, folder: str, asked: bool) -> None:
        self.listener, self.folder, self.asked = listener, folder, asked
        self.waiting: deque[socket.socket] = deque()
        self.workers: dict[int, float] = {}
        self.stopping = False
        self.wake, self._rung = os.pipe()
        for end in (self.wake, self._rung):
            os.set_blocking(end, False)
        set_wakeup_fd(self._rung, warn_on_full_buffer=False)
        for number in (SIGTERM, SIGINT):
            signal(number, self._stop)
        signal(SIGCHLD, lambda *_: None)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def run(self) -> None:
        while not self.stopping or self.waiting or self.workers:
            self._wait()
            if not self.stopping:
                self._accept()
            self._reap()
            while self.waiting and len(self.workers) < limits.WORKERS:
                self._start(self.waiting.popleft())

    def _wait(self) -> None:
        waiter = poll()
        waiter.register(self.wake, POLLIN)
        if not self.stopping and len(self.waiting) < limits.WAITING:
            waiter.register(self.listener, POLLIN)
        waiter.poll(limits.TURN_SECONDS * 1000)
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            return

    def _accept(self) -> None:
        while len(self.waiting) < limits.WAITING:
            try:
                peer, _ = self.listener.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                tell(f"the coredump socket: {problem.strerror}")
                return
            self.waiting.append(peer)

    def _start(self, peer: socket.socket) -> None:
        try:
            worker = os.fork()
        except OSError as problem:
            tell(f"a crash was not taken: no process can be made ({problem.strerror})")
            peer.close()
            return
        if worker == 0:
            os._exit(self._in_worker(peer))
        peer.close()
        self.workers[worker] = monotonic() + limits.WORKER_SECONDS

    def _in_worker(self, peer: socket.socket) -> int:
        """Nothing gets past it but a signal."""
        try:
            set_wakeup_fd(-1)
            for number in (SIGTERM, SIGINT, SIGCHLD):
                signal(number, 0)
            for other in self.waiting:
                other.close()
            self.listener.close()
            return work(peer, self.folder, self.asked)
        except BaseException as problem:  # noqa: BLE001  a worker never returns into the loop
            tell(f"a crash was not taken: {type(problem).__name__}: {problem}")
            return 1

    def _reap(self) -> None:
        for worker, until in list(self.workers.items()):
            try:
                done = os.waitpid(worker, os.WNOHANG)[0]
            except ChildProcessError:
                done = worker
            if done:
                del self.workers[worker]
            elif monotonic() > until:
                tell(f"the worker {worker} took more than {limits.WORKER_SECONDS:.0f} s and was ended")
                os.kill(worker, SIGKILL)


def serve(path: str, folder: str) -> int:
    """Listen on ``path`` until SIGTERM. ``folder``: where settings and previous pattern stand.

    Raises OSError when the socket cannot be had, ValueError when another server listens there.
    """
    rights.never_dumped()
    listener = listen(path)
    asked = _asked(path)
    gave = rights.give_up(previous(folder))
    print(f"listening on {path}" + ("" if gave else ", with all of root's rights"), flush=True)
    if asked is None:
        print(
            f"note: kernel.core_pattern names another place than {path}; nothing comes here", file=sys.stderr
        )
    try:
        Server(listener, folder, asked is not False).run()
    finally:
        _remove(path)
    return 0


def listen(path: str) -> socket.socket:
    """A listening socket that only root can reach; one that a dead server left is replaced."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    if _lives(path):
        raise ValueError("another server listens there")
    _remove(path)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    listener.listen(limits.BACKLOG)
    listener.setblocking(False)
    return listener


def _lives(path: str) -> bool:
    """By the kernel's table: a connection would be taken for a crash."""
    with open("/proc/net/unix", "rb") as table:
        return any(
            row[7:8] == [os.fsencode(path)] and int(row[3], 16) & 0x10000
            for row in (line.split(None, 7) for line in table.read().splitlines()[1:])
            if len(row) == 8
        )


def _remove(path: str) -> None:
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        return


def _asked(path: str) -> bool | None:
    """Whether the pattern is ``@@path``; False for ``@path``, None for another one."""
    with open(_PATTERN, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read().rstrip("\n")
    return {f"@@{path}": True, f"@{path}": False}.get(text)
