"""Makes the builder of poor cores importable as ``poorcores``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))
