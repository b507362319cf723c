"""The benchmarks are scripts beside the package; their folder is where Python looks when they run."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.append(str(BENCH))
