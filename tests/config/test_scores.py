"""Scores side by side: paired differences and their intervals."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from zoo.config.scores import compare_to_best, paired_difference


@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("shift", [0.0, 0.02, -0.4])
def test_the_interval_is_that_of_the_paired_t_test(count, shift):
    draw = np.random.default_rng(count)
    others = draw.uniform(0.6, 0.9, count)
    scores = others + shift + draw.normal(scale=0.01, size=count)
    found, test = paired_difference(scores, others), ttest_rel(scores, others)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert found.mean == pytest.approx(np.mean(scores - others))
    assert found.noise == bool(test.pvalue >= 0.05) and found.p == pytest.approx(test.pvalue)


def test_the_interval_holds_the_true_mean_as_often_as_it_says():
    draw = np.random.default_rng(0)
    pairs = draw.normal(0.3, 1.0, (2000, 5))
    found = [paired_difference(each, 5 * [0.0]) for each in pairs]
    held = np.mean([each.low <= 0.3 <= each.high for each in found])
    assert held == pytest.approx(0.95, abs=0.015)


def test_equal_scores_are_noise_and_of_a_constant_difference_nothing_is_known():
    assert paired_difference([0.5, 0.7], [0.5, 0.7]) == (0, 0, 0, True, 1)
    assert paired_difference([0.5, 0.75], [0.25, 0.5]) == (0.25, None, None, None, None)
    found = paired_difference([0.875, 0.75, 0.3], [0.775, 0.65, 0.2])
    assert found.mean == pytest.approx(0.1) and found.low is None and found.noise is None


def test_one_pair_has_no_interval():
    assert paired_difference([0.75], [0.5]) == (0.25, None, None, None, None)


def test_scores_without_a_partner_are_refused():
    with pytest.raises(ValueError):
        paired_difference([0.5, 0.7], [0.5])


def test_the_best_is_of_the_seeds_that_most_have():
    """An odd run of one seed, if it was the best, left all others without a test."""

    def row(recipe, *scores, split="x"):
        seeds = [{"seed": seed, "split_sha256": split, "test": score}
                 for seed, score in enumerate(scores)]  # fmt: skip
        return {"recipe": recipe, "metric": "accuracy", "seeds": seeds}

    def best(*rows):
        [found] = [row["recipe"] for row, compared in zip(rows, compare_to_best(rows), strict=True)
                   if compared["best"]]  # fmt: skip
        return found

    odd, gcn, mlp = row("odd", 0.99), row("gcn", 0.8, 0.9, 0.85), row("mlp", 0.5, 0.65, 0.51)
    found = compare_to_best([odd, gcn, mlp])
    assert [each["best"] for each in found] == [False, True, False]
    assert found[0]["difference"] is None and found[2]["difference"]["from"] == "gcn"
    assert best(odd, gcn) == "gcn" and best(odd, row("other", 0.5)) == "odd"
    assert best(row("elsewhere", 0.9, 0.95, 0.9, 0.9, split="y"), gcn, mlp) == "gcn"


def test_holm_adjusts_for_all_comparisons_with_the_best():
    def row(recipe, *scores):
        seeds = [{"seed": seed, "split_sha256": "x", "test": score}
                 for seed, score in enumerate(scores)]  # fmt: skip
        return {"recipe": recipe, "metric": "accuracy", "seeds": seeds}

    rows = [row("a", 0.9, 0.92, 0.91, 0.93), row("b", 0.88, 0.91, 0.88, 0.92),
            row("c", 0.5, 0.53, 0.49, 0.51), row("one", 0.7)]  # fmt: skip
    _, b, c, one = [each["difference"] for each in compare_to_best(rows)]
    assert b["p"] < 0.05 < b["p_holm"] or b["p_holm"] == b["p"]
    assert c["p_holm"] == pytest.approx(2 * c["p"]) and one is None
