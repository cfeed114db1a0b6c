from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzers.bundle import limits
from analyzers.bundle.read import open_bundle
from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Trust
from analyzers.errors import UserError

FACT = Evidence(id="e1", kind="log", source="x", text="x", trust=Trust.KERNEL)
Member = tuple[tarfile.TarInfo, bytes]


def _file(name: str, data: bytes = b"x", **fields: object) -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def _special(name: str, type_: bytes, link: str = "") -> Member:
    return _file(name, b"", type=type_, linkname=link)


def _tar(*members: Member, format_: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _manifest(*files: tuple[str, bytes], **fields: object) -> Member:
    listed = [
        {"path": n, "kind": "text", "size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files
    ]
    data = {"schema": "llama-blackbox/bundle/1", "files": listed, **fields}
    return _file("manifest.json", json.dumps(data).encode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for inputs beside an own temporary folder; nothing may be left outside it."""
    temp, inputs = tmp_path / "temp", tmp_path / "in"
    temp.mkdir()
    inputs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    yield inputs
    assert os.listdir(temp) == []
    assert sorted(os.listdir(tmp_path)) == ["in", "temp"]


def _put(place: Path, data: bytes, name: str = "b.tar.zst") -> Path:
    path = place / name
    path.write_bytes(data)
    return path


@contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before


@pytest.mark.parametrize("pack", [_zstd, gzip.compress, bytes], ids=["zst", "gz", "tar"])
@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_hand_made_archives_open(place: Path, pack: Callable[[bytes], bytes], format_: int) -> None:
    # GIVEN an archive of tar's own kinds, with long names and "./" before them
    long = "./" + "d" * 90 + "/" + "f" * 90
    data = _tar(_manifest(("a.log", b"x")), _file("./a.log"), _file(long, b"long"), format_=format_)
    path = _put(place, pack(data), "any name")
    # WHEN it is opened
    with _unchanged(path), open_bundle(path) as bundle:
        # THEN all is there, and what was added by hand is named
        assert {f.name: f.path.read_bytes() for f in bundle.files} == {"a.log": b"x", long[2:]: b"long"}
        assert [f.verified for f in bundle.files] == [True, False]
        assert [gap.what for gap in bundle.gaps] == [long[2:]]


def test_an_archive_of_one_folder_is_that_folder(place: Path) -> None:
    data = _tar(
        _special("b", tarfile.DIRTYPE),
        _file("b/evidence.jsonl", FACT.model_dump_json().encode()),
        _file("b/x.log"),
    )
    with open_bundle(_put(place, _zstd(data))) as bundle:
        assert [f.name for f in bundle.files] == ["x.log"]
        assert bundle.evidence == (FACT,)


HOSTILE: list[tuple[str, Member, str]] = [
    ("absolute", _file("/etc/planted"), "not relative"),
    ("up", _file("../planted"), "leads out"),
    ("up inside", _file("a/../../planted"), "leads out"),
    ("up folder", _special("../planted", tarfile.DIRTYPE), "leads out"),
    ("symlink", _special("a", tarfile.SYMTYPE, "/etc/passwd"), "a symbolic link"),
    ("hard link", _special("a", tarfile.LNKTYPE, "manifest.json"), "a hard link"),
    ("device", _special("a", tarfile.CHRTYPE), "a device"),
    ("block device", _special("a", tarfile.BLKTYPE), "a device"),
    ("fifo", _special("a", tarfile.FIFOTYPE), "a named pipe"),
    ("unknown type", _special("a", b"Z"), "of an unknown type"),
    ("control", _file("a\x1b[31m"), "control characters"),
    ("newline", _file("a\nb"), "control characters"),
    ("bidi", _file("a\u202etxt"), "control characters"),
    ("backslash", _file("..\\planted"), "not relative"),
    ("drive", _file("c:planted"), "not relative"),
    ("empty part", _file("a//b"), "empty parts"),
    ("long", _file("a" * (limits.MAX_NAME + 1)), "too long"),
    ("not utf-8", _file("a\udcff"), "control characters"),
    ("twice", _file("manifest.json"), "there twice"),
    ("through a file", _file("manifest.json/x"), "there twice"),
]


@pytest.mark.parametrize(("member", "why"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_hostile_entries_are_refused(place: Path, member: Member, why: str, format_: int) -> None:
    # GIVEN an archive with one entry no bundle has, behind honest ones
    path = _put(place, _zstd(_tar(_manifest(), _file("honest"), member, format_=format_)))
    # WHEN it is opened THEN it is refused in one line; the fixture checks that nothing is left
    with pytest.raises(UserError, match=why) as caught, open_bundle(path):
        pass
    assert str(caught.value).isprintable()
    assert str(path) in str(caught.value)


def test_the_reverse_order_through_a_file_is_refused_too(place: Path) -> None:
    with (
        pytest.raises(UserError, match="there twice"),
        open_bundle(_put(place, _tar(_file("a/x"), _file("a")))),
    ):
        pass


def test_too_many_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FILES", 5)
    data = _tar(*(_file(f"f{n}") for n in range(6)))
    with pytest.raises(UserError, match="more than 5 files"), open_bundle(_put(place, data)):
        pass


def test_headers_without_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_HEADERS", 20)
    data = _tar(*(_special(f"d{n}", tarfile.DIRTYPE) for n in range(30)))
    with pytest.raises(UserError, match="too many entries"), open_bundle(_put(place, data)):
        pass


def test_too_large_in_total(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOTAL", limits.MIB)
    noise = os.urandom(700_000)
    data = _tar(_file("a", noise), _file("b", noise[::-1]))
    with pytest.raises(UserError, match="unpacks to more than"), open_bundle(_put(place, data)):
        pass


@pytest.mark.parametrize("pack", [_zstd, gzip.compress], ids=["zst", "gz"])
def test_a_bomb_is_stopped_early(
    place: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN 24 MiB of zeros in a few kilobytes
    monkeypatch.setattr(limits, "RATIO_FROM", limits.MIB)
    monkeypatch.setattr(limits, "MAX_RATIO", 100)
    path = _put(place, pack(_tar(_file("zeros", bytes(24 * limits.MIB)))))
    with pytest.raises(UserError, match="100 times its size"), open_bundle(path):
        pass


def test_a_promised_size_is_not_believed(place: Path) -> None:
    info = tarfile.TarInfo("a")
    info.size = 1 << 40
    header = info.tobuf(tarfile.GNU_FORMAT)
    with (
        pytest.raises(UserError, match="unpacks to more than"),
        open_bundle(_put(place, header + b"x" * 512)),
    ):
        pass


def test_a_huge_window_is_refused(place: Path) -> None:
    # GIVEN a frame whose header asks for 2 GiB of window: magic, descriptor 0, window byte 21 << 3
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + b"\x01\x00\x00"
    with pytest.raises(UserError, match="more memory"), open_bundle(_put(place, frame)):
        pass


@pytest.mark.parametrize("key", ["size", "GNU.sparse.major"])
def test_headers_that_change_what_follows_are_refused(place: Path, key: str) -> None:
    info, data = _file("a")
    info.pax_headers = {key: "99"}
    with (
        pytest.raises(UserError, match="never use"),
        open_bundle(_put(place, _tar((info, data), format_=tarfile.PAX_FORMAT))),
    ):
        pass


def test_a_huge_header_is_refused(place: Path) -> None:
    info, data = _file("a")
    info.pax_headers = {"comment": "x" * (limits.MAX_HEADER + 1)}
    with (
        pytest.raises(UserError, match="too large"),
        open_bundle(_put(place, _tar((info, data), format_=tarfile.PAX_FORMAT))),
    ):
        pass


GOOD = _tar(_manifest(("a.log", b"x" * 2000)), _file("a.log", b"x" * 2000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive at all" * 100,
        _zstd(GOOD)[:40],
        gzip.compress(GOOD)[:-30],
        GOOD[:1200],
        b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
        b"\x1f\x8b" + b"\xff" * 50,
        bytes(4096),
        _zstd(b""),
    ],
    ids=["empty", "words", "cut zst", "cut gz", "cut tar", "bad zst", "bad gz", "zeros", "empty zst"],
)
def test_a_damaged_archive_is_one_clear_line(place: Path, data: bytes) -> None:
    path = _put(place, data)
    with pytest.raises(UserError) as caught, open_bundle(path):
        pass
    assert str(caught.value).isprintable()
    assert str(path) in str(caught.value)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.integers(0, len(GOOD) - 1),
    st.binary(min_size=1, max_size=600),
    st.sampled_from([bytes, _zstd, gzip.compress]),
)
def test_any_damage_is_an_answer_or_one_clear_line(
    tmp_path: Path, at: int, noise: bytes, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "b"
    path.write_bytes(pack(GOOD[:at] + noise + GOOD[at + len(noise) :]))
    try:
        with open_bundle(path) as bundle:
            assert all(f.path.is_file() for f in bundle.files)
    except UserError as error:
        line = str(error)
    else:
        line = ""
    assert line == "" or line.isprintable()


@pytest.mark.parametrize("archive", [True, False])
def test_altered_missing_and_added_files_are_named(place: Path, archive: bool) -> None:
    # GIVEN a bundle of which one file was changed, one grew, one was lost and one was added
    listed = [("same", b"same"), ("changed", b"abcd"), ("grown", b"abc"), ("lost", b"x")]
    content = {"same": b"same", "changed": b"abcX", "grown": b"abcd", "added": b"y"}
    info, manifest = _manifest(*listed)
    if archive:
        path = _put(place, _zstd(_tar((info, manifest), *(_file(n, d) for n, d in content.items()))))
    else:
        path = place / "b"
        path.mkdir()
        for name, data in {**content, "manifest.json": manifest}.items():
            (path / name).write_bytes(data)
    # WHEN it is opened
    with open_bundle(path) as bundle:
        # THEN each is named with its fault, stays readable, and is not called verified
        why = {gap.what: gap.why for gap in bundle.gaps}
        assert set(why) == {"changed", "grown", "lost", "added"}
        assert "altered since it was written" in why["changed"]
        assert "altered since it was written" in why["grown"]
        assert "missing" in why["lost"]
        assert "added" in why["added"]
        assert {f.name: f.verified for f in bundle.files} == {
            "same": True,
            "changed": False,
            "grown": False,
            "added": False,
        }


def test_a_folder_can_be_opened_without_reading_its_files(place: Path) -> None:
    write_bundle(place / "b", ManifestParts(created=1.0), {"a": b"x\n"})
    (place / "b/a").write_bytes(b"y\n")
    with open_bundle(place / "b", check_hashes=False) as bundle:
        assert bundle.gaps == ()
        assert [f.verified for f in bundle.files] == [False]
    (place / "b/a").write_bytes(b"longer\n")
    with open_bundle(place / "b", check_hashes=False) as bundle:
        assert [gap.what for gap in bundle.gaps] == ["a"]


@pytest.mark.parametrize(
    "names", [[], ["manifest.json"], ["evidence.jsonl"], ["a.log"], ["manifest.json", "a.log"]]
)
def test_any_subset_is_a_bundle(place: Path, names: list[str]) -> None:
    content = {
        "manifest.json": b"{}",
        "evidence.jsonl": FACT.model_dump_json().encode() + b"\n",
        "a.log": b"x",
    }
    root = place / "b"
    root.mkdir()
    for name in names:
        (root / name).write_bytes(content[name])
    with open_bundle(root) as bundle:
        assert len(bundle.evidence) == ("evidence.jsonl" in names)
        assert [f.name for f in bundle.files] == [n for n in names if n == "a.log"]
        assert ("manifest.json" in [gap.what for gap in bundle.gaps]) == ("manifest.json" not in names)


def test_what_is_no_file_in_a_folder_is_named_and_not_followed(place: Path) -> None:
    root = place / "b"
    (root / "sub").mkdir(parents=True)
    secret = place / "secret"
    secret.write_text("planted")
    (root / "link").symlink_to(secret)
    (root / "dirlink").symlink_to(place)
    os.mkfifo(root / "pipe")
    (root / "bad\nname").write_text("x")
    (root / "sub/ok").write_text("x")
    with open_bundle(root) as bundle:
        assert [f.name for f in bundle.files] == ["sub/ok"]
        named = [gap.what for gap in bundle.gaps]
        assert {"link", "dirlink", "pipe", repr("bad\nname")} <= set(named)


def test_a_manifest_that_is_a_link_is_not_followed(place: Path) -> None:
    root = place / "b"
    root.mkdir()
    (place / "elsewhere").write_text('{"host": {"arch": "planted"}}')
    (root / "manifest.json").symlink_to(place / "elsewhere")
    with open_bundle(root) as bundle:
        assert bundle.manifest.host.arch is None


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (b'{"schema":"llama-blackbox/bundle/2"}', "newer version"),
        (b'{"schema":"llama-blackbox/bundle/99.1"}', "newer version"),
        (b'{"schema":"llama-blackbox/report/1"}', "not a bundle"),
        (b"{", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"files":[{"size":1}]}', "cannot be read"),
        (b'{"files":7}', "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_one_clear_line(place: Path, manifest: bytes, why: str) -> None:
    path = _put(place, _tar(_file("manifest.json", manifest)))
    with pytest.raises(UserError, match=why) as caught, open_bundle(path):
        pass
    assert str(caught.value).isprintable()


def test_a_newer_minor_version_opens(place: Path) -> None:
    member = _manifest(schema="llama-blackbox/bundle/1.7", new_field={"a": 1})
    with open_bundle(_put(place, _tar(member))) as bundle:
        assert bundle.manifest.model_extra == {"new_field": {"a": 1}}


def test_the_writers_gaps_are_kept(place: Path) -> None:
    member = _manifest(gaps=[{"what": "core", "why": "not there", "command": "x"}])
    with open_bundle(_put(place, _tar(member))) as bundle:
        assert [gap.what for gap in bundle.gaps] == ["core"]


def test_a_manifest_may_promise_anything_and_get_nothing(place: Path) -> None:
    files = [{"path": p} for p in ("../../etc/passwd", "/etc/passwd", "a\x1b[31m", "")]
    with open_bundle(_put(place, _tar(_manifest(files=files)))) as bundle:
        assert bundle.files == ()
        assert len(bundle.gaps) == 4
        assert all(gap.what.isprintable() for gap in bundle.gaps)


def test_bad_lines_of_evidence_cost_one_fact_each(place: Path) -> None:
    lines = [FACT.model_dump_json(), "{", "", '{"id":"x"}', "null", FACT.model_dump_json()]
    path = _put(place, _tar(_file("evidence.jsonl", "\n".join(lines).encode())))
    with open_bundle(path) as bundle:
        assert bundle.evidence == (FACT, FACT)
        why = [gap.why for gap in bundle.gaps if gap.what == "evidence.jsonl"]
        assert why == ["3 lines hold no fact that can be read (line 2, 4, 5)"]


def test_evidence_without_end_is_read_up_to_its_limit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_EVIDENCE_LINES", 3)
    path = _put(place, _tar(_file("evidence.jsonl", (FACT.model_dump_json() + "\n").encode() * 9)))
    with open_bundle(path) as bundle:
        assert len(bundle.evidence) == 3
        assert any("too long" in gap.why for gap in bundle.gaps)


def test_missing_and_unusable_paths(place: Path) -> None:
    os.mkfifo(place / "pipe")
    for name in ("nope", "pipe"):
        with pytest.raises(UserError) as caught, open_bundle(place / name):
            pass
        assert name in str(caught.value)


def test_the_temporary_folder_goes_when_the_reader_fails(place: Path) -> None:
    path = _put(place, _tar(_manifest(), _file("a")))
    opened = open_bundle(path)
    bundle = opened.__enter__()
    assert bundle.root.stat().st_mode & 0o077 == 0
    failure = RuntimeError()
    assert not opened.__exit__(RuntimeError, failure, None)
    assert not bundle.root.exists()
