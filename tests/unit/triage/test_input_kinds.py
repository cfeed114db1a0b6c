"""Each kind of text is told by the form of its head; look-alikes keep their own kind; wrappers are peeled."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from analyzers.errors import UserError
from analyzers.logs.prefix import strip
from analyzers.logs.recognise import form_of, recognise
from analyzers.triage.inputs import UNUSED
from analyzers.triage.readers.looks import _BY_BYTES, _BY_LINES, _WRAPPERS, text_kind
from analyzers.triage.run import Options, triage
from analyzers.triage.sniff import look

KINDS = {
    *(kind for _, kind in (*_BY_BYTES, *_BY_LINES)),
    *_WRAPPERS.values(),
    *("core", "bundle", "folder", "archive", "journal", "server-log", "kernel-log", "stack-trace", "issue"),
    UNUSED,
}
SLEEP = "2.00.004.097 I que    start_loop: entering sleeping state"
KERNEL = "llama-server[42]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14"
JOURNAL = {
    "short": "Dec 02 04:55:55 host llama-server[42]: ",
    "short-precise": "Dec 02 04:55:55.123456 host llama-server[42]: ",
    "short-iso": "2026-12-02T04:55:55+0000 host llama-server[42]: ",
    "short-iso-precise": "2026-12-02T04:55:55.123456+0000 host llama-server[42]: ",
    "short-full": "Wed 2026-12-02 04:55:55 UTC host llama-server[42]: ",
    "short-full, German": "Mi 2026-12-02 04:55:55 CET host llama-server[42]: ",
    "short-monotonic": "[ 4646.603480] host llama-server[42]: ",
    "short-delta": "[ 4646.603480 <    0.000012 >] host llama-server[42]: ",
    "short-delta, first": "[ 4646.603480                ] host llama-server[42]: ",
    "short-unix": "1796187355.123456 host llama-server[42]: ",
    "with-unit": "Wed 2026-12-02 04:55:55 UTC host user@1000.service/llama.service[42]: ",
    "German": "Dez 02 04:55:55 host llama-server[42]: ",
    "French": "déc. 02 04:55:55 host llama-server[42]: ",
    "Chinese": "12月 02 04:55:55 host llama-server[42]: ",
    "Russian": "дек 02 04:55:55 host llama-server[42]: ",
    "--no-hostname": "Dec 02 04:55:55 llama-server[42]: ",
}
CONTAINERS = {
    "CRI": "2026-12-02T04:55:55.123456789Z stderr F ",
    "CRI, partial": "2026-12-02T04:55:55.123456789+01:00 stdout P ",
    "kubectl --prefix": "[pod/llama-0/server] ",
    "kubectl --prefix --timestamps": "[pod/llama-0/server] 2026-12-02T04:55:55.123456789Z ",
    "docker logs -t": "2026-12-02T04:55:55.123456789Z ",
    "compose": "llama-1  | ",
    "compose -t": "llama-1  | 2026-12-02T04:55:55.123456789Z ",
    "swarm": "llama.1.abc123@host    | ",
}
DMESG = {
    "plain": "[ 4646.603480] ",
    "-T": "[Wed Dec  2 04:55:55 2026] ",
    "-T, German": "[Mi Dez  2 04:55:55 2026] ",
    "-H": "[Dec 2 04:55] ",
    "-H, relative": "[  +0.000012] ",
    "-d": "[ 4646.603480 <    0.000012>] ",
    "-x": "kern  :info  : [ 4646.603480] ",
    "-r": "<6>[ 4646.603480] ",
    "iso": "2026-12-02T04:55:55,123456+00:00 ",
    "caller": "[ 4646.603480][   T42] ",
    "journalctl -k": "Dec 02 04:55:55 host kernel: ",
    "journalctl -k -o short-full": "Wed 2026-12-02 04:55:55 UTC host kernel: ",
    "kern.log": "Dec  2 04:55:55 host kernel: [ 4646.603480] ",
    "kern.log, iso": "2026-12-02T04:55:55.123456+00:00 host kernel: [ 4646.603480] ",
}


@pytest.mark.parametrize("form", JOURNAL)
def test_a_journal_text_names_the_process_and_leaves_the_servers_line(form: str) -> None:
    prefix, body = strip(JOURNAL[form] + SLEEP)
    assert (body, prefix.pid, prefix.form) == (SLEEP, 42, "syslog")
    assert text_kind(f"{JOURNAL[form]}{SLEEP}\n".encode() * 3) == "journal-text"


@pytest.mark.parametrize("form", CONTAINERS)
def test_a_containers_log_is_one_and_leaves_the_servers_line(form: str) -> None:
    prefix, body = strip(CONTAINERS[form] + SLEEP)
    assert (body, prefix.pid) == (SLEEP, None)
    assert text_kind(f"{CONTAINERS[form]}{SLEEP}\n".encode() * 3) == "container-log"


@pytest.mark.parametrize("form", DMESG)
def test_the_kernels_line_is_believed_in_every_form_of_its_log(form: str) -> None:
    line = DMESG[form] + KERNEL
    found = recognise(line.encode(), form_of([line] * 3))
    assert found is not None
    assert (found.fact.KIND, found.trust.value) == ("kernel", "kernel-set")
    assert text_kind(f"{line}\n".encode() * 3) in ("kernel-log", "journal-text")


def test_utc_is_the_only_zone_name_that_gives_a_wall_clock() -> None:
    assert strip("Wed 2026-12-02 04:55:55 UTC host a[1]: x")[0].wall == 1796187355.0
    assert strip("Wed 2026-12-02 04:55:55 IST host a[1]: x")[0].wall is None


SEPARATED = (
    "-- Boot 0123456789abcdef0123456789abcdef --\n",
    "-- Reboot --\n",
    "-- Journal begins at Mon 2026-11-30 00:00:00 UTC, ends at Wed 2026-12-02 04:55:55 UTC. --\n",
    "-- Logs begin at Mon 2026-11-30. --\n",
)


@pytest.mark.parametrize("line", SEPARATED)
def test_separators_of_a_journal_are_nobodys_lines(line: str) -> None:
    text = line + f"{JOURNAL['short']}{SLEEP}\n" * 2 + line
    assert text_kind(text.encode()) == "journal-text"


def test_a_journal_without_entries_is_undecided_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("-- No entries --\n")
    with ExitStack() as stack:
        report = triage([path], Options(fast=True), stack).report
    assert report.verdict.class_ == "UNDETERMINED"
    assert any(gap.what == "anything telling in empty.txt" for gap in report.gaps)


def test_every_kind_is_in_the_command_line_reference() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", text, flags=re.MULTILINE)
    named = {name.strip("`") for row in rows for name in row.split(", ")}
    assert {kind for kind in KINDS if kind not in named} == set()


LOOK_ALIKES = {
    "an ini file": (b"Result=ok\n[section]\nname = value\nother thing\n" * 3, None),
    "shell comments": (b"#!/bin/sh\n# version\n# environment\nset -e\n" * 3, None),
    "a table with ports": (b"name 10 20 a:1 b:2\n" * 3, None),
    "JSON of something else": (b'[{"State": {"Name": "x"}}]', None),
    "one heading": (b"# Version\n\nhello\n", None),
    "a server's log with a fence in a prompt": (
        f"{SLEEP}\n```\n[ 1.000000] {KERNEL}\n```\n{SLEEP}\n".encode(),
        "server-log",
    ),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes_keep_their_own_kind(name: str) -> None:
    data, kind = LOOK_ALIKES[name]
    assert text_kind(data) == kind


@pytest.mark.parametrize("form", ["json", "json-pretty", "json-seq", "json-sse", "json-pretty array"])
def test_every_json_form_of_a_journal_is_one(form: str) -> None:
    """The journal's fields come in no order: its own may be the last ones of an entry."""
    fields = {"JOB_TYPE": "start", "_CMDLINE": "x" * 300, "_PID": "1", "__CURSOR": "s=1", "MESSAGE": "hi"}
    line = json.dumps(fields)
    rows = ",\n".join(f'\t"{name}" : {json.dumps(value)}' for name, value in fields.items())
    text = {
        "json": f"{line}\n",
        "json-pretty": f"{{\n{rows}\n}}\n",
        "json-pretty array": f"[\n{{\n{rows}\n}}\n]\n",
        "json-seq": f"\x1e{line}\n",
        "json-sse": f"data: {line}\n\n",
    }[form]
    assert text_kind((text * 3).encode()) == "journal-json"


