"""Both directions: what must go, and what must stay because a verdict rests on it."""

from __future__ import annotations

import json

import pytest

from analyzers.privacy.redact import MARKER, ascii_safe, redact_text

STAMP = "0.01.976.668 D "
SECRET = "Zq8-planted_W4x"  # noqa: S105 - planted, to be found again
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.s5Xw_a-9"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
PRETTY = 'request: {\n  "messages": [\n    {"role": "user"}\n  ],\n  "extra": ["my zebra"]\n}'

# What exceptions of common/chat.cpp, json-schema-to-grammar.cpp and server-common.cpp quote of a request.
QUOTING = [
    "Expected 'messages' to be an array, got \"my zebra\"",
    'Missing \'role\' in message: {"name":"zebra"}',
    'Missing content part type: {"text":"zebra"}',
    'Unsupported content part type: "zebra"',
    'Missing tool call type: {"function":{"name":"zebra"}}',
    'Failed to parse tools: no; tools = [\n  {\n    "description": "zebra"\n  }\n]',
    'JSON schema conversion failed:\nUnrecognized schema: {"const":"zebra"}',
    "Invalid diff: 'zebra' not found at start of 'zebra crossing'",
    "Invalid tool_choice: zebra",
    "Invalid regex pattern 'zebra': no",
    'response_format type must be one of "text" or "json_object", but got: zebra',
    "file path is not allowed: /zebra",
]
ANSWERED = STAMP + 'srv    operator(): got exception: {"error":'
GONE = [
    ("authorization", f"Authorization: Bearer {SECRET}", SECRET),
    ("basic", "Authorization: Basic dXNlcjpwdw==", "dXNlcjpwdw"),
    ("proxy header", f"proxy-authorization: Digest {SECRET}", SECRET),
    ("header with blanks", f"Authorization:   Bearer   {SECRET}", SECRET),
    ("x-api-key", f"X-Api-Key: {SECRET}", SECRET),
    ("header in json", f'{{"headers":{{"X-Api-Key":"{SECRET}"}}}}', SECRET),
    ("curl", f"curl -H 'Authorization: Bearer {SECRET}' http://127.0.0.1:8080/health", SECRET),
    ("cookie", f"Cookie: session={SECRET}; theme=dark", SECRET),
    ("set-cookie", f"Set-Cookie: sid={SECRET}; Path=/", SECRET),
    ("bare bearer", f"got bearer {SECRET} from client", SECRET),
    ("option", f"llama-server --api-key {SECRET} --port 8080", SECRET),
    ("option with =", f"llama-server --api-key={SECRET} --port 8080", SECRET),
    ("option quoted", f'llama-server --api-key "{SECRET} two" --port 8080', "two"),
    ("option with dash", "llama-server --api-key -dashed-key --port 8080", "-dashed-key"),
    ("hf option", f"-hft {SECRET}", SECRET),
    ("other option", f"--mcp-auth-token {SECRET}", SECRET),
    ("list of keys", f"--api-key one-key-1,{SECRET}", SECRET),
    ("assignment", f"api_key={SECRET}", SECRET),
    ("assignment with blanks", f"api-key = {SECRET}", SECRET),
    ("yaml", f"password: {SECRET}", SECRET),
    ("variable", f"HF_TOKEN={SECRET}", SECRET),
    ("other variable", f"export AWS_SECRET_ACCESS_KEY={SECRET}", SECRET),
    ("variable in json", f'"env":{{"GITHUB_TOKEN":"{SECRET}"}}', SECRET),
    ("openai", "key sk-proj-abcDEF0123456789abcd used", "abcDEF0123456789"),
    ("hugging face", "hf_abcdefghijKLMNOPqrstuvWXYZ0123456789", "abcdefghijKLMNOP"),
    ("github", "ghp_abcdefghijKLMNOPqrstuvWXYZ012345", "abcdefghijKLMNOP"),
    ("jwt", f"token was {JWT} ok", "eyJzdWIiOiIxIn0"),
    ("pem", PEM, "MIIEvQIBADANBgkq"),
    ("pem cut", PEM[:60], "MIIEvQIBADANBgkq"),
    ("pem in json", json.dumps({"key_file": PEM}), "MIIEvQIBADANBgkq"),
    ("url", f"https://joe:{SECRET}@models.example/x.gguf", SECRET),
    ("url user", f"https://{SECRET}@models.example/x.gguf", SECRET),
    ("url query", f"https://models.example/x.gguf?download=1&token={SECRET}", SECRET),
    ("signed url", f"https://s3.example/x?X-Amz-Signature={SECRET}&X-Amz-Date=1", SECRET),
    ("key tail", STAMP + "srv  init_listene: api_keys: ****4W4x", "4W4x"),
    ("e-mail", "user jane.doe+llm@example.org asked", "jane.doe"),
    ("public ip", "done request: POST /v1/chat/completions 8.8.4.4 200", "8.8.4.4"),
    ("public ip and port", "client 8.8.4.4:51234 closed", "8.8.4.4"),
    ("public ipv6", "client [2a00:1450:4001:81b::200e]:443", "2a00:1450"),
    ("home", "loading model '/home/janedoe/models/tiny.gguf'", "janedoe"),
    ("mac home", "/Users/janedoe/models/tiny.gguf", "janedoe"),
    ("media", "/run/media/janedoe/disk/tiny.gguf", "janedoe"),
    ("body", STAMP + 'srv  log_server_r: request:  {"messages":[{"content":"my zebra"}]}', "zebra"),
    ("body of older builds", 'request: {"prompt":"my zebra","n_predict":4}', "zebra"),
    ("reply", STAMP + 'srv  log_server_r: response: {"choices":[{"text":"my zebra"}]}', "zebra"),
    ("body that is no json", STAMP + "srv  log_server_r: request:  my zebra=1&b=2", "zebra"),
    ("multipart body", STAMP + "srv  log_server_r: request:  --b1\r\nmy zebra\r\n--b1--", "zebra"),
    ("pretty body", 'Request body: {\n  "input": [\n    "my zebra"\n  ]\n}', "zebra"),
    ("pretty body with an object of its own", PRETTY, "zebra"),
    ("coloured", f"\x1b[0mX-Api-Key: {SECRET}", SECRET),
    ("coloured address", "\x1b[31m8.8.4.4\x1b[0m", "8.8.4.4"),
    ("cut body", STAMP + 'srv  log_server_r: request:  {"messages":[{"content":"my zeb', "zeb"),
    ("after the body", STAMP + 'srv  log_server_r: request:  {"a":1} my zebra', "zebra"),
    ("chunk", STAMP + 'srv    operator(): http: streamed chunk: data: {"delta":"zebra"}', "zebra"),
    ("parsed", STAMP + 'Parsed message: {"role":"assistant","content":"zebra"}', "zebra"),
    ("prompt of raw text", "prompt: 'my\nzebra'", "zebra"),
    ("slot", STAMP + 'slot launch_slot_: launching slot : {"id":0,"prompt":"<s> zebra"}', "zebra"),
    ("escaped json", r'msg="{\"prompt\":\"my zebra\"}"', "zebra"),
    ("twice escaped json", r'"{\"a\":\"{\\\"prompt\\\":\\\"my zebra\\\"}\"}"', "zebra"),
    ("token piece", STAMP + "slot process_toke: id  0 | next token:   756 ' zebra'", "zebra"),
    ("token piece with quote", STAMP + "slot process_toke: id  0 | next token:   756 'ze'bra'", "bra"),
    ("prompt token", STAMP + "slot   operator(): prompt token   3:    756 'zebra'", "zebra"),
    ("draft", STAMP + " - seq_id 0, draft candidate   1, pos   2:    756 (   0.500) 'zebra'", "zebra"),
    ("prefill", STAMP + "common_sampler_init: prefill token: 756 = zebra", "zebra"),
    ("parse error", r"""parse error at 1; last read: '\"zebra "x\"'; expected '}'""", "zebra"),
    ("frame", '#0  0x00007f01 in f (this=0x1, raw_text="my \\"zebra\\" x", n=1) at v.cpp:3', "zebra"),
    ("frame with addresses", '> #12 main (argv=0x7ffe "zebra", env=@0x7ff: "zebra"...) at m.cpp:3', "zebra"),
    ("cut frame", '#1  0x00007f01 in compare (__s=0x5 "zebra', "zebra"),
    *((f"exception: {text[:30]}", f"  what():  {text}", "zebra") for text in QUOTING),
    *((f"answer: {text[:30]}", f"{ANSWERED}{json.dumps({'message': text})}}}", "zebra") for text in QUOTING),
    ("schema", STAMP + 'srv    operator(): JSON schema: {\n  "zebra": {\n  }\n}', "zebra"),
    ("grammar", STAMP + "srv    operator(): Converted grammar: root ::= zebra\nws ::= zebra", "zebra"),
    ("refused grammar", "parse: error parsing grammar: Undefined rule identifier 'zebra'", "zebra"),
    (
        "refused grammar behind stamps of arrival",
        "2026-12-02T01:44:52.4Z parse: error parsing grammar: no\n2026-12-02T01:44:52.4Z \n"
        f"2026-12-02T01:44:52.4Z root ::= zebra\n2026-12-02T01:44:52.4Z {STAMP}x: done",
        "zebra",
    ),
    ("output", STAMP + "f: full peg output triggering error:\n=== BEGIN ===\nzebra\n=== END ===", "zebra"),
    ("mtmd", STAMP + "add_text: <|im_start|>system\nzebra", "zebra"),
    ("era F2", 'VERB [ log_server_request] request | tid="1" request="{\\"prompt\\":\\"zebra\\"}"', "zebra"),
    ("era F2 token", 'VERB [ next_token] | tid="1" token=5 token_text="zebra" id_slot=0', "zebra"),
    ("era F1", '{"function":"f","level":"VERB","request":"{}","prompt":"zebra"}', "zebra"),
    ("era F6", json.dumps({"type": "log", "msg": 'srv  log_server_r: request:  {"x":"zebra"}\n'}), "zebra"),
    ("journal bytes", json.dumps({"MESSAGE": list(b'\x1b[0mrequest: {"x":"zebra"}')}), "122, 101, 98, 114"),
    (
        "router arguments",
        f"{STAMP}srv          load:   --api-key\n{STAMP}srv          load:   {SECRET}\n",
        SECRET,
    ),
    (
        "router arguments as objects",
        '{"type":"log","msg":"srv  load:   --api-key\\n"}\n'
        f'{{"type":"log","msg":"srv  load:   {SECRET}\\n"}}\n',
        SECRET,
    ),
]

