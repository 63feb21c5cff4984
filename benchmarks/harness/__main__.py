"""What the harness of `beliefrag bench run` costs beside the model: throughput, replay speed, memory.

    python -m benchmarks.harness [--out FILE] [--quick]

Throughput is measured against a stub server on loopback that takes the same time for every call, as a ratio to a bare
`openai` loop that makes the same calls; the sides take turns. It needs no data and no model. Use a quiet machine:
both sides share its processors with the server. `--quick` shows in seconds that it works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from beliefrag import __version__
from benchmarks.harness.material import PASSAGES
from benchmarks.harness.memory import memory
from benchmarks.harness.replay import replay
from benchmarks.harness.throughput import throughput


def measure(place: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Return all figures, with what they depend on."""
    passages = 100 if given.quick else PASSAGES
    return {
        "what": "cost of the benchmark harness beside the model",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks.harness", *sys.argv[1:]]),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "versions": {"beliefrag": __version__, "openai": version("openai"), "python": platform.python_version()},
        "passages": passages,
        "replay": replay(
            place / "replay", questions=4 if given.quick else 200, repeats=given.repeats, passages=passages
        ),
        "throughput": throughput(
            place / "throughput",
            levels=(32, 8, 1),
            latency=given.latency,
            repeats=given.repeats,
            waves=2 if given.quick else 120,
            passages=passages,
        ),
        "memory": memory(place / "memory", episodes=given.episodes, passages=passages),
    }


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.3, help="seconds that the server takes for a call")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each figure")
    parser.add_argument("--episodes", type=int, default=20_000, help="length of the run whose memory is watched")
    parser.add_argument("--quick", action="store_true", help="a few episodes, to see that it works")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    given = parser.parse_args()
    if given.quick:
        given.latency, given.repeats, given.episodes = 0.01, 1, 60
    with tempfile.TemporaryDirectory() as scratch:
        text = json.dumps(measure(Path(scratch), given), indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
