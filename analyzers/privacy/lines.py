"""Where a new record begins in a text that mixes log lines with what clients sent.

A prompt or body printed raw has no end mark. It is taken to end where a line begins that only the server,
the C library, the kernel or a debugger writes: that keeps the telling lines that follow a prompt. The price
is that a prompt which quotes such a line raw, after a line break of its own, is taken out up to there only.
"""

from __future__ import annotations

from analyzers.privacy.late import Late

# Wrappers put at most a date, a host, a program and a PID before a line; longer prefixes are prompt text.
_WRAPPER = (
    r"(?:[^\n]{0,100}?(?:\| |\]: |std(?:out|err) [FP] "
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ))?? {0,4}(?:\[ *\d{1,5}\] )?"
)
_ANSI = r"(?:\x1b\[[\d;]{0,20}m)*"
_TELLING = "|".join(
    (
        r"\d{1,9}\.\d\d\.\d{3}\.\d{3} [A-Z] ",  # F4, F5
        r"(?:srv|slot|que|res|cmn) {1,12}[\w~:()]{1,32}: ",  # F3
        r"(?:INFO|WARN|ERR|ERROR|VERB|DEBUG) {1,4}\[",  # F2
        r'\{"(?:type":"log|function|level|tid|timestamp|time|ts|msg|log)"',  # F1, F6 and shippers
        r'\{"_{0,2}[A-Z][A-Z_]{1,40}"',  # a journal as JSON and as export
        r"__CURSOR=",
        r"(?:main|print_info|load|(?:load|ggml|llama|common|clip)_\w{1,48})\b[^\n:]{0,16}: ",
        r"cmd_child_to_router:",
        r"[\w./+-]{1,200}:\d{1,6}: ",  # file:line: of a GGML_ASSERT or GGML_ABORT
        r"GGML_(?:ASSERT|ABORT)\b",
        r"CUDA error",
        r"terminate called",
        r" {1,4}what\(\): ",
        r"(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Killed|Trace/breakpoint trap)\b",
        r"(?:double free or corruption|(?:malloc|free|munmap_chunk)\(\): |corrupted |\*\*\* stack smashing)",
        r"\[ *\d{1,9}\.\d{6}\] ",  # kernel
        r"#\d{1,6} ",  # a frame
        r"(?:\[New LWP|\[Thread debugging|Thread \d|TID \d|PID \d|Program terminated|Core was generated)",
    )
)
RECORD_START = Late(r"(?:(?<=\n)|\A)(?=" + _ANSI + _WRAPPER + _ANSI + "(?:" + _TELLING + "))")
_NEXT_RECORD = Late(r"\r?\n(?=" + _ANSI + _WRAPPER + _ANSI + "(?:" + _TELLING + "))")
# Entered only behind a character that is no break, so that a run of breaks is tried once.
_LAST_BREAKS = Late(r"(?:(?<![\r\n])[\r\n]+)?\Z")


def record_end(text: str, start: int) -> int:
    """Offset of the line break that ends the record around ``start``, or of those that end the text."""
    found = _NEXT_RECORD.search(text, start)
    return found.start() if found else max(start, _LAST_BREAKS.search(text, start).start())  # type: ignore[union-attr]


def starts_record(text: str, line: int) -> bool:
    """True when the line that begins at offset ``line`` begins a record."""
    return RECORD_START.match(text, line) is not None
