"""`beliefrag ask`: what each flag changes, and what each outcome looks like to a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.explanation import DECLINED
from beliefrag.record import Episode, Outcome
from beliefrag.types import Action
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, UNSURE, Ran, write_docs, write_script
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]


@pytest.fixture
def docs(home: Path) -> Path:
    return write_docs(home)


def test_json_is_the_whole_episode_on_one_line(beliefrag: Command, docs: Path, home: Path) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED, "--json")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    episode = Episode.model_validate_json(ran.out)
    assert (episode.question.text, episode.outcome, episode.answer) == (QUESTION, Outcome.ANSWERED, "Larvik")
    assert episode.answerability is not None and 0.5 <= episode.answerability <= 1
    assert [step.action for step in episode.steps] == [Action.RETRIEVE, Action.ANSWER]
    assert {passage.title for passage in episode.read_passages} == {"Fram", "Colin Archer", "Gjøa"}
    assert "Larvik" in episode.citations[-1].quote
    assert episode.citations[-1].place.startswith("line"), "a Markdown file has lines"
    assert (episode.usage.calls, episode.usage.searches) == (2, 1)


def test_quiet_prints_the_answer_alone(beliefrag: Command, docs: Path, home: Path) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED, "--quiet")
    assert ran == Ran(0, "Larvik\n", "")


def test_an_answer_in_sentences_says_what_was_left_out(beliefrag: Command, docs: Path, home: Path) -> None:
    write = {"purpose": "write", "reply": "Colin Archer was born in Larvik. He died in 1921.", "repeat": True}
    model = ("--model", write_script(home, SURE | {"repeat": True}, ANSWER | {"repeat": True}, write), *BORROWED)
    ran = beliefrag("ask", QUESTION, "--docs", docs, *model, "--answer-style", "sentence")
    assert re.match(r"Colin Archer was born in Larvik\. \[\d\]", ran.out)
    assert any(line.startswith("Left out: 1 sentence") for line in ran.out.splitlines())
    ran = beliefrag("ask", QUESTION, "--docs", docs, *model, "--answer-style", "sentence", "--json")
    episode = Episode.model_validate_json(ran.out)
    assert (episode.short_answer, [each.support for each in episode.sentences]) == ("Larvik", [1.0])


def test_the_answer_comes_first_then_its_probability_its_quotes_and_the_cost(
    beliefrag: Command, docs: Path, home: Path
) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED)
    assert (ran.code, ran.err) == (0, "")
    answer, likely, *quotes, cost = ran.out.splitlines()
    assert answer == "Larvik"
    assert re.match(r"\d+% likely right, an uncalibrated estimate", likely)
    place = quotes.index("[2] \u201cColin Archer was born in Larvik.\u201d") + 1
    assert re.fullmatch(r" {4}Colin Archer \u00b7 docs/archer\.md, lines? \d+(-\d+)?", quotes[place])
    assert re.fullmatch(r"[\d,]+ tokens, 2 model calls, 1 search, [\d.]+ s", cost)


def test_steps_tell_the_whole_story_without_control_codes(beliefrag: Command, docs: Path, home: Path) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED, "--steps")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == f"question: {QUESTION}"
    assert "borrowed, fitted for openai:gpt-oss-120b" in lines[2]
    assert lines[3].startswith("1.  search: ") and "nothing has been read" in lines[4]
    assert "Larvik" in lines
    assert any(line.startswith("Searched once") for line in lines)
    assert any(re.fullmatch(r"Stopped: .*\d+% likely right, an uncalibrated estimate\.", line) for line in lines)
    assert any(line.startswith("What would change it: ") for line in lines)
    assert not re.search(r"\b(suff|rel|unc|sufficiency|reliability|uncertainty|gap)\b", ran.out)
    assert "Also read: Gjøa (docs/gjoa.md)." in lines
    assert all(character.isprintable() for line in lines for character in line)


def test_the_first_line_says_that_passages_leave_this_machine(
    beliefrag: Command, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "gpt-x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://models.invalid/v1")
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--method", "static")
    assert ran.code == 1
    assert mentions(ran.err.splitlines()[0], "gpt-x at http://models.invalid/v1", "passages", "sent there")


def test_an_abstention_gives_no_answer_says_why_and_exits_with_3(beliefrag: Command, docs: Path, home: Path) -> None:
    (home / "beliefrag.toml").write_text(
        "[thresholds]\nabstain_answerability = 0.55\nabstain_sufficiency = 0.5\ncorrect_unreliable = false\n"
    )
    model = write_script(home, UNSURE, ANSWER)
    given = ("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED, "--set", "cache=false")
    quiet = beliefrag(*given, "--set", "budget.rounds=1", "--quiet")
    assert (quiet.code, quiet.out) == (3, "")
    assert quiet.err.startswith("abstained: ") and "inadequate" in quiet.err
    record = beliefrag(*given, "--set", "budget.rounds=1", "--json")
    assert (record.code, record.record["outcome"], record.record["answer"]) == (3, "abstained", None)
    stubborn = beliefrag(*given, "--set", "budget.rounds=1", "--best-guess", "--quiet")
    assert (stubborn.code, stubborn.out) == (0, "Larvik\n")
    assert stubborn.err.startswith("stopped: ")


def test_an_answer_below_the_decline_threshold_is_a_guess_unless_it_is_asked_for(
    beliefrag: Command, docs: Path, home: Path
) -> None:
    (home / "beliefrag.toml").write_text("[thresholds]\ndecline_below = 0.9\n")
    model = write_script(home, SURE, ANSWER)
    given = ("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED, "--set", "cache=false")
    declined = beliefrag(*given, "--json")
    assert (declined.code, declined.record["outcome"], declined.record["answer"]) == (3, "abstained", None)
    assert declined.record["best_guess"] == "Larvik" and declined.record["answerability"] < 0.9
    assert "Larvik" in declined.record["citations"][-1]["quote"]
    shown = beliefrag(*given)
    assert shown.code == 3 and shown.out.splitlines()[0] == DECLINED
    assert any(line.startswith("Best guess: Larvik (") for line in shown.out.splitlines())
    quiet = beliefrag(*given, "--quiet")
    assert (quiet.code, quiet.out) == (3, "")
    why, guess = quiet.err.splitlines()
    assert re.fullmatch(r"abstained: not sure enough to answer; the guess is \d+% likely right, .*", why)
    assert guess.startswith("best guess: Larvik (--best-guess")
    guessed = beliefrag(*given, "--best-guess", "--quiet")
    assert (guessed.code, guessed.out) == (0, "Larvik\n")


def test_a_failed_call_is_told_on_standard_error_and_exits_with_1(beliefrag: Command, docs: Path, home: Path) -> None:
    model = write_script(home, {"purpose": "verifier", "error": {"status": 401, "message": "no such key"}})
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED, "--json")
    assert ran.code == 1
    assert ran.record["outcome"] == "failed"
    assert ran.record["error"]["cause"] == "TransportError"
    assert ran.err.count("\n") == 1
    assert mentions(ran.err, "error", "API key", "HTTP 401")


@pytest.mark.parametrize("method", ["no_rag", "static", "iterative:rounds=1"])
def test_any_method_answers_and_needs_no_calibration_unless_it_says_so(
    beliefrag: Command, docs: Path, home: Path, method: str
) -> None:
    given = ("ask", QUESTION, "--docs", docs, "--model", write_script(home, ANSWER), "--method", method)
    record = beliefrag(*given, "--json").record
    assert (record["outcome"], record["answer"], record["answerability"]) == ("answered", "Larvik", None)
    assert record["method"] == method.partition(":")[0]
    assert "calibration" not in record["made_with"]
    lines = beliefrag(*given, "--steps").out.splitlines()
    assert "No probability: the method gives none" in lines
    assert lines[2].startswith("calibration: none: ") and mentions(lines[2], method.partition(":")[0])


def test_a_method_that_is_not_known_or_keeps_to_no_error_is_refused(beliefrag: Command, docs: Path, home: Path) -> None:
    given = ("ask", QUESTION, "--docs", docs, "--model", write_script(home, ANSWER), "--json")
    unknown = beliefrag(*given, "--method", "iteratve")
    assert unknown.code == 2 and "'iteratve'" in unknown.err and "Did you mean iterative?" in unknown.err
    promised = beliefrag(*given, "--method", "static", "--max-error", "0.1")
    assert promised.code == 2 and "max_error 0.1" in promised.err and "static" in promised.err


def test_any_model_is_asked_as_the_embedded_one_and_its_confidence_is_an_estimate(
    beliefrag: Command, docs: Path, home: Path
) -> None:
    read = {"purpose": "read", "reply": {"missing": "nothing", "answer": "Larvik", "sure": 9}, "repeat": True}
    given = ("ask", QUESTION, "--docs", docs, "--model", write_script(home, read))
    record = beliefrag(*given, "--json").record
    assert (record["method"], record["verifier"], record["answer"]) == ("lean", "stated", "Larvik")
    assert record["calibrated"] is False and record["made_with"]["pack"] == "600 words"
    assert mentions(beliefrag(*given).out, "uncalibrated estimate", "beliefrag calibrate auto")
    refused = beliefrag(*given, "--max-error", "0.1")
    assert refused.code == 1 and mentions(refused.err, "no guarantee", "beliefrag calibrate auto --docs DOCS")


def test_a_calibration_that_is_named_must_fit_the_model_unless_it_is_borrowed(
    beliefrag: Command, docs: Path, home: Path
) -> None:
    given = ("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), "--quiet")
    foreign = beliefrag(*given, "--set", "calibration=published")
    assert foreign.code == 1
    assert mentions(foreign.err, "published", "fitted for openai:gpt-oss-120b", "--borrow published")
    assert beliefrag(*given, *BORROWED).code == 0


def test_an_endpoint_is_asked_at_the_address_given(
    beliefrag: Command, docs: Path, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    chat_server.play(completion('{"missing": "nothing", "answer": "Larvik", "sure": 10}'))
    given = ("ask", QUESTION, "--docs", docs, "--model", "gpt-oss-120b", "--base-url", chat_server.url)
    ran = beliefrag(*given)
    assert ran.code == 0
    assert ran.out.startswith("Larvik\n")
    assert chat_server.requests[0].body["model"] == "gpt-oss-120b"
    assert "sk-very-secret-key" not in ran.out + ran.err


def test_documents_that_could_not_be_read_are_told_of(beliefrag: Command, docs: Path, home: Path) -> None:
    given = ("ask", QUESTION, "--docs", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED, "--json")
    (docs / "scan.pdf").write_bytes(b"not a pdf")
    one = beliefrag(*given)
    assert (one.code, one.err.count("\n")) == (0, 1)
    assert mentions(one.err, "warning:", "1 problem", "scan.pdf")
    (docs / "photo.png").write_bytes(b"\x89PNG")
    assert mentions(beliefrag(*given).err, "warning:", "2 problems")


def test_a_method_without_a_probability_gives_the_short_answer_where_no_sentence_is_supported(
    beliefrag: Command, docs: Path, home: Path
) -> None:
    model = write_script(home, ANSWER, {"purpose": "write", "reply": "The Eiffel Tower opened in 1889."})
    asked = ("ask", QUESTION, "--docs", docs, "--model", model, "--answer-style", "sentence")
    ran = beliefrag(*asked, "--method", "static")
    assert ran.code == 0, ran.out
    assert ran.out.startswith("Larvik\n")
