"""Each published format, on records in exactly the published shape."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.datasets import find_format
from beliefrag.bench.datasets.common_form import read_published_files
from beliefrag.bench.datasets.formats import passage_id
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.runs.run_errors import DataError
from tests.bench.published import HOTPOT, MUSIQUE, POPQA, RGB_FACT, TRIVIA, lines


def read(name: str, *files: Path) -> Dataset:
    return read_published_files(find_format(name), files)


def only(dataset: Dataset) -> LabelledQuestion:
    (question,) = dataset.questions
    return question


def by_title(dataset: Dataset) -> dict[str, str]:
    return {passage.title: passage.id for passage in dataset.passages}


@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa"])
def test_hotpotqa_form(tmp_path: Path, name: str) -> None:
    file = tmp_path / "hotpot_dev_distractor_v1.json"
    own = {"level": "hard"} if name == "hotpotqa" else {"evidences": [["Ed Wood", "country", "America"]]}
    file.write_text(json.dumps([{key: value for key, value in HOTPOT.items() if key != "level"} | own]))
    dataset = read(name, file)
    question = only(dataset)
    ids = by_title(dataset)
    assert question.gold.answers == ("yes",)
    assert set(question.gold.supporting or ()) == {ids["Scott Derrickson"], ids["Ed Wood"]}
    assert (question.id, question.split) == (HOTPOT["_id"], "dev")
    assert own.items() <= dict(question.gold.labels).items()
    scott = next(passage for passage in dataset.passages if passage.title == "Scott Derrickson")
    assert scott.text == "Scott is an American director. He lives in Los Angeles."
    assert scott.id == "p" + hashlib.sha1(f"{scott.title}\n{scott.text}".encode()).hexdigest()[:14]


def test_the_table_form_of_the_hub_gives_the_same(tmp_path: Path) -> None:
    file, table = tmp_path / "dev.json", tmp_path / "dev.jsonl"
    file.write_text(json.dumps([HOTPOT]))
    context: Any = HOTPOT["context"]
    facts: Any = HOTPOT["supporting_facts"]
    as_table = HOTPOT | {
        "context": {"title": [title for title, _ in context], "sentences": [sentences for _, sentences in context]},
        "supporting_facts": {"title": [title for title, _ in facts], "sent_id": [place for _, place in facts]},
    }
    lines(table, as_table)
    assert read("hotpotqa", table).questions == read("hotpotqa", file).questions


def test_facts_without_their_paragraphs_leave_support_unknown(tmp_path: Path) -> None:
    context: Any = HOTPOT["context"]
    file = lines(tmp_path / "hotpot_dev_fullwiki_v1.json", HOTPOT | {"context": context[:2]})
    assert only(read("hotpotqa", file)).gold.supporting is None


def test_musique_form(tmp_path: Path) -> None:
    dataset = read("musique", lines(tmp_path / "musique_ans_v1.0_dev.jsonl", MUSIQUE))
    question = only(dataset)
    assert question.gold.answers == ("Stanley", "Stanley, North Dakota")
    assert question.gold.supporting == (passage_id("Stanley", "A seat."),)
    assert (question.split, question.gold.labels["hop"], len(dataset.passages)) == ("dev", "2hop", 2)


def test_nq_open_form_and_ids_that_do_not_depend_on_the_order(tmp_path: Path) -> None:
    records = [{"question": f"who is number {number}", "answer": ["x", "y"]} for number in range(3)]
    first = read("nq", lines(tmp_path / "NQ-open.dev.jsonl", *records))
    second = read("nq", lines(tmp_path / "cut.dev.jsonl", *records[::-1]))
    assert {question.id for question in first.questions} == {question.id for question in second.questions}
    assert first.questions[0].gold.answers == ("x", "y")
    assert (first.questions[0].gold.supporting, first.passages) == (None, ())


def test_nq_oracle_form_has_the_gold_passage(tmp_path: Path) -> None:
    context = {"title": "T", "text": "gold", "isgold": True}
    other = {"title": "T", "text": "other", "isgold": False}
    file = lines(tmp_path / "nq.jsonl", {"question": "q", "answers": ["a"], "ctxs": [other, context]})
    assert only(read("nq", file)).gold.supporting == (passage_id("T", "gold"),)


def test_triviaqa_form_with_evidence(tmp_path: Path) -> None:
    file = tmp_path / "web-dev.json"
    file.write_text(json.dumps(TRIVIA, indent=4))
    question = only(read("triviaqa", file))
    assert question.gold.answers == ("Cotswold Hills", "Cotswolds", "The Cotswolds")
    assert question.gold.supporting == (passage_id("Hills", "Highest of the Cotswolds"),)

    evidence = tmp_path / "evidence"
    (evidence / "wikipedia").mkdir(parents=True)
    (evidence / "web" / "33").mkdir(parents=True)
    (evidence / "wikipedia" / "Cleeve_Hill.txt").write_text("Cleeve Hill is a hill. " * 30)
    (evidence / "web" / "33" / "33_1.txt").write_text("It belongs to the Cotswold Hills.")
    dataset = read("triviaqa", file, evidence)
    assert passage_id("Hills", "It belongs to the Cotswold Hills.") in (only(dataset).gold.supporting or ())
    silent = {passage.id for passage in dataset.passages if passage.title == "Cleeve Hill"}
    assert silent and silent.isdisjoint(only(dataset).gold.supporting or ())


def test_an_evidence_name_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("Cotswolds")
    (tmp_path / "evidence" / "web").mkdir(parents=True)
    record: dict[str, Any] = json.loads(json.dumps(TRIVIA))
    record["Data"][0]["EntityPages"] = []
    record["Data"][0]["SearchResults"][0]["Filename"] = "../../secret.txt"
    file = tmp_path / "web-dev.json"
    file.write_text(json.dumps(record))
    with pytest.raises(DataError, match="outside of the folder"):
        read("triviaqa", file, tmp_path / "evidence")


def test_popqa_form(tmp_path: Path) -> None:
    file = tmp_path / "test.tsv"
    # As saved by a spreadsheet: the mark must not become part of the first column's name.
    file.write_text(POPQA, encoding="utf-8-sig")
    question = only(read("popqa", file))
    assert (question.id, question.question.text) == ("4222362", "What is George Rankin's occupation?")
    assert question.gold.answers == ("politician", "political leader")
    assert (question.gold.labels["s_pop"], question.split) == (142, "test")


def test_rgb_counterfactual_form(tmp_path: Path) -> None:
    question = only(read("rgb", lines(tmp_path / "en_fact.json", RGB_FACT)))
    assert (question.id, question.split) == ("rgb_en_fact_0", "fact")
    assert question.gold.answer_groups == (("Tampa, Florida",),)
    assert question.gold.fake_answer == "Glendale, Arizona"
    assert question.gold.supporting == (passage_id("", "in Tampa, Florida"),)
    assert question.gold.labels["positive_wrong_ids"] == [passage_id("", "in Glendale, Arizona")]


def test_rgb_answers_in_parts_and_spellings(tmp_path: Path) -> None:
    record = {"id": 4, "query": "q", "answer": [["936,172", "936172"], "2021"], "positive": [["a"], ["b"]]}
    question = only(read("rgb", lines(tmp_path / "en_int.json", record | {"negative": []})))
    assert question.gold.answer_groups == (("936,172", "936172"), ("2021",))
    assert question.gold.answers == ("936,172", "936172", "2021")
    assert (question.split, len(question.gold.supporting or ())) == ("integration", 2)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "is not JSON"),
        ('["a list"]', "is not a JSON object"),
        ('{"id": "2hop__9"}', "has no 'question'"),
        ("\udcff", "UTF-8"),
        (json.dumps(MUSIQUE | {"answerable": False}), "is unanswerable"),
        (json.dumps(MUSIQUE | {"answer": None, "answer_aliases": []}), "no gold answer"),
    ],
)
def test_a_broken_line_is_reported_with_its_number(tmp_path: Path, bad: str, reason: str) -> None:
    file = tmp_path / "musique.jsonl"
    file.write_bytes(f"{json.dumps(MUSIQUE)}\n\n{bad}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=rf"musique\.jsonl line 3: .*{reason}"):
        read("musique", file)


def test_a_row_with_a_column_too_few_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "test.tsv"
    file.write_text(POPQA + "1\ttoo\tshort\n")
    with pytest.raises(DataError, match=r"test\.tsv line 3: .*\b3 columns.*\b17\b"):
        read("popqa", file)


@pytest.mark.parametrize("cut", ["[" + json.dumps(HOTPOT)[:-20], "", "just words", "12", '{"version": 1}'])
def test_a_file_that_is_cut_or_something_else_is_an_error(tmp_path: Path, cut: str) -> None:
    file = tmp_path / "dev.json"
    file.write_text(cut)
    with pytest.raises(DataError, match=r"dev\.json"):
        read("hotpotqa", file)


@pytest.mark.parametrize(
    ("asked", "own"), [("hotpotqa", "2wikimultihopqa"), ("2wikimultihopqa", "hotpotqa"), ("nq", "hotpotqa")]
)
def test_formats_that_look_alike_are_told_apart(tmp_path: Path, asked: str, own: str) -> None:
    record = HOTPOT if own == "hotpotqa" else {k: v for k, v in HOTPOT.items() if k != "level"} | {"evidences": []}
    with pytest.raises(DataError, match="line 1: has"):
        read(asked, lines(tmp_path / "dev.jsonl", record))


def test_packed_files_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    plain = lines(tmp_path / "dev.jsonl", MUSIQUE)
    packed = tmp_path / "dev.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    assert read("musique", packed).questions == read("musique", plain).questions
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(DataError, match="cannot be read"):
        read("musique", packed)
