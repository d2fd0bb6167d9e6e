"""The training loop: selection by validation, phases, groups, schedules, Ctrl-C, precision."""

import copy
import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.registry import Model, Output
from zoo.tasks.task import TASKS
from zoo.training import early_stopping
from zoo.training.batches import TrainingData
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES
from zoo.training.trainer import Hooks, _EpochLosses, all_logits, fit
from zoo.weights.create import create_model

TASK = pick(TASKS, "node-classification")


@pytest.fixture(scope="module")
def data():
    return load_graph({"name": "sbm", "nodes": 120, "classes": 3, "dim": 8, "seed": 1})


@pytest.fixture
def split(data):
    return make_split("ratio-50-25-25", data.y, None, seed=0)


def on(data, split, *augment):
    return TrainingData(data, split, TASK, *augment)


def scripted(data, split, script):
    """A model whose validation and test accuracy follow a script of pairs."""

    class Scripted(Model):
        def __init__(self, in_dim, out_dim):
            super().__init__()
            self.head = nn.Linear(1, out_dim)
            self.register_buffer("evaluation", torch.tensor(-1))
            self.begun = False

        def forward(self, graph, x):
            if self.training:
                self.begun = True
                return Output(self.head(x[:, :1]))
            if self.begun:
                self.evaluation += 1
                self.begun = False
            wrong = (data.y + 1) % data.classes
            answer = wrong.clone()
            val, test = script[int(self.evaluation)]
            for nodes, share in ((split.val, val), (split.test, test)):
                right = nodes[: round(share * len(nodes))]
                answer[right] = data.y[right]
            return Output(nn.functional.one_hot(answer, data.classes).float() + 0 * x[:, :1])

    return Scripted(data.x.shape[1], data.classes)


def test_the_test_score_is_that_of_the_best_validation_epoch(data, split):
    script = [(0.2, 0.9), (0.8, 0.4), (0.5, 1.0), (0.8, 0.7)]
    result = fit(scripted(data, split, script), on(data, split), epochs=4)
    assert result.epoch == 1
    assert result.val == pytest.approx(0.8, abs=0.02)
    assert result.test == pytest.approx(0.4, abs=0.02)


def test_the_weights_are_those_of_the_best_epoch(data, split):
    script = [(0.2, 0.9), (0.8, 0.4), (0.5, 1.0)]
    model = scripted(data, split, script)
    fit(model, on(data, split), epochs=3)
    assert model.evaluation.item() == 1


def test_a_phase_begins_from_the_best_weights_and_optimiser(data, split, monkeypatch):
    begun, ended, states, rates = [], [], [], []
    step = torch.optim.Adam.step

    def spy(self, *args, **kwargs):
        states.append(copy.deepcopy(self.state_dict()["state"]))
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    # The script goes back with the weights: epochs 4 and 7 read its entry 2.
    model = scripted(data, split, [(0.2, 0), (0.8, 0), (0.5, 0), (0.6, 0), (0.4, 0)])
    weights = lambda: model.head.weight.detach().clone()  # noqa: E731
    model.phase_starts = lambda: (4, 7)
    model.begin_epoch = lambda epoch: begun.append(weights())
    watch = lambda epoch: ended.append(weights())  # noqa: E731
    schedule = {"name": "linear", "warmup": 0.0}
    result = fit(
        model,
        on(data, split),
        Hooks(after_epoch=watch),
        epochs=9,
        lr=0.1,
        schedule=schedule,
    )
    assert result.epoch == 1
    for epoch in range(1, 9):
        came_from = 1 if epoch in (4, 7) else epoch - 1
        assert torch.equal(begun[epoch], ended[came_from])
        assert_same_state(states[epoch], states[came_from + 1])
    assert not torch.equal(begun[4], ended[3])
    assert rates == pytest.approx([0.1 * (1 - epoch / 9) for epoch in range(9)])


def assert_same_state(one, other):
    assert one.keys() == other.keys() and one
    for key in one:
        assert all(torch.equal(one[key][name], other[key][name]) for name in one[key])


def test_the_best_epoch_may_be_in_any_phase(data, split):
    for scores, best in (((0.8, 0.2, 0.4, 0.3), 0), ((0.2, 0.4, 0.8, 0.3), 2)):
        model = scripted(data, split, [(val, 0) for val in scores])
        model.phase_starts = lambda: (2,)
        assert fit(model, on(data, split), epochs=4).epoch == best


def test_a_phase_may_begin_before_the_first_evaluation(data, split):
    model = create_model("mlp", data.x.shape[1], data.classes)
    model.phase_starts = lambda: (2,)
    assert fit(model, on(data, split), epochs=4, evaluate_every=3).epochs == 4


def test_a_phase_that_never_begins_is_told_of(data, split, caplog):
    model = create_model("polynormer", data.inputs, data.classes, dim=8, local_epochs=3)
    assert fit(model, on(data, split), epochs=4).unreached_phase is None
    assert not caplog.text
    model = create_model("polynormer", data.inputs, data.classes, dim=8, local_epochs=3)
    assert fit(model, on(data, split), epochs=3).unreached_phase == 3
    assert "begins after 3 epochs, and training ends after 3: " in caplog.text


