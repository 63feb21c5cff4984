"""Small sets with the names of the paper's, and a scripted model that is right where it has read what it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.bench_runs import PLACES, VERDICT, write_dataset, write_script
from tests.support.study_data import COLOURS, write_rows, write_snippets

SETS = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa")
QUESTIONS = 4
FIT, SELECT = 60, 20
WEAK = {"unhelpful_doc_ids": [], "support": 0.0, "conflict": 0.0, "gap": 1.0, "uncertainty": 1.0}


def write_paper_data(folder: Path) -> str:
    """Write all eight sets into the folder, and a model beside it; return the model's name.

    Of three questions it knows one when it has read of the ship, another one when it has read of the builder, which
    takes a second search, and the third one never.
    """
    lines: list[dict[str, Any]] = []
    for name in SETS:
        questions = FIT + SELECT + QUESTIONS if name == "hotpotqa" else QUESTIONS
        distant = {} if name in SETS[:3] else {"supporting_kind": "distant"}
        data = write_dataset(folder, name, questions, **distant)
        file = data / "questions.jsonl"
        asked = [json.loads(line) for line in file.read_text().splitlines()]
        train = FIT if name == "hotpotqa" else 0
        split = [{**each, "split": "train" if k < train else "dev"} for k, each in enumerate(asked)]
        file.write_text("".join(json.dumps(each) + "\n" for each in split))
        for k in range(questions):
            question, builder = f"builder of ship {name}{k} born", f"Builder{name}{k}"
            read = (f"{name}{k} was built by", f"{builder} was born in", "never written")[k % 3]
            lines += [
                {"purpose": "answer", "match": [question, read], "reply": PLACES[k % len(PLACES)]},
                {"purpose": "verifier", "match": [question, read], "reply": VERDICT},
                {"purpose": "verifier", "match": question, "reply": WEAK},
                {"purpose": "query_writer", "match": question, "reply": f"{builder} birthplace"},
            ]
    write_snippets(folder, questions=QUESTIONS)
    write_rows(folder, questions=QUESTIONS)
    for k in range(QUESTIONS):
        for kind, colour in (("fact", COLOURS[(k + 3) % 8]), ("fact", COLOURS[k]), ("noise", COLOURS[k])):
            match = [f"flag of {kind}town{k}?", f"{kind}town{k} is {colour}"]
            lines.append({"purpose": "answer", "match": match, "reply": colour})
    lines += [{"purpose": "judge", "match": "Given answer: Oslo", "reply": "no"}, {"purpose": "judge", "reply": "yes"}]
    return write_script(folder.parent, *({**line, "repeat": True} for line in lines), name="paper.jsonl")
