"""One server, one model, both usable; and plain words for a server that would not start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.contracts.trials import Subject
from analyzers.errors import UserError
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify import subject
from collector.lab.verify.subject import Chosen, Wanted, choose, demanded_model, explained, named


def silent(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (Wanted(version="1", server_bin=Path("x")), "more than one"),
        (Wanted(build=11368, version="1"), "more than one"),
        (Wanted(build=11368, server_bin=Path("x")), "more than one"),
        (Wanted(fix="count-requests"), "--fix and --asan need"),
        (Wanted(asan=True, version="1"), "--fix and --asan need"),
        (Wanted(fix="count-requests", server_bin=Path("x")), "--fix and --asan need"),
    ],
)
def test_servers_that_cannot_be_meant_are_refused(wanted: Wanted, named: str) -> None:
    with pytest.raises(UserError, match=named):
        choose(wanted, silent)


def test_a_relative_path_is_made_absolute_as_servers_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a binary and a model named the way git bisect does
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []
    known = Subject(kind="native", name="x")
    monkeypatch.setattr(subject, "identify_native", lambda path: (seen.append(path), known)[1])
    # WHEN chosen
    chosen = choose(Wanted(server_bin=Path("build/llama-server"), model=Path("m.gguf")), silent)
    # THEN
    assert seen == [tmp_path / "build" / "llama-server"]
    assert chosen.spec.binary == tmp_path / "build" / "llama-server"
    assert chosen.spec.model == tmp_path / "m.gguf"


@pytest.mark.parametrize("asan", [True, False])
def test_a_sanitized_binary_is_told_to_abort_as_a_reference_build_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asan: bool
) -> None:
    known = Subject(kind="native", name="x", asan=asan)
    monkeypatch.setattr(subject, "identify_native", lambda _: known)
    monkeypatch.setattr(subject, "cached_model", lambda: tmp_path / "m.gguf")
    chosen = choose(Wanted(server_bin=tmp_path / "llama-server"), silent)
    assert ("abort_on_error=1" in chosen.spec.environment.get("ASAN_OPTIONS", "")) is asan


def test_asking_a_binary_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(subject, "cached_model", lambda: tmp_path / "m.gguf")
    with pytest.raises(UserError):
        choose(Wanted(server_bin=tmp_path / "none"), said.append)
    assert "asking none for its version" in said


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "text", "empty", "unreadable"])
def test_models_that_are_none_are_refused(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"text": b"hello", "empty": b"", "unreadable": b"GGUF"}[kind])
    if kind == "unreadable":
        monkeypatch.setattr(os, "open", denied)
    with pytest.raises(UserError) as refused:
        demanded_model(path)
    assert "m.gguf" in str(refused.value)


def denied(*_: object) -> int:
    raise PermissionError(13, "Permission denied")


def stopped(said: str) -> UserError:
    what = f"the server ended with status 1 instead of coming up; it said: {said}"
    return UserError(what, where="llama-server", remedy="check")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("error: invalid argument: --sleep-idle-seconds", "no sleep mode"),
        (
            "HOSTED this wheel does not know the parameter 'xllamacpp.CommonParams' object has no attribute "
            "'sleep_idle_seconds'",
            "no sleep mode",
        ),
        ("0.00.02 E gguf_init_from_file: failed to open GGUF file", "cannot load the model"),
        ("0.00.007.549 E srv          init: exiting due to model loading error", "cannot load the model"),
        ("0.00.01 E srv    load_model: failed to load model, 'x.gguf'", "cannot load the model"),
        ("0.00.01 E srv  start: couldn't bind HTTP server socket, hostname: 127.0.0.1", "port was taken"),
    ],
)
def test_a_server_that_says_why_it_does_not_start_is_understood(said: str, meant: str) -> None:
    plainer = explained(stopped(said))
    assert meant in plainer.what
    assert said in plainer.what
    assert plainer.where == "llama-server"
    assert plainer.status == 2


@pytest.mark.parametrize(
    "said",
    [
        "0.00.009.280 E srv  llama_server: exiting due to model loading error",
        "0.00.012.840 E srv          init: exiting due to model loading error",
        "0.00.003.838 E srv    load_model: failed to load model, 'cut.gguf'",
    ],
)
def test_a_model_that_cannot_be_loaded_is_the_models_fault_and_not_the_programs(said: str) -> None:
    plainer = explained(stopped(said), Path("/models/cut.gguf"))
    assert plainer.where == "/models/cut.gguf"
    assert "llama-server" not in plainer.where
    # what is no fault of the model names the program still
    assert (
        explained(stopped("error: invalid argument: --sleep-idle-seconds"), Path("m")).where == "llama-server"
    )


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_a_server_killed_while_it_started_is_no_fault_of_its_own(number: str) -> None:
    error = UserError(
        f"the server died of {number} instead of coming up", where="llama-server", remedy="check"
    )
    plainer = explained(error)
    assert "ended from outside while it started" in plainer.what
    assert "memory" in plainer.remedy
    crashed = UserError("the server died of SIGSEGV instead of coming up", where="x", remedy="check")
    assert explained(crashed) is crashed


@pytest.mark.parametrize("said", ["error: invalid argument: --metrics", "no output at all", "what(): stoi"])
def test_what_is_not_understood_is_left_as_it_is(said: str) -> None:
    error = stopped(said)
    assert explained(error) is error


def test_a_wheel_s_server_is_called_by_its_name_and_a_binary_by_its_path(tmp_path: Path) -> None:
    # GIVEN what a server that did not come up is said to have done
    model, program = tmp_path / "m.gguf", tmp_path / "bin" / "python"
    failed = UserError("the server ended with status 2", where=str(program), remedy="look")
    known = Subject(kind="hosted", name="xllamacpp 0.2.7")
    # WHEN THEN
    assert named(failed, Chosen(known, ServerSpec(model, python=program))).where == "xllamacpp 0.2.7"
    assert named(failed, Chosen(known, ServerSpec(model, binary=program))).where == str(program)
    other = UserError("no model file", where=str(model), remedy="give one")
    assert named(other, Chosen(known, ServerSpec(model, python=program))) is other
