"""Text a dying server prints itself, raw on stderr or through its logger: AbortFact.

Only the part that stands in the source is kept; what an exception's message says beyond the library's
own words can be a client's text and is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.contracts.facts import AbortFact
from analyzers.logs.grammar import known_error

WAKE_RELOAD = "failed to reload model after sleeping"

_SITE = re.compile(
    r"(?P<path>(?:[\w.+ ~-]{0,80}/){0,24}[\w.+-]{1,80}\.(?:cpp|cc|cxx|c|cu|cuh|h|hpp|m|mm"
    r"|comp)):(?P<line>\d{1,6}): (?P<text>.{1,2000})"
)
_OWN = re.compile(r"(?:^|/)(?:ggml[\w-]*|src|common|mtmd|server|tools|examples|llava)/")
_CALLER = r"(?:[\w:~<>]{1,80}(?:\(\))?: )?"
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "gpu-oom",
        re.compile(
            _CALLER
            + (
                r"(?P<message>allocating [\d.]{1,20} MiB on device \d{1,3}: (?:cuda|hip|musa)Malloc"
                r" failed: [\w ()]{1,80})"
            )
        ),
    ),
    ("gpu-oom", re.compile(_CALLER + r"(?P<message>(?:CUDA|ROCm|HIP|MUSA|SYCL) error: out of memory)")),
    (
        "gpu-oom",
        re.compile(
            _CALLER
            + (
                r"(?P<message>failed to allocate (?!CPU)(?:CUDA|ROCm|HIP|MUSA|SYCL|Vulkan|Metal|OpenCL"
                r"|CANN)\w{0,16} buffer of size \d{1,20}).{0,80}"
            )
        ),
    ),
    (
        "gpu-oom",
        re.compile(
            r"(?:ggml_vulkan: )?(?P<message>Device memory allocation of size \d{1,20} failed\.?).{0,200}"
        ),
    ),
    (
        "gpu-oom",
        re.compile(
            _CALLER + r"(?:.{0,80})(?P<message>vk::[\w:]{1,60}: Error\w{0,3}OutOf(?:Device|Host)Memory)"
        ),
    ),
    ("cuda", re.compile(_CALLER + r"(?:.{0,80})(?P<message>vk::[\w:]{1,60}: Error\w{0,3}DeviceLost)")),
    ("cuda", re.compile(_CALLER + r"(?P<message>(?:CUDA|ROCm|HIP|MUSA|SYCL) error: [\w ()'.,:-]{1,120})")),
    (
        "alloc",
        re.compile(
            _CALLER
            + (
                r"(?:llama_init_from_model: )?(?P<message>(?:failed|unable) to allocate [\w -]{1,60}?"
                r"(?:buffers?|bytes|graph|context)\b(?: of size [\d.]{1,20}(?: MiB)?)?).{0,120}"
            )
        ),
    ),
    (
        "malloc",
        re.compile(
            r"(?P<message>(?:malloc|free|realloc|munmap_chunk|malloc_consolidate)\(\): [\w ():.,>-]{1,80})"
        ),
    ),
    (
        "malloc",
        re.compile(
            r"(?P<message>double free or corruption \([\w!]{1,16}\)|corrupted (?:size vs\."
            r" prev_size[\w ]{0,40}|double-linked list[\w ()]{0,24}))"
        ),
    ),
    (
        "stack-smash",
        re.compile(r"(?P<message>\*\*\* stack smashing detected \*\*\*: \w{1,40})(?: terminated)?"),
    ),
    (
        "terminate",
        re.compile(r"terminate called after throwing an instance of '(?P<exception>[\w:<>, *&\[\]]{1,160})'"),
    ),
    (
        "terminate",
        re.compile(
            r"(?P<message>terminate called (?:without an active exception|recursively)|pure"
            r" virtual method called)"
        ),
    ),
)
_WHAT = re.compile(r"  what\(\): +(?P<what>.{0,65536})", re.DOTALL)


@dataclass(frozen=True)
class Aborted:
    fact: AbortFact
    shown: str


def parse_abort(text: str) -> Aborted | None:
    """The abort fact of one line (elapsed stamp and level already gone), or None."""
    return _site(text) or _what(text) or _by_rule(text)


def _site(text: str) -> Aborted | None:
    match = _SITE.fullmatch(text)
    if match is None or not _OWN.search(match["path"]):
        return None
    file, line = match["path"].rsplit("/", 1)[-1], int(match["line"])
    shape, message = _site_shape(match["text"])
    return Aborted(AbortFact(shape=shape, message=message, file=file, line=line), f"{file}:{line}: {message}")


def _site_shape(text: str) -> tuple[str, str]:
    if text.startswith("GGML_ASSERT("):
        return "ggml-assert", text[:400]
    if text == WAKE_RELOAD:
        return "wake-reload", text
    if re.fullmatch(r"(?:CUDA|ROCm|HIP|MUSA|SYCL) error", text):
        return "cuda", text
    return "ggml-abort", text[:120]


def _what(text: str) -> Aborted | None:
    match = _WHAT.fullmatch(text)
    if match is None:
        return None
    known = known_error(match["what"]).strip(" ()")
    shown = f"what(): {known}" if known else "what(): (text left out)"
    return Aborted(AbortFact(shape="exception", message=known or None), shown)


def _by_rule(text: str) -> Aborted | None:
    for shape, pattern in _RULES:
        match = pattern.fullmatch(text)
        if match is not None:
            found = match.groupdict()
            message, exception = found.get("message"), found.get("exception")
            shown = message or f"terminate called after throwing an instance of '{exception}'"
            return Aborted(AbortFact(shape=shape, message=message, exception=exception), shown)
    return None