@pytest.mark.parametrize(
    "text", ['{\n\t"model" : "a",\n\t"prompt" : "__CURSOR"\n}\n', 'data: {"content":"hi"}\n\n']
)
def test_other_json_is_no_journal(text: str) -> None:
    assert text_kind(text.encode()) != "journal-json"


def test_with_unit_names_the_manager_by_its_unit() -> None:
    # GIVEN systemd's own word in a listing that shows units where others show programs
    head = "Wed 2026-12-02 04:55:55 UTC host"
    end = "llama.service: Main process exited, code=dumped, status=11/SEGV"
    found = recognise(f"{head} init.scope[1]: {end}".encode(), "syslog")
    assert found is not None
    assert found.trust.value == "supervisor-set"
    # THEN what a service prints, a container engine's containers among them, is not believed
    for unit in ("llama.service", "docker.service", "init.scope.service"):
        said = recognise(f"{head} {unit}[42]: {end}".encode(), "syslog")
        assert said is None or said.trust.value == "client-controllable"


def test_a_month_in_another_encoding_is_a_month() -> None:
    line = f"d\xe9c. 02 04:55:55 host llama-server[42]: {SLEEP}\n".encode("latin-1")
    assert text_kind(line * 3) == "journal-text"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_text_is_refused_with_the_command_that_turns_it(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes((f"{SLEEP}\n" * 5).encode(encoding))
    with pytest.raises(UserError, match=r"text in UTF-(16|32)") as refused:
        look(path)
    assert "iconv -f UTF" in refused.value.remedy


def test_a_torn_log_is_no_wide_text(tmp_path: Path) -> None:
    path = tmp_path / "torn.txt"
    path.write_bytes(b"\0" * 4096 + f"{SLEEP}\n".encode() * 5)
    assert look(path).kind == "server-log"
