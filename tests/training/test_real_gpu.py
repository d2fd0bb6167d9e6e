"""A real GPU, where there is one: the numbers of the CPU, and of what was recorded."""

import dataclasses
from contextlib import nullcontext

import cuda_cases
import pytest
import torch
from cuda_cases import COMBINATIONS, RECORDED, compare, without_dropout

from zoo.data.splits import PARTS
from zoo.registry import MODELS
from zoo.training.captured import WARM_UP
from zoo.training.trainer import Hooks, Trainer, fit

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


@pytest.mark.parametrize("case", list(map(without_dropout, RECORDED)), ids=str)
def test_it_replays_what_it_recorded(case):
    found = []
    for capture in (True, False):
        losses = []
        hooks = Hooks(after_epoch=lambda epoch, into=losses: into.append(epoch.loss))
        fit(case.build(), case.data(), hooks, "cuda", epochs=8, capture=capture, **case.train)
        found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-3)


@pytest.mark.parametrize("case", list(map(without_dropout, RECORDED)), ids=str)
def test_it_evaluates_as_recorded(case):
    """At the same weights: where a batch norm follows, those of biases are noise."""
    data, device = case.data(), torch.device("cuda")
    task = dataclasses.replace(data.task, metric=lambda logits, y: logits.clone())
    given = {key: case.train[key] for key in ("precision", "clip") if key in case.train}
    steps = Trainer(case.build().to(device), data._replace(task=task), device=device, **given)
    optimiser = torch.optim.Adam(steps.model.parameters(), lr=0.01, fused=True)
    for epoch in range(WARM_UP + 3):
        steps.begin_epoch(epoch)
        steps.train(optimiser, epoch)
        drawn = torch.get_rng_state()
        recorded = steps.evaluate()
        found = [recorded(part) for part in PARTS]
        torch.set_rng_state(drawn)
        plain = steps.eval_loader.scores(steps.model, steps.training_data, steps.precision)
        for part, logits in zip(PARTS, found, strict=True):
            (expected,) = plain(part, [task.metric])
            torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
    assert steps._recordings.captured["evaluation"].graph is not None


def test_training_goes_on_where_the_gpu_refuses_a_recording(monkeypatch):
    features = MODELS["gcn"].features

    def waiting(model, graph, x):
        return features(model, graph, x) * float(x.sum().item() != 0)

    monkeypatch.setattr(MODELS["gcn"], "features", waiting)
    case = cuda_cases.Case("gcn", {"dropout": 0.5})
    losses = []
    hooks = Hooks(after_epoch=lambda epoch: losses.append(epoch.loss))
    fit(case.build(), case.data(), hooks, "cuda", epochs=8, capture=None)
    assert len(losses) == 8
