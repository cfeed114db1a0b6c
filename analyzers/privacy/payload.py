"""What verbose logs print of a client's words: bodies, prompts, generated text, schemas and grammars.

The phrases come from the server's own sources (tools/server, common/chat.cpp, common/sampling.cpp of b11368)
and from the older eras' ``key="value"`` form. The lines that name a route or count tokens stay.
"""

from __future__ import annotations

import re

from analyzers.privacy.jsontext import level_of, value_end
from analyzers.privacy.late import Late
from analyzers.privacy.lines import record_end
from analyzers.privacy.names import row
from analyzers.privacy.near import spans, sub_near
from analyzers.privacy.patterns import MARKER, MARKERS

# Phrases after which everything up to the end of the record belongs to the client. What follows a
# "request:" must look like a body: older builds print "request: POST /completion 127.0.0.1 200", evidence.
_BODY = r"(?=\[|\{|\"|data: |--)"
_PHRASES = "|".join(
    (
        r"log_server_r\w{0,16}: (?:request|response): (?!\s*(?:GET|POST|PUT|PATCH|HEAD|DELETE|OPTIONS)\b)",
        r"(?:[Rr]equest|[Rr]esponse): {1,4}" + _BODY,
        r"(?:[Rr]equest|[Rr]esponse) body: ",
        r"streamed chunk: ",
        r"Parsed message: ",
        r"Parsing (?:chat message|PEG input[^:\n]{0,80}|input[^:\n]{0,80}): ",
        r"Failed to parse input at pos \d{1,12}: ",
        # The texts of exceptions that quote the request (common/chat.cpp, json-schema, server-common.cpp).
        r"Expected '\w{1,20}' to be an? \w{1,10}, got ",
        r"Missing 'role' in message: ",
        r"(?:Missing|Unsupported) (?:content part|tool)[\w ]{0,20}: ",
        r"(?:; tools = |Unrecognized schema: |Invalid tool_choice: |Unsupported param: |, but got: )",
        r"Invalid (?:diff: |regex pattern )(?=')",
        r"(?:file path is not allowed|file does not exist or cannot be opened|Invalid uri format): ",
        r"output triggering error:\s",
        r"add_text: ",
        r"string not as expected: ",
        r"(?:error parsing grammar|JSON schema|Converted grammar|Grammar \([^)\n]{0,40}\)): ",
        r"(?:parser )?generation prompt: ",
        r"prefill token: \d{1,12} = ",
        r"recv result for client_id=\d{1,12}: ",
        r"MCP '[^'\n]{0,80}' stderr: ",
        r"(?:[Pp]rompt|[Cc]ompletion|[Gg]enerated text): (?=['\"])",
    )
)
_PHRASE = Late("(?:" + _PHRASES + ")")
_NEEDLES = row(
    """log_server_r equest: esponse: body: chunk: message: pos triggering Parsing add_text: expected: schema:
    grammar: Grammar prompt: prefill client_id= stderr: rompt: ompletion: text: Expected Missing Unsupported
    tools Unrecognized tool_choice: got: diff: regex allowed: opened: uri"""
)
_START_QUOTE = Late(r"[\[{]?\s{0,8}(\\*)\"")


# The text inside the quotes is printed as it is: only the last quote of the line can be the closing one.
_TOKEN_PIECE = Late(
    r"((?:next token:|prompt token +\d{1,9}:|draft candidate[^\n']{0,80}?:) {0,8}\d{1,12}"
    r"(?: \([^)\n]{0,16}\))? ')[^\n]*?(?='?\r?$)",
    re.MULTILINE,
)
_LAST_READ = Late(
    r"(last read: ')(?!«redacted»|\[redacted\])(?:[^\n]*(?='; expected)|[^\n]*(?=')|[^\n]*)",
)
_GENERATION = Late(r"(generation_prompt=')[^\n]*?(?=', start=|$)", re.MULTILINE)
_FETCH = Late(r"(downloading (?:image|file|audio|video) from ')[^\n]*(?='|$)", re.MULTILINE)
# A debugger's frame with the values of its arguments: `#0  0x… in f (text="…", more=0x… "…"...) at f.cpp:1`.
_FRAME = Late(r"^[^\n#]{0,120}#\d{1,6} {1,4}[^\n]+$", re.MULTILINE)
_FRAME_TEXT = Late(r"(=(?:@?0x[0-9a-f]{1,16}:? )?\")(?!«redacted»|\[redacted\])(?:[^\"\\\n]|\\.)+(\"|$)")
# F2: key="a JSON string".
_KEYED = Late(
    r"(?<![\w\"])((?:prompt|request|response|token_text|to_eval|cached|prompt_tokens|text|body|content"
    r"|generated_text|system_prompt|formatted_chat|input)=\")(?!\"|«redacted»|\[redacted\])"
    r"(?:[^\"\\\n]|\\.)+(?:\"|(?=\n|\Z))"
)


def has_phrase(text: str) -> bool:
    """True when a phrase or a private key block stands in ``text``: what it begins may take many lines."""
    near = spans(text, _NEEDLES)
    return "PRIVATE KEY" in text or any(_PHRASE.search(text, start, end) for start, end in near)


def redact_payloads(text: str) -> str:
    """Take out what the phrases introduce; the phrase itself, and the record around it, stay readable."""
    text = _redact_phrases(text)
    text = sub_near(_LAST_READ, rf"\1{MARKER}", text, ("last read: '",))
    text = sub_near(_TOKEN_PIECE, rf"\1{MARKER}", text, (" token:", "prompt token", "draft candidate"))
    text = sub_near(_FRAME, _without_values, text, ("#",))
    text = sub_near(_GENERATION, _unless_empty, text, ("generation_prompt='",))
    text = sub_near(_FETCH, rf"\1{MARKER}", text, ("downloading ",))
    return sub_near(_KEYED, rf'\1{MARKER}"', text, ('="',))


def _without_values(frame: re.Match[str]) -> str:
    return _FRAME_TEXT.sub(rf"\1{MARKER}\2", frame.group())


def _unless_empty(match: re.Match[str]) -> str:
    return match.group() if match.end() == match.end(1) else match.group(1) + MARKER


def _redact_phrases(text: str) -> str:
    done, limit, out = 0, 0, list[str]()
    for line, line_end in spans(text, _NEEDLES):
        at = max(line, done)
        while phrase := _PHRASE.search(text, at, line_end):
            at = start = _skip_blanks(text, phrase.end())
            limit = limit if at < limit else record_end(text, at)
            if start >= limit or text.startswith(("\n", "\r", *MARKERS), start):
                continue
            at, marker = _payload(text, start, limit)
            out += [text[done:start], marker]
            done = at
    return "".join([*out, text[done:]]) if out else text


def _skip_blanks(text: str, at: int) -> int:
    while text.startswith((" ", "\t"), at):
        at += 1
    return at


def _payload(text: str, start: int, limit: int) -> tuple[int, str]:
    """(offset behind the payload, what to write instead). JSON ends where it closes, text with its record."""
    quote = _START_QUOTE.match(text, start)
    level = level_of(len(quote.group(1))) if quote else 0 if text[start] in "[{" else None
    if level is None:
        return limit, MARKER
    end = value_end(text, start, level, limit).offset
    if level > 0:
        return end, MARKER
    line_end = text.find("\n", end, limit)  # a body may go on behind what looked like its end
    return (limit if line_end < 0 else line_end), MARKER
