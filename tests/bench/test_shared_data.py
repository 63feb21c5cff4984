"""The benchmark files of BELIEFRAG_DATA: all of them load, and hold what their SOURCE.md promises."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from beliefrag.bench.datasets import find_format, load_dataset, load_passages
from beliefrag.bench.datasets.common_form import read_published_files
from beliefrag.bench.datasets.formats import passage_id
from beliefrag.bench.questions import Dataset
from beliefrag.runs.run_errors import DataError
from tests.support.benchmark_files import ABSENT, BENCHMARKS

NAMES = ("2wikimultihopqa", "holobench_standin_spider", "hotpotqa", "musique", "nq", "popqa", "rgb", "triviaqa")
ANNOTATED = ("2wikimultihopqa", "holobench_standin_spider", "hotpotqa", "musique", "nq", "rgb")
HASHED = ("2wikimultihopqa", "hotpotqa", "musique", "nq", "popqa", "triviaqa")

pytestmark = [pytest.mark.data, pytest.mark.skipif(not BENCHMARKS.is_dir(), reason=ABSENT)]


def folder(name: str) -> Path:
    path = BENCHMARKS / name
    if not path.is_dir():
        pytest.skip(f"{name} is not among the benchmark files")
    return path


@cache
def loaded(name: str) -> Dataset:
    return load_dataset(folder(name))


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_with_every_supporting_passage_in_its_corpus(name: str) -> None:
    dataset = loaded(name)
    ids = {passage.id for passage in dataset.passages}
    assert dataset.questions
    for question in dataset.questions:
        assert ids.issuperset(question.gold.supporting or ())
        assert question.gold.answers
    if name in ANNOTATED:
        assert all(question.gold.supporting for question in dataset.questions)


@pytest.mark.parametrize("name", HASHED)
def test_our_ids_are_those_of_the_files(name: str) -> None:
    for passage in loaded(name).passages:
        assert passage.id == passage_id(passage.title, passage.text)


def test_the_open_pool_is_a_corpus_for_the_three_open_domain_sets() -> None:
    pool = folder("open_wiki_pool")
    assert len(load_passages(pool)) == 23016
    with pytest.raises(DataError, match="is not a dataset"):
        load_dataset(pool)


@pytest.mark.parametrize(("file", "subset"), [("en_fact", "fact"), ("en_noise_from_cag", "noise")])
def test_published_rgb_files_import_to_the_same_questions(file: str, subset: str) -> None:
    imported = read_published_files(find_format("rgb"), [folder("rgb") / f"{file}.jsonl.gz"])
    texts = {passage.id: passage.text for passage in loaded("rgb").passages}
    own_texts = {passage.id: passage.text for passage in imported.passages}
    theirs = {question.question.text: question for question in loaded("rgb").of_split(subset).questions}
    assert len(imported.questions) == len(theirs)
    for question in imported.questions:
        other = theirs[question.question.text]
        assert question.split == subset
        assert (question.gold.answers, question.gold.answer_groups) == (other.gold.answers, other.gold.answer_groups)
        assert question.gold.fake_answer == other.gold.fake_answer
        assert {own_texts[name] for name in question.gold.supporting or ()} == {
            " ".join(texts[name].split()) for name in other.gold.supporting or ()
        }
