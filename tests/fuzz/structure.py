"""Mutations that know the format: cores whose sizes lie, note bombs, MI's grammar, log lines, tar headers.

Each takes bytes and a seeded Random and gives bytes; none needs its input to be well formed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]
EDGES = (0, 1, 2, 3, 7, 8, 12, 55, 56, 63, 64, 255, 256, 4095, 4096, 0xFFFE, 0xFFFF, 0x10000, 1 << 20)
HUGE = (
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 47, (1 << 62) - 1, 1 << 62),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 4096, (1 << 64) - 1),
)
PROGRAM_HEADER, NOTE = 56, 12
MANY = 2000  # threads or notes that one mutation adds


def number(dice: Random) -> int:
    """A value at which something overflows or ends."""
    return dice.choice((*EDGES, *HUGE)) if dice.random() < 0.8 else dice.getrandbits(dice.choice((8, 16, 40)))


def core(data: bytes, dice: Random) -> bytes:
    """One lie in a core."""
    return dice.choice(_CORE)(bytearray(data), dice)


def _rows(data: bytearray) -> list[int]:
    """Offsets of the program headers that are in the file."""
    if len(data) < 64:
        return []
    at, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    rows = (at + index * PROGRAM_HEADER for index in range(min(count, 64)))
    return [row for row in rows if row + PROGRAM_HEADER <= len(data)]


def _segment_lies(data: bytearray, dice: Random) -> bytes:
    """A size, offset or address of one segment is replaced: past the end, overflowing, or another's."""
    rows = _rows(data)
    if not rows:
        return bytes(data)
    row, field = dice.choice(rows), dice.choice((8, 16, 32, 40))
    value = number(dice)
    if dice.random() < 0.4:  # overlapping: another segment's value
        value = struct.unpack_from("<Q", data, dice.choice(rows) + field)[0] + dice.choice((-4096, 0, 1, 8))
    struct.pack_into("<Q", data, row + field, value & (1 << 64) - 1)
    return bytes(data)


def _segment_kind(data: bytearray, dice: Random) -> bytes:
    rows = _rows(data)
    if rows:
        struct.pack_into(
            "<II", data, dice.choice(rows), dice.choice((1, 4, 0, 6)), dice.choice((0, 4, 5, 6, 7))
        )
    return bytes(data)


def _header_lies(data: bytearray, dice: Random) -> bytes:
    if len(data) >= 64:
        at, size = dice.choice(((4, "B"), (5, "B"), (16, "H"), (18, "H"), (32, "Q"), (40, "Q"), (54, "H"),
                                (56, "H"), (60, "H")))  # fmt: skip
        bits = {"B": 8, "H": 16, "Q": 64}[size]
        struct.pack_into(f"<{size}", data, at, number(dice) & (1 << bits) - 1)
    return bytes(data)


def _note_block(data: bytearray) -> tuple[int, int] | None:
    for row in _rows(data):
        kind, offset, size = (
            *struct.unpack_from("<I4xQ", data, row),
            struct.unpack_from("<Q", data, row + 32)[0],
        )
        if kind == 4 and offset + NOTE <= min(offset + size, len(data)):
            return offset, min(offset + size, len(data))
    return None


def _note_lies(data: bytearray, dice: Random) -> bytes:
    """The name's or body's size of a note is wrong, or its type another one's."""
    block = _note_block(data)
    if block is None:
        return bytes(data)
    starts, at = [], block[0]
    while at + NOTE <= block[1] and len(starts) < 64:
        starts.append(at)
        name, body, _ = struct.unpack_from("<III", data, at)
        at += NOTE + (name + 3 & ~3) + (body + 3 & ~3)
    at = dice.choice(starts or [block[0]])
    if dice.random() < 0.3:
        struct.pack_into("<I", data, at + 8, dice.choice((1, 3, 6, 0x53494749, 0x46494C45, 0x202)))
    else:
        struct.pack_into("<I", data, at + dice.choice((0, 4)), number(dice) & 0xFFFFFFFF)
    return bytes(data)


