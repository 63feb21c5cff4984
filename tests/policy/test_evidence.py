from hypothesis import given
from hypothesis import strategies as st

from beliefrag.policy import Evidence
from beliefrag.types import Hit, Passage


def hit(identifier: str, score: float = 1.0) -> Hit:
    return Hit(Passage(identifier, f"Title {identifier}", f"text {identifier}"), score)


def test_added_passages_are_kept_in_the_order_in_which_they_came() -> None:
    evidence = Evidence()
    evidence.add([hit("b"), hit("a")])
    evidence.add([hit("c")])
    assert evidence.ids == ("b", "a", "c")


def test_a_dropped_id_never_comes_back() -> None:
    evidence = Evidence()
    evidence.add([hit("a"), hit("b")])
    assert evidence.drop(["a"]) == ("a",)
    change = evidence.add([hit("a", 99.0), hit("c")])
    assert change.refused == ("a",)
    assert [passage.id for passage in change.added] == ["c"]
    assert evidence.ids == ("b", "c")


def test_a_passage_returned_again_is_known_and_keeps_its_best_score() -> None:
    evidence = Evidence()
    evidence.add([hit("a", 3.0)])
    change = evidence.add([hit("a", 5.0)])
    assert change.added == ()
    assert change.known == ("a",)
    evidence.add([hit("a", 2.0)])
    assert evidence.scores == (5.0,)


def test_dropping_what_is_not_there_changes_nothing() -> None:
    evidence = Evidence()
    evidence.add([hit("a")])
    assert evidence.drop(["x"]) == ()
    assert evidence.ids == ("a",)


def test_a_window_keeps_the_best_of_each_search_in_the_order_of_entry() -> None:
    evidence = Evidence()
    evidence.add([hit("a1"), hit("a2"), hit("a3")])
    evidence.add([hit("b1"), hit("b2"), hit("b3")])
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
def test_whatever_is_done_nothing_dropped_is_retained(
    operations: list[tuple[str, list[str]]],
) -> None:
    evidence = Evidence()
    dropped: set[str] = set()
    for operation, ids in operations:
        if operation == "add":
            evidence.add([hit(i) for i in ids])
        else:
            dropped.update(evidence.drop(ids))
    assert not dropped.intersection(evidence.ids)