KEPT = [
    "121.57.649.356 I que    start_loop: entering sleeping state",
    "121.57.149.156 I que    start_loop: entering sleeping state",
    "\x1b[0m121.57.149.156\x1b[0m I que    start_loop: exiting sleeping state",
    STAMP + 'srv    operator(): got exception: {"error":{"code":500,"message":"_Map_base::at"}}',
    STAMP + 'srv    operator(): got exception: {"error":{"code":400,"message":"Missing \'messages\'"}}',
    '#2  0x00007f3eafa954cd in handle<lambda(x)>::run (this=0x55d0, name="", p=0x0) at x.cpp:3',
    "0.01.976.755 I slot   operator(): id  0 | task 5 | new prompt, n_ctx_slot = 512, task.n_tokens = 17",
    "0.01.976.540 I srv        update:    - prompt 0x7fdd1802e450:      32 tokens, checkpoints:  0",
    "srv    operator(): unauthorized: Invalid API Key",
    "0.00.003.585 W srv  init: security: no API key is set and CORS allows all origins (see https://github.com/x/y)",
    "srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
    "0.02.1.1 T srv  log_server_r: done request: POST /tokenize 10.0.0.7 200",
    "srv          stop: cancel task, id_task = 42",
    "print_info: EOS token             = 2 '</s>'",
    "llama_model_loader: - kv  22: tokenizer.chat_template str = {% for m in messages %}{{ m['role'] }...",
    "srv  load_model: loading model '/srv/models/gemma-3-1b-Q4_K_M.gguf'",
    "python[3004]: segfault at 170 ip 00007f7e14a22c81 sp 00007f7e0b7fc100 error 4 in x.so[c22c81,7f7e1400]",
    "#3 0x00007f7e14a22c81 in llama_vocab::impl::tokenize(std::string const&, bool, bool) const () from x.so",
    "#5 server_routes::handle_count_tokens(server_http_req const&, task_response_type)",
    "#9 std::_Function_handler<std::unique_ptr<server_http_res> (server_http_req const&)>::_M_invoke(...)",
    "#1 __futex_abstimed_wait_common64 (private=0) at pthread_cond_wait@@GLIBC_2.3.2",
    "call malloc@plt then memcpy@GLIBC_2.14",
    "build-id 3f6d2c1b9a8e7f6d5c4b3a29181706f5e4d3c2b1",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "GGML_ASSERT(max_blocks_per_sm > 0) failed",
    "/build/ggml/src/ggml-cuda/mmq.cuh:2590: GGML_ASSERT(n > 0) failed",
    "version: 10293 (a1f96d4fc)",
    "NVIDIA driver version 13.0.1.26, cuDNN 9.1.0.70, libfoo.so.1.2.3.4, llama-cpp-1.2.3.4, x==1.2.3.4",
    "llama-server@gemma.service: Main process exited, code=dumped, status=11/SEGV",
    "listening on http://127.0.0.1:8080 and http://192.168.1.20:8080 and http://[::1]:8080",
    "peer fe80::1 and fd12:3456::7 and add::dead::beef",
    "n_tokens = 38, n_prompt_tokens = 12, token = 5, max_token: 3, next token id",
    "--api-key-file /etc/llama/keys --ssl-key-file /etc/ssl/k.pem --image-max-tokens 1024",
    "Accept bearer tokens only",
    '{"prompt_tokens":12,"completion_tokens":3,"content":null,"prompt":"","messages":[]}',
    'INFO [   update_slots] kv cache rm [p0, end) | tid="139" timestamp=1724599956 id_slot=0 p0=0',
    '{"tid":"1","timestamp":1708800000,"level":"INFO","function":"main","msg":"model loaded"}',
    "HTTP 500 _Map_base::at",
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  vector::_M_range_check",
    "/home/~/models/tiny.gguf",
    "task-queue disk-io mask-layer sk-short",
    "",
]


