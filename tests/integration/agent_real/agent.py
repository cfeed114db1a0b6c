"""The agent as its verb starts it: ``python -m tests.integration.agent_real.agent SETTINGS OUTBOX``."""

from __future__ import annotations

import sys

from analyzers.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["watch", "--config", sys.argv[1], "--outbox", sys.argv[2]]))
