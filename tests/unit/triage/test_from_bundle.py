"""A bundle's log is its process's: it must not lend its sleep to another process's core."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tarfile import TarInfo

import zstandard

from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence
from analyzers.contracts.report import Process
from analyzers.triage.from_bundle import bundle_materials
from analyzers.triage.group import group
from analyzers.triage.material import Material, numbering
from analyzers.triage.sniff import sniff
from tests.fixtures.elfcore import CoreBuilder

ONE_LIFE = b"""\
0.00.000.300 I srv          init: initializing ...
0.00.030.948 I srv          init: model loaded
0.00.030.949 I srv          init: listening on http://127.0.0.1:44425
0.01.043.870 I que    start_loop: entering sleeping state
"""
KERNEL = b"[ 4646.603480] llama-server[99]: segfault at 0 ip 0 sp 1 error 4 in libllama.so[1000,2000+3000]\n"


def materials(tmp_path: Path, **files: bytes) -> list[Material]:
    tmp_path.mkdir(exist_ok=True)
    named = {name.replace("_", "."): data for name, data in files.items()}
    write_bundle(tmp_path / "a.bundle", ManifestParts(created=1.0, process=Process(pid=7)), named)
    with ExitStack() as stack:
        return bundle_materials(tmp_path / "a.bundle", (), None, numbering(), stack)


def pids(items: list[Evidence]) -> set[int | None]:
    return {item.incarnation.pid for item in items}


def test_the_log_of_a_bundle_carries_its_process(tmp_path: Path) -> None:
    found = materials(tmp_path, server_log=ONE_LIFE)
    log = [item for material in found for item in material.evidence]
    assert pids(log) == {7}
    assert pids([item for material in found for life in material.lives for item in life.items]) == {7}


def test_it_joins_its_own_core_and_no_other(tmp_path: Path) -> None:
    found = materials(tmp_path, server_log=ONE_LIFE)
    for pid, joins in ((7, True), (8, False)):
        groups, gaps = group([Material(process=Process(pid=pid), anchor=True), *found])
        assert bool(groups[0].evidence) is joins
        assert any("other processes" in gap.why and "server.log" in gap.what for gap in gaps) is not joins


def test_a_log_of_several_lives_and_the_kernels_lines_are_not_bound(tmp_path: Path) -> None:
    several = materials(tmp_path / "a", server_log=ONE_LIFE + ONE_LIFE)
    assert pids([item for material in several for item in material.evidence]) == {None}
    kernel = materials(tmp_path / "b", kernel_txt=KERNEL)
    assert pids([i for m in kernel for i in m.evidence if i.kind == "kernel"]) == {None}


def test_a_packed_core_is_read_and_foreign_things_are_gaps(tmp_path: Path) -> None:
    core = CoreBuilder(arguments=b"llama-server --api-key planted-key").thread(4000, rip=1).bytes()
    inside = {
        "core.zst": zstandard.compress(core),
        "x.png": b"\x89PNG",
        "b.tar": TarInfo("a").tobuf() + bytes(1024),
    }
    for name, data in {"manifest.json": b'{"schema":"llama-blackbox/bundle/1"}', **inside}.items():
        (tmp_path / name).write_bytes(data)
    for private in (False, True):
        with ExitStack() as stack:
            found = bundle_materials(tmp_path, (), None, numbering(), stack, include_private=private)
        (anchor,) = [material for material in found if material.anchor]
        assert anchor.process.pid == 4000
        assert ("planted-key" in anchor.process.args) is private
        assert anchor.secrets == ("planted-key",)
        gaps = {gap.what: gap.why for material in found[1:] for gap in material.gaps}
        assert gaps["x.png"] == "a picture"
        assert gaps["b.tar"] == "a bundle inside a bundle"


def test_evidence_alone_is_a_bundle(tmp_path: Path) -> None:
    # GIVEN a folder with nothing but recorded facts
    whole = materials(tmp_path / "whole", server_log=ONE_LIFE)
    lines = [item.model_dump_json() for material in whole for item in material.evidence]
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "evidence.jsonl").write_text("\n".join(lines) + "\n")
    # THEN it is read, and what is missing is a gap
    assert sniff(alone) == "bundle"
    with ExitStack() as stack:
        (only,) = bundle_materials(alone, (), None, numbering(), stack)
    assert [item.text for item in only.evidence] == [i.text for m in whole for i in m.evidence]
    assert any("manifest.json" in gap.what for gap in only.gaps)
