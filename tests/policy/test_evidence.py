from hypothesis import given
from hypothesis import strategies as st

from beliefrag.policy import Evidence, Mutation
from beliefrag.types import Hit, Passage


def hit(identifier: str, score: float = 1.0) -> Hit:
    return Hit(Passage(identifier, f"Title {identifier}", f"text {identifier}"), score)


def test_added_passages_are_kept_in_the_order_in_which_they_came() -> None:
    evidence = Evidence()
    evidence.add([hit("b"), hit("a")], step=0, reason="first")
    evidence.add([hit("c")], step=1, reason="second")
    assert evidence.ids == ("b", "a", "c")


def test_a_dropped_id_never_comes_back() -> None:
    evidence = Evidence()
    evidence.add([hit("a"), hit("b")], step=0, reason="first")
    assert evidence.drop(["a"], step=1, reason="weak") == ("a",)
    change = evidence.add([hit("a", 99.0), hit("c")], step=2, reason="second")
    assert change.refused == ("a",)
    assert [passage.id for passage in change.added] == ["c"]
    assert evidence.ids == ("b", "c")


def test_a_passage_returned_again_is_known_and_keeps_its_best_score() -> None:
    evidence = Evidence()
    evidence.add([hit("a", 3.0)], step=0, reason="first")
    change = evidence.add([hit("a", 5.0)], step=1, reason="second")
    assert change.added == ()
    assert change.known == ("a",)
    evidence.add([hit("a", 2.0)], step=2, reason="third")
    assert evidence.scores == (5.0,)


def test_dropping_what_is_not_there_changes_and_logs_nothing() -> None:
    evidence = Evidence()
    evidence.add([hit("a")], step=0, reason="first")
    assert evidence.drop(["x"], step=1, reason="weak") == ()
    assert evidence.dropped == ()
    assert len(evidence.log) == 1


def test_every_mutation_is_logged_with_its_step_and_reason() -> None:
    evidence = Evidence()
    evidence.add([hit("a"), hit("b")], step=0, reason="first search")
    evidence.drop(["b"], step=1, reason="flagged")
    assert evidence.log == (
        Mutation("add", "a", 0, "first search"),
        Mutation("add", "b", 0, "first search"),
        Mutation("drop", "b", 1, "flagged"),
    )


def test_a_window_keeps_the_best_of_each_search_in_the_order_of_entry() -> None:
    evidence = Evidence()
    evidence.add([hit("a1"), hit("a2"), hit("a3")], step=0, reason="first")
    evidence.add([hit("b1"), hit("b2"), hit("b3")], step=1, reason="second")
    assert [passage.id for passage in evidence.window(4)] == ["a1", "a2", "b1", "b2"]
    assert [passage.id for passage in evidence.window(3)] == ["a1", "b1", "b2"]
    assert len(evidence.window(10)) == 6


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(st.sampled_from("abcdefgh"), max_size=5)),
            st.tuples(st.just("drop"), st.lists(st.sampled_from("abcdefgh"), max_size=5)),
        ),
        max_size=20,
    )
)
def test_whatever_is_done_the_log_replays_to_the_same_evidence_and_nothing_dropped_is_retained(
    operations: list[tuple[str, list[str]]],
) -> None:
    evidence = Evidence()
    for step, (operation, ids) in enumerate(operations):
        if operation == "add":
            evidence.add([hit(i) for i in ids], step=step, reason="r")
        else:
            evidence.drop(ids, step=step, reason="r")
    replayed: list[str] = []
    for mutation in evidence.log:
        if mutation.operation == "add":
            assert mutation.passage_id not in replayed
            replayed.append(mutation.passage_id)
        else:
            replayed.remove(mutation.passage_id)
    assert tuple(replayed) == evidence.ids
    assert not set(evidence.ids) & set(evidence.dropped)
