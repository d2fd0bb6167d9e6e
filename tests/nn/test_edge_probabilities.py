"""Probabilities of edges by random features are those of their naive twin."""

from functools import partial

import pytest
import torch
from twins import assert_twins

from zoo.nn import naive
from zoo.nn.edge_probabilities import edge_log_probabilities
from zoo.nn.random_features import random_directions


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_probabilities_of_edges(tiny, epsilon):
    graph = tiny[0]
    q, k = (torch.randn(12, 2, 4, dtype=torch.double, requires_grad=True) for _ in range(2))
    given, options = (graph, q, k, random_directions(5, 4, seed=0)), {"epsilon": epsilon}
    both = (partial(each, *given, **options)
            for each in (edge_log_probabilities, naive.edge_log_probabilities))  # fmt: skip
    assert_twins(*both, [q, k], second=True)