def test_patience_counts_from_where_the_last_phase_begins(data, split):
    """Before it, a part of the model has not been trained at all."""
    model = scripted(data, split, [(0.8, 0), *[(0.5, 0)] * 50])
    model.phase_starts = lambda: (10,)
    result = fit(model, on(data, split), epochs=50, patience=3)
    assert (result.epoch, result.epochs) == (0, 14)


def test_an_interruption_while_the_best_is_copied_leaves_the_one_before(data, split, monkeypatch):
    model = scripted(data, split, [(0.2, 0), (0.8, 0), (0.5, 0)])
    model.phase_starts = lambda: (9,)
    best, kept = None, early_stopping.copy.deepcopy

    def interrupted(what, *memo):
        if best.scores and not memo and "head.weight" not in what:  # the optimiser's state
            raise KeyboardInterrupt
        return kept(what, *memo)

    def made(*arguments):
        nonlocal best
        best = early_stopping.Best(*arguments)
        return best

    monkeypatch.setattr("zoo.training.trainer.Best", made)
    monkeypatch.setattr(early_stopping.copy, "deepcopy", interrupted)
    result = fit(model, on(data, split), epochs=9)
    assert result.interrupted and (result.epoch, result.val) == (0, pytest.approx(0.2, abs=0.1))
    assert best.epoch == 0


def test_patience_ends_training(data, split):
    script = [(0.5, 0), (0.6, 0), *[(0.4, 0)] * 50]
    result = fit(scripted(data, split, script), on(data, split), epochs=50, patience=3)
    assert (result.epoch, result.epochs) == (1, 5)


def test_evaluation_every_so_often_includes_the_last_epoch(data, split):
    seen = []
    model = create_model("mlp", data.x.shape[1], data.classes)
    fit(model, on(data, split), Hooks(after_epoch=seen.append), epochs=8, evaluate_every=3)
    assert [each.epoch for each in seen if each.val is not None] == [2, 5, 7]
    assert [each.epoch for each in seen] == list(range(8))


def test_evaluation_begins_where_it_is_told_to(data, split):
    seen = []
    model = create_model("gcn", data.inputs, data.classes)
    hooks = Hooks(after_epoch=seen.append)
    result = fit(model, on(data, split), hooks, epochs=8, evaluate_every=2, evaluate_from=4)
    assert [each.epoch for each in seen if each.val is not None] == [5, 7] and result.epoch >= 5
    late = fit(model, on(data, split), epochs=3, evaluate_from=100)
    assert late.epoch == 2  # the last epoch is evaluated in any case


def test_it_learns(data, split):
    torch.manual_seed(0)
    model = create_model("sgformer", data.x.shape[1], data.classes, attention="rba")
    result = fit(model, on(data, split), epochs=40)
    assert result.test > 0.6 > 1.5 / data.classes
    assert result.test == pytest.approx(
        TASK.metric(all_logits(model, data)[split.test], data.y[split.test])
    )


@pytest.mark.parametrize("attention", ["native", "softmax", {"name": "rba", "size": 16}])
def test_one_seed_gives_the_same_bits(data, split, attention):
    weights = []
    for _ in range(2):
        torch.manual_seed(5)
        model = create_model("sgformer", data.x.shape[1], data.classes, attention=attention)
        fit(model, on(data, split), epochs=5)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_the_penalty_is_part_of_the_loss(data, split):
    class Penalised(Model):
        def __init__(self, in_dim, out_dim):
            super().__init__()
            self.head = nn.Linear(in_dim, out_dim)

        def forward(self, graph, x):
            return Output(self.head(x), 1000 * self.head.weight.pow(2).sum())

    model = Penalised(data.x.shape[1], data.classes)
    losses = []
    fit(
        model,
        on(data, split),
        Hooks(after_epoch=lambda e: losses.append(e.loss)),
        epochs=30,
    )
    assert losses[0] > 100 > losses[-1]


def test_augmentation_is_for_training_only(data, split):
    model = create_model("mlp", data.x.shape[1], data.classes)
    inputs = []
    model.register_forward_pre_hook(lambda m, args: inputs.append((m.training, args[1])))
    fit(model, on(data, split, lambda x: x + 1), epochs=2)
    for training, x in inputs:
        assert torch.equal(x, data.x + 1 if training else data.x)


def test_groups_keep_their_own_weight_decay(data, split, monkeypatch):
    seen = {}
    step = torch.optim.Adam.step

    def spy(self, *args, **kwargs):
        seen["decays"] = [group["weight_decay"] for group in self.param_groups]
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    model = create_model("sgformer", data.x.shape[1], data.classes, attention_weight_decay=0.25)
    fit(model, on(data, split), epochs=1, weight_decay=0.125)
    assert seen["decays"] == [0.25, 0.125]


