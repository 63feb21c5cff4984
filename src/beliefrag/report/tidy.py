"""The numbers as a table for programs: one line per dataset, method and measure."""

from __future__ import annotations

import csv
import io

from beliefrag.runs.summary import Summary

__all__ = ["tidy_csv"]

_HEADINGS = ("dataset", "method", "measure", "value", "low", "high", "n", "few", "datasets")


def tidy_csv(summary: Summary) -> str:
    """All numbers unrounded. The first line, a comment, says whether anything is missing from them."""
    text = io.StringIO()
    text.write(f"# {summary.first_line}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADINGS)
    for cell in summary.cells:
        place = (cell.dataset, cell.method)
        for name, estimate in cell.measures.items():
            if estimate is not None:
                low, high = ("" if side is None else side for side in (estimate.low, estimate.high))
                writer.writerow(
                    (
                        *place,
                        name,
                        estimate.value,
                        low,
                        high,
                        estimate.questions,
                        int(estimate.has_few_questions),
                        len(cell.rests_on[name]),
                    )
                )
        counts = {
            "episodes": cell.episodes,
            "missing": cell.missing,
            "failed": cell.failed,
            "unjudged": cell.unjudged,
            **{f"outcome_{name}": cell.outcomes.get(name, 0) for name in ("answered", "stopped", "abstained")},
            "judge_tokens": cell.judge_tokens,
            **{f"calls_{purpose}": calls for purpose, calls in cell.calls_by_purpose.items()},
        }
        for name, count in counts.items():
            writer.writerow((*place, name, count, "", "", cell.episodes, "", ""))
    return text.getvalue()