@pytest.mark.parametrize(("text", "secret"), [case[1:] for case in GONE], ids=[case[0] for case in GONE])
def test_secret_or_private_text_goes(text: str, secret: str) -> None:
    # GIVEN a text with something that must not get out
    assert secret in text
    # WHEN it is redacted
    cleaned = redact_text(text)
    # THEN that is gone, visibly so, and a second run changes nothing
    assert secret not in cleaned
    assert MARKER in cleaned or "/~/" in cleaned
    assert redact_text(cleaned) == cleaned


@pytest.mark.parametrize("text", KEPT)
def test_evidence_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "after",
    [
        "0.02.235.389 I que    start_loop: entering sleeping state",
        "srv  update_slots: all slots are idle",
        "llama-1  | 0.02.235.389 I que    start_loop: entering sleeping state",
        "Dec 02 00:37:32 host llama-server[123]: srv  update_slots: all slots are idle",
        "[ 8080] 0.02.235.389 I que    start_loop: entering sleeping state",
        "terminate called after throwing an instance of 'std::out_of_range'",
        "/src/ggml.c:22: GGML_ASSERT(x) failed",
        "[  167.931895] python[3004]: segfault at 170 ip 00007f7e14a22c81",
        "Segmentation fault (core dumped)",
        "#0  0x00007f in raise () from libc.so.6",
        '{"type":"log","time":1,"level":"INFO","msg":"srv init: x"}',
    ],
)
@pytest.mark.parametrize(
    "body", ['{"messages":[{"content":"my zebra', "my zebra\nis striped", '{"a":"zebra"}']
)
def test_the_line_after_a_body_stays(body: str, after: str) -> None:
    # GIVEN a body, whole, cut or raw, and a telling line behind it
    text = f"{STAMP}srv  log_server_r: request:  {body}\n{after}\n"
    # WHEN it is redacted
    cleaned = redact_text(text)
    # THEN the body is gone and the telling line stands as it was
    assert "zebra" not in cleaned
    assert cleaned.splitlines()[-1] == after


