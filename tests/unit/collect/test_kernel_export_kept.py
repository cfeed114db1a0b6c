"""The journal's kernel lines in a bundle are the dead process's own and the machine's, byte for byte."""

from __future__ import annotations

from collector.gather.kernellines import export_of_server_or_machine


def entry(number: int, text: str) -> bytes:
    return f"__CURSOR=s={number}\n__MONOTONIC_TIMESTAMP={number * 1_000_000}\nMESSAGE={text}\n\n".encode()


def fault(name: str, tid: int) -> str:
    return f"{name}[{tid}]: segfault at 8 ip 0000000000401136 sp 00007ffd0 error 6 in {name}[401000+1000]"


def test_other_programs_lines_stay_on_the_host() -> None:
    own, code = entry(5, fault("llama-server", 4711)), entry(5, "Code: 48 89 05 <c7> 04 25")
    other, words = entry(6, fault("payroll", 4712)), entry(7, "usb 1-1: SerialNumber: of somebody")
    memory = entry(8, "Out of memory: Killed process 4711 (llama-server) total-vm:1kB, anon-rss:1kB")
    # WHEN the slice is reduced
    kept = export_of_server_or_machine(own + code + other + words + memory, frozenset({4711}))
    # THEN the server's, what follows them and the machine's are there as they were
    assert kept == own + code + memory


def test_nothing_left_is_nothing() -> None:
    assert export_of_server_or_machine(entry(6, fault("payroll", 4712)), frozenset({4711})) == b""
    assert export_of_server_or_machine(b"", frozenset({4711})) == b""
