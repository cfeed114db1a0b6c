from __future__ import annotations

import errno
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest
import zstandard

from analyzers.bundle.pack import pack
from analyzers.bundle.read import open_bundle
from analyzers.bundle.stage import Stage
from analyzers.bundle.write import ManifestParts, write_bundle
from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.report import Gap, Host, Process
from analyzers.errors import UserError
from analyzers.privacy.redact import MARKER, Redactor

KEY = "Zq8-planted_W4x"
CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00" + bytes(100)
PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00" + bytes(100) + b"\0code"
PARTS = ManifestParts(created=1796172195.5, host=Host(arch="x86_64"), incarnations=[Incarnation(pid=7)])
LOG = f"0.01.059.063 I que    start_loop: entering sleeping state\nAuthorization: Bearer {KEY}\n".encode()


def _fact(number: int = 1) -> Evidence:
    return Evidence(
        id=f"e{number}",
        kind="log",
        source="log",
        text=f"--api-key {KEY}",
        trust=Trust.SERVER,
        data={"prompt": "zebra"},
    )


def _tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def _archive(path: Path) -> dict[str, bytes]:
    """The archive by other means than the code under test."""
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_what_is_written_can_be_read_back(tmp_path: Path, name: str) -> None:
    # GIVEN a log, a file in a folder and a fact
    files = {"server.log": LOG, "host/os-release": b"ID=debian\n"}
    # WHEN they are written and opened
    written = write_bundle(tmp_path / name, PARTS, files, [_fact()])
    with open_bundle(tmp_path / name) as bundle:
        # THEN manifest, files and evidence are there, verified, and nothing is missing
        assert bundle.manifest == written
        assert [f.name for f in bundle.files] == ["host/os-release", "server.log"]
        assert all(f.verified for f in bundle.files)
        assert bundle.files[0].path.read_bytes() == b"ID=debian\n"
        assert bundle.evidence[0].text == f"--api-key {MARKER}"
        assert bundle.gaps == ()
        assert bundle.manifest.incarnations == (Incarnation(pid=7),)


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_no_planted_secret_gets_into_a_bundle(tmp_path: Path, name: str) -> None:
    # GIVEN a key that only the command line calls a key, and that turns up everywhere
    files = {
        "server.log": LOG + f"somebody typed {KEY} here\n".encode(),
        "proc/cmdline": f"llama-server\0--api-key\0{KEY}\0--port\x008080\0".encode(),
        "proc/environ": f"LANG=C\0SOME_NAME={KEY}\0".encode(),
        "journal.export": f"__CURSOR=1\nMESSAGE=x {KEY}\nCOREDUMP_ENVIRON=FOO={KEY}\n\n".encode(),
        "docker.json": json.dumps({"log": f'request: {{"prompt":"zebra {KEY}"}}'}).encode(),
        "odd.log": b"\xff\xfe broken " + KEY.encode() + b" \x80\n",
    }
    parts = ManifestParts(
        created=1.0,
        process=Process(args=["llama-server", "--api-key", KEY], exe="/home/jane/llama-server"),
        gaps=[Gap(what=KEY, why=f"Bearer {KEY}")],
        host=Host(kernel=f"x {KEY}"),
    )
    # WHEN it is written with the defaults
    write_bundle(tmp_path / name, parts, files, [_fact()])
    # THEN neither key, prompt nor account name is in it, and the rest is
    content = _archive(tmp_path / name) if name.endswith("zst") else _tree(tmp_path / name)
    everything = b"\n".join(content.values())
    assert KEY.encode() not in everything
    assert b"zebra" not in everything
    assert b"jane" not in everything
    assert b"entering sleeping state" in content["server.log"]
    assert content["proc/cmdline"] == f"llama-server\0--api-key\0{MARKER}\0--port\x008080\0".encode()
    assert content["odd.log"] == b"\xff\xfe broken " + MARKER.encode() + b" \x80\n"
    assert json.loads(content["docker.json"])["log"].startswith("request: ")


def test_private_content_comes_only_when_asked_for_and_says_so(tmp_path: Path) -> None:
    manifest = write_bundle(
        tmp_path / "b", PARTS, {"a.log": LOG, "x.bin": b"\0\1\2" * 9}, [_fact()], include_private=True
    )
    assert (tmp_path / "b/a.log").read_bytes() == LOG
    assert (tmp_path / "b/x.bin").read_bytes() == b"\0\1\2" * 9
    assert KEY in (tmp_path / "b/evidence.jsonl").read_text()
    assert manifest.redaction == "none"
    assert manifest.memory is False


@pytest.mark.parametrize(("name", "kind"), [("core", None), ("harmless.txt", None), ("data.bin", "core")])
def test_memory_stays_out_whatever_it_is_called(tmp_path: Path, name: str, kind: str | None) -> None:
    content = CORE if kind is None else b"not an elf at all"
    parts = ManifestParts(created=1.0, kinds={name: kind} if kind else {})
    # GIVEN a core WHEN a bundle is written, even with private content
    manifest = write_bundle(tmp_path / "b", parts, {name: content}, include_private=True)
    # THEN it is left out, by name
    assert _tree(tmp_path / "b").keys() == {"manifest.json"}
    assert [gap.what for gap in manifest.gaps] == [name]
    assert manifest.memory is False


def test_memory_comes_when_asked_for_and_says_so(tmp_path: Path) -> None:
    manifest = write_bundle(tmp_path / "b", PARTS, {"core": CORE}, include_memory=True)
    assert manifest.memory is True
    assert manifest.files[0].kind == "core"
    assert (tmp_path / "b/core").read_bytes() == CORE


