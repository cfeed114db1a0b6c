"""Names inside a bundle: relative, plain, and the same on every system that unpacks them."""

from __future__ import annotations

import unicodedata

from analyzers.bundle.limits import MAX_NAME


def fault_of(name: str) -> str | None:
    """Why ``name`` must not be used as a path inside a bundle, in words; None when it may."""
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        return "is empty or too long"
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in name):
        return "holds control characters"
    if name.startswith("/") or "\\" in name or name[1:2] == ":":
        return "is not relative"
    parts = name.split("/")
    if ".." in parts:
        return "leads out of the bundle"
    return "has empty parts" if "" in parts or "." in parts else None


def plain(name: str) -> str:
    """``name`` as hand-made archives write it (``./a``, ``a/``) in its plain form."""
    while name.startswith("./"):
        name = name[2:]
    return name.rstrip("/") if name != "/" else name
