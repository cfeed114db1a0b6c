"""Stops every thread of one process at once, copies registers and live stacks, and lets it go on.

Run as a program of its own (``python -ISB stopper.py PID SECONDS``), standard library only: it starts in a
few milliseconds, no other thread of ours can delay it between stop and release, and when it dies, by
whatever signal, the kernel lets the process go on (PTRACE_SEIZE; ptrace(2)). No signal is sent: a system call
that was under way is restarted by the kernel.

Standard output: one JSON line, then the registers (216 bytes a thread) and stacks it lists. x86-64 Linux.
"""

import contextlib
import ctypes
import gc
import json
import mmap
import os
import struct
import sys
import time

SEIZE, INTERRUPT, GETREGSET, DETACH = 0x4206, 0x4207, 0x4204, 17
NT_PRSTATUS, EVENT_STOP, WALL = 1, 128, 0x40000000
SIGTRAP, SIGKILL = 5, 9
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
REGISTER_BYTES, RSP = 216, 19
PAGE = 4096
RED_ZONE = 128  # bytes below the stack pointer that a leaf function may use (System V ABI, x86-64)
STACK_BYTES = 256 << 10  # of one thread; 64 frames of a handler are a tenth of it
ALL_BYTES = 64 << 20  # of all threads; pages are taken as they are filled
MAX_THREADS = 1024
ROUNDS = 8  # a thread that is started meanwhile is found in the next look
LOOK_AGAIN = 0.00005  # seconds between looks at threads that have not stopped yet


class Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class RefusedError(Exception):
    """The kernel does not let us; ``args[0]`` is the errno."""


# PyDLL keeps the interpreter's lock: nothing else of this program runs between two calls.
libc = ctypes.PyDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.process_vm_readv.restype = ctypes.c_ssize_t
libc.process_vm_readv.argtypes = (
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
)  # fmt: skip