def test_binary_files_stay_out_and_programs_come_in(tmp_path: Path) -> None:
    files = {
        "x.gz": b"\x1f\x8b" + bytes(20),
        "u16.txt": "planted".encode("utf-16"),
        "bin/llama-server": PROGRAM,
    }
    manifest = write_bundle(tmp_path / "b", PARTS, files)
    assert [f.path for f in manifest.files] == ["bin/llama-server"]
    assert sorted(gap.what for gap in manifest.gaps) == ["u16.txt", "x.gz"]


def test_what_cannot_be_read_is_a_named_gap(tmp_path: Path) -> None:
    manifest = write_bundle(
        tmp_path / "b", PARTS, {"gone": tmp_path / "nope", "dir": tmp_path, "cut": b"__CURSOR=1\nM\n\1"}
    )
    assert sorted(gap.what for gap in manifest.gaps) == ["cut", "dir", "gone"]
    assert manifest.files == ()
    assert _tree(tmp_path / "b").keys() == {"manifest.json"}


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        order = {"z.log": LOG, "a/b.log": LOG} if folder == "one" else {"a/b.log": LOG, "z.log": LOG}
        write_bundle(tmp_path / folder / name, PARTS, order, [_fact()])
    assert _tree(tmp_path / "one") == _tree(tmp_path / "two")


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_a_bundle_is_its_owners_alone(tmp_path: Path, name: str) -> None:
    old = os.umask(0)
    try:
        write_bundle(tmp_path / name, PARTS, {"a/b/c.log": LOG})
    finally:
        os.umask(old)
    for path in [tmp_path / name, *(tmp_path / name).rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_nothing_is_overwritten_unless_told(tmp_path: Path, name: str) -> None:
    write_bundle(tmp_path / name, PARTS, {"a": b"first\n"})
    with pytest.raises(UserError, match="it exists"):
        write_bundle(tmp_path / name, PARTS, {"a": b"second\n"})
    with open_bundle(tmp_path / name) as bundle:
        assert bundle.files[0].path.read_bytes() == b"first\n"
    write_bundle(tmp_path / name, PARTS, {"a": b"second\n"}, overwrite=True)
    with open_bundle(tmp_path / name) as bundle:
        assert bundle.files[0].path.read_bytes() == b"second\n"
    assert os.listdir(tmp_path) == [name]


def test_a_folder_that_is_no_bundle_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis").write_text("years of work")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("mine", "link"):
        with pytest.raises(UserError):
            write_bundle(tmp_path / name, PARTS, {}, overwrite=True)
    assert (tmp_path / "mine/thesis").read_text() == "years of work"


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "a/../x",
        "manifest.json",
        "evidence.jsonl",
        "",
        "a\nb",
        "a\0b",
        "a//b",
        "./a",
        "a\\b",
        "C:x",
    ],
)
def test_unfit_names_are_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        write_bundle(tmp_path / "b", PARTS, {name: b"x"})
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or directory"):
        write_bundle(tmp_path / "no/b", PARTS, {})


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
@pytest.mark.parametrize("failing", ["put", "pack"])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, name: str, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a disk that is full after some files, or while the archive is made
    if failing == "pack" and not name.endswith("zst"):
        pytest.skip("a folder is not packed")
    puts = Stage.put

    def put(self: Stage, name: str, pieces: object) -> tuple[int, str]:
        if name == "z.log":
            puts(self, name, [b"half"])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return puts(self, name, pieces)  # type: ignore[arg-type]

    def packed(root: Path, archive: Path, *rest: object) -> None:
        pack(root, archive, *rest)  # type: ignore[arg-type]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if failing == "put":
        monkeypatch.setattr(Stage, "put", put)
    else:
        monkeypatch.setattr("analyzers.bundle.write.pack", packed)
    # WHEN a bundle is written THEN the user is told, and there is no trace of it
    with pytest.raises(UserError, match="no space left"):
        write_bundle(tmp_path / name, PARTS, {"a.log": LOG, "z.log": LOG})
    assert os.listdir(tmp_path) == []


def test_a_failed_replacement_keeps_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bundle(tmp_path / "b", PARTS, {"a": b"first\n"})

    def fail(made: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("analyzers.bundle.write._name", fail)
    with pytest.raises(UserError):
        write_bundle(tmp_path / "b", PARTS, {"a": b"second\n"}, overwrite=True)
    assert (tmp_path / "b/a").read_bytes() == b"first\n"
    assert os.listdir(tmp_path) == ["b"]


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_a_real_file_size_limit_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    # GIVEN a process that may write no file over 64 KiB, which the kernel enforces half-way through one
    script = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from analyzers.bundle.write import ManifestParts, write_bundle
        from analyzers.errors import UserError
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        try:
            files = {"a": b"x\\n", "big": b"0123456789abcde\\n" * 50000}
            write_bundle(Path(sys.argv[1]), ManifestParts(), files)
        except UserError as error:
            print(error)
            sys.exit(2)
        """
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / name)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert "file too large" in run.stdout
    assert os.listdir(tmp_path) == []


def test_inputs_are_never_changed(tmp_path: Path) -> None:
    source = tmp_path / "server.log"
    source.write_bytes(LOG)
    before = source.stat()
    write_bundle(tmp_path / "b", PARTS, {"server.log": source})
    assert source.read_bytes() == LOG
    assert source.stat().st_mtime_ns == before.st_mtime_ns


def test_a_wiser_redactor_is_used(tmp_path: Path) -> None:
    redactor = Redactor().knowing(values=["swordfish99"])
    write_bundle(tmp_path / "b", PARTS, {"a": b"it was swordfish99\n"}, redactor=redactor)
    assert (tmp_path / "b/a").read_bytes() == f"it was {MARKER}\n".encode()
