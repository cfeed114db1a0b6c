"""The names that make a value secret, private or safe, as data, and the questions asked of them."""

from __future__ import annotations

import re


def row(text: str) -> tuple[str, ...]:
    """A table of words, in order."""
    return tuple(text.split())


def words(text: str) -> frozenset[str]:
    """A table of words, as a set."""
    return frozenset(text.split())


# Options whose value is a secret whatever it looks like (common/arg.cpp of llama.cpp).
SECRET_OPTIONS = frozenset({"--api-key", "--hf-token", "-hft"})
# Options that carry text of a prompt, or a document in which keys are usual.
PRIVATE_OPTIONS = frozenset(
    {
        "--prompt",
        "-sys",
        "--system-prompt",
        "--negative-prompt",
        "--mcp-servers-json",
        "--reasoning-budget-message",
        "--reverse-prompt",
    }
)
# Words that make a long option, a variable or a JSON key secret when they stand in its name.
SECRET_WORDS = words(
    """key apikey keys token secret secrets password passwd passphrase pass pwd credential credentials auth
    authorization bearer cookie"""
)
# ... unless the name goes on to say that it holds something else.
HARMLESS_TAILS = words(
    """file path dir count type size id min max length len ids k v name limit budget url uri host port
    mode method enabled"""
)
# Variables whose value is evidence for a crash. Every other value is taken out: an environment is where
# services keep secrets under any name.
SAFE_ENV = words(
    """PATH LANG LANGUAGE TZ TERM SHELL PWD HOME TMPDIR LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT GLIBC_TUNABLES
    INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID container HF_HOME HF_HUB_CACHE
    HF_HUB_OFFLINE HF_ENDPOINT NO_COLOR PYTHONPATH VIRTUAL_ENV XDG_CACHE_HOME XDG_RUNTIME_DIR"""
)
SAFE_ENV_PREFIXES = row(
    """LC_ LLAMA_ GGML_ CUDA_ NVIDIA_ HIP_ HSA_ ROCR_ ROCM_ GPU_ VK_ SYCL_ ONEAPI_ ZE_ OMP_ OPENBLAS_ MKL_
    MALLOC_ ASAN_ UBSAN_ TSAN_ NCCL_"""
)
# JSON keys that hold what clients send or get (request and response bodies of the server's routes), and keys.
PRIVATE_JSON_KEYS = row(
    """prompt negative_prompt system_prompt generation_prompt content reasoning_content messages input
    input_prefix input_suffix input_extra suffix query documents instructions generated generated_text
    completion choices delta arguments tools grammar json_schema response_format formatted_chat
    token_text to_eval cached prompt_string image_url audio_url input_audio multimodal_data body
    request_body response_body"""
)
SECRET_JSON_KEYS = row(
    """api_key api-key apikey apiKey api_keys authorization Authorization x-api-key X-Api-Key access_token
    auth_token refresh_token id_token hf_token client_secret secret password passwd cookie Cookie set-cookie
    private_key"""
)

MAX_NAME = 200  # characters of a name that are looked at; real ones have under sixty
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def words_of(name: str) -> list[str]:
    """The words of an option, variable or key, lower case: ``--ssl-key-file`` is ssl, key, file."""
    return [word.lower() for word in _WORD.findall(name[:MAX_NAME])]


def is_secret_name(name: str) -> bool:
    """True when the name says that its value is a key, token or password (and not, say, a file's path)."""
    parts = words_of(name)
    return bool(parts) and parts[-1] not in HARMLESS_TAILS and not SECRET_WORDS.isdisjoint(parts)


def is_safe_variable(name: str) -> bool:
    """True when the variable's value is evidence and may be shown once ordinary redaction has run over it."""
    return name in SAFE_ENV or name.startswith(SAFE_ENV_PREFIXES)
