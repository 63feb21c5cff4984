"""Every command of the pages on benchmarks, studies, calibration and tuning works, in the order of the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.calibration import fitting, load_artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.policy import FittedValue
from tests.cli.shell import Ran
from tests.support.bench_runs import write_dataset, write_script
from tests.support.planted_states import write_run
from tests.support.study_data import write_rows, write_snippets
from tests.support.surveyed import survey

DOCS = Path(__file__).parents[2] / "docs"
STORY = "She sailed to the north and to the south with a crew of thirteen men, and came home after years."


@pytest.mark.parametrize("page", ["bench", "studies", "calibration", "tuning"])
def test_the_commands_of_a_page_work(
    beliefrag: Callable[..., Ran],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    page: str,
) -> None:
    if page == "studies":
        request.getfixturevalue("without_pictures")
    monkeypatch.setattr(fitting, "RESAMPLES", 12)
    if page == "tuning":
        (home / "runs").mkdir()
        survey(home).rename(home / "runs" / "states")
    else:
        for name in ("hotpotqa", "musique"):
            write_dataset(home / "data", name, 5, split="train" if page == "calibration" else "")
        write_snippets(home / "data", questions=2)
        write_rows(home / "data", questions=2)
        write_run(home / "runs" / "states", questions=120)
        (home / "notes").mkdir()
        for k in range(30):
            text = f"The ship north0 was launched in Larvik. {STORY}" if k == 0 else f"Rye dough number {k} rests."
            (home / "notes" / f"{k}.txt").write_text(text, encoding="utf-8")
        (home / "asked.csv").write_text("question,answers\nWhere was ship north0 built?,Larvik\n", encoding="utf-8")
        monkeypatch.setenv("BELIEFRAG_MODEL", write_script(home))
    if page != "calibration":
        # The mechanism study needs a fitted retrieval value.
        fitted = load_artifact("published").model_copy(update={"retrieval_value": FittedValue(0.5, -1.0, 0.0, 0.0)})
        write_artifact(fitted, home / "valued.json")
        monkeypatch.setenv("BELIEFRAG_BORROW", "valued.json")
    monkeypatch.setenv("BELIEFRAG_VERIFIER", "structured")
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    commands = re.findall(r"^beliefrag (.*)$", text, re.MULTILINE)
    assert len(commands) >= 4
    for line in commands:
        ran = beliefrag(*shlex.split(line))
        assert ran.code == 0, f"{line}: {ran.err}"