def _note_bomb(data: bytearray, dice: Random) -> bytes:
    """Thousands of the smallest notes, or of threads: a second note segment at the file's end."""
    one = struct.pack("<III", 0, 0, dice.choice((0, 1))) if dice.random() < 0.5 else _thread(dice)
    return _with_notes(data, one * dice.randrange(1, MANY))


def _many_threads(data: bytearray, dice: Random) -> bytes:
    same = dice.random() < 0.3
    threads = (_thread(dice, 7 if same else None) for _ in range(dice.randrange(2, 100)))
    return _with_notes(data, b"".join(threads))


def _thread(dice: Random, tid: int | None = None) -> bytes:
    body = bytearray(336)
    struct.pack_into("<i", body, 32, dice.getrandbits(20) if tid is None else tid)
    for register in (16, 19, 14, 15, 7):
        struct.pack_into("<Q", body, 112 + 8 * register, number(dice))
    return struct.pack("<III", 5, 336, 1) + b"CORE\0\0\0\0" + bytes(body)


def _mapped_lies(data: bytearray, dice: Random) -> bytes:
    """An NT_FILE whose count, page size or rows lie, with names of every kind."""
    count = dice.choice((0, 1, 3, number(dice)))
    names = (b"/etc/passwd", b"\xff\xfe", b"../../x", b"", b"\x1b[2J", b"/proc/self/mem", b"x" * 300)
    rows = b"".join(struct.pack("<QQQ", number(dice), number(dice), number(dice)) for _ in range(3))
    body = struct.pack("<QQ", count, number(dice)) + rows + b"\0".join(dice.sample(names, 4))
    padded = body + bytes(-len(body) % 4)
    return _with_notes(data, struct.pack("<III", 5, len(body), 0x46494C45) + b"CORE\0\0\0\0" + padded)


def _with_notes(data: bytearray, block: bytes) -> bytes:
    """``block`` at the end of the file, and the note segment moved there."""
    rows = [row for row in _rows(data) if data[row] == 4]
    if rows:
        row = rows[-1]
        struct.pack_into("<Q", data, row + 8, len(data))
        struct.pack_into("<Q", data, row + 32, len(block))
    return bytes(data) + block


def _cut(data: bytearray, dice: Random) -> bytes:
    return bytes(data[: dice.randrange(len(data) + 1)])


_CORE: tuple[Callable[[bytearray, Random], bytes], ...] = (
    *(_segment_lies, _segment_lies, _segment_kind, _header_lies, _note_lies, _note_lies),
    *(_note_bomb, _many_threads, _mapped_lies, _cut),
)


def notes(data: bytes, dice: Random) -> bytes:
    """A lie in a bare note segment, whose first note stands at 0."""
    block = bytearray(data)
    at = 0
    while at + NOTE <= len(block):
        name, body, _ = struct.unpack_from("<III", block, at)
        if dice.random() < 0.3:
            struct.pack_into("<I", block, at + dice.choice((0, 4, 8)), number(dice) & 0xFFFFFFFF)
            break
        at += NOTE + (name + 3 & ~3) + (body + 3 & ~3)
    return bytes(block) + (_thread(dice) if dice.random() < 0.3 else b"")


_MI_NAMES = (
    "level",
    "addr",
    "func",
    "file",
    "line",
    "from",
    "value",
    "msg",
    "id",
    "target-id",
    "stack",
    "x.y",
)
_MI_WORDS = (
    *("0", "??", "0x7f", "LWP 1", "true", "server_queue::start_loop", "\\n", '\\"', "\\\\", "\\033[2J"),
    *("99999999999999999999", "-1", "\x1b]0;x\x07", "\\", "{", "}]", "9" * 5000),
)


def mi(data: bytes, dice: Random) -> bytes:
    """Lines of MI: one more that follows its grammar, or one of the old ones bent."""
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    if dice.random() < 0.5:
        kind = dice.choice(("^done,", "^error,", "^running,", "*stopped,", "=x,", "^done"))
        text = f"{dice.randrange(20)}{kind}" + ",".join(_mi_pair(dice, 0) for _ in range(dice.randrange(3)))
        lines.insert(at, text.encode("utf-8", "replace"))
    elif dice.random() < 0.3:
        deep = dice.randrange(1, 400)
        lines.insert(at, b"1^done,a=" + b"[{a=" * deep + b'"x"' + b"}]" * dice.choice((deep, deep - 1)))
    else:
        lines[at] = line_bent(lines[at], dice)
    return b"\n".join(lines)


