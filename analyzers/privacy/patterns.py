"""What counts as secret or private, as data. The code that applies these tables stands beside it.

Every pattern is written so that it cannot take more than linear time: a run is entered only at its first
character (look-behind) and no two repeats can share characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.privacy.late import Late

MARKER = "«redacted»"
ASCII_MARKER = "[redacted]"
MARKERS = (MARKER, ASCII_MARKER)
# A word begins here: behind no letter or digit, or behind a colour sequence, which ends in "m".
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=[\d\[;]m))"
_DONE = r"(?!«redacted»|\[redacted\])"
# An unquoted value ends at white space or a quote; ending at "," or "&" would leave half of a key list.
_BARE = r"[^\s\"'\\<>«»]+"


@dataclass(frozen=True)
class Rule:
    """One textual rule. It runs only where one of ``needles`` (lower case) stands in the text."""

    name: str
    needles: tuple[str, ...]
    pattern: Late
    replacement: str
    more_lines: int = 0  # lines after the needle's own that the pattern reaches into


def _rule(
    name: str, needles: tuple[str, ...], pattern: str, replacement: str, flags: int = 0, more_lines: int = 0
) -> Rule:
    return Rule(name, needles, Late(pattern, flags), replacement, more_lines)


_I = re.IGNORECASE
_NAMES = (
    r"(?:x[_-])?api[_-]?keys?|access[_-]?key(?:[_-]id)?|secret[_-]?(?:access[_-]?)?key|private[_-]?key|client[_-]?secret"
    r"|secret|password|passwd|passphrase|(?:access|auth|refresh|hf|session|bearer|api|id)[_-]?token"
)
# "token" alone would run the rule on nearly every line of a server's log.
_JOINED = tuple(
    word + joint + tail
    for joint in ("_", "-", "")
    for word, tail in (
        *((word, "key") for word in ("api", "access", "private")),
        *((word, "token") for word in ("access", "auth", "refresh", "hf", "session", "bearer", "api", "id")),
    )
)
_NAME_NEEDLES = (*_JOINED, "secret", "passw", "passphrase")
RULES: tuple[Rule, ...] = (
    _rule(
        "header",
        ("authorization", "api-key", "auth-token", "cookie"),
        _EDGE + r"((?:proxy-)?authorization|x-api-key|api-key|x-auth-token|(?:set-)?cookie)"
        r"((?:\\*[\"'])?[ \t]*:[ \t]*(?:\\*[\"'])?)" + _DONE + r"[^\"'\\\s][^\"'\\\r\n]*",
        r"\1\2«redacted»",
        _I,
    ),
    _rule(
        "bearer",
        ("bearer ",),
        _EDGE
        + r"(bearer[ \t]+)"
        + _DONE
        + r"(?!(?:tokens?|auth|authentication|authorization)(?:[\s.,;:)]|$))"
        + _BARE,
        r"\1«redacted»",
        _I,
    ),
    _rule(
        "option-quoted",
        ("--", "-hft"),
        _EDGE + r"(--(?:[a-z0-9]+-)*(?:api-?keys?|token|secret|password|passwd|passphrase)|-hft)"
        r"(=|[ \t]+)(\\*[\"'])" + _DONE + r"[^\"'\\\r\n]+",
        r"\1\2\3«redacted»",
        _I,
    ),
    _rule(
        "option",
        ("--", "-hft"),
        _EDGE + r"(--(?:[a-z0-9]+-)*(?:api-?keys?|token|secret|password|passwd|passphrase)|-hft)"
        r"(=|[ \t]+)" + _DONE + _BARE,
        r"\1\2«redacted»",
        _I,
    ),
    # A router prints the arguments of a child one per log line: the value stands alone on the next one.
    _rule(
        "option-next-line",
        ("--api-key", "--hf-token", "-hft"),
        _EDGE
        + r"((?:--api-key|--hf-token|-hft)[ \t]*\r?\n[^\n]*[ \t])"
        + _DONE
        + r"[^\s«»]+(?=[ \t\r]*(?:\n|$))",
        r"\1«redacted»",
        more_lines=1,
    ),
    # ... and the same in a log of JSON objects. All repeats are bounded: the two lines are short.
    _rule(
        "option-next-object",
        ("--api-key", "--hf-token", "-hft"),
        _EDGE + r"((?:--api-key|--hf-token|-hft)[ \t]*(?:\\n)?\"[^\n]{0,200}\n"
        r"[^\n]{0,200}?\"msg\":[ ]?\"[^\"\n]{0,200} )" + _DONE + r"[^\s\"\\«»]+(?=(?:\\n)?\")",
        r"\1«redacted»",
        more_lines=1,
    ),
    _rule(
        "key-tail",
        ("api_keys: ***",),
        r"(api_keys: )\*+[^\s«»]*",
        r"\1«redacted»",
    ),
    _rule(
        "named-quoted",
        _NAME_NEEDLES,
        r"(?:(?<![A-Za-z0-9])|(?<=[\d\[;]m))("
        + _NAMES
        + r")((?:\\*[\"'])?[ \t]*(?:=(?!=)|:(?!:))[ \t]*\\*[\"'])"
        + _DONE
        + r"[^\"'\\\r\n]+",
        r"\1\2«redacted»",
        _I,
    ),
    _rule(
        "named",
        _NAME_NEEDLES,
        r"(?:(?<![A-Za-z0-9])|(?<=[\d\[;]m))("
        + _NAMES
        + r")((?:\\*[\"'])?[ \t]*(?:=(?!=)|:(?!:))[ \t]*)"
        + _DONE
        + r"(?!\*\*\*|\d+ keys loaded|null\b|true\b|false\b)"
        + _BARE,
        r"\1\2«redacted»",
        _I,
    ),
    _rule(
        "environment",
        ("key=", "token=", "secret=", "password=", "passwd=", "pass=", "credentials=", "auth="),
        _EDGE + r"([A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS|AUTH))"
        r"(=(?:\\*[\"'])?)" + _DONE + r"(?!\d+(?:\s|$))" + _BARE,
        r"\1\2«redacted»",
    ),
    _rule(
        "environment-json",
        ("key", "token", "secret", "password", "passwd", "credentials"),
        _EDGE + r"([A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)"
        r"\\*\"[ \t]*:[ \t]*\\*\")" + _DONE + r"[^\"\\\r\n]+",
        r"\1«redacted»",
    ),
    _rule(
        "token-shape",
        (
            "sk-",
            "hf_",
            "ghp_",
            "gho_",
            "ghs_",
            "ghu_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "xox",
            "akia",
            "aiza",
        ),
        _EDGE + r"(?:sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}"
        r"|github_pat_\w{16,}|glpat-[\w-]{12,}|xox[a-z]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{30,})",
        "«redacted»",
    ),
    _rule(
        "jwt",
        ("eyj",),
        _EDGE + r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)?",
        "«redacted»",
    ),
    _rule(
        "url-user",
        ("://",),
        r"(://)" + _DONE + r"[^\s/?#\"'<>\\]*@",
        r"\1«redacted»@",
    ),
    _rule(
        "url-query",
        ("?", "&"),
        r"([?&][\w.-]*(?:key|token|secret|signature|sig|password|credential|auth)=)"
        + _DONE
        + r"[^\s\"'&<>\\«»]+",
        r"\1«redacted»",
        _I,
    ),
    # Account names say who runs the server; "~" keeps the rest of the path readable.
    _rule(
        "home",
        ("/home/", "/users/", "/media/"),
        r"(/home/|/Users/|/run/media/|(?<![\w.~-])/media/)(?!~)[^\s/\"'`:;,)(\]\[<>|\\]+",
        r"\1~",
    ),
)
