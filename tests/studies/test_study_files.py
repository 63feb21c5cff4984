"""What a study leaves behind: the same bytes each time, tables for programs, and pages that no name can break."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.studies import Recording, StudyContext, StudyResult
from beliefrag.studies.make import write_index, write_study
from beliefrag.studies.study import PaperValue, choose_studies
from tests.support.messages import mentions
from tests.support.studied import episode, recording

(FRONTIER,) = choose_studies("frontier")
HOSTILE = "</p><script>alert(1)</script>|[x](http://e.vil)$x$"


def compared(dataset: str = "d") -> Recording:
    return recording(
        episodes=[
            episode(method, f"q{k}", (k + shift) % 3 / 2, 100 * (k + 1) + shift, dataset=dataset)
            for shift, method in enumerate(("static", "iterative", "beliefrag"))
            for k in range(6)
        ]
    )


def written(folder: Path, dataset: str = "d") -> list[Path]:
    runs = {"comparison": compared(dataset)}
    return write_study(FRONTIER, FRONTIER.options.analyse(runs, StudyContext()), runs, folder)


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = written(tmp_path / "one"), written(tmp_path / "two")
    names = {"numbers.json", "points.csv", "differences.csv", "index.md", "index.html", "figure.png", "figure.pdf"}
    assert {path.name for path in first} == names
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_name_can_break_neither_page_nor_figure(tmp_path: Path) -> None:
    written(tmp_path, HOSTILE)
    page = (tmp_path / "index.html").read_text()
    assert "<script" not in page
    assert "<svg " in page
    assert not re.search(r'(?:href|src)="(?!#)', page), "the page needs nothing else"
    text = (tmp_path / "index.md").read_text()
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\[x\]\(", text)
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| &lt;")}
    assert widths == {6, 7}, "the means have five columns, the differences six"


def test_numbers_for_programs_hold_what_they_rest_on(tmp_path: Path) -> None:
    written(tmp_path)
    record = json.loads((tmp_path / "numbers.json").read_text())
    assert record["study"] == "frontier"
    assert record["runs"]["comparison"]["model"] == "scripted:planted"
    assert record["runs"]["comparison"]["questions"] == {"d": 6}
    assert record["tables"]["points"][0]["F1"].keys() == {"value", "low", "high", "few"}


def test_a_study_with_too_little_has_a_sentence_and_no_picture(tmp_path: Path) -> None:
    paper = (PaperValue("what", 0.5, None),)
    result = replace(StudyResult.insufficient("It needs more.", sample="nothing"), paper_values=paper)
    files = write_study(FRONTIER, result, {}, tmp_path)
    assert {path.name for path in files} == {"numbers.json", "index.md", "index.html"}
    page = (tmp_path / "index.md").read_text()
    assert "It needs more." in page
    assert "| what | - | 0.500 |" in page, "a value that is not known"


def test_the_index_leads_to_what_is_there_and_says_what_is_not(tmp_path: Path) -> None:
    written(tmp_path / "frontier")
    write_index(tmp_path, {"holobench": "no dataset of rows is given."})
    text = (tmp_path / "index.md").read_text()
    assert "(frontier/index.md)" in text
    assert "Pareto front" in text
    assert mentions(text, "Not made:", "no dataset of rows is given.")
    assert 'href="frontier/index.html"' in (tmp_path / "index.html").read_text()


def test_a_number_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_study(FRONTIER, StudyResult(sample="", findings=(), numbers={"broken": float("nan")}), {}, tmp_path)
