"""The unit tests' parts are used here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "outbox"))
