"""Public addresses and e-mail addresses in text. Loopback and private addresses stay: they name no one."""

from __future__ import annotations

import re

from analyzers.privacy.late import Late
from analyzers.privacy.names import words
from analyzers.privacy.near import sub_near
from analyzers.privacy.patterns import MARKER

# The look-behinds stand after the first character: a pattern that begins with a set is searched far faster.
# Behind "name-" or "name.so." four numbers are a version.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = Late(r"(?=\d)" + _OCTET + r"(?:\." + _OCTET + r"){3}(?!\w|\.\w)")
_BEFORE_IPV4 = Late(r"(?:[\w.](?<!\dm)|[A-Za-z]-)\Z")
# Only 2000::/3 is given to hosts, so a name of hexadecimal letters with "::" in it is never taken for one.
_IPV6 = Late(r"[23](?<![\w:.].)[0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,39}(?![\w:])")
# "121.57.149.156 I que ..." is a log stamp, "version 13.0.1.26" a version: both have an address's shape.
_STAMP_AFTER = Late(r"(?:\x1b\[[\d;]{0,20}m|\s){1,4}[A-Z](?:\s|\x1b|$)")
_VERSION_BEFORE = Late(r"(?:\bv|version|driver|release|build|cudnn|nccl)[\s:=(\"']{0,4}$", re.IGNORECASE)
_VERSION_REACH = 16  # characters before a number in which a word for "version" is looked for
_EMAIL = Late(r"(?<![\w.+%-])[\w.+%-]+@(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+([A-Za-z][A-Za-z0-9]*)(?![\w-])")
# What follows an "@" in unit names and in symbols, with the shape of a top-level domain.
_NOT_A_DOMAIN = words(
    "service socket timer target mount automount slice scope path device swap conf so gguf py cpp h log"
)


def redact_network(text: str) -> str:
    """``text`` without e-mail addresses and public IP addresses; ports stay."""
    text = sub_near(_EMAIL, _email, text, ("@",))
    if "." in text:
        text = _IPV4.sub(_ipv4, text)
    return _IPV6.sub(_ipv6, text) if ":" in text else text


def _email(match: re.Match[str]) -> str:
    return match.group() if match.group(1).lower() in _NOT_A_DOMAIN else MARKER


def _ipv4(match: re.Match[str]) -> str:
    text, start = match.string, match.start()
    before = text[max(0, start - _VERSION_REACH) : start]
    if _BEFORE_IPV4.search(before):
        return match.group()
    if _STAMP_AFTER.match(text, match.end()) or _VERSION_BEFORE.search(before) or before.endswith("=="):
        return match.group()
    return MARKER if _is_public(match.group()) else match.group()


def _ipv6(match: re.Match[str]) -> str:
    return MARKER if _is_public(match.group()) else match.group()


def _is_public(text: str) -> bool:
    import ipaddress  # few texts hold an address

    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False
