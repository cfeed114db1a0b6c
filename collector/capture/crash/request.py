"""What the kernel says of a crash in the handler's arguments, and the pattern that makes it say so.

Rules of the expansion: core(5), ``format_corename`` in fs/coredump.c. A specifier the kernel does not know
expands to nothing: the numbers therefore stand in one argument, between commas.
"""

LETTERS = "PpiIstdFcugC"
PATTERN_ROOM = 127  # CORENAME_MAX_SIZE less its NUL
UNLIMITED = (1 << 64) - 1
_DUMP_AS_ROOT = 2  # SUID_DUMP_ROOT


def core_pattern(python: str, main: str) -> str:
    """The line for kernel.core_pattern. ``python``: the interpreter; ``main``: this package's __main__.py.

    Raises ValueError when the kernel would cut it, or would split a path at a blank.
    """
    for path in (python, main):
        if not path.startswith("/") or any(char.isspace() or char == "%" for char in path):
            raise ValueError(f"the kernel cannot run {path!r}: an absolute path without blanks is needed")
    numbers = ",".join(f"%{letter}" for letter in LETTERS)
    line = f"|{python} -ISB {main} {numbers} %h %e %E"
    if len(line) > PATTERN_ROOM:
        raise ValueError(f"the pattern has {len(line)} characters, the kernel takes {PATTERN_ROOM}")
    return line


class Crash:
    """One call of the handler. ``values``: letter → text as the kernel expanded it, empty where it did not.

    ``pid`` and ``tid`` count in the initial PID namespace; ``%p`` and ``%i`` in the process's own.
    """

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.pid = int(values["P"])

    def number(self, letter: str) -> int | None:
        """A number among the values; None where the kernel gave none."""
        text = self.values.get(letter, "")
        return int(text) if text.lstrip("-").isdecimal() else None

    @property
    def tid(self) -> int | None:
        return self.number("I")

    @property
    def core_limit(self) -> int:
        """RLIMIT_CORE of the dying process (soft); 0 when it is not known: nothing is written then."""
        return self.number("c") or 0

    @property
    def as_root(self) -> bool:
        """suid_dumpable = 2 and a process that changed its rights: its core belongs to root."""
        return self.number("d") == _DUMP_AS_ROOT

    @property
    def program(self) -> str:
        """The program's path, as far as an exclamation mark in it can be told from a slash."""
        return self.values.get("E", "").replace("!", "/")


def parse(words: list[str]) -> Crash:
    """The arguments after the script's name. Raises ValueError when they are not this handler's.

    Kernels before 5.3 split at blanks after the expansion: a thread's name and a program's path with
    blanks come as several words then, the path being the one that starts at an exclamation mark.
    """
    if len(words) < 2 or words[0].count(",") != len(LETTERS) - 1:
        raise ValueError("not the arguments of this handler")
    values = dict(zip(LETTERS, words[0].split(","), strict=True))
    rest = words[2:]
    path = next((at for at, word in enumerate(rest) if at and word.startswith("!")), len(rest))
    thread, program = " ".join(rest[:path]), " ".join(rest[path:])
    values.update(h=file_name(words[1]), e=file_name(thread), E=program)
    values["f"] = file_name(program.rpartition("!")[2])  # ambiguous: passing on asks the process itself
    return Crash(values)


def file_name(name: str) -> str:
    """A name as the kernel puts it into a path: no slash, never a folder's own or its parent's, never empty
    (``cn_printf`` in fs/coredump.c)."""
    plain = name.replace("/", "!")
    return f"!{plain[1:]}" if plain in ("", ".", "..") else plain


def expand(pattern: str, crash: Crash) -> str:
    """``pattern`` (no blanks are split here) with its specifiers replaced, as the kernel does."""
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char != "%":
            out.append(char)
        elif at + 1 < len(pattern):
            at += 1
            out.append("%" if pattern[at] == "%" else crash.values.get(pattern[at], ""))
        at += 1
    return "".join(out)
