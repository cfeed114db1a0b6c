"""Starts xllamacpp's server: run as a script by the interpreter of a prepared environment.

It stands alone: that environment holds the wheel and nothing of this project. One JSON object on
the command line maps dotted CommonParams names to values; three names are its own, ``model`` and ``draft``
(paths) and ``host``. Unknown names end it with status 2, as an old wheel may lack what a new one has.
"""

import json
import signal
import sys
from typing import Any

import xllamacpp

STOPS = (signal.SIGTERM, signal.SIGINT)
USAGE_STATUS = 2


def _set(params: Any, name: str, value: Any) -> None:
    *path, last = name.split(".")
    holder = params
    for part in path:
        holder = getattr(holder, part)
    present = getattr(holder, last)  # an unknown name is an error here, never a new attribute
    if hasattr(type(present), "from_bytes") and hasattr(present, "name"):
        value = type(present)(value)  # an enumeration: given as its number
    setattr(holder, last, value)


def _set_draft(params: Any, path: str) -> None:
    """The draft model; its parameters moved in May 2026, and later wheels want the kind said as well."""
    drafting = params.speculative
    holder = drafting.draft.mparams if hasattr(drafting, "draft") else drafting.mparams_dft
    holder.path = path
    if hasattr(drafting, "types"):
        drafting.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]


def parameters(wanted: dict[str, Any]) -> Any:
    """CommonParams filled from ``wanted``; raises AttributeError for a name this wheel does not know."""
    params = xllamacpp.CommonParams()
    host = wanted.pop("host", "127.0.0.1")
    if hasattr(params, "hostnames"):  # wheels since October 2026 listen on several
        params.hostnames = [host]
    else:
        params.hostname = host
    params.model.path = wanted.pop("model")
    if "draft" in wanted:
        _set_draft(params, wanted.pop("draft"))
    for name, value in wanted.items():
        _set(params, name, value)
    return params


def main() -> int:
    try:
        params = parameters(json.loads(sys.argv[1]))
    except AttributeError as error:
        print(f"HOSTED this wheel does not know the parameter {error}", flush=True)
        return USAGE_STATUS
    # Blocked and fetched, not handled: a handler that runs just before the wait begins is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    server = xllamacpp.Server(params)
    print("LISTEN", server.listening_address, flush=True)
    signal.sigwait(STOPS)
    print("HOSTED stopping", flush=True)
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
