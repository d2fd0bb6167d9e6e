"""What is said of the features of nodes: numbers that lie far from those of training."""

import numpy as np
import pytest

from zoo.data.files.node_kinds import KindColumns
from zoo.data.tables.encode import FeatureColumns, far_from_training


@pytest.mark.parametrize("times", [0.001, 0.03, 1, 30, 1000])
@pytest.mark.parametrize("draw", ["normal", "exponential", "lognormal"])
def test_numbers_of_another_unit_are_far_and_ordinary_ones_are_not(draw, times):
    generator = np.random.default_rng(0)
    size = {"size": (300, 20)}
    draws = {"normal": lambda: generator.normal(50, 20, **size),
             "exponential": lambda: generator.exponential(40, **size),
             "lognormal": lambda: generator.lognormal(10, 1, **size)}[draw]  # fmt: skip
    then, now = draws(), draws() * times
    names = [*"abcdefghijklmnopqrst"]
    far = far_from_training(names, now, then.mean(axis=0), then.std(axis=0))
    assert len(far) == (0 if times == 1 else 20)
    few = far_from_training(names, now[:3], then.mean(axis=0), then.std(axis=0))
    assert len(few) == (20 if times == 1000 else 0) or times == 30


def test_columns_without_a_unit_are_never_far():
    numbers = np.zeros((100, 4))  # all zero, rare, a rare yes, missing
    numbers[:2, 1], numbers[:1, 2], numbers[:, 3] = 3, 1, np.nan
    then = np.array([[0.3, 0.002, 0.5, 9], [0.46, 0.03, 0.5, 2]])
    assert far_from_training([*"abcd"], numbers, *then) == []
    assert far_from_training(["a"], np.full((1, 1), 900.0), np.array([9]), np.array([2])) == [
        "a is 900 ± 0 and was 9 ± 2"
    ]


def test_columns_of_several_kinds_are_told_with_their_kind():
    pay = np.random.default_rng(0).normal(50, 9, 20)

    def people(pay, town):
        own = {"pay": pay, "town": np.array([town] * 20)}
        kinds = {"pay": "number", "town": "category"}
        columns = FeatureColumns(20, own, kinds, numbers="standard")
        return KindColumns(np.array(["person"] * 20), {"person": columns}, {}, ("person",))

    learnt = people(pay, "Bonn").fit()
    other = people(pay * 1000, "Ulm")
    (phrase,), (unseen,) = other.far_from_training(learnt), other.unseen(learnt)
    assert phrase.startswith("person.pay is 4") and unseen.startswith("person.town: 20 of 20")