@pytest.mark.parametrize(
    "spec,expected",
    [
        ("constant", [1, 1, 1, 1]),
        ("cosine", [(1 + math.cos(math.pi * t / 4)) / 2 for t in range(4)]),
        ({"name": "cosine", "warmup": 0.5}, [0.5, 1, 1, 0.5]),
        ({"name": "linear", "warmup": 0.5, "floor": 0.5}, [0.5, 1, 1, 0.75]),
    ],
    ids=str,
)
def test_schedules(spec, expected):
    factor = pick(SCHEDULES, spec, 4)
    assert [factor(epoch) for epoch in range(4)] == pytest.approx(expected)


def test_the_schedule_reaches_the_optimiser(data, split):
    seen = []
    model = create_model("mlp", data.x.shape[1], data.classes)
    options = {"lr": 0.5, "schedule": {"name": "cosine", "warmup": 0.5}, "clip": 1.0}
    fit(model, on(data, split), Hooks(after_epoch=seen.append), epochs=4, **options)
    assert [each.lr for each in seen] == pytest.approx([0.25, 0.5, 0.5, 0.25])


def test_clipping_limits_the_gradient(data, split, monkeypatch):
    norms = []
    step = torch.optim.Adam.step

    def spy(self, *args, **kwargs):
        grads = [p.grad.norm() for group in self.param_groups for p in group["params"]]
        norms.append(torch.stack(grads).norm().item())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    model = create_model("mlp", data.x.shape[1], data.classes)
    fit(model, on(data, split), epochs=3, clip=1e-3)
    assert max(norms) <= 1.001e-3


def test_ctrl_c_leaves_the_best_so_far(data, split):
    def stop(epoch):
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    model = create_model("gcn", data.x.shape[1], data.classes)
    result = fit(model, on(data, split), Hooks(after_epoch=stop), epochs=50)
    assert result.interrupted and result.epochs == 4 and result.epoch <= 3
    assert result.test == pytest.approx(
        TASK.metric(all_logits(model, data)[split.test], data.y[split.test])
    )


def test_a_loss_that_is_not_finite_says_what_to_do(data, split):
    model = create_model("mlp", data.x.shape[1], data.classes)
    scales = iter([1.0, torch.inf])  # in the first epoch it would not be the learning rate
    with pytest.raises(ZooError, match=r"train\.lr=0\.05.*train\.clip=1"):
        fit(model, on(data, split, lambda x: x * next(scales)), epochs=3, lr=0.5)


@pytest.mark.parametrize("name", ["sgformer", "gcn", "gat", "sage", "mlp"])
def test_bfloat16_trains(data, split, name):
    torch.manual_seed(0)
    model = create_model(name, data.x.shape[1], data.classes)
    result = fit(model, on(data, split), epochs=30, precision="bf16")
    assert result.val > 1.2 / data.classes
    assert all(each.dtype == torch.float32 for each in model.parameters())


def test_patience_ends_training_at_an_evaluation(data, split):
    """One shorter than what lies between two of them waits for the second."""
    script = [(0.5, 0), (0.6, 0), *[(0.4, 0)] * 50]
    result = fit(
        scripted(data, split, script), on(data, split), epochs=50, patience=3, evaluate_every=9
    )
    assert (result.epoch, result.epochs) == (17, 27)


@pytest.mark.parametrize("first,found", [(0.9, (20, 24)), (0.3, (-1, 23))])
def test_patience_of_trained_weights_counts_from_the_first_evaluation(data, split, first, found):
    model = scripted(data, split, [(first, 0), *[(0.4, 0)] * 50, (0.5, 0)])
    result = fit(
        model, on(data, split), Hooks(pretrained=True), epochs=50, patience=3, evaluate_from=20
    )
    assert (result.epoch, result.epochs) == found


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_optimisers_are_those_of_torch_without_its_compiler(name):
    found = []
    for make in (OPTIMIZERS[name.lower()], getattr(torch.optim, name)):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(5, 3))
        optimiser = make([{"params": [weight]}], lr=0.1, weight_decay=0.01)
        for _ in range(4):
            optimiser.zero_grad()
            weight.pow(3).sum().backward()
            optimiser.step()
        found.append((weight.detach(), optimiser.state_dict()["state"][0]["exp_avg_sq"]))
    assert all(map(torch.equal, *found))


def test_training_does_not_import_the_compiler():
    code = (
        "import sys, torch; from zoo.training.optimizers import OPTIMIZERS; "
        "weight = torch.ones(2, requires_grad=True); "
        "optimiser = OPTIMIZERS['adam']([weight], 0.1, 0.0); weight.sum().backward(); "
        "optimiser.step(); optimiser.zero_grad(); optimiser.state_dict(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0


def test_a_loss_that_is_nan_before_the_first_step_blames_no_learning_rate():
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    with pytest.raises(ZooError, match="before the first step, so that no learning rate"):
        _EpochLosses(0, optimiser).append(torch.tensor(float("nan")))
    later = _EpochLosses(0, optimiser)
    later.append(torch.tensor(1.0))
    with pytest.raises(ZooError, match=r"in epoch 1 at a learning rate of 0.5.*train.lr=0.05"):
        later.append(torch.tensor(float("inf")))
    with pytest.raises(ZooError, match="in epoch 3 at a learning rate"):
        _EpochLosses(2, optimiser).append(torch.tensor(float("nan")))
