"""Asking and serving need no library of the benchmarks, and importing is quick because it imports little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("scipy", "sklearn", "matplotlib")
PACKAGES = {
    "numpy",
    "openai",
    "pydantic",
    "httpx2",
    "tantivy",
    "fastapi",
    "rich",
    "typer",
    "xllamacpp",
    "lxml",
    "uvicorn",
}
PACKAGES |= {"genai_prices", "huggingface_hub", "filelock", "uvicorn", "opentelemetry", *HEAVY}
WITHOUT_HEAVY = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code: str, *, without_heavy: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-c", (WITHOUT_HEAVY if without_heavy else "") + code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_asking_and_serving_need_no_library_of_the_benchmarks(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from beliefrag import BeliefRAG
from tests.support.serving import PASSAGES, QUESTION, opened, served
assembly, settings = opened(Path({str(tmp_path)!r}))
with BeliefRAG(passages=PASSAGES, settings=settings) as rag:
    print(rag.ask(QUESTION).answer)
with served(assembly, settings) as server:
    print(server.ask().json()["answer"])
"""
    assert run(code, without_heavy=True).splitlines() == ["the head of finance"] * 2


NEEDS = {
    "fit": """
import numpy as np
from beliefrag.calibration.fitting import fit_logistic
fit_logistic(np.ones((4, 2)), np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4))
""",
    "guarantee": """
import numpy as np
from beliefrag.calibration.risk import RiskSample, choose_threshold
choose_threshold(RiskSample(np.array([0.5]), np.array([True])), max_error=0.1, confidence=0.9)
""",
    "figure": """
from beliefrag.report.figure import open_figure
open_figure((1, 1))
""",
}


@pytest.mark.parametrize("needs", NEEDS)
def test_what_needs_a_library_of_the_benchmarks_names_the_extra(needs: str) -> None:
    code = f"""
from beliefrag.errors import MissingExtra
try:
    exec({NEEDS[needs]!r})
except MissingExtra as error:
    print(error)
"""
    said = run(code, without_heavy=True)
    assert "pip install 'beliefrag[bench]'" in said
    assert len(said.splitlines()) == 1


def imported(code: str) -> set[str]:
    """Packages and own modules that are loaded once the code has run."""
    found = run(f"{code}\nimport sys; print(); print(*sys.modules)").splitlines()[-1].split()
    return {name if name.startswith("beliefrag.") else name.partition(".")[0] for name in found}


def test_importing_the_class_imports_no_package_but_ours() -> None:
    found = imported("from beliefrag import BeliefRAG")
    assert not found & PACKAGES
    ours = {name for name in found if name.startswith("beliefrag.")}
    assert ours <= {"beliefrag._version", "beliefrag.engine", "beliefrag.client", "beliefrag.errors"}


def test_help_imports_none_of_the_large_packages() -> None:
    found = imported("from beliefrag.cli import main; main(['--help'])")
    # Options are derived from the settings, which are a pydantic model.
    assert not found & (PACKAGES - {"pydantic", "typer", "rich"})
