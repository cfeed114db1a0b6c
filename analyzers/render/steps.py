"""What the line under an advice is: a command of a shell, an option or setting of the server, or words.

The catalogue and the readers hand all of them out as "command"; only the first may stand behind a ``$``.
"""

from __future__ import annotations

import re

COMMAND, OPTION, SETTING, WORDS = "command", "option", "setting", "words"
LEADS = {COMMAND: "$ ", OPTION: "server option: ", SETTING: "environment: "}
# Programs whose names are plain words. Any other plain word begins a sentence, unless an option follows it.
_NAMES = """
apt awk cat cd chmod chown cmake coredumpctl cp curl dd df dmesg dnf docker dpkg du env export file free fuser
gdb git grep gunzip gzip head ionice ip journalctl kill kubectl last lldb ls lsof make mkdir mv nice nohup
nsenter numactl oomctl perf pgrep ping pip pipx podman ps python readelf rm rpm sed sh ss stat strace sudo
sysctl systemctl tail tar taskset test timeout top ulimit uname unzip uptime uv vmstat wget who xz yum zstd
"""
PROGRAMS = frozenset(_NAMES.split())
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=\S*$")
_PLAIN = re.compile(r"[A-Za-z]+$")
_ASIDE = re.compile(r"'[^']*'|\"[^\"]*\"|\s#.*")  # quoted text and a comment may hold any words
_OPTION = re.compile(r"--?[A-Za-z]")


def kind_of(line: str) -> str:
    """COMMAND, OPTION (of the server), SETTING (a variable of its environment) or WORDS."""
    bare = _ASIDE.sub(" ", line)
    words = bare.split()
    while words and _ASSIGNED.match(words[0]):
        words = words[1:]
    if not words:
        return SETTING if line.strip() else WORDS
    if ", " in bare:
        return WORDS  # "COMMAND, or something else": pasted whole it would not run
    first = words[0]
    if _OPTION.match(first):
        return OPTION
    if first.startswith("#") or first.endswith((":", ",")):
        return WORDS
    if not _PLAIN.match(first) or first in PROGRAMS:
        return COMMAND
    return COMMAND if len(words) > 1 and _OPTION.match(words[1]) else WORDS
