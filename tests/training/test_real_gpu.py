"""A real GPU, where there is one: the numbers of the CPU, and of what was recorded."""

import dataclasses
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


def by_all_logits(case):
    """The data of a case, with a metric that tells logits apart."""
    data = case.data()
    task = dataclasses.replace(data.task, metric=lambda logits, y: logits.square().sum().item())
    return data._replace(task=task)


@pytest.mark.parametrize("case", map(without_dropout, RECORDED), ids=str)
def test_it_replays_what_it_recorded(case):
    found = []
    for capture in (True, False):
        seen = []
        hooks = Hooks(watch=lambda epoch, into=seen: into.extend([epoch.loss, epoch.train]))
        fit(
            case.build(),
            by_all_logits(case),
            hooks,
            "cuda",
            epochs=8,
            capture=capture,
            **case.train,
        )
        found.append(seen)
    assert found[0] == pytest.approx(found[1], rel=1e-3)
