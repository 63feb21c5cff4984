"""2WikiMultiHopQA JSON (Ho et al., 2020): HotpotQA's form, with the evidence as triples besides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord, Entry
from beliefrag.bench.datasets.format import Format, HubFiles, per_record
from beliefrag.bench.datasets.hotpotqa import paragraphs_entry

__all__ = ["TWO_WIKI"]


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    if "level" in record:
        raise BadRecord("has a 'level', which 2WikiMultiHopQA has not and HotpotQA has")
    return paragraphs_entry(record, path)


TWO_WIKI = Format(
    name="2wikimultihopqa",
    title="2WikiMultiHopQA (Ho et al., 2020)",
    licence="Apache-2.0",
    source="github.com/Alab-NII/2wikimultihop",
    expects="dev.json",
    read=per_record(_entry),
    hub=HubFiles("voidful/2WikiMultihopQA", ("dev.json",)),
    notes=("Answer aliases are published in a file apart (id_aliases.json), which is not read.",),
)
