"""The profile `paper` is the paper: each field beside what the paper says, and each rule in an episode."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from beliefrag import bench
from beliefrag.bench.benchmark import Preview
from beliefrag.errors import CalibrationError
from beliefrag.methods import METHODS, MethodInputs, build_method, plan_search
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.iterative import Iterative
from beliefrag.methods.static import Static
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatRequest, Message
from beliefrag.models.providers import open_provider
from beliefrag.opening import choose_verifier
from beliefrag.policy import Thresholds, novelty
from beliefrag.policy.belief import FALLBACK_SCHEDULE, SOFTMAX_TEMPERATURE
from beliefrag.report.run_report import CHARGED_EACH_STEP
from beliefrag.runs.run_errors import RunChanged
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Budget, Rules
from tests.support.bench_runs import write_dataset, write_script
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.http_server import ChatServer, completion
from tests.support.reading import actions, says

PAPER = Settings(profile="paper")
SURE, UNSURE = verdict(0.9, 0.0, 0.0) | {"repeat": True}, verdict(0.1, 0.9, 0.9) | {"repeat": True}
ANSWER = says("answer", "Paris", repeat=True)


def test_each_field_is_what_the_paper_says() -> None:
    assert PAPER.budget == Budget(3, 5, 6, 12_000, 8, 10)
    t = PAPER.thresholds
    assert (t.answer, t.conflict, t.reliability, t.retrieval_value, t.novelty) == (0.5, 0.5, 0.3, 0.1, 0.2)
    assert (t.correct_conflict, t.correct_unreliable, t.correct_flagged) == (True, True, True)
    assert not t.merge_rewriter, "a correction pays for rewriter and query writer"
    assert PAPER.rules == Rules(observe_each_step=True, literal_novelty=True, repeat_queries=True)
    assert SOFTMAX_TEMPERATURE == 0.2
    assert dict(FALLBACK_SCHEDULE) == {0: 0.59, 1: 0.073, 2: 0.050, 3: 0.050}
    assert PAPER.method == "beliefrag"
    for name in METHODS:
        plan = plan_search(PAPER, name)
        assert (plan.retriever, plan.pack) == ("bm25", None), "every method searches and reads alike"
    assert choose_verifier(PAPER, "beliefrag") == choose_verifier(PAPER, "static") == "structured"
    built = build_method("beliefrag", MethodInputs(published_method().calibration))
    assert isinstance(built, BeliefRAGMethod) and not built.selects


def test_what_is_set_goes_before_the_profile_and_nothing_changes_without_it() -> None:
    own = load_settings({"profile": "paper", "thresholds.answer": 0.6, "retriever": "linked"}).settings
    assert (own.thresholds.answer, own.thresholds.merge_rewriter, own.retriever) == (0.6, False, "linked")
    assert Settings().rules == Rules() and Settings().thresholds == Thresholds() and Settings().models == {}


async def test_a_request_has_temperature_0_and_no_limit(chat_server: ChatServer) -> None:
    chat_server.play(lambda request: completion("fine"))
    request = ChatRequest("answer", (Message("user", "Well?"),))
    bodies = []
    for settings in (PAPER, Settings()):
        model = open_provider("m", base_url=chat_server.url, options=settings.models)
        assert isinstance(model, OpenAICompatible)
        await model.chat(request)
        await model.aclose()
        bodies.append(chat_server.requests[-1].body)
    paper, ours = bodies
    assert set(paper) == {"model", "messages", "stream", "temperature"}
    assert (paper["temperature"], paper["stream"]) == (0, False)
    assert "max_tokens" in ours


async def test_every_method_that_searches_pays_for_one_observation_a_step(tmp_path: Path) -> None:
    searches = (hits("a", "b"), hits("c"), hits("d"))
    writer = says("query_writer", "more", repeat=True)
    model = script(tmp_path, SURE, ANSWER, writer, says("rewriter", "other", repeat=True))
    paid = {}
    for method in (Static(), Iterative(), published_method()):
        for rules in (Rules(), PAPER.rules):
            played = await play(model, PlannedRetriever(*searches), method=method, rules=rules)
            paid[method.name, bool(rules)] = Counter(call.purpose for call in played.calls)["verifier"]
    assert paid == {
        ("static", False): 0,
        ("static", True): 1,
        ("iterative", False): 0,
        # After each of three searches; before the first there is nothing to observe.
        ("iterative", True): 3,
        ("beliefrag", False): 1,
        ("beliefrag", True): 1,
    }


async def test_a_correction_pays_for_two_calls_and_each_of_its_steps_for_an_observation(tmp_path: Path) -> None:
    flawed = verdict(0.1, 0.9, 1.0, unhelpful=[2])
    written = [says("rewriter", "other words"), says("query_writer", "new words")]
    model = script(tmp_path, flawed, SURE, ANSWER, *written)
    method = published_method(thresholds=PAPER.thresholds)
    played = await play(model, PlannedRetriever(hits("a", "b"), hits("c")), method=method, rules=PAPER.rules)
    assert actions(played) == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE", "ANSWER"]
    by_step = [[call.purpose for call in step.calls] for step in played.steps]
    assert [each.count("verifier") for each in by_step] == [0, 1, 1, 1, 1]
    assert (by_step[2].count("rewriter"), by_step[3].count("query_writer")) == (1, 1)


async def test_a_repeated_query_is_searched_as_it_is(tmp_path: Path) -> None:
    model = script(tmp_path, SURE, ANSWER, says("query_writer", "Which?", repeat=True))
    queries = []
    for rules in (PAPER.rules, Rules()):
        retriever = PlannedRetriever(hits("a", "b"))
        await play(model, retriever, method=Iterative(rounds=2), rules=rules)
        queries.append(retriever.queries)
    assert queries[0] == ["Which?", "Which?"]
    assert queries[1] == ["Which?", "Which? a"]


async def test_novelty_is_over_new_passages_alone(tmp_path: Path) -> None:
    model = script(tmp_path, UNSURE, ANSWER, says("query_writer", "more", repeat=True))
    found = []
    for rules in (PAPER.rules, Rules()):
        retriever = PlannedRetriever(hits("a", "b"), hits("a", "b", "c"))
        played = await play(model, retriever, method=Iterative(rounds=2), rules=rules)
        found.append([step.search.novelty for step in played.steps if step.search][1])
    old, new = ([hit.passage for hit in hits(*ids)] for ids in (("a", "b"), ("c",)))
    assert found == [novelty(new, old), novelty(new, old, repeated=2)]
    assert found[0] > found[1]


async def test_the_selector_takes_a_legal_action_that_the_model_names(tmp_path: Path) -> None:
    chosen = [says("policy", "retrieve", match="Actions that may be taken now"), says("policy", "Abstain.")]
    model = script(tmp_path, SURE, ANSWER, *chosen)
    method = published_method()
    selecting = BeliefRAGMethod(method.calibration, method.thresholds, selects=True)
    played = await play(model, PlannedRetriever(hits("a")), method=selecting)
    assert [(str(step.action), step.reason) for step in played.steps] == [
        ("RETRIEVE", "selected"),
        ("ABSTAIN", "selected"),
    ]
    # A reply that names no legal action, twice, leaves the decision to the branch rules.
    model = script(tmp_path, SURE, ANSWER, says("policy", "VERIFY, I think", repeat=True))
    played = await play(model, PlannedRetriever(hits("a")), method=selecting)
    assert [(str(step.action), step.reason) for step in played.steps] == [
        ("RETRIEVE", "retrieve"),
        ("ANSWER", "answer"),
    ]


@pytest.mark.parametrize("profile", ["paper", None])
def test_a_run_says_which_rule_was_used_and_that_a_calibration_is_borrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    how = {"profile": profile, "model": write_script(tmp_path), "verifier": "structured", "borrow": "published"}
    settings = load_settings(how).settings
    spec = bench.RunSpec((write_dataset(tmp_path, "north", 2),), ("static", "beliefrag"), judge=False)
    said: Preview = bench.preview(spec, out=tmp_path / "run", settings=settings)
    assert "published, borrowed" in str(said)
    run = bench.run(spec, out=tmp_path / "run", settings=settings)
    bench.report(run.folder, out=tmp_path / "report")
    page = (tmp_path / "report" / "report.md").read_text()
    assert (CHARGED_EACH_STEP in page) is (profile == "paper")
    assert "borrowed, fitted for openai:gpt-oss-120b" in page
    calls = {cell.method: cell.by_purpose for cell in run.summary().cells}
    assert ("verifier" in calls["static"]) is (profile == "paper")
    if profile:
        with pytest.raises(CalibrationError, match="no other model's calibration"):
            bench.preview(spec, out=tmp_path / "own", settings=settings.model_copy(update={"borrow": None}))
    other = settings.model_copy(update={"rules": Rules(literal_novelty=profile is None)})
    with pytest.raises(RunChanged, match="rule"):
        bench.run(spec, out=tmp_path / "run", settings=other)
