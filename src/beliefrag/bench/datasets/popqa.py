"""PopQA, tab-separated (Mallen et al., 2023): questions made from Wikidata triples, without passages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord, Entry, kept, labelled, split_in_name, strings, text
from beliefrag.bench.datasets.format import Format, HubFiles, per_record
from beliefrag.bench.datasets.records import read_table

__all__ = ["POPQA"]


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    try:
        answers = strings(json.loads(text(record, "possible_answers")), "possible_answers")
    except ValueError:
        raise BadRecord("has 'possible_answers' that are not a JSON list") from None
    labels = {"split": split_in_name(path), **kept(record, "subj", "prop", "obj", "s_uri", "o_uri", "s_wiki_title")}
    for key in ("s_pop", "o_pop"):
        if str(record.get(key, "")).strip().isdecimal():
            labels[key] = int(record[key])
    return Entry(labelled(text(record, "id").strip(), text(record, "question"), answers, labels=labels))


POPQA = Format(
    name="popqa",
    title="PopQA (Mallen et al., 2023)",
    licence="MIT",
    source="github.com/AlexTMallen/adaptive-retrieval",
    expects="test.tsv",
    read=per_record(_entry, partial(read_table, delimiter="\t")),
    hub=HubFiles("akariasai/PopQA", ("test.tsv",), revision="098765c79ea10a2cb19c828324e33281b8336ec0"),
    notes=("PopQA has no passages of its own: give a corpus with --corpus.",),
)