def _mi_pair(dice: Random, depth: int) -> str:
    return f"{dice.choice(_MI_NAMES)}={_mi_value(dice, depth)}"


def _mi_value(dice: Random, depth: int) -> str:
    roll = dice.random()
    if depth > 4 or roll < 0.5:
        return f'"{dice.choice(_MI_WORDS)}"'
    items = [
        (_mi_pair if dice.random() < 0.6 else _mi_value)(dice, depth + 1) for _ in range(dice.randrange(4))
    ]
    inside = ",".join(items)
    return f"{{{inside}}}" if roll < 0.75 else f"[{inside}]"


def line_bent(line: bytes, dice: Random) -> bytes:
    """A part of a line doubled, dropped, or replaced by what often breaks a reader."""
    a, b = sorted((dice.randrange(len(line) + 1), dice.randrange(len(line) + 1)))
    inserted = dice.choice((b"", line[a:b] * 2, *_TOKENS))
    return line[:a] + inserted + line[b if dice.random() < 0.5 else a :]


_TOKENS = (
    *(b"\x1b[31m", b"\x1b]8;;x\x07", b"\0", b"\r", b"\xff\xfe", b"\xc2\x9b", "\u202e".encode(), b"\t" * 30),
    *(b"9" * 400, b"-1", b"0x" + b"f" * 17, b"1e999", b"NaN", b"(" * 200, b'"', b"\\", b"{" * 60, b"[" * 60),
    *(b" " * 300, b"[4242]", b"pid=4242", "\u0661\u0662".encode(), b"99999.99.999.999 "),
    *(
        "\u00b2".encode(),
        "\U0001d7d9".encode(),
        b"a" * 3000,
        b"::" * 200,
        b"<" * 100,
        b"9999-99-99T99:99:99Z",
    ),
)


def lines(others: list[bytes]) -> Mutation:
    """Mutations of texts of lines; ``others`` are seeds whose lines are spliced in."""
    pool = [line for text in others for line in text.split(b"\n") if 0 < len(line) < 2000]

    def mutate(data: bytes, dice: Random) -> bytes:
        rows = data.split(b"\n")
        for _ in range(dice.choice((1, 1, 2, 4))):
            rows = _LINES[dice.randrange(len(_LINES))](rows, pool, dice)
        return dice.choice((b"\n", b"\n", b"\n", b"\n", b"\r\n")).join(rows)

    return mutate


Rows = list[bytes]


def _bend(rows: Rows, pool: Rows, dice: Random) -> Rows:
    at = dice.randrange(len(rows))
    return [*rows[:at], line_bent(rows[at], dice), *rows[at + 1 :]]


def _splice(rows: Rows, pool: Rows, dice: Random) -> Rows:
    at = dice.randrange(len(rows) + 1)
    return [*rows[:at], dice.choice(pool or [b""]), *rows[at:]]


def _drop(rows: Rows, pool: Rows, dice: Random) -> Rows:
    a = dice.randrange(len(rows))
    return [*rows[:a], *rows[a + dice.choice((1, 1, 5)) :]] or [b""]


def _double(rows: Rows, pool: Rows, dice: Random) -> Rows:
    at = dice.randrange(len(rows))
    return [*rows[:at], *[rows[at]] * dice.choice((2, 3, 50)), *rows[at + 1 :]]


def _swap(rows: Rows, pool: Rows, dice: Random) -> Rows:
    a, b = dice.randrange(len(rows)), dice.randrange(len(rows))
    rows = list(rows)
    rows[a], rows[b] = rows[b], rows[a]
    return rows


def _turn(rows: Rows, pool: Rows, dice: Random) -> Rows:
    return rows[::-1] if dice.random() < 0.3 else rows


