"""A guarantee says when the questions are unlike those that it was made from."""

import random
from pathlib import Path

from beliefrag.calibration.shift import LEAST, ShiftWatch, describe_spread, find_shift
from beliefrag.types import Diagnostics


def draw(seed: int, count: int, *, support: float = 1.0) -> list[Diagnostics]:
    chance = random.Random(seed)
    return [
        Diagnostics(0.5, support * chance.random(), 0.0, chance.random() ** 2, 0.2 * chance.random(), 1.0, 0.0)
        for _ in range(count)
    ]


def test_questions_of_the_same_kind_raise_no_alarm() -> None:
    spread = describe_spread(draw(0, 400))
    alarms = [find_shift(spread, draw(seed, 60)) for seed in range(1, 101)]
    assert sum(each is not None for each in alarms) <= 5


def test_questions_of_another_kind_are_noticed_by_what_differs() -> None:
    spread = describe_spread(draw(0, 400))
    assert find_shift(spread, draw(1, 60, support=0.5)) == "support"
    assert find_shift(spread, draw(1, LEAST - 1, support=0.1)) is None, "too few to tell"


def test_the_questions_of_several_processes_count_together(tmp_path: Path) -> None:
    spread, file = describe_spread(draw(0, 400)), tmp_path / "asked" / "corpus.json"
    others = draw(2, LEAST, support=0.1)
    assert [ShiftWatch(spread, file).add(each) for each in others[:-1]] == [None] * (LEAST - 1)
    assert ShiftWatch(spread, file).add(others[-1]) == "support"


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "corpus.json"
    for content in ("{", '[["a"]]', "[[1, 2]]", "7"):
        file.write_text(content)
        assert ShiftWatch(describe_spread(draw(0, 40)), file).add(draw(3, 1)[0]) is None
