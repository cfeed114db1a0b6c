"""Makes the builder of synthetic cores importable as ``elfcore``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))
