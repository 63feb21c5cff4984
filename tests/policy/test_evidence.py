from beliefrag.policy import Evidence
from beliefrag.types import Hit, Passage


def hit(identifier: str, score: float = 1.0) -> Hit:
    return Hit(Passage(identifier, f"Title {identifier}", f"text {identifier}"), score)


def test_passages_stay_in_order_once_each_and_a_dropped_one_never_comes_back() -> None:
    evidence = Evidence()
    evidence.add([hit("b", 3.0), hit("a")])
    change = evidence.add([hit("c"), hit("b", 5.0)])
    assert ([passage.id for passage in change.added], change.known) == (["c"], ("b",))
    evidence.add([hit("b", 2.0)])
    assert (evidence.ids, evidence.scores) == (("b", "a", "c"), (5.0, 1.0, 1.0)), "the best score is kept"
    assert evidence.drop(["x"]) == ()
    assert evidence.drop(["a"]) == ("a",)
    change = evidence.add([hit("a", 99.0), hit("d")])
    assert (change.refused, evidence.ids) == (("a",), ("b", "c", "d"))


def test_a_window_keeps_the_best_of_each_search_in_the_order_of_entry() -> None:
    evidence = Evidence()
    evidence.add([hit("a1"), hit("a2"), hit("a3")])
    evidence.add([hit("b1"), hit("b2"), hit("b3")])
    assert [passage.id for passage in evidence.window(4)] == ["a1", "a2", "b1", "b2"]
    assert [passage.id for passage in evidence.window(3)] == ["a1", "b1", "b2"]
    assert len(evidence.window(10)) == 6
