"""Makes the builder of small ELF files importable as ``elffiles``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))
