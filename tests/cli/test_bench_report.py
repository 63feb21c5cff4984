"""`beliefrag bench report` and `bench compare`: the numbers, their intervals, and what is missing from them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from beliefrag.web.view.overview import view_run

from beliefrag.report.published import MARK
from beliefrag.runs.summary import summarise
from tests.cli.shell import Ran, on_terminal
from tests.support.bench_runs import BORROWED, records, write_dataset, write_script
from tests.support.messages import mentions

Command = Callable[..., Ran]


def played(beliefrag: Command, home: Path, *more: str, methods: str = "no_rag,static,beliefrag") -> Path:
    for name in ("north", "south"):
        if not (home / name).exists():
            write_dataset(home, name, 6)
    line = ("bench", "run", "--data", "north", "south", "--methods", methods, "--model", write_script(home), *BORROWED)
    beliefrag(*line, "--out", "run", *more)
    return home / "run"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()[1:], delimiter="\t"))


def tidy(run: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    lines = (run / "report" / "results.csv").read_text().splitlines()
    return {(row["dataset"], row["method"], row["measure"]): row for row in csv.DictReader(lines[1:])}


def test_a_report_has_the_numbers_of_the_episodes(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    ran = beliefrag("bench", "report", run)
    assert ran.code == 0
    assert mentions(ran.out.splitlines()[0], "Complete", 36)
    row = next(row for row in table(ran.out) if (row["dataset"], row["method"]) == ("north", "Static"))
    # One question of six is right, one is right by two words of three.
    assert (row["n"], row["EM"], row["F1"]) == ("6", "0.167", f"{(1 + 2 / 3) / 6:.3f}")
    assert row["F1 95 %"].endswith(" ?"), "six questions are too few, and that is said"
    assert row["answered/stopped/abstained/failed"] == "6/0/0/0"
    static = [r for r in records(run) if (r["dataset"], r["method"]) == ("north", "static")]
    numbers = tidy(run)
    for measure in ("tokens", "tokens_in", "tokens_out", "calls"):
        mean = sum(r["usage"][measure] for r in static) / 6
        assert float(numbers["north", "static", measure]["value"]) == pytest.approx(mean)
    assert float(numbers["north", "static", "judge"]["value"]) == pytest.approx(1 / 6)
    assert float(numbers["north", "static", "calls_answer"]["value"]) == 1.0
    assert float(numbers["north", "static", "above_cap"]["value"]) == 0
    spent = sum(r["judge"]["usage"]["tokens"] for r in static)
    assert int(numbers["north", "static", "judge_tokens"]["value"]) == spent > 0


def section(run: Path, title: str) -> dict[tuple[str, str], dict[str, str]]:
    """A table of the Markdown report, by dataset and method."""
    text = (run / "report" / "report.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {(row[0], row[1]): dict(zip(lines[0], row, strict=True)) for row in lines[2:]}


def test_a_report_gives_the_tokens_of_each_purpose(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    beliefrag("bench", "report", run)
    numbers, shown = tidy(run), section(run, "Tokens by purpose")
    for dataset, method, title in (("north", "static", "Static"), ("south", "beliefrag", "BeliefRAG")):
        own = [r["usage"] for r in records(run) if (r["dataset"], r["method"]) == (dataset, method)]
        purposes = {purpose for usage in own for purpose in usage["by_purpose"]}
        assert purposes
        for purpose in purposes:
            means = [
                sum(usage["by_purpose"].get(purpose, {}).get(side, 0) for usage in own) / len(own)
                for side in ("tokens_in", "tokens_out")
            ]
            told = [
                float(numbers[dataset, method, f"{side}_{purpose}"]["value"]) for side in ("tokens_in", "tokens_out")
            ]
            assert told == pytest.approx(means)
            assert shown[dataset, title][purpose.replace("_", " ")] == f"{means[0]:,.0f}/{means[1]:,.0f}"
        # Together they are what the method cost.
        for side in ("tokens_in", "tokens_out"):
            parts = [float(numbers[dataset, method, f"{side}_{purpose}"]["value"]) for purpose in purposes]
            assert sum(parts) == pytest.approx(float(numbers[dataset, method, side]["value"]))
    assert shown["north", "Static"]["verifier"] == "0/0"
    north, south, mean = (
        float(numbers[d, "beliefrag", "tokens_in_verifier"]["value"]) for d in ("north", "south", "mean")
    )
    assert mean == pytest.approx((north + south) / 2) and mean > 0
    for name in ("report.html", "tables.tex"):
        assert "Tokens by purpose" in (run / "report" / name).read_text()


def test_a_report_counts_the_episodes_whose_calls_ended_above_the_token_budget(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    verified = [
        sum(
            part["tokens_in"] + part["tokens_out"]
            for purpose, part in r["usage"]["by_purpose"].items()
            if purpose != "answer"
        )
        for r in records(run)
        if (r["dataset"], r["method"]) == ("north", "beliefrag")
    ]
    for cap in (max(verified), max(verified) - 1):
        record = json.loads((run / "run.json").read_text())
        record["budget"]["tokens"] = cap
        (run / "run.json").write_text(json.dumps(record))
        beliefrag("bench", "report", run)
        above = sum(tokens > cap for tokens in verified)
        assert (above > 0) is (cap < max(verified))
        assert int(tidy(run)["north", "beliefrag", "above_cap"]["value"]) == above
        assert section(run, "Effort")["north", "BeliefRAG"]["above the cap"] == str(above)
        # The final answer is not bounded: a method that asks for nothing else is never above it.
        assert section(run, "Effort")["north", "Static"]["above the cap"] == "0"


def test_the_mean_over_datasets_weighs_them_alike(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "north", 6)
    write_dataset(home, "south", 2)
    numbers = tidy(played_report(beliefrag, home))
    north, south, mean = (float(numbers[d, "static", "f1"]["value"]) for d in ("north", "south", "mean"))
    assert north != south
    assert mean == pytest.approx((north + south) / 2)


def played_report(beliefrag: Command, home: Path) -> Path:
    run = played(beliefrag, home, methods="static")
    assert beliefrag("bench", "report", run).code == 0
    return run


def test_a_report_with_missing_and_failed_episodes_says_so_first(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, "--no-judge")
    (home / "bench.jsonl").unlink()
    line = ("bench", "run", "--data", "north", "south", "--methods", "no_rag,static,rl_search", *BORROWED)
    ran = beliefrag(*line, "--out", "run", "--replay", "--no-judge", "--n", "6")
    assert ran.code == 1
    whole = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(whole[3:]))
    said = beliefrag("bench", "report", run).out.splitlines()[0]
    assert mentions(said, "INCOMPLETE", "3 of 48", "missing", "12 failed", "ReplayMiss 12", "No mean", "RL-Search")
    for name in ("report.md", "results.csv", "tables.tex"):
        assert said in (run / "report" / name).read_text().splitlines()[0]
    assert said in (run / "report" / "report.html").read_text()
    assert ("north", "rl_search", "f1") not in tidy(run)


def without(run: Path, *marks: str) -> None:
    """Drops the episodes of a run that have all the marks in their line."""
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(line for line in lines if not all(mark in line for mark in marks)))


def test_a_mean_over_datasets_is_withheld_where_a_dataset_has_no_episode(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    without(run, '"method":"static"', '"dataset":"south"')
    ran = beliefrag("bench", "report", run)
    assert mentions(ran.out.splitlines()[0], "No mean", "Static")
    numbers = tidy(run)
    assert ("north", "static", "f1") in numbers
    assert ("mean", "static", "f1") not in numbers
    assert ("mean", "static", "calls_answer") not in numbers
    assert numbers["mean", "no_rag", "f1"]["datasets"] == "2"
    page = (run / "report" / "report.html").read_text()
    assert page.count('<g id="point-0-') == 2


def test_a_number_that_lacks_questions_is_marked(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    without(run, '"method":"static"', '"question_id":"south-q3"')
    row = {(r["dataset"], r["method"]): r["n"] for r in table(beliefrag("bench", "report", run).out)}
    assert (row["south", "Static"], row["mean", "Static"], row["mean", "No-RAG"]) == ("5 of 6", "11 of 12", "12")
    f1 = (run / "report" / "report.md").read_text().split("## ")[1]
    assert "* marks a number" in f1
    static = next(line for line in f1.splitlines() if line.startswith("| Static"))
    assert [cell.split(" (")[0].strip()[-1] == "*" for cell in static.split("|")[2:-1]] == [False, True, True]
    assert "*" not in next(line for line in f1.splitlines() if line.startswith("| No-RAG"))


def test_a_run_that_was_judged_in_part_says_so(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, "--no-judge", methods="static")
    played(beliefrag, home, methods="static")
    judged = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    assert len(judged) == 24
    (run / "episodes.jsonl").write_text("".join(judged[:15]))
    assert mentions(beliefrag("bench", "report", run).out.splitlines()[0], "INCOMPLETE: 9", "not judged")
    numbers = tidy(run)
    assert ("mean", "static", "judge") not in numbers, "only one dataset has verdicts"
    assert ("mean", "static", "f1") in numbers


def test_a_mean_says_which_datasets_have_its_measure(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "north", 3)
    write_dataset(home, "south", 3, supporting=[])
    run = played_report(beliefrag, home)
    text = (run / "report" / "report.md").read_text()
    recall = text[text.index("## evidence recall by dataset") :].splitlines()[2]
    assert recall.endswith("The mean is over north.")
    assert "The mean is over" not in text[: text.index("## evidence recall")]
    assert tidy(run)["mean", "static", "evidence_recall"]["datasets"] == "1"


def test_f1_and_tokens_that_are_set_against_each_other_are_over_the_same_datasets(
    beliefrag: Command, home: Path
) -> None:
    write_dataset(home, "north", 3)
    write_dataset(home, "south", 1, answer_form="set")
    run = played(beliefrag, home, methods="static,iterative")
    ran = beliefrag("bench", "report", run)
    numbers = tidy(run)
    north, mean = (float(numbers[d, "iterative", "tokens"]["value"]) for d in ("north", "mean"))
    assert f"{north:,.0f}" != f"{mean:,.0f}"
    f1 = float(numbers["north", "iterative", "f1"]["value"])
    page = (run / "report" / "report.html").read_text()
    assert f"<title>Iterative: F1 {f1:.3f}, {north:,.0f} tokens</title>" in page
    assert mentions(page, "Both numbers", "over north.")
    answers, rows = [line for line in ran.err.splitlines() if line.startswith("note:")]
    assert mentions(answers, "EM, F1, cover, judge", "north") and "south" not in answers
    assert mentions(rows, "answer rows", "south") and "north" not in rows
    drawn = view_run(summarise(run)).cells
    spot = next(cell for cell in drawn if (cell.dataset, cell.method) == ("mean", "iterative"))
    beside, tokens = spot.measures["tokens_beside_f1"], spot.measures["tokens"]
    assert beside is not None and beside.mean == pytest.approx(north)
    assert tokens is not None and tokens.mean == pytest.approx(mean)


def test_failures_are_listed_by_cause_with_their_questions(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, "--no-judge", methods="static")
    (home / "bench.jsonl").unlink()
    line = ("bench", "run", "--data", "north", "south", "--methods", "static,no_rag", *BORROWED)
    assert beliefrag(*line, "--out", "run", "--replay", "--no-judge").code == 1
    beliefrag("bench", "report", run)
    text = (run / "report" / "report.md").read_text()
    listed = text[text.index("## Failed episodes") :].split("\n## ")[0]
    ids = " ".join(f"north-q{k}" for k in range(5))
    assert mentions(listed, f"ReplayMiss | north | No-RAG | 6 | {ids} and 1 more |", "cache", "answer call", "key")


@pytest.mark.parametrize("left", ["nothing", "failures"])
def test_a_run_without_a_finished_episode_is_told_of_everywhere(beliefrag: Command, home: Path, left: str) -> None:
    run = played(beliefrag, home, methods="static,no_rag")
    lines = (run / "episodes.jsonl").read_text().splitlines()
    failed = [json.loads(line) | {"outcome": "failed", "metrics": {}, "judge": None} for line in lines]
    failed = [line | {"error": {"cause": "TransportError", "message": "", "remedy": ""}} for line in failed]
    (run / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in failed if left == "failures"))
    ran = beliefrag("bench", "report", run)
    assert ran.code == 0
    assert ran.out.startswith("INCOMPLETE: 24 ")
    assert {row["F1"] for row in table(ran.out)} == {"-"}
    for arguments in (
        ("bench", "compare", run, "static", "no_rag"),
        ("bench", "compare", run, "static", "no_rag", "--allow-unequal"),
    ):
        ran = beliefrag(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert "finished" in ran.err


def test_one_question_has_numbers_and_no_interval(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, "--n", "1", methods="static,no_rag")
    assert {row["F1 95 %"] for row in table(beliefrag("bench", "report", run).out)} == {"-"}
    rows = list(csv.DictReader(beliefrag("bench", "compare", run, "static", "no_rag").out.splitlines(), delimiter="\t"))
    assert {row["measure"] for row in rows} == {"F1", "tokens"}
    assert {row["95 %"] for row in rows} == {"-"}


def test_the_report_files_hold_every_table(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    beliefrag("bench", "report", run)
    text = (run / "report" / "report.md").read_text()
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:2] == ["F1 by dataset", "EM by dataset"]
    assert {"Effort", "Calls by purpose", "Tokens by purpose", "Outcomes", "Provenance"} <= set(titles)
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1, "a table with rows of unequal length"
    tex = (run / "report" / "tables.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == len(titles) - 1
    assert r"95 \% bootstrap" in tex


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.points = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.points += (dict(attrs).get("id") or "").startswith("point-0-")


def test_the_page_stands_by_itself_with_a_point_for_each_method(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    beliefrag("bench", "report", run)
    page = _Page()
    page.feed((run / "report" / "report.html").read_text())
    assert page.points == 3
    assert not page.addresses
    assert not {"script", "link", "img", "iframe"} & set(page.tags)


def test_a_hostile_dataset_name_stays_text(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "a|b <script>x_$", 2)
    model = write_script(home)
    line = ("bench", "run", "--data", "a|b <script>x_$", "--methods", "static", "--model", model, "--out", "run")
    assert beliefrag(*line).code == 0
    assert beliefrag("bench", "report", "run").code == 0
    report = home / "run" / "report"
    assert "<script>" not in (report / "report.html").read_text()
    assert "<script>" not in (report / "report.md").read_text()
    assert "a\\|b" in (report / "report.md").read_text()
    assert r"x\_\$" in (report / "tables.tex").read_text()


def test_the_papers_table_is_beside_the_run_and_marked_as_theirs(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "hotpotqa", 2)
    model = write_script(home)
    line = ("bench", "run", "--data", "hotpotqa", "--methods", "static,ircot", "--model", model, "--out", "run")
    beliefrag(*line)
    beliefrag("bench", "report", "run")
    text = (home / "run" / "report" / "report.md").read_text()
    assert re.findall(r"^## Theirs: (.*) with gpt-oss-120b$", text, re.MULTILINE) == [
        "F1",
        "tokens",
        "EM",
        "judge",
        "tokens",
        "evidence recall",
    ]
    assert {"F1", "EM", "judge", "tokens", "evidence recall"} == {
        re.split(" with ", title)[0] for title in re.findall(r"^## Theirs: (.*)$", text, re.MULTILINE)
    }
    theirs = text[text.index("## Theirs: F1 with gpt-oss-120b") :]
    assert MARK in theirs.splitlines()[2]
    assert "| Static | 0.559 |" in theirs
    assert "IRCoT" not in theirs.split("## ")[1]
    assert "mean" not in theirs.splitlines()[4], "their mean is over datasets that the run lacks"


def test_a_table_of_theirs_whose_measure_the_run_lacks_is_left_out(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "nq", 2, supporting=None)
    model = write_script(home)
    beliefrag("bench", "run", "--data", "nq", "--methods", "static", "--model", model, "--out", "run", "--no-judge")
    beliefrag("bench", "report", "run")
    text = (home / "run" / "report" / "report.md").read_text()
    theirs = re.findall(r"^## Theirs: (.*) with ", text, re.MULTILINE)
    assert set(theirs) == {"F1", "EM", "tokens"}


def test_a_folder_without_a_run_is_told(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("bench", "report", home)
    assert (ran.code, ran.out) == (1, "")
    assert "holds no run" in ran.err


def test_the_comparison_is_paired_and_signed(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    ran = beliefrag("bench", "compare", run, "static", "no_rag")
    assert ran.code == 0
    rows = list(csv.DictReader(ran.out.splitlines(), delimiter="\t"))
    tokens = next(r for r in rows if (r["dataset"], r["measure"]) == ("north", "tokens"))
    assert tokens["difference"].startswith("+"), "passages cost tokens"
    assert "too few questions" in tokens["reading"]
    spent = {
        m: sum(r["usage"]["tokens"] for r in records(run) if (r["dataset"], r["method"]) == ("north", m)) / 6
        for m in ("static", "no_rag")
    }
    assert tokens["difference"] == f"{spent['static'] - spent['no_rag']:+,.0f}"
    assert {row["measure"] for row in rows} == {"F1", "tokens", "better and cheaper"}


def test_unequal_question_sets_are_refused_unless_told_otherwise(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    file = run / "episodes.jsonl"
    kept = [line for line in file.read_text().splitlines() if '"method":"static","dataset":"north"' not in line]
    lost = [line for line in file.read_text().splitlines() if '"method":"static","dataset":"north"' in line]
    file.write_text("\n".join([*kept, *lost[:4]]) + "\n")
    ran = beliefrag("bench", "compare", run, "static", "no_rag")
    assert (ran.code, ran.out) == (1, "")
    assert "2 of 6 questions" in ran.err
    ran = beliefrag("bench", "compare", run, "static", "no_rag", "--allow-unequal")
    assert ran.code == 0
    missing = sorted(json.loads(line)["question_id"] for line in lost[4:])
    assert mentions(ran.err, "north: 2 questions", "left out", ", ".join(missing))
    assert "\n".join(ran.out.splitlines()[1:]).startswith("north\t4\tF1")


def test_a_dataset_that_was_not_begun_is_left_out_only_if_told_so(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    file = run / "episodes.jsonl"
    file.write_text(
        "".join(line for line in file.read_text().splitlines(keepends=True) if '"dataset":"south"' not in line)
    )
    ran = beliefrag("bench", "compare", run, "static", "no_rag")
    assert (ran.code, ran.out) == (1, "")
    assert mentions(ran.err, "no finished question", "south")
    ran = beliefrag("bench", "compare", run, "static", "no_rag", "--allow-unequal")
    assert ran.code == 0
    assert "south" not in ran.out
    file.write_text("")
    assert beliefrag("bench", "compare", run, "static", "no_rag", "--allow-unequal").code == 1


def test_a_comparison_on_an_incomplete_run_says_so_first(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static,no_rag")
    assert "INCOMPLETE" not in beliefrag("bench", "compare", run, "static", "no_rag").err
    file = run / "episodes.jsonl"
    lines = [line for line in file.read_text().splitlines() if json.loads(line)["question_id"] != "north-q0"]
    broken = json.loads(lines[0]) | {"outcome": "failed", "metrics": {}, "error": {"cause": "ModelError"}}
    file.write_text("".join(line + "\n" for line in (*lines, json.dumps(broken))))
    ran = beliefrag("bench", "compare", run, "static", "no_rag", "--allow-unequal")
    assert ran.code == 0
    assert ran.err.startswith("INCOMPLETE: ")
    assert mentions(ran.err, "24 episodes", "Static", "No-RAG", "2 are missing", "1 failed")


def test_a_method_is_not_compared_with_itself(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static,no_rag")
    ran = beliefrag("bench", "compare", run, "static", "static")
    assert (ran.code, ran.out) == (1, "")
    assert mentions(ran.err, "static", "two methods")


def test_what_a_failure_says_is_cut_and_stays_text(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static,no_rag")
    file = run / "episodes.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = "The server said: <b>|\x1b[2J\n" + "x" * 5000
    for line in lines[:2]:
        line |= {"outcome": "failed", "metrics": {}, "error": {"cause": "ServerError", "message": said, "remedy": ""}}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert beliefrag("bench", "report", run).code == 0
    for name in ("report.md", "report.html", "tables.tex"):
        text = (run / "report" / name).read_text()
        assert "The server said:" in text and "x" * 100 in text, name
        assert "x" * 200 not in text and "\x1b" not in text, name
    assert "said: &lt;b>\\| \\[2J xxx" in (run / "report" / "report.md").read_text()
    assert "<b>|" not in (run / "report" / "report.html").read_text()


def test_a_method_that_the_run_lacks_is_told(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static")
    assert "has no method 'crag'" in beliefrag("bench", "compare", run, "static", "crag").err


def test_recorded_states_are_neither_reported_nor_compared_as_methods(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static")
    before = beliefrag("bench", "report", run).out
    model = write_script(home)
    collect = (
        "calibrate",
        "collect",
        "--data",
        "north",
        "--model",
        model,
        "--set",
        "verifier=structured",
        "--no-judge",
    )
    assert beliefrag(*collect, "--out", "states").code == 0
    ran = beliefrag("bench", "report", "states")
    assert ran.code == 1 and mentions(ran.err, "'beliefrag calibrate fit'", "'beliefrag tune'")
    ran = beliefrag("bench", "compare", "states", "survey", "static")
    assert (ran.code, "'survey'" in ran.err) == (1, True)
    beliefrag(*collect, "--out", run)
    assert beliefrag("bench", "report", run).out == before


def test_a_terminal_shows_a_table_and_progress(home: Path) -> None:
    write_dataset(home, "north", 4)
    line = ("bench", "run", "--data", "north", "--methods", "static", "--model", write_script(home), "--out", "run")
    code, screen = on_terminal(*line, columns=160)
    assert code == 0
    assert "north Static: 4 of 4, F1 0.417, " in screen
    code, screen = on_terminal("bench", "report", "run", columns=200)
    assert code == 0
    assert "Complete: all 4 episodes" in screen
    assert "Traceback" not in screen
