"""The notes of an x86-64 Linux core: splitting them, reading threads out of them, and making them.

Layouts: ``struct elf_prstatus`` (336 bytes), ``elf_prpsinfo`` (136), siginfo_t (128) and NT_FILE as the
kernel writes them (include/linux/elfcore.h, fs/binfmt_elf.c); notes as in the System V ABI.
"""

from struct import Struct, error

PRSTATUS = 1
FPREGSET = 2
PRPSINFO = 3
AUXV = 6
SIGINFO = 0x53494749
FILE = 0x46494C45
XSTATE = 0x202  # owner LINUX: vector registers, which may hold pieces of a prompt; no unwinder asks for them
CORE = b"CORE"
LINUX = b"LINUX"

REGISTERS = 27  # user_regs_struct: r15 … gs, 8 bytes each
REGISTER_BYTES = REGISTERS * 8
RIP = 16
RSP = 19
ORIG_RAX = 15
PAGE = 4096

_HEADER = Struct("<III")
_PRSTATUS_SIZE = 336
_PID_AT = 32
_REGISTERS_AT = 112
_PRPSINFO_SIZE = 136
_SIGINFO_SIZE = 128
_NAME_ROOM = 15  # pr_fname has 16 bytes, the last one NUL
_ARGUMENTS_ROOM = 79
MAX_PARSED = 1 << 20  # notes; a process has three per thread and five of its own


class Note:
    """One note: ``owner`` without its NUL, ``type``, ``body``."""

    __slots__ = ("body", "owner", "type")

    def __init__(self, owner: bytes, type: int, body: bytes) -> None:
        self.owner = owner
        self.type = type
        self.body = body

    def packed(self) -> bytes:
        """As it stands in a PT_NOTE segment."""
        return build(self.type, self.body, self.owner)


class Thread:
    """One NT_PRSTATUS: ``tid`` as the process's own PID namespace counts, registers in the kernel's order."""

    __slots__ = ("registers", "signal", "tid")

    def __init__(self, tid: int, signal: int, registers: tuple[int, ...]) -> None:
        self.tid = tid
        self.signal = signal
        self.registers = registers

    @property
    def sp(self) -> int:
        """The stack pointer."""
        return self.registers[RSP]

    @property
    def ip(self) -> int:
        """The instruction pointer."""
        return self.registers[RIP]


def build(type: int, body: bytes, owner: bytes = CORE) -> bytes:
    """One note with its header and padding."""
    name = owner + b"\0"
    return _HEADER.pack(len(name), len(body), type) + _padded(name) + _padded(body)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def parse(block: bytes, limit: int = MAX_PARSED) -> list[Note]:
    """The whole notes in ``block``, at most ``limit``; a cut last one is left out. Never raises."""
    found: list[Note] = []
    at = 0
    while at + _HEADER.size <= len(block) and len(found) < limit:
        name_size, body_size, kind = _HEADER.unpack_from(block, at)
        name_at = at + _HEADER.size
        body_at = name_at + (name_size + 3 & ~3)
        end = body_at + (body_size + 3 & ~3)
        if body_at + body_size > len(block):
            break
        owner = block[name_at : name_at + name_size].rstrip(b"\0")
        found.append(Note(owner, kind, block[body_at : body_at + body_size]))
        at = end
    return found


def threads(notes: list[Note]) -> list[Thread]:
    """Every thread that has its registers in ``notes``, in their order: the crashing one is the first."""
    rows = Struct(f"<{REGISTERS}Q")
    found = []
    for note in notes:
        if note.type != PRSTATUS or len(note.body) < _REGISTERS_AT + REGISTER_BYTES:
            continue
        tid = int.from_bytes(note.body[_PID_AT : _PID_AT + 4], "little", signed=True)
        signal = int.from_bytes(note.body[12:14], "little")
        found.append(Thread(tid, signal, rows.unpack_from(note.body, _REGISTERS_AT)))
    return found


def body_of(notes: list[Note], type: int) -> bytes:
    """The body of the first note of that type; empty when there is none."""
    for note in notes:
        if note.type == type and note.owner == CORE:
            return note.body
    return b""


def to_keep(notes: list[Note]) -> list[Note]:
    """Those that a minimal core holds: without vector registers, and without what arguments hide."""
    from collector.capture.crash.hide import clean_information  # not needed while the process dies

    kept = []
    for note in notes:
        if note.type == PRPSINFO and note.owner == CORE:
            note = Note(note.owner, note.type, clean_information(note.body))
        if note.type != XSTATE:
            kept.append(note)
    return kept


def auxv(body: bytes) -> dict[int, int]:
    """NT_AUXV as AT_ number → value."""
    whole = len(body) - len(body) % 16
    return dict(Struct("<QQ").iter_unpack(body[:whole]))


def fault(body: bytes) -> tuple[int, int, int] | None:
    """(signal, code, address) of NT_SIGINFO; None when it is cut. The address means something to a few
    signals and positive codes only."""
    try:
        signal, _, code, _, address = Struct("<iiiiQ").unpack_from(body)
    except error:
        return None
    return signal, code, address


def prstatus(tid: int, registers: bytes | tuple[int, ...], *, signal: int = 0, parent: int = 0) -> bytes:
    """NT_PRSTATUS of one thread, packed. ``registers``: 27 numbers, or the 216 bytes PTRACE_GETREGSET gives.

    Raises ValueError when there are fewer or more.
    """
    if isinstance(registers, tuple):
        registers = b"".join((number & (1 << 64) - 1).to_bytes(8, "little") for number in registers)
    if len(registers) != REGISTER_BYTES:
        raise ValueError(f"{REGISTER_BYTES} bytes of registers are needed, not {len(registers)}")
    body = bytearray(_PRSTATUS_SIZE)
    Struct("<ihxxiH").pack_into(body, 0, signal, 0, 0, signal)
    Struct("<ii").pack_into(body, _PID_AT, tid, parent)
    body[_REGISTERS_AT : _REGISTERS_AT + REGISTER_BYTES] = registers
    return build(PRSTATUS, bytes(body))


def prpsinfo(pid: int, name: bytes, arguments: bytes = b"", *, parent: int = 0, uid: int = 0) -> bytes:
    """NT_PRPSINFO, packed. ``name`` is cut to 15 bytes, ``arguments`` to 79."""
    body = bytearray(_PRPSINFO_SIZE)
    body[1:2] = b"R"
    Struct("<IIii").pack_into(body, 16, uid & 0xFFFFFFFF, 0, pid, parent)
    short, words = name[:_NAME_ROOM], arguments[:_ARGUMENTS_ROOM]
    body[40 : 40 + len(short)] = short
    body[56 : 56 + len(words)] = words
    return build(PRPSINFO, bytes(body))


def siginfo(signal: int, code: int = 0, address: int = 0) -> bytes:
    """NT_SIGINFO, packed."""
    body = bytearray(_SIGINFO_SIZE)
    Struct("<iiiiQ").pack_into(body, 0, signal, 0, code, 0, address)
    return build(SIGINFO, bytes(body))


def auxiliary(body: bytes) -> bytes:
    """NT_AUXV, packed; ``body`` is what /proc/PID/auxv holds."""
    return build(AUXV, body)


def files(rows: list[tuple[int, int, int, bytes]]) -> bytes:
    """NT_FILE, packed: (start, end, offset in bytes, path) of every mapped file."""
    table = [Struct("<QQ").pack(len(rows), PAGE)]
    table += [Struct("<QQQ").pack(start, end, offset // PAGE) for start, end, offset, _ in rows]
    return build(FILE, b"".join(table) + b"".join(path + b"\0" for _, _, _, path in rows))
