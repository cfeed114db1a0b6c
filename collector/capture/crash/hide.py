"""Command line and environment without what they hide: done before anything reaches the disk.

Stricter than the redaction of bundles, which sees more context: a value is kept only where its name says
that it is a plain setting.
"""

_HIDDEN = "[hidden]"
_WORDS = "key token secret pass auth cred cookie header prompt message grammar template schema bearer session"
_SECRET = (*_WORDS.split(), "private", "proxy")
# Always followed by a value: keys, prompts, and the program of python -c.
_VALUED = ("--api-key", "--hf-token", "-hft", "--prompt", "--system-prompt", "-p", "-r", "-sys", "-c")
_PLAIN = ("LLAMA_ARG_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_", "VK_", "OMP_", "MALLOC_")
_PLAIN_NAMES = ("LLAMA_SERVER_ROUTER_PORT", "LD_LIBRARY_PATH", "LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES")
_NUMERIC_SHORTS = ("-c",)  # llama-server's context size: a number is no program
# A word of settings in itself (JSON, name=value) that names a secret, and what keys begin with.
_JOINTS = ("{", '"', ":", "=", " ")
_KEYS = ("sk-", "hf_", "ghp_", "xox", "eyJ", "Bearer ", "AKIA")
_ARGUMENTS_AT = 56  # pr_psargs in struct elf_prpsinfo
MAX_WORDS = 4096
MAX_WORD = 4096


def clean_words(words: list[str]) -> list[str]:
    """Arguments with the values of secret and private options, and credentials in addresses, hidden."""
    out: list[str] = []
    option = ""
    for word in words[:MAX_WORDS]:
        name, equals, _ = word.partition("=")
        if option and (option in _VALUED or not word.startswith("-")) and not _plain(option, word):
            out.append(_HIDDEN)
            option = ""
        elif equals and name.startswith("-") and _is_secret(name):
            out.append(f"{name}={_HIDDEN}")
            option = ""
        else:
            out.append(_HIDDEN if _betrays(word) else _without_credentials(word[:MAX_WORD]))
            option = word if word in _VALUED or (word.startswith("-") and _is_secret(word)) else ""
    return out


def _betrays(word: str) -> bool:
    named = not word.startswith("-") and any(joint in word for joint in _JOINTS) and _is_secret(word)
    return named or any(word.startswith(key) for key in _KEYS)


def _plain(option: str, value: str) -> bool:
    return option in _NUMERIC_SHORTS and value.lstrip("-").isdecimal()


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in _SECRET)


def _without_credentials(word: str) -> str:
    before, scheme, after = word.partition("://")
    host, at, rest = after.partition("@")
    return f"{before}{scheme}{_HIDDEN}@{rest}" if scheme and at and "/" not in host else word


def clean_information(body: bytes) -> bytes:
    """NT_PRPSINFO with its copy of the arguments (80 bytes, blanks between them) ended before the first that
    hides something: what follows may be a part of it."""
    words = body[_ARGUMENTS_AT:].split(b"\0")[0].decode("latin-1").split(" ")
    pairs = list(zip(words, clean_words(words), strict=False))
    whole = next((at for at, (word, shown) in enumerate(pairs) if word != shown), len(pairs))
    kept = " ".join(words[:whole]).encode("latin-1")
    return body[:_ARGUMENTS_AT] + kept.ljust(len(body) - _ARGUMENTS_AT, b"\0")


def clean_environment(words: list[str]) -> dict[str, str | None]:
    """Name → value; None where the value is nobody's business. Names that are secrets by mistake (no
    identifier) are left out."""
    found: dict[str, str | None] = {}
    for word in words[:MAX_WORDS]:
        name, equals, value = word.partition("=")
        if not equals or not name.replace("_", "a").isalnum() or len(name) > 200:
            continue
        known = name.startswith(_PLAIN) or name in _PLAIN_NAMES
        found[name] = _without_credentials(value[:MAX_WORD]) if known and not _is_secret(name) else None
    return found
