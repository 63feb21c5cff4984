"""Shows two artifacts side by side, and what they come to on the same states."""

from __future__ import annotations

import typer

from beliefrag.calibration import Artifact
from beliefrag.calibration.artifact_checks import BIASED, ArtifactComparison
from beliefrag.cli.calibration_view import between, facts
from beliefrag.cli.output import print_notice, print_table

__all__ = ["print_comparison", "print_side_by_side"]


def print_side_by_side(first: Artifact, second: Artifact) -> None:
    """Prints what each is, and what each reported of itself on questions of its own."""
    one, other = _told(first), _told(second)
    names = dict.fromkeys((*first.prompts, *second.prompts))
    changed = [name for name in names if first.prompts.get(name) != second.prompts.get(name)]
    # Hashes side by side tell nobody anything; which ones differ does.
    one["prompts"] = other["prompts"] = f"differ: {', '.join(changed)}" if changed else "the same"
    rows = [(name, one.get(name, "-"), other.get(name, "-")) for name in dict.fromkeys((*one, *other))]
    print_table(("what", "A", "B"), rows, fold=True)


def print_comparison(found: ArtifactComparison, first: Artifact, second: Artifact, label: str) -> None:
    """Prints the measures of both on the same states, A minus B with its interval."""
    if found.seen:
        print_notice(f"{found.seen:,} questions are left out: one of the two was fitted or chosen on them")
    for artifact in (first, second):
        if artifact.fit is None:
            print_notice(
                f"warning: {artifact.name} does not say which questions it has seen; some of these may be among them"
            )
    typer.echo(f"\nOn the same {found.states:,} states of {found.questions:,} questions, label {label}; A minus B")
    rows = [
        (
            name,
            f"{each.first:.4f}",
            f"{each.second:.4f}",
            f"{each.difference.value:+.4f}",
            between(each.difference, 4),
            "no interval: resampling would bias it"
            if name in BIASED
            else _reading(each.difference.low, each.difference.high),
        )
        for name, each in found.measures.items()
    ]
    print_table(("measure", "A", "B", "difference", "95 % interval", "reading"), rows)


def _told(artifact: Artifact) -> dict[str, str]:
    reported = {f"reported {name.replace('_', ' ')}": f"{value:g}" for name, value in artifact.quality.items()}
    counts = {f"questions in {name}": f"{count:,}" for name, count in artifact.counts.items()}
    return {**facts(artifact), **counts, **reported}


def _reading(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "too few questions to say"
    return "clear" if low > 0 or high < 0 else "the interval holds zero"
