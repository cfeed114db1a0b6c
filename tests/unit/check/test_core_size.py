"""The size of a core that was not taken yet: the kernel's rules, map by map."""

from __future__ import annotations

import pytest

from collector.check.image import NOTES, PAGE, mappings, read_image

DEFAULT = 0x33
KIB = 1024


def row(
    path: str = "", *, access: str = "rw-p", kib: int = 64, inode: int = 0, offset: int = 0, **fields: int
) -> str:
    """One map of ``kib`` KiB; ``fields`` in KiB; its ``VmFlags`` are told by its path."""
    flags = FLAGS.get(path, "rd wr mr mw me ac")
    lines = [f"10000000-{0x10000000 + kib * KIB:x} {access} {offset:08x} 00:00 {inode} {path}"]
    lines += [f"{name}: {value} kB" for name, value in fields.items()]
    return "\n".join([*lines, f"VmFlags: {flags}"]) + "\n"


FLAGS = {"/dontdump": "rd wr dd", "/dev/nvidia0": "rd wr sh io dd", "/huge": "rd wr ht"}


def size(smaps: str, bits: int = DEFAULT) -> tuple[int, int]:
    made = read_image(smaps, bits)
    return (made.size - NOTES) // KIB, (made.written - NOTES) // KIB


def test_touched_private_memory_is_in_and_untouched_memory_is_not() -> None:
    assert size(row(Rss=16, Anonymous=16)) == (64, 16)
    assert size(row()) == (0, 0)
    assert size(row(Swap=8)) == (64, 8)


def test_weights_that_are_only_mapped_stay_out_and_one_dirtied_page_pulls_the_map_in() -> None:
    assert size(row("/m.gguf", access="r--s", inode=7, Rss=64)) == (0, 0)
    assert size(row("/m.gguf", inode=7, Rss=64, offset=4096)) == (0, 0)
    assert size(row("/m.gguf", inode=7, Rss=64, offset=4096, Anonymous=4)) == (64, 64)


def test_the_first_page_of_a_library_is_its_header() -> None:
    assert size(row("/lib.so", access="r--p", inode=7, Rss=64)) == (PAGE // KIB, PAGE // KIB)
    assert size(row("/lib.so", access="r--p", inode=7, Rss=64), 0x23) == (0, 0)


def test_unlinked_shared_memory_is_anonymous_to_the_kernel() -> None:
    assert size(row("/memfd:x (deleted)", access="rw-s", inode=7, Rss=8)) == (64, 8)
    assert size(row("/memfd:x (deleted)", access="rw-s", inode=7, Rss=8), 0x31) == (0, 0)


@pytest.mark.parametrize("path", ["/dontdump", "/dev/nvidia0"])
def test_what_is_marked_or_a_device_is_never_dumped(path: str) -> None:
    assert size(row(path, inode=1, Rss=64, Anonymous=64), 0x7F) == (0, 0)


def test_device_maps_and_withheld_memory_are_counted() -> None:
    text = row("/dev/nvidia0", access="rw-s", inode=1) + row("/dontdump", Rss=8, Anonymous=8)
    made = read_image(text, DEFAULT)
    assert (made.device, made.withheld) == (64 * KIB, 8 * KIB)


def test_huge_pages_have_a_bit_of_their_own() -> None:
    assert size(row("/huge")) == (64, 64)
    assert size(row("/huge"), 0x13) == (0, 0)


def test_a_filter_without_private_memory_keeps_almost_nothing() -> None:
    text = row(Rss=64, Anonymous=64) + row("[stack]", Rss=8, Anonymous=8)
    assert size(text, 0x30) == (0, 0)
    assert read_image(text, 0x30).left_out == 72 * KIB


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_text_cut_anywhere_never_raises(cut: int) -> None:
    list(mappings(row(Rss=1, Anonymous=1)[:cut]))


def test_a_real_process_is_read() -> None:
    with open("/proc/self/smaps", encoding="utf-8") as file:
        made = read_image(file.read(), DEFAULT)
    assert made.size > made.written > 1 << 20
    assert any("python" in path or "libc" in path for path in made.files)
