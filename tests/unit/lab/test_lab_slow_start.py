"""A server that does not come up is told by what it did, never by what we did to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.lab.reference import server as servers
from collector.lab.reference.server import ReferenceServer
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.subject import explained


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo loading; exec sleep 600", "was not ready within"),
        ("echo loading; trap '' TERM; while :; do sleep 1; done", "was not ready within"),
        ("echo loading; kill -KILL $$", "died of SIGKILL"),
        ("echo loading; exit 3", "ended with status 3"),
    ],
)
def test_the_reason_is_the_servers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    # GIVEN a program that hangs, is killed by another hand, or exits
    program, model = tmp_path / "llama-server", tmp_path / "m.gguf"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    model.write_bytes(b"GGUF")
    slow = "not ready" in said
    if slow:
        monkeypatch.setattr(servers, "START_DEADLINE", 0.5)
    # WHEN
    with pytest.raises(UserError) as refused, ReferenceServer(tmp_path / "lab") as lab:
        lab.start(ServerSpec(model, binary=program))
    # THEN our own kill of a slow one is no death of it
    assert said in refused.value.what
    assert ("SIGKILL" in refused.value.what) == ("SIGKILL" in said)
    assert ("from outside" in explained(refused.value).what) == ("SIGKILL" in said)
