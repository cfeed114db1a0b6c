"""What llama-server calls its options: short forms, older names, negations and variables of one setting.

Read from common/arg.cpp of b11138 and b11368. A name that is not here keeps its own spelling: newer builds
know more, and the variable of an unknown option follows the rule LLAMA_ARG_ + its name in capitals.
"""

from __future__ import annotations

import re
from functools import lru_cache

# canonical name, then its other ones; the canonical one is the last that arg.cpp lists, as a router prints it
_ALIASES = """
cache-list cl | threads t | threads-batch tb | cpu-mask C | cpu-range Cr | cpu-mask-batch Cb |
cpu-range-batch Crb | ctx-size c | n-predict n predict | batch-size b batch | ubatch-size ub ubatch |
ctx-checkpoints ctxcp swa-checkpoints | checkpoint-min-step cms checkpoint-min-spacing-nt | cache-ram cram |
kv-unified kvu | flash-attn fa | prompt p | file f | reverse-prompt r | special sp | seed s | escape e |
temperature temp | typical-p typical | logit-bias l | json-schema j | json-schema-file jf |
backend-sampling bs | rope-scaling rope-scaling-type | kv-offload kvo | repack | cache-type-k ctk |
cache-type-v ctv | defrag-thold dt | parallel np n-parallel | cont-batching cb | mmproj mm |
mmproj-url mmu | load-mode lm | lazy-mode lzm | device dev | override-tensor ot | cpu-moe cmoe |
n-cpu-moe ncmoe | n-cpu-ffn ncffn | n-gpu-layers ngl gpu-layers | split-mode sm | tensor-split ts |
main-gpu mg | fit-target fitt | fit-ctx fitc | fit-print fitp fit-estimate | alias a | model m |
model-url mu | docker-repo dr | hf-repo hf hfr | hf-file hff | hf-token hft | path static-path |
webui ui | webui-config ui-config | webui-config-file ui-config-file | webui-mcp-proxy ui-mcp-proxy |
agent ag | embeddings embedding | reranking rerank | timeout to | metrics endpoint-metrics |
props endpoint-props | slots endpoint-slots | reasoning rea | reasoning-format think |
reasoning-budget think-budget | reasoning-budget-message think-budget-message |
slot-prompt-similarity sps | log-verbose v verbose | log-verbosity lv verbosity | system-prompt sys |
hf-repo-draft spec-draft-hf hfd hfrd spec-draft-hf-repo | threads-draft spec-draft-threads td |
cache-type-k-draft spec-draft-type-k ctkd spec-draft-cache-type-k |
cache-type-v-draft spec-draft-type-v ctvd spec-draft-cache-type-v | device-draft spec-draft-device devd |
n-gpu-layers-draft spec-draft-ngl ngld gpu-layers-draft | model-draft spec-draft-model md |
draft-max draft draft-n | draft-min draft-n-min | draft-p-min spec-draft-p-min
"""
# options that take no value: given or denied
_BOOLEANS = """
kv-unified cache-idle-slots context-shift perf escape warmup kv-offload repack cont-batching mmproj-auto
mmproj-offload op-offload cors-credentials webui-mcp-proxy agent webui cache-prompt slots models-autoload
jinja reasoning-preserve skip-chat-parsing prefill-assistant log-jsonl log-prefix log-timestamps
spec-draft-backend-sampling mmap show-timings
"""
_DENIED = {"nkvo": "kv-offload", "nr": "repack", "nocb": "cont-batching", "no-mmproj": "mmproj-auto"}
_FLAGS = """
backend-sampling cache-list check-tensors cpu-moe cpu-moe-draft embeddings ignore-eos list-devices
log-disable log-verbose lora-init-without-apply metrics mlock no-host offline props reranking
reuse-port special spm-infill swa-full version help
"""
# variables outside the rule; the LLAMA_LOG_ ones are older builds'
_VARIABLES = {
    "LLAMA_API_KEY": "api-key",
    "HF_TOKEN": "hf-token",
    "LLAMA_LOG_FILE": "log-file",
    "LLAMA_LOG_PREFIX": "log-prefix",
    "LLAMA_LOG_TIMESTAMPS": "log-timestamps",
    "LLAMA_LOG_VERBOSITY": "log-verbosity",
    "LLAMA_OFFLINE": "offline",
}
_RULE = "LLAMA_ARG_"
_CANONICAL = {other: words[0] for row in _ALIASES.split("|") if (words := row.split()) for other in words[1:]}
BOOLEANS = frozenset(_BOOLEANS.split())
FLAGS = frozenset(_FLAGS.split())
TRUE = ("1", "true", "on", "enabled")  # common_arg_utils::is_truthy
MAX_NAME = 100  # characters of an option's name; the longest known has 34
_SHAPE = re.compile(r"--?[A-Za-z][\w.-]*")


def is_option(word: str) -> bool:
    """Whether a word of a command line is an option (and not a value such as -1)."""
    return len(word) <= MAX_NAME and _SHAPE.fullmatch(word) is not None


@lru_cache(maxsize=1024)
def named(name: str) -> tuple[str, bool]:
    """(the setting's name, whether this spelling denies it) for an option or a preset's key, with or without
    dashes: ``-nkvo`` is (kv-offload, True). A key that is a variable's name counts as the variable."""
    plain = name.lstrip("-")
    if plain in _VARIABLES or plain.startswith(_RULE):
        found = variable(plain)
        if found is not None:
            return found
    if len(name) - len(plain) != 1:
        plain = plain.replace("_", "-")  # arg.cpp takes --ctx_size as --ctx-size
    if plain in _DENIED:
        return _DENIED[plain], True
    if plain.startswith("no-") and named(plain[3:])[0] in BOOLEANS:
        return named(plain[3:])[0], True
    return _CANONICAL.get(plain, plain), False


@lru_cache(maxsize=1024)
def variable(name: str) -> tuple[str, bool] | None:
    """The setting that an environment variable makes; None when it is none of the server's."""
    if name in _VARIABLES:
        return _VARIABLES[name], False
    if not name.startswith(_RULE) or not len(_RULE) < len(name) <= MAX_NAME:
        return None
    return named("--" + name[len(_RULE) :].lower().replace("_", "-"))


def takes_value(name: str) -> bool:
    """Whether an option of this canonical name is followed by a value, as far as is known."""
    return name not in FLAGS and name not in BOOLEANS
