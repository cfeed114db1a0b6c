"""The machine failed, and not the server; and machines whose trouble is somebody else's. Recorded shapes."""

from __future__ import annotations

import pytest

from analyzers.contracts.evidence import Incarnation, Trust
from analyzers.contracts.facts import KernelFact
from analyzers.contracts.watched import HostFact
from analyzers.logs.kernel import parse_kernel_line
from evidence_builder import NEVER_SLEPT, Maker
from watch_builder import Watched, found

CORRUPTION = "due to hardware memory corruption"
OLD, NEW = "0" * 32, "1" * 32


def of_boot(maker: Maker, boot: str, wall: float = 1000.0) -> Maker:
    """The same evidence, of one boot."""
    known = {"incarnation": Incarnation(pid=7, boot_id=boot), "wall": wall}
    maker.made = [item.model_copy(update=known) for item in maker.made]
    return maker


def rebooted(maker: Maker, boot: str | None = NEW) -> Maker:
    return maker.add(HostFact(event="rebooted", boot_id=boot), Trust.SUPERVISOR)


def test_another_boot_after_the_last_line_is_the_hosts_failure() -> None:
    verdict = found(rebooted(of_boot(Maker().log(*NEVER_SLEPT), OLD)))
    assert (verdict.class_, verdict.cause, verdict.confidence) == ("HOST-FAILURE", "host", "strong")
    assert verdict.asks


def test_a_reboot_that_stopped_the_server_first_is_planned() -> None:
    assert (
        found(rebooted(of_boot(Maker().log("loaded", "listening", "cleaning-up"), OLD))).class_ == "NO-FAULT"
    )


def test_a_reboot_after_a_death_of_its_own_explains_nothing() -> None:
    assert found(rebooted(of_boot(Maker().log(*NEVER_SLEPT).exit(11), OLD))).class_ == "SEGV"
    assert (
        found(rebooted(of_boot(Maker().log("listening").abort("ggml-assert"), OLD))).class_ == "ABRT-ASSERT"
    )


def test_the_same_boot_is_no_reboot() -> None:
    verdict = found(rebooted(of_boot(Maker().log(*NEVER_SLEPT), OLD), OLD))
    assert verdict.confidence == "weak"


def booted(wall: float) -> Maker:
    maker = of_boot(Maker().log(*NEVER_SLEPT), OLD)
    maker.add(KernelFact(shape="boot"), Trust.KERNEL)
    maker.made[-1] = maker.made[-1].model_copy(update={"wall": wall})
    return maker


def test_a_kernel_that_starts_after_the_servers_last_line_is_a_weak_sign_and_before_it_none() -> None:
    assert (found(booted(2000.0)).class_, found(booted(2000.0)).confidence) == ("HOST-FAILURE", "weak")
    assert found(booted(500.0)).class_ == "UNDETERMINED"


@pytest.mark.parametrize(("shape", "confidence"), [("panic", "strong"), ("lockup", "weak")])
def test_a_kernel_that_fails_takes_the_server_along(shape: str, confidence: str) -> None:
    verdict = found(Maker().log(*NEVER_SLEPT).kernel(shape))
    assert (verdict.class_, verdict.confidence) == ("HOST-FAILURE", confidence)


def test_a_lockup_that_the_server_outlived_is_not_its_end() -> None:
    maker = of_boot(Maker().log(*NEVER_SLEPT), OLD, wall=5000.0).kernel("lockup")
    maker.made[-1] = maker.made[-1].model_copy(update={"wall": 1000.0})
    assert found(maker).class_ == "UNDETERMINED"


def test_broken_memory_under_the_server_is_the_hosts() -> None:
    maker = Maker().log(*NEVER_SLEPT).kernel("memory-corruption", mono=99.0)
    maker.add(KernelFact(shape="other"), Trust.KERNEL)
    maker.exit(7)
    maker.made[-1] = maker.made[-1].model_copy(update={"mono": 100.0})
    assert (found(maker).class_, found(maker).confidence) == ("HOST-FAILURE", "strong")


def test_a_hardware_error_an_hour_before_a_crash_is_not_its_cause() -> None:
    maker = Maker().log(*NEVER_SLEPT).kernel("machine-check", mono=100.0).kernel("segfault", mono=3700.0)
    assert found(maker).class_ == "SEGV"


def test_storage_errors_beside_a_bus_error_point_at_the_host_and_alone_at_nothing() -> None:
    bus = found(Maker().log(*NEVER_SLEPT).kernel("storage-error").exit(7))
    assert (bus.class_, bus.cause) == ("BUS", "host")
    assert found(Maker().log(*NEVER_SLEPT).kernel("storage-error")).class_ == "UNDETERMINED"
    assert found(Maker().log(*NEVER_SLEPT).kernel("storage-error").exit(11)).class_ == "SEGV"


def test_a_machine_that_is_suspended_and_one_that_came_back() -> None:
    gone = found(Maker().log(*NEVER_SLEPT).kernel("suspend"))
    assert (gone.class_, gone.confidence) == ("HOST-FAILURE", "weak")
    back = Watched()
    back.log(*NEVER_SLEPT).kernel("suspend").kernel("resume")
    assert found(back.probe("/props", 200, is_sleeping=False)).class_ == "NO-FAULT"


def test_a_host_line_that_a_client_printed_is_not_believed() -> None:
    maker = Maker().log(*NEVER_SLEPT).kernel("panic", trust=Trust.CLIENT)
    maker.add(HostFact(event="rebooted", boot_id=NEW), Trust.CLIENT)
    assert found(maker).class_ == "UNDETERMINED"


def test_host_lines_are_no_end_of_the_server_and_date_no_gpu_fault() -> None:
    maker = Maker().log(*NEVER_SLEPT).kernel("gpu-fault", mono=100.0).kernel("suspend", mono=101.0)
    maker.kernel("segfault", mono=9000.0)
    assert found(maker).class_ == "SEGV"


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        (f"Memory failure: 0x3f8: Sending SIGBUS to llama-server:77 {CORRUPTION}", "memory-corruption"),
        (f"Memory failure: 0x3f8: Killing llama-server:77 {CORRUPTION}", "memory-corruption"),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400",
            "machine-check",
        ),
        ("{1}[Hardware Error]: event severity: fatal", "machine-check"),
        ("{1}[Hardware Error]: event severity: corrected", None),
        ("I/O error, dev nvme0n1, sector 4096 op 0x0:(READ) flags 0x80700", "storage-error"),
        ("blk_update_request: I/O error, dev sda, sector 4096", "storage-error"),
        ("EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2", "storage-error"),
        ("nfs: server store not responding, still trying", "storage-error"),
        ("nfs: server store OK", None),
        ("Kernel panic - not syncing: Fatal hardware error!", "panic"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [llama-server:77]", "lockup"),
        ("PM: suspend entry (s2idle)", "suspend"),
        ("PM: suspend exit", "resume"),
        ("Linux version 6.1.0-18-amd64 (builder@host) (gcc 12.2.0) #1 SMP", "boot"),
        ("a prompt about Linux version 6.1.0 (x)", None),
    ],
)
def test_the_kernels_words_about_the_machine(line: str, shape: str | None) -> None:
    fact = parse_kernel_line(f"[  167.931895] {line}")
    assert (fact.shape if fact else None) == shape
