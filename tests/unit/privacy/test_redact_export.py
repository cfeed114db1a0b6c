from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.privacy.export import NotAnExportError, redact_export
from analyzers.privacy.redact import MARKER, Redactor

KEY = "Zq8-planted_W4x"


def _binary(name: str, value: bytes) -> bytes:
    return name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"


def _run(data: bytes) -> bytes:
    return b"".join(redact_export(io.BytesIO(data), Redactor()))


def _fields(data: bytes) -> dict[str, bytes]:
    """An independent reader of the format, for one entry."""
    stream, fields = io.BytesIO(data), dict[str, bytes]()
    while (line := stream.readline()).strip():
        name, joint, value = line.rstrip(b"\n").partition(b"=")
        if not joint:
            value = stream.read(struct.unpack("<Q", stream.read(8))[0])
            assert stream.read(1) == b"\n"
        fields[name.decode()] = value
    return fields


def test_values_are_redacted_and_binary_fields_stay_readable() -> None:
    # GIVEN an entry with a text field, a binary one, an environment and a stored core
    data = (
        b"__CURSOR=s=1;i=2\n"
        + f"_CMDLINE=llama-server --api-key {KEY}\n".encode()
        + _binary("MESSAGE", f"\x1b[0mAuthorization: Bearer {KEY}\nsecond".encode())
        + _binary("COREDUMP_ENVIRON", f"LANG=C\nFOO={KEY}".encode())
        + _binary("COREDUMP", KEY.encode())
        + b"_PID=77\n\n"
    )
    # WHEN it is redacted
    cleaned = _run(data)
    # THEN the format still holds, the secrets are gone and the rest is there
    fields = _fields(cleaned)
    assert KEY.encode() not in cleaned
    assert fields["__CURSOR"] == b"s=1;i=2"
    assert fields["_PID"] == b"77"
    assert fields["MESSAGE"].decode() == f"\x1b[0mAuthorization: {MARKER}\nsecond"
    assert fields["COREDUMP_ENVIRON"].decode() == f"LANG=C\nFOO={MARKER}"
    assert _run(cleaned) == cleaned


@pytest.mark.parametrize(
    "data", [b"MESSAGE\n", b"MESSAGE\n\1\0", _binary("MESSAGE", b"x" * 20)[:-8], b"no export here\n"]
)
def test_a_cut_export_is_named_as_such(data: bytes) -> None:
    with pytest.raises(NotAnExportError):
        _run(data)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(["A", "MESSAGE", "_X"]), st.binary(max_size=40), min_size=1))
def test_any_bytes_in_a_field_survive_when_nothing_is_secret(values: dict[str, bytes]) -> None:
    data = b"".join(_binary(name, value) for name, value in values.items()) + b"\n"
    assert _fields(_run(data)) == values
