"""Where the published benchmarks lie, for the tests that need them."""

import os
from pathlib import Path

BENCHMARKS = Path(os.environ.get("BELIEFRAG_DATA") or Path(__file__).parents[3] / "shared" / "data")
ABSENT = "the benchmark files are not here; set BELIEFRAG_DATA to their folder"
