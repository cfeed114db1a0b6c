from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.stacks import mi
from analyzers.stacks.mi import LineBuffer, MiError, MiSession, parse_line


class Pipes:
    """A gdb of three pipes: what it will say is written beforehand or never."""

    def __init__(self) -> None:
        self.out_read, self.out_write = os.pipe()
        self.err_read, self.err_write = os.pipe()
        self.in_read, self.in_write = os.pipe()
        process = SimpleNamespace(
            stdout=os.fdopen(self.out_read, "rb", 0),
            stderr=os.fdopen(self.err_read, "rb", 0),
            stdin=os.fdopen(self.in_write, "wb", 0),
        )
        self.files = [process.stdout, process.stderr, process.stdin]
        self.child: Any = SimpleNamespace(process=process)

    def says(self, *lines: str, end: bool = True) -> None:
        os.write(self.out_write, "".join(f"{line}\n" for line in lines).encode())
        if end:
            os.close(self.out_write)

    def session(self, seconds: float = 20.0) -> MiSession:
        return MiSession(self.child, time.monotonic() + seconds)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    for file in made.files:
        file.close()


def test_each_answer_is_matched_to_its_own_command(pipes: Pipes) -> None:
    # GIVEN noise, an answer to nobody, and the two answers
    pipes.says(
        "=thread-group-added,id=\"i1\"", "(gdb) ", "~\"Core was generated\\n\"", '99^done,value="wrong"',
        '1^done,value="4"', "(gdb) ", "garbage \x01 {{{", '2^done,stack=[frame={level="0"}]',
    )  # fmt: skip
    session = pipes.session()
    first, second = session.ask("-data-evaluate-expression a"), session.ask("-stack-list-frames")
    assert (first.payload, first.console) == ({"value": "4"}, ("Core was generated\n",))
    assert second.payload["stack"][0]["level"] == "0"
    assert os.read(pipes.in_read, 100) == b"1-data-evaluate-expression a\n2-stack-list-frames\n"


def test_a_refusal_is_gdbs_own_words(pipes: Pipes) -> None:
    pipes.says('1^error,msg="No symbol \\"x\\" in current context."')
    with pytest.raises(MiError, match="No symbol"):
        pipes.session().ask("-data-evaluate-expression x")


def test_an_end_without_an_answer_is_named(pipes: Pipes) -> None:
    pipes.says("(gdb) ")
    with pytest.raises(MiError, match=r"^ended$"):
        pipes.session().ask("-thread-info")


def test_silence_ends_at_the_deadline(pipes: Pipes) -> None:
    pipes.says("(gdb) ", end=False)
    with pytest.raises(MiError, match=r"^time$"):
        pipes.session(0.05).ask("-thread-info")


def test_endless_complaints_do_not_outlive_the_deadline(pipes: Pipes) -> None:
    os.write(pipes.err_write, b"warning\n" * 100)
    os.close(pipes.err_write)
    with pytest.raises(MiError, match=r"^time$"):
        pipes.session(0.05).ask("-thread-info")


@pytest.mark.parametrize("text", ["=noise\n" * 64, "x" * 600])
def test_endless_output_is_cut(pipes: Pipes, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(mi, "ANSWER_BYTES", 100)
    monkeypatch.setattr(mi, "LINE_BYTES", 500)
    pipes.says(text)
    with pytest.raises(MiError, match=r"^output$"):
        pipes.session().ask("-thread-info")


@pytest.mark.parametrize("command", ["", "-a\n-b", "-a\x00", "\x7f"])
def test_a_command_is_one_line(pipes: Pipes, command: str) -> None:
    with pytest.raises(MiError):
        pipes.session().ask(command)


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"").rstrip(b"\r"))), st.integers(1, 9))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\r\n" for line in lines)
    buffer, taken = LineBuffer(), list[bytes]()
    for at in range(0, len(data), size):
        assert buffer.feed(data[at : at + size])
        taken += buffer.take()
    assert taken == lines


@given(st.binary(max_size=120) | st.text(alphabet='{}[]",=^a1\\', max_size=60).map(str.encode))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_line_makes_the_parser_raise(line: bytes) -> None:
    for prefix in (b"", b"1^done,", b"~", b"*stopped,"):
        record = parse_line(prefix + line)
        assert record is None or isinstance(record, dict)