class Stopper:
    """One stop of one process. ``held``: threads in a stop and the signal each is owed."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid = pid
        self.until = time.monotonic() + seconds
        self.seized: set[int] = set()
        self.held: dict[int, int] = {}
        self.gone: set[int] = set()
        self.limit = seconds
        self.maps = read_maps(pid)
        self.room = mmap.mmap(-1, ALL_BYTES)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.room))
        self.used = 0
        self.registers: dict[int, bytes] = {}
        self.stacks: list[tuple[int, int, int]] = []  # tid, address, size; in the order of ``room``

    def run(self) -> "dict[str, object]":
        """Seize, stop, copy, release. Raises RefusedError when no thread may be seized."""
        self.seize()
        began = time.monotonic()
        self.until = began + self.limit
        try:
            self.stop_all()
            stopped = time.monotonic()
            for tid in list(self.held):
                self.copy(tid)
        finally:
            self.release()
        ended = time.monotonic()
        return {
            "stop_seconds": ended - began,
            "stopping_seconds": stopped - began,
            "threads": list(self.registers),
            "stacks": self.stacks,
            "missed": sorted(self.seized - self.gone - set(self.registers)),
        }

    def seize(self) -> "list[int]":
        """Every thread that is not seized yet; nothing stops by it."""
        new = []
        for tid in threads(self.pid):
            if tid in self.seized or len(self.seized) >= MAX_THREADS:
                continue
            if libc.ptrace(SEIZE, tid, None, None) == 0:
                self.seized.add(tid)
                new.append(tid)
            elif ctypes.get_errno() != 3 and not self.seized:  # ESRCH: it ended meanwhile
                raise RefusedError(ctypes.get_errno())
        return new

    def stop_all(self) -> None:
        """Interrupt all, wait for all, and again for threads that were started meanwhile."""
        waiting = set(self.seized)
        for _ in range(ROUNDS):
            for tid in waiting:
                libc.ptrace(INTERRUPT, tid, None, None)
            if not self.wait(waiting):
                return
            waiting = set(self.seize())
            if not waiting:
                return

    def wait(self, waiting: "set[int]") -> bool:
        """Until all have stopped or ended; False when the time is over."""
        left = set(waiting)
        while left:
            for tid in list(left):
                if self.look(tid):
                    left.discard(tid)
            if left and time.monotonic() > self.until:
                return False
            if left:
                time.sleep(LOOK_AGAIN)
        return True

    def look(self, tid: int) -> bool:
        """Whether the thread has stopped, or ended."""
        try:
            seen, status = os.waitpid(tid, os.WNOHANG | WALL)
        except ChildProcessError:
            self.gone.add(tid)
            return True
        if seen == 0:
            return False
        if not os.WIFSTOPPED(status):
            self.gone.add(tid)
            return True
        signal = os.WSTOPSIG(status)
        # Our own stop, or one the group was in already; else a signal was on its way and must go on.
        self.held[tid] = 0 if status >> 16 == EVENT_STOP else signal
        return True

    def copy(self, tid: int) -> None:
        """Registers and the live part of the stack of a thread that stands still."""
        data = ctypes.create_string_buffer(REGISTER_BYTES)
        vector = Iovec(ctypes.addressof(data), REGISTER_BYTES)
        if libc.ptrace(GETREGSET, tid, NT_PRSTATUS, ctypes.addressof(vector)) != 0:
            return
        if vector.size != REGISTER_BYTES:  # a 32-bit process
            return
        self.registers[tid] = data.raw
        sp = struct.unpack_from("<Q", data, RSP * 8)[0]
        low, high = self.map_of(sp)
        # From the page's start: elfutils reads a segment as if it began there.
        start = max((sp - RED_ZONE) & -PAGE, low)
        size = min(high - start, STACK_BYTES, ALL_BYTES - self.used)
        if size > 0:
            self.read(tid, start, size)

    def read(self, tid: int, start: int, size: int) -> None:
        local = Iovec(self.base + self.used, size)
        remote = Iovec(start, size)
        count = libc.process_vm_readv(self.pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
        if count > 0:
            self.stacks.append((tid, start, count))
            self.used += count

    def map_of(self, address: int) -> "tuple[int, int]":
        """Start and end of the map that holds ``address``; read again for a stack that is new."""
        for again in (False, True):
            if again:
                self.maps = read_maps(self.pid)
            for low, high in self.maps:
                if low <= address < high:
                    return low, high
        return 0, 0

    def release(self) -> None:
        """Let every thread go on; one that never stopped is let go when this program ends."""
        for tid, signal in self.held.items():
            libc.ptrace(DETACH, tid, None, signal or None)


def threads(pid: int) -> "list[int]":
    """The process's threads; none when it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def read_maps(pid: int) -> "list[tuple[int, int]]":
    """Start and end of every readable and writable map."""
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as rows:
            for row in rows:
                span, access = row.split(None, 2)[:2]
                if access.startswith(b"rw"):
                    low, _, high = span.partition(b"-")
                    found.append((int(low, 16), int(high, 16)))
    except OSError:
        return []
    return found


def main(pid: int, seconds: float) -> int:
    """Exit status 0 with an answer; 1 with ``{"errno": N}`` when the kernel refuses."""
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    with contextlib.suppress(OSError):  # not root
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # the sooner we run, the shorter it stands still
    stopper = Stopper(pid, seconds)
    try:
        answer = stopper.run()
    except RefusedError as refused:
        answer = {"errno": refused.args[0]}
    out = sys.stdout.buffer
    out.write(json.dumps(answer).encode() + b"\n")
    for data in stopper.registers.values():
        out.write(data)
    out.write(memoryview(stopper.room)[: stopper.used])
    out.flush()
    return 1 if "errno" in answer else 0


if __name__ == "__main__":
    status = main(int(sys.argv[1]), float(sys.argv[2]))
    sys.stdout.flush()
    os._exit(status)
