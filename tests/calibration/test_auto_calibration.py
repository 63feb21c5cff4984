"""Questions made from documents: what is drawn, what is rejected, and a calibration from end to end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag import calibrate, opening
from beliefrag.bench import setup
from beliefrag.bench.made_questions import MadeQuestion, QuestionSeed, draw_seeds, find_fault, make_dataset
from beliefrag.calibration import load_artifact
from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.policy import LogisticAnswerability
from beliefrag.runs.run_errors import DataError
from beliefrag.settings import Settings
from beliefrag.types import Passage
from tests.support.messages import mentions

FILLER = "It has a market, a school, a bridge over the river, two inns and a wood that people walk in on Sundays."


def town(number: int) -> Passage:
    name = f"Town Alpha{number}"
    return Passage(f"t{number}", name, f"{name} is a place with {1000 + number} inhabitants. {FILLER}")


def mayor(number: int) -> Passage:
    name = f"Mayor Beta{number}"
    text = f"{name} governs Town Alpha{number} and owns {5000 + number} books. {FILLER}"
    return Passage(f"m{number}", name, text)


class Townsman:
    """A model that writes and answers questions about towns and mayors from what it is shown."""

    identity = "openai:townsman@http://127.0.0.1/v1"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return ChatReply(text=self._reply(request), tokens_in=50, tokens_out=5, counted_by="test", seconds=0.0)

    async def aclose(self) -> None:
        pass

    def _reply(self, request: ChatRequest) -> str:
        prompt = request.messages[1].content
        if request.purpose == "question_maker":
            return json.dumps(self._write(prompt))
        if request.purpose == "verifier":
            known = self._find(prompt) is not None
            scores = {"support": 0.9, "conflict": 0.0, "gap": 0.1, "uncertainty": 0.1}
            doubts = {"support": 0.1, "conflict": 0.0, "gap": 0.9, "uncertainty": 0.9}
            return json.dumps({"unhelpful_doc_ids": []} | (scores if known else doubts))
        if request.purpose == "answer":
            return self._find(prompt) or "7"
        return "inhabitants of the town"

    def _write(self, prompt: str) -> dict[str, str]:
        people = re.search(r"Beta(\d+) governs Town Alpha(\d+) and owns (\d+)", prompt)
        place = re.search(r"Alpha(\d+) is a place with (\d+)", prompt)
        if people and place:
            question = f"How many inhabitants has the place that Mayor Beta{people[1]} governs?"
            return {"question": question, "answer": place[2]}
        if people:
            return {"question": f"How many books does Mayor Beta{people[1]} own?", "answer": people[3]}
        assert place
        return {"question": f"How many inhabitants live in Town Alpha{place[1]} today?", "answer": place[2]}

    def _find(self, prompt: str) -> str | None:
        evidence, _, asked = prompt.partition("Question: ")
        if not asked:
            evidence = asked = prompt
        if books := re.search(r"books does Mayor Beta(\d+) own\?", asked):
            found = re.search(rf"Beta{books[1]} governs \w+ \w+ and owns (\d+)", evidence)
            return found[1] if found else None
        wanted = re.search(r"live in Town Alpha(\d+) today", asked)
        if bridge := re.search(r"place that Mayor Beta(\d+) governs", asked):
            wanted = re.search(rf"Beta{bridge[1]} governs Town Alpha(\d+) and", evidence)
        found = re.search(rf"Alpha{wanted[1]} is a place with (\d+)", evidence) if wanted else None
        return found[1] if found else None


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for module in (calibrate, setup, opening):
        monkeypatch.setattr(module, "open_model", lambda *_, **__: Townsman())
    rows = [each for number in range(60) for each in (town(number), mayor(number))]
    lines = "".join(json.dumps({"id": each.id, "title": each.title, "text": each.text}) + "\n" for each in rows)
    (tmp_path / "towns.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path / "towns.jsonl"


SETTINGS = Settings(model="townsman", verifier="structured", cache=False)
FEEDBACK = """{"question": "How many books does Mayor Beta3 own?", "answers": ["5003"], "feedback": "right"}
{"question": "How many books does the mayor of Oslo own?", "answers": [], "feedback": "wrong"}
"""


def test_a_calibration_is_made_from_documents_and_checked_on_held_out_questions(docs: Path, tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "feedback.jsonl").write_text(FEEDBACK)
    settings = SETTINGS.model_copy(update={"method": "beliefrag"})
    assert opening.assemble(settings, docs=docs).harness.calibrated is False

    def confirm(plan: object) -> bool:
        told.append(str(plan))
        return True

    found = calibrate.auto(docs, n=60, feedback="feedback.jsonl", settings=settings, confirm=confirm)
    assert found is not None
    out, made = found.files
    assert out.parent == tmp_path / "config" / "beliefrag" / "calibrations" and out.exists()
    assert mentions(told[0], "60 questions", "120 passages", "calls", "money")
    kinds = (("single", "27"), ("two_hop", "18"), ("unanswerable", "15"))
    assert found.tables[0].rows[:4] == (*kinds, ("of feedback", "1"))
    # More feedback makes the states anew.
    (tmp_path / "feedback.jsonl").write_text(FEEDBACK.replace("[]", '["7"]'))
    found = calibrate.auto(docs, n=60, feedback="feedback.jsonl", settings=settings)
    assert found is not None and found.tables[0].rows[3] == ("of feedback", "2")
    # It is found for these documents from then on, and for no others.
    assembly = opening.assemble(settings, docs=[docs])
    assert assembly.parts.artifact == found.found and assembly.harness.calibrated
    (tmp_path / "other.txt").write_text(FILLER)
    others = opening.assemble(settings, docs=[docs, tmp_path / "other.txt"])
    assert others.harness.calibrated is False
    # What can be answered is told from what cannot: the passage of each unanswerable question is gone.
    artifact = found.found
    assert artifact.fit is not None
    questions = [json.loads(line) for line in made.read_text().splitlines()]
    assert {each["kind"] for each in questions} == {"single", "two_hop", "unanswerable"}
    assert calibrate.show(out).found == (artifact,)
    assert len(set(artifact.fit.fit_questions) - {each["id"] for each in questions}) <= 1, "one of the feedback"
    # A made question has words of its passage, so what compares words has no say.
    assert isinstance(artifact.answerability, LogisticAnswerability)
    prior = load_artifact("published").answerability
    assert isinstance(prior, LogisticAnswerability)
    assert artifact.answerability.weights.relevance == prior.weights.relevance
    assert artifact.answerability.weights.uncertainty < prior.weights.uncertainty, "the labels moved it"


def test_where_the_questions_cannot_be_kept_nothing_is_asked(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Townsman, "chat", None)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"mine\.questions"):
        calibrate.auto(docs, out=tmp_path / "file" / "mine.json", method="beliefrag", settings=SETTINGS)


def test_nothing_is_asked_where_the_cost_is_refused(docs: Path, tmp_path: Path) -> None:
    assert calibrate.auto(docs, out=tmp_path / "mine.json", settings=SETTINGS, confirm=lambda _: False) is None
    assert not (tmp_path / "mine.json").exists() and not (tmp_path / "mine.questions").exists()


def test_too_few_questions_and_documents_without_text_are_refused(docs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="too few"):
        calibrate.auto(docs, out=tmp_path / "mine.json", n=5, settings=SETTINGS)
    with pytest.raises(DataError, match="25 words"):
        draw_seeds([Passage("p", "T", "Short.")], 10)


def test_two_hops_go_along_a_name_and_removed_passages_support_nothing_else() -> None:
    passages = [each for number in range(30) for each in (town(number), mayor(number))]
    seeds = draw_seeds(passages, 20)
    assert seeds == draw_seeds(passages[::-1], 20) != draw_seeds(passages, 20, seed=1)
    pairs = [each for each in seeds if each.kind == "two_hop"]
    assert pairs and all(each.bridge in each.passages[0].text for each in pairs)
    assert all(each.bridge == each.passages[1].title for each in pairs)
    gone = {each.passages[0].id for each in seeds if each.kind == "unanswerable"}
    others = {passage.id for each in seeds if each.kind != "unanswerable" for passage in each.passages}
    assert gone and not gone & others


SINGLE = QuestionSeed("single", (town(3),))
PAIR = QuestionSeed("two_hop", (mayor(3), town(3)), "Town Alpha3")


@pytest.mark.parametrize(
    ("question", "answer", "seed", "fault"),
    [
        ("How many inhabitants live in Town Alpha3?", "1003", SINGLE, None),
        ("How many inhabitants live in Town Alpha3?", "1004", SINGLE, "word for word"),
        ("Do 1003 inhabitants live in Town Alpha3?", "1003", SINGLE, "holds the answer"),
        ("How many inhabitants are named in the passage?", "1003", SINGLE, "speaks of the passage"),
        ("How many?", "1003", SINGLE, "whole question"),
        ("How many inhabitants live in Town Alpha3", "1003", SINGLE, "question mark"),
        ("How many inhabitants live in Town Alpha3?", "", SINGLE, "1 to 8 words"),
        ("How many inhabitants has the place of Mayor Beta3?", "1003", PAIR, None),
        ("How many inhabitants has Town Alpha3 of Mayor Beta3?", "1003", PAIR, "should describe"),
        ("What does the place of Mayor Beta3 have?", "a market", PAIR, "first passage already"),
    ],
)
def test_questions_are_checked_without_a_model(
    question: str, answer: str, seed: QuestionSeed, fault: str | None
) -> None:
    found = find_fault(question, answer, seed)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_the_passage_of_an_unanswerable_question_and_its_copies_are_taken_out() -> None:
    copy = replace(town(1), id="copy")
    made = [MadeQuestion("How many live there today?", "1001", "unanswerable", ("t1",))]
    dataset = make_dataset("made", made, [town(1), copy, town(2)])
    assert [passage.id for passage in dataset.passages] == ["t2"]
    with pytest.raises(DataError, match="no question"):
        make_dataset("made", [], [town(1)])
