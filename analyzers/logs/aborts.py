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
# assert of the C library (program first) and of libstdc++'s checked containers (file first)
_ASSERTION = re.compile(
    r"(?:[\w.+-]{1,64}: )?(?P<path>/?[\w.+~/-]{1,300}):(?P<line>\d{1,6}): .{1,1500}: Assertion "
    r"[`'](?P<expression>.{1,300})' failed\.?"
)
_OLD_ASSERT = re.compile(  # the macro's wording until mid-2024
    r"GGML_ASSERT: (?:[^:]{1,300}/)?(?P<file>[\w.+-]{1,80}):(?P<line>\d{1,6}): (?P<expression>.{1,400})"
)
_UNCAUGHT = re.compile(  # LLVM's C++ library; what follows the type may be a client's
    r"libc\+\+abi: terminating (?:due to|with) uncaught exception of type "
    r"(?P<exception>[\w:<>, *&\[\]]{1,160}?)"
    r"(?:: (?P<what>.{0,65536}))?"
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
    (
        "gpu-oom",
        re.compile(
            r"(?P<message>error: Insufficient Memory"
            r" \([0-9a-f]{8}:kIOGPUCommandBufferCallbackErrorOutOfMemory\))"
        ),
    ),
    (
        "cuda",
        re.compile(
            r"(?P<message>Memory access fault by GPU node-\d{1,3}) \(Agent handle: 0x[0-9a-f]{1,16}\)"
            r" on address .{0,200}"
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
        "alloc",
        re.compile(
            r"(?P<message>ggml_aligned_malloc: insufficient memory) \(attempted to allocate +[\d.]{1,20} MB\)"
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


# Vulkan's C++ header throws one type per result code; nobody catches them.
_VK_TYPES = {"vk::DeviceLostError": "cuda", "vk::OutOfDeviceMemoryError": "gpu-oom"}
_VK_WHAT = re.compile(r"vk::[\w:]{1,60}: Error(?P<result>DeviceLost|OutOfDeviceMemory)")
_VK_RESULTS = {"DeviceLost": "cuda", "OutOfDeviceMemory": "gpu-oom"}


@dataclass(frozen=True)
class Aborted:
    fact: AbortFact
    shown: str


def parse_abort(text: str) -> Aborted | None:
    """The abort fact of one line (elapsed stamp and level already gone), or None."""
    return _assertion(text) or _site(text) or _what(text) or _uncaught(text) or _by_rule(text)


def _assertion(text: str) -> Aborted | None:
    match = _ASSERTION.fullmatch(text)
    if match is not None:
        return _checked(match, f"Assertion '{match['expression']}' failed", match["path"].rpartition("/")[2])
    match = _OLD_ASSERT.fullmatch(text)
    return _checked(match, f"GGML_ASSERT({match['expression']})", match["file"]) if match else None


def _checked(match: re.Match[str], message: str, file: str) -> Aborted:
    fact = AbortFact(shape="ggml-assert", message=message, file=file, line=int(match["line"]))
    return Aborted(fact, f"{file}:{fact.line}: {message}")


def _uncaught(text: str) -> Aborted | None:
    match = _UNCAUGHT.fullmatch(text)
    if match is None:
        return None
    known = known_error(match["what"] or "").strip(" ()")
    shown = f"terminating due to uncaught exception of type {match['exception']}"
    fact = AbortFact(shape="terminate", message=known or None, exception=match["exception"])
    return Aborted(fact, f"{shown} ({known})" if known else shown)


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
    if re.fullmatch(r"(?:CUDA|ROCm|HIP|MUSA|SYCL) error|HipVMM Failure: [\w ]{1,80}", text):
        return "cuda", text
    return "ggml-abort", text[:120]


def _what(text: str) -> Aborted | None:
    match = _WHAT.fullmatch(text)
    if match is None:
        return None
    vulkan = _VK_WHAT.fullmatch(match["what"].rstrip())
    if vulkan is not None:
        return Aborted(
            AbortFact(shape=_VK_RESULTS[vulkan["result"]], message=vulkan[0]), f"what(): {vulkan[0]}"
        )
    known = known_error(match["what"]).strip(" ()")
    shown = f"what(): {known}" if known else "what(): (text left out)"
    return Aborted(AbortFact(shape="exception", message=known or None), shown)


def _by_rule(text: str) -> Aborted | None:
    for shape, pattern in _RULES:
        match = pattern.fullmatch(text)
        if match is not None:
            found = match.groupdict()
            message, exception = found.get("message"), found.get("exception")
            shape = _VK_TYPES.get(exception or "", shape)
            shown = message or f"terminate called after throwing an instance of '{exception}'"
            return Aborted(AbortFact(shape=shape, message=message, exception=exception), shown)
    return None
