"""`bench run --questions` without methods: what `ask` does, checked against the user's own answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.shell import Ran, on_terminal, write_docs, write_script
from tests.support.bench_runs import records
from tests.support.messages import mentions

QUESTIONS = """question,answers
Who designed the polar ship Fram?,Colin Archer
Where was Colin Archer born?,Larvik | Laurvig
Which ship took Amundsen?,the Gjøa
Who was the cook of the Fram?,
Which colour had the Gjøa?,
"""


def stated(match: str, answer: str, sure: int) -> dict[str, Any]:
    reply = {"missing": "nothing", "answer": answer, "sure": sure}
    return {"purpose": "read", "match": match, "reply": reply, "repeat": True}


def test_questions_of_ones_own_are_asked_as_ask_does_and_each_answer_is_checked(
    beliefrag: Callable[..., Ran], home: Path
) -> None:
    docs = write_docs(home)
    (home / "asked.csv").write_text(QUESTIONS, encoding="utf-8")
    model = write_script(
        home,
        stated("designed the polar", "the shipbuilder Colin Archer", 9),
        stated("Archer born", "Fram", 10),
        stated("Which ship", "Fram", 0),
        stated("the cook", "Lindstrøm", 0),
        stated("Which colour", "ice", 10),
    )
    line = ("bench", "run", "--questions", "asked.csv", "--docs", docs, "--model", model, "--out", "run")
    ran = beliefrag(*line)
    assert ran.code == 0, ran.err
    heading, *rows = (text.split("\t") for text in ran.out.splitlines())
    assert heading == ["verdict", "question", "expected", "given", "probability"]
    assert [row[0] for row in rows] == ["right", "wrong", "declined", "rightly declined", "wrong"]
    assert rows[1][2:4] == ["Larvik | Laurvig", "Fram"] and rows[3][2:4] == ["(no answer)", "-"]
    assert rows[0][4].endswith("%")
    assert mentions(ran.err, "2 of 5 right", "1 right", "1 rightly declined", "2 wrong", "1 declined")
    found = {record.question.id: record for record in records(home / "run")}
    assert sorted(each.metrics["f1"] or 0 for each in found.values() if each.outcome == "abstained") == [0, 1]
    assert {(record.method, record.verdict) for record in found.values()} == {("lean", None)}, "and no judge is asked"
    code, screen = on_terminal(*line, columns=80)
    shown = screen[screen.index("verdict") :]
    assert code == 0 and "…" not in shown
    assert re.findall(r"^(?:right(?:ly declined)?|wrong|declined)\b", shown, re.MULTILINE) == [row[0] for row in rows]