def test_json_lines_stay_json() -> None:
    # GIVEN a log of objects whose messages carry bodies, plain text and an empty reply
    messages = ['request:  {"x":"zebra"}\n', "add_text: zebra\n", "srv  log_server_r: response: \n"]
    text = "\n".join(json.dumps({"type": "log", "time": 12, "ratio": 1.0e5, "msg": m}) for m in messages)
    # WHEN it is redacted
    lines = [json.loads(line) for line in redact_text(text).split("\n")]
    # THEN each is an object with its other fields, and only clients' words are gone
    assert [line["time"] for line in lines] == [12, 12, 12]
    assert "zebra" not in str(lines)
    assert lines[2]["msg"] == messages[2]


def test_numbers_in_a_cleaned_object_keep_their_spelling() -> None:
    text = '{"ratio": 1.0e5, "big": 12345678901234567890, "api_key": "planted-1", "e": "\\u001b[0m"}'
    assert redact_text(text) == text.replace("planted-1", MARKER)


def test_account_name_goes_and_the_model_file_stays() -> None:
    assert redact_text("/home/jane/m/tiny.gguf") == "/home/~/m/tiny.gguf"


def test_ascii_marker_is_known_as_done() -> None:
    cleaned = ascii_safe(redact_text(f'X-Api-Key: {SECRET} {{"prompt":"zebra"}}'))
    assert cleaned.isascii()
    assert redact_text(cleaned) == cleaned