def _wrap(rows: Rows, pool: Rows, dice: Random) -> Rows:
    """A supervisor's prefix before every line, or before a few."""
    prefix = dice.choice(_PREFIXES)
    share = dice.choice((1.0, 1.0, 0.3))
    return [prefix + row if dice.random() < share else row for row in rows]


_LINES = (_bend, _bend, _bend, _splice, _splice, _drop, _double, _swap, _turn, _wrap)
_PREFIXES = (
    *(b"Dec  2 08:00:00 host llama-server[4242]: ", b"llama-1  | ", b"[ 8080] ", b"> ", b"[  500.000000] "),
    *(b"2026-12-02T08:00:00.000000000Z ", b"2026-12-02T08:00:00Z stdout F ", b"[pod/a/b] ", b"    "),
    b"2026-12-02T08:00:00+00:00 host kernel: ",
)


def json_values(data: bytes, dice: Random) -> bytes:
    """One value somewhere in JSON, a whole or a line of it, replaced by another of any type and size."""
    rows = [data] if dice.random() < 0.5 else data.split(b"\n")
    at = dice.randrange(len(rows))
    try:
        rows[at] = json.dumps(_replaced(json.loads(rows[at]), dice)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        rows[at] = line_bent(rows[at], dice)
    return b"\n".join(rows)


def _replaced(value: object, dice: Random) -> object:
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        return {**value, key: _replaced(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        at = dice.randrange(len(value))
        return [*value[:at], _replaced(value[at], dice), *value[at + 1 :]]
    return dice.choice(_JSON)


_JSON: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 11, 1 << 31, 1 << 63, -(1 << 64), 10**400, 0.5, -0.0, 1e308, float("nan")),
    *(
        float("inf"),
        "",
        "x",
        "\u00b2",
        "4242",
        "-1",
        "1e999",
        "\x1b[2J\x00\x9b",
        "\u202e",
        "\ud800",
        "a" * 5000,
    ),
    *([], {}, [[]], [0], [300, -1], ["x"], {"x": []}, {"": None}, "../../x", "2026-13-99T99:99:99Z", "0x10"),
)


def either(first: Mutation, second: Mutation) -> Mutation:
    """Now one, now the other."""
    return lambda data, dice: (first if dice.random() < 0.5 else second)(data, dice)


def after_first(mutation: Mutation) -> Mutation:
    """The same behind a first byte that chooses the reader."""

    def mutate(data: bytes, dice: Random) -> bytes:
        first = data[:1] if dice.random() < 0.9 else bytes((dice.randrange(4),))
        return first + mutation(data[1:], dice)

    return mutate


def tar(data: bytes, dice: Random) -> bytes:
    """A header of a tar changed and its checksum made right again; sometimes packed anew."""
    block = bytearray(data)
    heads = [at for at in range(0, len(block) - 511, 512) if block[at + 257 : at + 262] == b"ustar"]
    if heads:
        at = dice.choice(heads)
        _tar_field(block, at, dice)
        block[at + 148 : at + 156] = b" " * 8
        block[at + 148 : at + 156] = b"%06o\0 " % sum(block[at : at + 512])
    return bytes(block)


def _tar_field(block: bytearray, at: int, dice: Random) -> None:
    field, size = dice.choice(((0, 100), (124, 12), (156, 1), (157, 100), (345, 155), (100, 8)))
    values = {
        0: (
            b"../x",
            b"/etc/x",
            b"a\\b",
            b"\xff",
            b"a/../b",
            b"a",
            b"",
            b"\x1b[2J",
            b"x/" * 49,
            b"manifest.json",
        ),
        124: (
            b"00000000000",
            b"77777777777",
            b"\x80" + b"\xff" * 11,
            b"\xff" * 12,
            b"-1",
            b"abc",
            b"00000001000",
        ),
        156: tuple(bytes((code,)) for code in b"0123456789LKxgSV\0"),
        157: (b"/etc/passwd", b"..", b""),
        345: (b"..", b"a", b"x" * 155),
        100: (b"7777777", b"xxx"),
    }[field]
    block[at + field : at + field + size] = dice.choice(values)[:size].ljust(size, b"\0")
