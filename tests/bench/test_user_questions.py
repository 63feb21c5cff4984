import json
from pathlib import Path

import pytest

from beliefrag.bench.own_questions import load_user_questions
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage
from tests.support.messages import mentions

PASSAGES = (Passage("p1", "Oslo", "Oslo is the capital of Norway."),)


def test_a_table_gives_questions_with_several_answers(tmp_path: Path) -> None:
    file = tmp_path / "asked.csv"
    file.write_text('id,question,answers\n7,"Which capital, in Norway?",Oslo | Kristiania\n', encoding="utf-8")
    dataset = load_user_questions(file, PASSAGES)
    (question,) = dataset.questions
    assert (dataset.name, question.id, question.question.text) == ("asked", "7", "Which capital, in Norway?")
    assert question.gold.answers == ("Oslo", "Kristiania")
    assert question.gold.supporting is None
    assert dataset.passages == PASSAGES


def test_lines_of_json_do_as_well_and_one_answer_need_not_be_a_list(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    rows = [{"question": "Which capital?", "answer": "Oslo"}, {"question": "How many?", "answers": ["2", "two"]}]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    golds = [question.gold.answers for question in load_user_questions(file, PASSAGES).questions]
    assert golds == [("Oslo",), ("2", "two")]


def test_an_id_made_from_the_words_stays_when_the_file_grows(tmp_path: Path) -> None:
    file = tmp_path / "asked.csv"
    file.write_text("question,answer\nWhich capital?,Oslo\n", encoding="utf-8")
    before = load_user_questions(file, PASSAGES).questions[0].id
    file.write_text("question,answer\nHow many?,two\nWhich  capital?,Oslo\n", encoding="utf-8")
    assert load_user_questions(file, PASSAGES).questions[1].id == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("question,solution\nWhich?,Oslo\n", "line 2: has no 'answer'"),
        ("question,answer\nWhich?,Oslo,more\n", "line 2: .*3 columns.* 2\\b"),
        ("question,answer\nWhich?,Oslo\nWhich?,Bergen\n", "asked.csv line 3: .*q_\\w+ .*twice"),
        ("question;answer\nWhich?;Oslo\n", "asked.csv .*no column 'question'.*'question;answer'"),
        ("question;answer\nIn Oslo, where?;There\n", "asked.csv .*no column 'question'"),
        ("asked,answer\nWhich?,Oslo\n", "no column 'question'.*'asked', 'answer'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "asked.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=reason) as told:
        load_user_questions(file, PASSAGES)
    assert mentions(told.value.remedy, "CSV", "TSV", "JSON Lines", "'question'", "'answers'")
