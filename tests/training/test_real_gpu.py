"""A real GPU, where there is one: the numbers of the CPU, and of a step that was recorded."""

from contextlib import nullcontext

import cuda_cases
import pytest
import torch
from cuda_cases import COMBINATIONS, RECORDED, compare, without_dropout

from zoo.training.fit import Hooks, fit

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)


@pytest.fixture(autouse=True)
def _graph(monkeypatch):
    """A graph of which nothing is known to be on the pretended GPU."""
    monkeypatch.setattr(cuda_cases, "GRAPH", cuda_cases.GRAPH.clone())


@pytest.mark.parametrize("case", COMBINATIONS, ids=str)
def test_it_finds_what_the_cpu_does(case):
    """Single precision, whose order of sums differs, against double precision on the CPU."""
    compare(case, case.build(), nullcontext(), 1e-3)


@pytest.mark.parametrize("case", map(without_dropout, RECORDED), ids=str)
def test_it_replays_what_it_recorded(case):
    found = []
    for capture in (True, False):
        losses = []
        hooks = Hooks(watch=lambda epoch, into=losses: into.append(epoch.loss))
        fit(case.build(), case.data(), hooks, "cuda", epochs=8, capture=capture, **case.train)
        found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-3)
