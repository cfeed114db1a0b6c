"""Templates of shapes: always what the grammar says, for every line, or no template at all."""

from __future__ import annotations

import random

import pytest

from analyzers.contracts.evidence import Evidence, Incarnation, Trust
from analyzers.contracts.facts import to_evidence
from analyzers.logs.recognise import recognise, safe_text
from collector.sources.follow.lines import MASK, Lines
from collector.sources.follow.quick import quick_evidence

WHO = Incarnation(pid=4242, boot_id="b" * 32)
CARRIED = Incarnation(boot_id="b" * 32)
LINES = [
    b"0.01.002.003 I slot launch_slot_: id  0 | task 1234 | processing task, is_child = 0",
    b"121.57.649.356 I slot      release: id 12 | task 77 | stop processing: n_tokens = 22, truncated = 0",
    b"121.57.649.356 I que    start_loop: entering sleeping state",
    b"1.00.000.000 I que    start_loop: exiting sleeping state",
    b"0.00.004.097 I srv          init: build_info: b11549-a1f96d4fc",
    b"0.00.000.097 I srv    load_model: loading model '/srv/models/qwen2-7b.gguf'",
    b"0.00.000.097 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 4096, kv_unified = 'true'",
    b"0.00.000.097 I srv          init: listening on http://127.0.0.1:8080",
    b"srv          stop: cancel task, id_task = 17",
    b"srv  update_slots: all slots are idle",
    b"srv  log_server_r: done request: POST /v1/chat/completions 10.0.0.7 500",
    b"srv  log_server_r: done request: GET /etc/passwd/8080 10.0.0.7 404",
    b"[ 8080] 0.00.004.097 I que    start_loop: entering sleeping state",
    b"1.02.003.004 I srv    operator(): spawning server instance with name=qwen-7b on port 8123",
    b"/src/ggml.c:1234: GGML_ASSERT(a != 12) failed",
    b'{"type":"log","time":1234567,"level":"info","msg":"que    start_loop: entering sleeping state\\n"}',
    b'INFO [   update_slots] all slots are idle | tid="1" timestamp=1724599956 id_slot=0',
    b"llama-server[4242]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14",
    b"Segmentation fault (core dumped)",
    b"terminate called after throwing an instance of 'std::runtime_error'",
    "0.01.002.003 I que    start_loop: entering sleeping state \u202e".encode(),
    b"\x1b[32m0.01.002.003 I que    start_loop: entering sleeping state\x1b[0m",
    b"0.01.002.003 I que    start_loop: entering sleeping state\xff\xfe",
]


def expected(line: bytes) -> Evidence | None:
    found = recognise(line)
    if found is None or found.fact.KIND == "kernel":
        return None
    shell = getattr(found.fact, "by", None) == "shell"
    return to_evidence(
        found.fact,
        id="i",
        source="s",
        text=safe_text(found),
        trust=Trust.CLIENT if shell else found.trust,
        wall=10.0,
        mono=1.0,
        elapsed=found.elapsed,
        incarnation=WHO if found.prefix.port is None else CARRIED,
    )


def other_digits(line: bytes, chance: random.Random) -> bytes:
    return bytes(chance.choice(b"0123456789") if 48 <= char <= 57 else char for char in line)


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_a_shape_is_read_as_the_grammar_reads_it(line: bytes) -> None:
    # GIVEN a reader that has seen a line of the shape WHEN others of the shape follow
    lines, chance = Lines(), random.Random(line)
    for sample in [line, *(other_digits(line, chance) for _ in range(40)), line]:
        # THEN what comes out equals what the validated constructor makes of the grammar's answer
        made = lines.evidence(sample, "i", "s", 10.0, 1.0, WHO, CARRIED)
        assert made == expected(sample)
        if made is not None:
            assert type(made.data.get("task_id", 0)) is int
            assert made.model_dump_json() == expected(sample).model_dump_json()


def test_quick_evidence_is_the_validated_one() -> None:
    fields = {
        "id": "i",
        "kind": "log",
        "source": "s",
        "text": "t",
        "trust": Trust.SERVER,
        "wall": 1.0,
        "mono": None,
        "elapsed": 2.0,
        "incarnation": WHO,
        "data": {"event": "loaded"},
    }
    quick, slow = quick_evidence(**fields), Evidence(**fields)
    assert quick == slow
    assert (repr(quick), quick.model_dump_json()) == (repr(slow), slow.model_dump_json())
    assert quick.model_fields_set == slow.model_fields_set
    assert quick.model_copy(update={"text": "u"}) == slow.model_copy(update={"text": "u"})
    assert Evidence.model_validate_json(quick.model_dump_json()) == slow
    with pytest.raises(ValueError, match="frozen"):
        quick.text = "x"


def test_a_log_of_unique_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.sources.follow.lines.SHAPES_KEPT", 100)
    lines = Lines()
    told = 0
    for number in range(2000):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        lines.evidence(f"srv {name}".encode(), "i", "s", None, None, WHO, CARRIED)
        line = f"0.00.000.097 I srv    load_model: loading model '/m/{name}.gguf'".encode()
        told += lines.evidence(line, "i", "s", None, None, WHO, CARRIED) is not None
    assert told == 2000
    assert len(lines.known) <= 101


def test_a_kernel_line_in_a_servers_output_is_counted_as_forged_and_told_to_nobody() -> None:
    lines = Lines()
    line = b"llama-server[4242]: segfault at 172 ip 0000000000000172 sp 00007ffe00000000 error 14"
    assert lines.evidence(line, "i", "s", None, None, WHO, CARRIED) is None
    assert lines.evidence(line, "i", "s", None, None, WHO, CARRIED) is None
    assert lines.forged == 2
    assert line.translate(MASK) in lines.known
