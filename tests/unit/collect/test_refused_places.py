"""What the host selector refuses in one line: a journal that is none, a process nobody may look into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyzers.errors import UserError
from collector.gather import servers
from collector.gather.journal import demand_folder
from collector.hostpick import select


@pytest.mark.parametrize(("make", "what"), [(False, "no such folder"), (True, "not a folder")])
def test_a_journal_that_is_no_folder_is_refused_before_other_places_are_searched(
    tmp_path: Path, make: bool, what: str
) -> None:
    place = tmp_path / "journal"
    if make:
        place.write_text("x")
    with pytest.raises(UserError, match=what):
        demand_folder(place)
    with pytest.raises(UserError, match=what):
        select(tmp_path, journal=place)


@pytest.mark.parametrize(("user", "remedy"), [(0, "CAP_SYS_PTRACE"), (1000, "sudo")])
def test_a_hidden_process_has_a_remedy_that_fits_the_asker(
    monkeypatch: pytest.MonkeyPatch, user: int, remedy: str
) -> None:
    def hidden(pid: int) -> None:
        raise PermissionError

    monkeypatch.setattr(servers, "server_of", hidden)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(UserError, match=remedy):
        servers.demand_server(4242)
