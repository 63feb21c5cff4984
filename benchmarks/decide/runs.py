"""The runs of the comparison: which methods, with which retriever, on which questions.

The ranker of linked retrieval and the calibration of lean were fitted on train questions, and on the xfit part of the
sets that have none. So the questions here are those of the xsel and xhold parts, and never of a train split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag import bench
from beliefrag.runs.partitions import Partition
from beliefrag.settings import Settings, load_settings
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, data_folder

__all__ = ["RUNS", "SPLITS", "PlannedRun", "make_run"]

SPLITS = ("dev", "dev_matched", "nq_open_dev", "test", "hipporag_1000", "random_1000")
"""All that are not for training."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: methods that share a retriever and how evidence is shown."""

    name: str
    methods: tuple[str, ...]
    """Each as `NAME`, or as `NAME:key=value,...` with options."""
    retriever: str
    pack: int
    """Words of evidence in a prompt; 0 for whole passages."""
    datasets: tuple[str, ...] = SETS

    @property
    def method_names(self) -> tuple[str, ...]:
        """The methods without their options."""
        return tuple(_name_of(each) for each in self.methods)

    def options_of(self, method: str) -> str:
        """Return the options that the run gives to a method, as `key=value,...`; empty for its defaults."""
        return {_name_of(each): each.partition(":")[2] for each in self.methods}[method]

    @property
    def way(self) -> str:
        """What it searches with and what prompts show, in words."""
        engine = "BM25" if self.retriever == "bm25" else self.retriever
        return f"{engine}, {f'{self.pack} words' if self.pack else 'whole passages'}"

    def settings(self) -> Settings:
        """Return the settings of the run: those in force here, with its retriever and packing."""
        return load_settings({"retriever": self.retriever, "pack": self.pack}).settings


RUNS = {
    run.name: run
    for run in (
        PlannedRun("linked_packed", ("static", "lean"), "linked", 150),
        PlannedRun("bm25", ("static", "iterative"), "bm25", 0),
        PlannedRun("linked", ("static", "iterative"), "linked", 0),
        # What a served model is shown; BELIEFRAG_VERIFIER=stated makes it one without token probabilities.
        PlannedRun("served", ("lean",), "linked", 600, MULTI_HOP),
        PlannedRun("paper", ("beliefrag",), "bm25", 0, MULTI_HOP),
        PlannedRun("others", ("no_rag", "adaptive_k", "adaptive_rag", "self_rag", "crag"), "bm25", 0, MULTI_HOP),
        # The cheapest of five settings that were tried on train questions; `others` has the authors' values.
        PlannedRun("cheap_crag", ("crag:correct=0.6,incorrect=0.5",), "bm25", 0, MULTI_HOP),
        # Its own answers, as in the originals; `reasoning` has those of the shared prompt to the same searches.
        PlannedRun("dialogue", ("rl_search",), "bm25", 0, MULTI_HOP),
        PlannedRun(
            "reasoning", ("rl_search:reader=shared", "ircot", "flare", "uncertainty_gate"), "bm25", 0, MULTI_HOP
        ),
    )
}
"""Cheapest first."""


def make_run(
    planned: PlannedRun,
    n: int,
    out: Path,
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    replay: bool = False,
) -> bench.Run:
    """Run it, or continue it. The first n questions of a set are the same for every run.

    Args:
        planned: The run.
        n: Questions of each set.
        out: The folder of all runs; each has its own in it.
        datasets: Some of the sets; by default all of the run.
        methods: Some of the methods, by their names; by default all of the run.
        replay: Take every reply from the cache, and ask no model.
    """
    spec = bench.RunSpec(
        data=tuple(data_folder() / name for name in planned.datasets if name in (datasets or planned.datasets)),
        methods=tuple(each for each in planned.methods if _name_of(each) in (methods or planned.method_names)),
        n=n,
        splits=SPLITS,
        parts=(Partition.XSEL, Partition.XHOLD),
        judge=False,
        replay=replay,
    )
    return bench.run(spec, out=out / planned.name, settings=planned.settings())


def _name_of(method: str) -> str:
    return method.partition(":")[0]
