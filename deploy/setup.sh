#!/usr/bin/env bash
# Prepares what `make demo` and `make test` need, and native builds (`llama-blackbox reference build`): Debian
# packages (when root) and a virtual environment.
#   deploy/setup.sh demo|test|native
# Everything it makes stands in .venv; it is done again when pyproject.toml or the constraints change.
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:?usage: deploy/setup.sh demo|test|native}
case $goal in
    demo) packages="gdb elfutils" extras="lab" ;;
    test) packages="gdb elfutils gcc g++ libc6-dev" extras="lab,agent,dev" ;;
    native) packages="g++ cmake ninja-build ccache" extras="lab" ;;
    *) echo "deploy/setup.sh: unknown goal '$goal'; use demo, test or native" >&2; exit 2 ;;
esac

if [ "$(uname -s)/$(uname -m)" != "Linux/x86_64" ]; then
    echo "setup: this is $(uname -s)/$(uname -m); llama-blackbox runs on Linux/x86_64 only for now" >&2
    exit 2
fi

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
python=$(find_python) || missing="$missing python3 python3-venv"
if [ -n "${python:-}" ] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$missing python3-venv"
fi
if [ -n "$missing" ]; then
    line="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" != 0 ]; then
        echo "setup: these Debian packages are missing; run this, then try again:" >&2
        echo "    sudo $line" >&2
        exit 2
    fi
    echo "setup: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if ! { apt-get update -q && $line; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "setup: the packages could not be installed; fix the cause above or run: $line" >&2
        exit 2
    fi
    rm -f "$log"
    python=$(find_python)
fi

mark=.venv/.ready-$goal
want=$(cat pyproject.toml tests/constraints.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat "$mark" 2>/dev/null)" = "$want" ] && [ -x .venv/bin/llama-blackbox ]; then
    exit 0
fi
echo "setup: Python packages into .venv"
[ -x .venv/bin/python ] || "$python" -m venv .venv
log=$(mktemp)
if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -c tests/constraints.txt \
    -e ".[$extras]" >"$log" 2>&1; then
    grep -v 'is ignored' "$log" | tail -n 5 >&2
    echo "setup: the Python packages could not be installed; check the network and try again" >&2
    exit 2
fi
rm -f "$log"
# Raw journals are read through systemd-python, which is built here; without its headers their tests are skipped.
if [ "$goal" = test ] && ! .venv/bin/python -c 'import systemd.journal' 2>/dev/null; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c tests/constraints.txt \
        systemd-python >/dev/null 2>&1 ||
        echo "setup: systemd-python could not be built, so TESTS OF RAW JOURNALS WILL BE SKIPPED; to have them:" \
            "apt-get install -y --no-install-recommends libsystemd-dev pkg-config python3-dev systemd-journal-remote" >&2
fi
echo "$want" >"$mark"
[ "$goal" = test ] && echo "$want" >.venv/.ready-demo
exit 0
