"""Going to sleep or waking, from the code in front of the sleep callback's return address.

``start_loop`` calls the sleep callbacks through ``std::function<void(bool)>``, whose argument is passed by
address: the compiler stores the constant to the stack just before the call (observed in b11063 and b11549).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from analyzers.contracts.facts import Frame
from analyzers.core.buildid import Match, compare
from analyzers.core.files import opened_regular, pread
from analyzers.core.loopframes import UNLOADING, WAKING
from analyzers.core.memory import Memory
from analyzers.core.model import Core
from analyzers.errors import UserError

WINDOW = 48  # bytes before the return address: the store stood 21 and 37 bytes before it
STORE = re.compile(rb"\xc6\x44\x24[\x00-\x7f]([\x00\x01])", re.DOTALL)  # movb $0 or $1, disp8(%rsp)
# call *24(register): _M_invoker stands at offset 24 of a std::function. Other calls of start_loop, such as
# pthread_mutex_lock, also have a movb in front of them.
INVOKER_CALL = re.compile(rb"(?:\x41?\xff[\x50-\x53\x55-\x57]\x18|\x41?\xff\x54\x24\x18)\Z", re.DOTALL)

FindFile = Callable[[str], "Path | None"]


def on_disk(mapped: str) -> Path | None:
    """The mapped path itself, when it is still there as a plain absolute file."""
    path = Path(mapped)
    try:
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):
        return None


def callback_direction(core: Core, memory: Memory, loop: Frame, find_file: FindFile = on_disk) -> str | None:
    """``unloading`` or ``waking`` when start_loop is in a sleep callback; None when the code cannot tell."""
    address = _return_address(core, loop)
    if address is None:
        return None
    code = _code_before(core, memory, address, find_file)
    if len(code) < WINDOW or INVOKER_CALL.search(code) is None:
        return None
    stored = {match.group(1) for match in STORE.finditer(code)}
    if len(stored) != 1:
        return None
    return UNLOADING if stored == {b"\x01"} else WAKING


def _return_address(core: Core, loop: Frame) -> int | None:
    if loop.ip is not None:
        return loop.ip
    base = core.load_address(loop.module) if loop.module else None
    return base + loop.offset if base is not None and loop.offset is not None else None


def _code_before(core: Core, memory: Memory, address: int, find_file: FindFile) -> bytes:
    dumped = memory.read(address - WINDOW, WINDOW)
    return dumped if len(dumped) == WINDOW else _from_file(core, address - WINDOW, find_file)


def _from_file(core: Core, address: int, find_file: FindFile) -> bytes:
    """Code bytes of the mapped file, only when its build-id is the one in the core."""
    row = core.mapped_at(address)
    path = find_file(row.path) if row is not None else None
    if row is None or path is None:
        return b""
    try:
        if not isinstance(compare(core, path, row.path), Match):
            return b""
        with opened_regular(path) as descriptor:
            return pread(descriptor, WINDOW, row.file_offset + address - row.start)
    except UserError:  # the file went away or cannot be read: one witness less, not an error
        return b""
