"""The command line and environment in a core: found where the kernel put them, asked for by name only."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.contracts.evidence import Trust
from analyzers.contracts.facts import SettingsFact
from analyzers.core import startup as module
from analyzers.core.notes import read_core
from analyzers.core.startup import ROUTER_PORT, Startup, read_startup
from analyzers.triage.from_core import core_material
from analyzers.triage.material import numbering
from elfcore import CoreBuilder, R, W

STACK = 0x7FFF_0000_0000
ARGV = ("llama-server", "--port", "51577", "--alias=tiny", "--api-key", "sk-planted")
ENVIRON = (f"{ROUTER_PORT}=8080", "HOME=/root", "OPENAI_API_KEY=sk-planted")
EHDR = 0x7FFE_1234_5000


def stack(
    argv: tuple[str, ...], environ: tuple[str, ...], *, argc: int | None = None, blank: bool = False
) -> tuple[bytes, dict[int, int]]:
    """A main thread's stack as System V lays it out, and the vector's copy for the notes."""
    texts = [text.encode() + b"\0" for text in (*argv, *environ)]
    vector_words = 2 * 4
    below = b"\x11" * 256
    strings_at = STACK + len(below) + 8 * (1 + len(argv) + 1 + len(environ) + 1 + vector_words)
    random_at = strings_at
    at, pointers = strings_at + 16, []
    for text in texts:
        pointers.append(at)
        at += len(text)
    auxv = {33: EHDR, 25: random_at, 31: at}
    words = [len(argv) if argc is None else argc, *pointers[: len(argv)], 0, *pointers[len(argv) :], 0]
    vector = [part for pair in auxv.items() for part in pair] + [0, 0]
    body = b"".join(texts)
    whole = below + struct.pack(f"<{len(words) + len(vector)}Q", *words, *vector) + bytes(16)
    return whole + (bytes(len(body)) if blank else body), auxv


def read(
    folder: Path,
    data: bytes,
    auxv: dict[int, int],
    options: tuple[str, ...] = ("--port", "--alias"),
    variables: tuple[str, ...] = (ROUTER_PORT,),
) -> Startup:
    builder = CoreBuilder(auxv=auxv).thread(1).load(STACK, data, R | W)
    return read_startup(read_core(builder.write(folder / "core")), options, variables)


def test_what_is_asked_for_is_found_and_nothing_else(tmp_path: Path) -> None:
    found = read(tmp_path, *stack(ARGV, ENVIRON))
    assert found.values == {"--port": "51577", "--alias": "tiny", ROUTER_PORT: "8080"}
    assert (found.number("--port"), found.number(ROUTER_PORT)) == (51577, 8080)
    assert "sk-planted" not in repr(found)


def test_the_last_of_a_repeated_option_counts_as_it_does_for_the_server(tmp_path: Path) -> None:
    found = read(tmp_path, *stack((*ARGV, "--port", "9000"), ()))
    assert found.number("--port") == 9000


@pytest.mark.parametrize("value", ["0", "", "99999x", "-1", "123456", "٣"])
def test_what_is_no_port_is_none(tmp_path: Path, value: str) -> None:
    assert read(tmp_path, *stack(("x", "--port", value), ())).number("--port") is None


def test_an_option_at_the_very_end_has_no_value(tmp_path: Path) -> None:
    assert read(tmp_path, *stack(("x", "--port"), ())).number("--port") is None


def test_without_arguments_or_environment_there_is_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, *stack((), ())).values == {}


def test_blanked_texts_give_nothing(tmp_path: Path) -> None:
    # a redacted core keeps the pointers and not what they point to
    assert read(tmp_path, *stack(ARGV, ENVIRON, blank=True)).values == {}


def test_an_argument_count_that_fits_nothing_is_not_believed(tmp_path: Path) -> None:
    found = read(tmp_path, *stack(ARGV, ENVIRON, argc=3))
    assert "--port" not in found.values
    assert found.number(ROUTER_PORT) == 8080


@pytest.mark.parametrize("lost", [25, 33])
def test_a_vector_that_lacks_a_word_gives_nothing(tmp_path: Path, lost: int) -> None:
    data, auxv = stack(ARGV, ENVIRON)
    del auxv[lost]
    assert read(tmp_path, data, auxv).values == {}


def test_a_cut_core_gives_nothing(tmp_path: Path) -> None:
    data, auxv = stack(ARGV, ENVIRON)
    assert read(tmp_path, data[:200], auxv).values == {}


def test_a_vector_beyond_the_bound_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORDS", 2)
    assert read(tmp_path, *stack(ARGV, ENVIRON)).values == {}


def test_a_core_that_is_gone_gives_nothing(tmp_path: Path) -> None:
    data, auxv = stack(ARGV, ENVIRON)
    path = CoreBuilder(auxv=auxv).thread(1).load(STACK, data, R | W).write(tmp_path / "core")
    core = read_core(path)
    path.unlink()
    assert read_startup(core, ("--port",), ()).values == {}


@given(at=st.integers(0, 600), noise=st.binary(min_size=1, max_size=64))
@settings(max_examples=60, deadline=None)
def test_damage_never_raises(tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes) -> None:
    data, auxv = stack(ARGV, ENVIRON)
    hurt = data[:at] + noise + data[at + len(noise) :]
    found = read(tmp_path_factory.mktemp("hurt"), hurt, auxv)
    assert set(found.values) <= {"--port", "--alias", ROUTER_PORT}


def test_the_parents_thread_stands_in_the_notes(tmp_path: Path) -> None:
    builder = CoreBuilder().thread(1)
    raw = builder.bytes().replace(struct.pack("<i", 4000) + bytes(4), struct.pack("<ii", 4000, 3999), 1)
    (tmp_path / "core").write_bytes(raw)
    core = read_core(tmp_path / "core")
    assert (core.pid, core.parent) == (4000, 3999)


def idle_of(
    folder: Path, argv: tuple[str, ...], environ: tuple[str, ...] = (), *, blank: bool = False
) -> list[object]:
    data, auxv = stack(argv, environ, blank=blank)
    path = CoreBuilder(auxv=auxv).thread(1).load(STACK, data, R | W).write(folder / "core")
    found = core_material(path, "core", None, numbering(), None)
    settings_of = [item for item in found.evidence if item.kind == SettingsFact.KIND]
    assert all(item.trust is Trust.KERNEL for item in settings_of)
    return [item.data["sleep_idle_seconds"] for item in settings_of]


OPTION, VARIABLE = "--sleep-idle-seconds", "LLAMA_ARG_SLEEP_IDLE_SECONDS"


@pytest.mark.parametrize(
    ("argv", "environ", "idle"),
    [
        (("llama-server", OPTION, "-1"), (), [-1]),
        (("/opt/b/llama-server", OPTION, "30", OPTION, "-1"), (), [-1]),
        (("llama-server", OPTION, "300"), (), [300]),
        (("llama-server", "--port", "1"), (), [-1]),  # the server's default
        (("llama-server", "--port", "1"), (f"{VARIABLE}=60",), [60]),
        (("llama-server", OPTION, "soon"), (), []),
        (("llama-server", OPTION), (), []),
        (("python", "serve.py"), (), []),  # a hosted server is set up by its program
        (("python", "serve.py", OPTION, "-1"), (), []),
    ],
)
def test_a_cores_own_command_line_tells_the_idle_limit(
    tmp_path: Path, argv: tuple[str, ...], environ: tuple[str, ...], idle: list[object]
) -> None:
    assert idle_of(tmp_path, argv, environ) == idle


def test_a_blanked_command_line_tells_nothing(tmp_path: Path) -> None:
    assert idle_of(tmp_path, ("llama-server", "--port", "1"), blank=True) == []
