"""Whether one command answers with a served model in a clean environment, and prints only what a newcomer knows.

    python -m benchmarks.served_ask [--docs examples/handbook] [--out FILE]

The embedded weights are served by llama.cpp on loopback. `beliefrag ask` gets an empty home folder and no variables but
OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL. It must answer the first question and decline the second. A word of
docs/glossary.md that is no everyday word is one that a newcomer must look up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beliefrag import __version__
from beliefrag.models.weights import resolve
from benchmarks.served import serve

__all__ = ["ask", "find_jargon"]

ROOT = Path(__file__).parents[1]
_QUESTIONS = {
    "Who approves travel above the limit?": 0,
    "What colour is the company car?": 3,
}
"""With the exit code that is right: 0 answered, 3 declined."""
_EVERYDAY = frozenset({"passage", "evidence", "step", "action", "belief", "run", "correction", "guarantee", "judge"})
_EXPLAINED = frozenset({"calibration"})
"""What the output itself explains: the line says what it means for the percentages, and which command makes one."""


def ask(question: str, docs: Path, variables: Mapping[str, str], home: Path) -> dict[str, Any]:
    """Ask in a process of its own, and return what came of it."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "src"), **variables}
    began = time.perf_counter()
    command = [sys.executable, "-m", "beliefrag", "ask", question, "--docs", str(docs)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, cwd=home)
    said = {"code": done.returncode, "seconds": round(time.perf_counter() - began, 1)}
    lines = {"out": done.stdout.splitlines(), "err": done.stderr.splitlines()}
    return {"question": question, **said, "jargon": find_jargon(done.stdout + done.stderr), **lines}


def find_jargon(text: str) -> list[str]:
    """Return the words of the glossary that a text has and a newcomer does not know."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    terms = {term.strip() for row in rows[2:] for term in row.split(",")} - _EVERYDAY - _EXPLAINED
    return sorted(term for term in terms if re.search(rf"\b{re.escape(term)}\b", text, re.IGNORECASE))


def main() -> None:
    """Serve, ask, print, and exit with 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=ROOT / "examples" / "handbook")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with serve(resolve(f"local:{given.model}")) as (url, key), tempfile.TemporaryDirectory() as home:
        variables = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key, "OPENAI_MODEL": given.model}
        asked = [ask(question, given.docs.absolute(), variables, Path(home)) for question in _QUESTIONS]
    found = {"date": datetime.now(UTC).date().isoformat(), "beliefrag": __version__, "asked": asked}
    # The port is another one each time.
    text = json.dumps(found, indent=1, ensure_ascii=False).replace(url, "http://127.0.0.1/v1").replace(str(ROOT), "")
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    wrong = [each["question"] for each in asked if each["code"] != _QUESTIONS[each["question"]] or each["jargon"]]
    sys.exit(f"not as it should be: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
