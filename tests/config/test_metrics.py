"""Scores side by side: paired differences and their intervals, and mean ranks."""

import itertools

import numpy as np
import pytest
from scipy.stats import ttest_rel

from zoo.config.metrics import critical_difference, largest_complete_part, paired_difference


@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("shift", [0.0, 0.02, -0.4])
def test_the_interval_is_that_of_the_paired_t_test(count, shift):
    draw = np.random.default_rng(count)
    others = draw.uniform(0.6, 0.9, count)
    scores = others + shift + draw.normal(scale=0.01, size=count)
    found, test = paired_difference(scores, others), ttest_rel(scores, others)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert found.mean == pytest.approx(np.mean(scores - others))
    assert found.noise == bool(test.pvalue >= 0.05)


def test_the_interval_holds_the_true_mean_as_often_as_it_says():
    draw = np.random.default_rng(0)
    pairs = draw.normal(0.3, 1.0, (2000, 5))
    found = [paired_difference(each, 5 * [0.0]) for each in pairs]
    held = np.mean([each.low <= 0.3 <= each.high for each in found])
    assert held == pytest.approx(0.95, abs=0.015)


def test_equal_scores_are_noise_and_of_a_constant_difference_nothing_is_known():
    assert paired_difference([0.5, 0.7], [0.5, 0.7]) == (0, 0, 0, True)
    assert paired_difference([0.5, 0.75], [0.25, 0.5]) == (0.25, None, None, None)
    found = paired_difference([0.875, 0.75, 0.3], [0.775, 0.65, 0.2])
    assert found.mean == pytest.approx(0.1) and found.low is None and found.noise is None


def test_one_pair_has_no_interval():
    assert paired_difference([0.75], [0.5]) == (0.25, None, None, None)


def test_scores_without_a_partner_are_refused():
    with pytest.raises(ValueError):
        paired_difference([0.5, 0.7], [0.5])


def largest_by_hand(table, fewest):
    """Return the rows and columns of the largest part without gaps, by trying every choice."""
    columns = list(dict.fromkeys(name for known in table.values() for name in known))
    best = (0, 0)
    for count in range(fewest, len(columns) + 1):
        for chosen in itertools.combinations(columns, count):
            rows = [row for row in table if all(name in table[row] for name in chosen)]
            if len(rows) > 1:
                best = max(best, (len(rows), count))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_largest_part_without_gaps_is_found(seed):
    draw = np.random.default_rng(seed)
    known, fewest = draw.random((7, 6)) < draw.random(), int(draw.integers(1, 4))
    table = {
        row: {column: 0.5 for column, there in zip("123456", cells, strict=True) if there}
        for row, cells in zip("abcdefg", known.tolist(), strict=True)
    }
    rows, columns = largest_complete_part(table, fewest)
    assert (len(rows), len(columns)) == largest_by_hand(table, fewest)
    assert all(column in table[row] for row in rows for column in columns)
    assert rows == [row for row in table if row in rows]


def test_a_model_of_other_data_sets_alone_does_not_cost_others_theirs():
    """Counting data sets, those of `lone` are more than those of `gcn`, which shares them."""
    shared = dict.fromkeys(["cora", "citeseer", "actor"], 0.5)
    lone = dict.fromkeys(["cora", "digits", "karate", "photo", "cs"], 0.5)
    table = {"lone": lone, "gcn": shared, "mlp": shared}
    assert largest_complete_part(table, 3) == (["gcn", "mlp"], ["cora", "citeseer", "actor"])


def test_the_critical_difference_is_that_of_the_source():
    """Demšar (JMLR 2006): 1.25 for 4 rows and 14 columns, q 2.569; table 5a has others."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * (20 / 84) ** 0.5, abs=1e-3)
    for rows, quantile in {2: 1.960, 3: 2.343, 6: 2.850, 10: 3.164}.items():
        apart = quantile * (rows * (rows + 1) / 60) ** 0.5
        assert critical_difference(rows, 10) == pytest.approx(apart, abs=2e-3)
