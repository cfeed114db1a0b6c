"""Real D1 and D2: from the capture to the verdict, as strong as from a full core; slimmed; imported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from crash_lab import installed, manifest, needs_root, until
from test_crash_real import KEY, sleeping, struck

from analyzers.contracts.report import Report
from analyzers.triage.run import Options, triage
from collector.capture.crash.writing import FULL_CORE
from collector.capture.handing import write
from collector.capture.importing import found_in, run
from collector.capture.intake.take import KNOWN, TAKEN
from collector.capture.kept.captures import Capture, captures
from collector.capture.kept.filing import slim_full
from collector.capture.kept.signatures import signature
from collector.lab.faults import d2_unload_under_reader, provoked
from collector.lab.faults.provoked import Stage
from collector.lab.reference import ReferenceServer, RunningServer, ServerSpec, cached_model
from collector.lab.reference.cores import CoreSearch
from collector.lab.reference.environments import STALE_CAPTURE_VERSION, prepare

pytestmark = [pytest.mark.real, needs_root]
NONE = Path("/nonexistent")
CERTAIN = ("proven", "strong")  # the first is the more certain
TIED_BY_FOLDER = (*CERTAIN, "weak")  # a log beside a core, with neither PID nor start, is at most a weak sign


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    with ReferenceServer(tmp_path_factory.mktemp("servers")) as reference:
        yield reference


def judged(*paths: Path) -> Report:
    with ExitStack() as stack:
        return triage(paths, Options(fast=True), stack).report


def told(report: Report) -> tuple[str, str | None, str, str]:
    verdict = report.verdict
    return verdict.class_, verdict.defect, verdict.phase, verdict.confidence


def bundled(store: Path, name: str, target: Path, journal: Path) -> Path:
    journal.mkdir(exist_ok=True)
    list(write(store, name, target, journal, private=False, force=False))
    return target


def test_a_real_d1_from_crash_to_verdict(lab: ReferenceServer, tmp_path: Path) -> None:
    # GIVEN a real server that died of D1 under a handler that keeps the full core as well
    with installed(mode="full") as place:
        server = struck(partial(sleeping, lab))
        capture = place.of(server.pid)
        # WHEN a bundle is made of what the crash path kept in memory's place
        log = server.output.path
        full = judged(capture / FULL_CORE, log)
        bundle = bundled(place.store, capture.name, tmp_path / "d1.tar.zst", tmp_path / "journal")
        report = judged(bundle, log)
        # THEN it says what the full core says
        assert full.verdict.defect == "D1"
        assert full.verdict.confidence in TIED_BY_FOLDER
        assert told(judged(capture / "core", log)) == told(full)
        # (the bundle has the kernel's line as well, which can make it more certain, not less)
        assert told(report)[:3] == told(full)[:3]
        assert TIED_BY_FOLDER.index(report.verdict.confidence) <= TIED_BY_FOLDER.index(
            full.verdict.confidence
        )
        assert report.signature.bug_key == full.signature.bug_key
        # AND neither the key nor memory is in it
        plain = bundled(place.store, capture.name, tmp_path / "d1", tmp_path / "journal")
        texts = [path.read_bytes() for path in plain.rglob("*") if path.is_file()]
        assert not any(KEY.encode() in text for text in texts)
        assert not any(text.startswith(b"\x7fELF") for text in texts)
        _slimmed(place.store, capture, log)
        # AND what another would have kept of the same death is known already, elsewhere it is taken
        _imported(capture / "core", place.store, tmp_path, log)


def _kept(store: Path, folder: Path) -> Capture:
    return next(one for one in captures(store) if one.path == folder)


def _slimmed(store: Path, capture: Path, log: Path) -> None:
    before = told(judged(capture / "core", log))
    said = slim_full(_kept(store, capture))
    assert said == f"{capture.name}: slimmed"
    assert not (capture / FULL_CORE).exists()
    again = manifest(capture)
    assert again["slimming"] == {"done": True, "why": None}
    assert FULL_CORE not in again["files"]
    assert slim_full(_kept(store, capture)) is None
    assert told(judged(capture / "core", log)) == before


def _imported(core: Path, store: Path, tmp_path: Path, log: Path) -> None:
    rows, _ = found_in([core], None, NONE, NONE)
    assert [one.state for one in run(rows, store, 0)] == [KNOWN]
    assert [one.state for one in run(rows, tmp_path / "other", 0)] == [TAKEN]
    found = captures(tmp_path / "other")[0]
    assert found.core is not None
    report = judged(found.core, log)
    assert (report.verdict.defect, report.verdict.confidence in TIED_BY_FOLDER) == ("D1", True)


def test_a_real_d2_from_crash_to_verdict(
    lab: ReferenceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provoked, "_core", lambda *_: CoreSearch(None, "the handler has it"))
    with installed() as place:
        done = d2_unload_under_reader.provoke(
            Stage(lab, ServerSpec(cached_model(), python=prepare("2026.10.11549")))
        )
        if done.outcome != "crash":
            pytest.skip(f"it answered this time: {done.outcome}")
        assert until(lambda: bool(place.captures()) and not place.partial()), place.told()
        name = place.captures()[-1].name
        report = judged(bundled(place.store, name, tmp_path / "d2.tar.zst", tmp_path / "journal"))
    assert report.verdict.defect == "D2"
    assert report.verdict.confidence in CERTAIN


def _replaced(lab: ReferenceServer, folder: Path, turn: int) -> RunningServer:
    """A server asleep whose library is another file by now."""
    home = folder / f"env{turn}"
    shutil.copytree(prepare(STALE_CAPTURE_VERSION).parent.parent, home, symlinks=True)
    server = sleeping(lab, turn, home / "bin" / "python")
    library = next(home.rglob("xllamacpp*.abi3.so"))
    library.unlink()
    library.write_bytes(b"another build")
    return server


def test_a_replaced_library_costs_the_bundle_nothing(lab: ReferenceServer, tmp_path: Path) -> None:
    # GIVEN a hosted server whose library is replaced by an update while it sleeps
    # WHEN it dies of D1, and a bundle is made of the capture
    with installed() as place:
        capture = place.of(struck(partial(_replaced, lab, tmp_path)).pid)
        assert list(capture.glob("deleted-*"))
        bundle = bundled(place.store, capture.name, tmp_path / "d1.tar.zst", tmp_path / "journal")
        # THEN the copy of the library names frames and build, in the bundle, of the folder, in the signature
        for report in (judged(bundle), judged(capture)):
            crashed = next(thread for thread in report.threads if thread.crashed)
            assert any("handle_count_tokens" in (frame.function or "") for frame in crashed.frames)
            assert report.process.build == "b11063"
            assert not [gap for gap in report.gaps if "no llama.cpp code" in gap.why]
            assert report.signature is not None
            assert report.signature.bug_key == signature(_kept(place.store, capture), keep=False)
