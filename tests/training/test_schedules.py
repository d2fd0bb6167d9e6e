"""The learning rate that moves with every step, from the table to the optimiser."""

import pytest
import torch

from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.optimizers import SCHEDULES
from zoo.training.trainer import Hooks, fit
from zoo.weights.create import create_model


def test_inverse_sqrt_is_equation_3():
    """lr = peak * sqrt(warm-up) * min(step^-0.5, step * warm-up^-1.5), in steps of a tenth."""
    factor = pick(SCHEDULES, {"name": "inverse-sqrt", "warmup": 2.5}, 9)
    for step in range(1, 91):
        epoch, place = divmod(step - 1, 10)
        expected = 25**0.5 * min(step**-0.5, step * 25**-1.5)
        assert factor(epoch, (place + 1) / 10) == pytest.approx(expected)
    assert factor(3) == factor(3, 1.0)
    with pytest.raises(ZooError, match="warmup"):
        pick(SCHEDULES, {"name": "inverse-sqrt", "warmup": 0.0}, 9)


@pytest.fixture(scope="module")
def on():
    data = load_graph({"name": "sbm", "nodes": 60, "classes": 3, "dim": 5})
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    return TrainingData(data, split, pick(TASKS, "node-classification"))


def rates(on, monkeypatch, schedule, **options):
    """The rate of every step, and what was logged of every epoch."""
    taken, logged = [], []
    step = torch.optim.Adam.step

    def spy(self, *given, **more):
        taken.append(self.param_groups[0]["lr"])
        return step(self, *given, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    model = create_model("mlp", on.data.inputs, on.data.classes)
    hooks = Hooks(after_epoch=lambda epoch: logged.append(epoch.lr))
    fit(model, on, hooks, lr=0.1, epochs=3, schedule=schedule, **options)
    return taken, logged


def test_it_moves_at_every_step_of_an_epoch(on, monkeypatch):
    batches = {"batching": {"name": "random-nodes", "size": 20}}  # three an epoch
    taken, logged = rates(on, monkeypatch, {"name": "inverse-sqrt", "warmup": 1.0}, **batches)
    times = [step / 3 for step in range(1, 10)]
    assert taken == pytest.approx([0.1 * min(each, each**-0.5) for each in times])
    assert logged == pytest.approx(taken[2::3])


def test_others_move_once_an_epoch(on, monkeypatch):
    batches = {"batching": {"name": "random-nodes", "size": 20}}
    taken, logged = rates(on, monkeypatch, {"name": "linear", "warmup": 0.0}, **batches)
    assert logged == [0.1, 0.1 * (1 - 1 / 3), 0.1 * (1 - 2 / 3)]
    assert taken == [each for each in logged for _ in range(3)]


def test_the_whole_graph_is_one_step(on, monkeypatch):
    taken, logged = rates(on, monkeypatch, {"name": "inverse-sqrt", "warmup": 2.0})
    assert taken == logged == pytest.approx([0.05, 0.1, 0.1 * (2 / 3) ** 0.5])
