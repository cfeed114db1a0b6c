"""For every test: what this machine's owner told the catalogue stays out of what is asserted."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# Before any module of ours is imported, and for the processes that tests start: an overlay or a pack of the
# user would change verdicts' sentences and the catalogue's version.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="llama-blackbox-tests-data-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
