"""What training minimises, what it is measured by, and what chooses the epoch: options of `fit`."""

import dataclasses

import pytest
import torch
from torch import nn

import zoo
from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.data.splits import constant_prediction, make_split
from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
from zoo.tasks import LOSSES, METRICS
from zoo.tasks.task import TASKS, with_metric
from zoo.training.batches import TrainingData
from zoo.training.trainer import Hooks, fit
from zoo.weights.create import create_model

TASK = pick(TASKS, "node-classification")


@pytest.fixture(scope="module")
def data():
    """Two classes, of which one is rare, and told apart by few features."""
    graph = load_graph({"name": "sbm", "nodes": 200, "classes": 4, "dim": 8, "seed": 3})
    return zoo.Dataset.from_arrays(
        edges=torch.stack(graph.graph.edges(), 1).numpy(),
        features=graph.x.numpy(),
        labels=(graph.y == 3).long().numpy(),
        task="node-classification",
    )


@pytest.fixture(scope="module")
def on(data):
    return TrainingData(data, make_split("ratio-50-25-25", data.y, None, seed=0), TASK)


def trained(on, **options):
    seen = []
    torch.manual_seed(0)
    model = create_model("mlp", on.data.inputs, on.data.classes, dim=8, dropout=0.0)
    found = fit(model, on, Hooks(after_epoch=seen.append), **{"epochs": 30, "lr": 0.05, **options})
    return found, seen, model


def answers(model, on, part):
    nodes = getattr(on.split, part)
    with torch.no_grad():
        return model.eval()(on.data.graph, on.data.x).logits[nodes], on.data.y[nodes]


def test_a_weighted_step_is_that_of_torch(on, monkeypatch):
    """One step of gradient descent by weights of classes is that of torch's weighted mean."""
    found = []
    for own in (True, False):
        torch.manual_seed(0)
        model = create_model("mlp", on.data.inputs, 2, dim=8, dropout=0.0, norm="none")
        if own:
            options = {"optimizer": "adam", "class_weights": [1.0, 3.0]}
            fit(model, on, epochs=1, lr=0.01, evaluate_from=0, **options)
        else:
            optimiser = torch.optim.Adam(model.parameter_groups(), 0.01)
            logits = model.train()(on.data.graph, on.data.x).logits[on.split.train]
            weight = torch.tensor([1.0, 3.0])
            nn.functional.cross_entropy(logits, on.data.y[on.split.train], weight).backward()
            optimiser.step()
        found.append(nn.utils.parameters_to_vector(model.parameters()))
    torch.testing.assert_close(*found)


def test_a_rare_class_is_answered_where_classes_weigh_alike(on):
    plain, _, _ = trained(on, epochs=10, lr=0.01)
    balanced, _, model = trained(on, epochs=10, lr=0.01, class_weights="balanced")
    recall = [each.beside["balanced-accuracy"] for each in (plain, balanced)]
    assert recall[1] > recall[0]
    assert (answers(model, on, "test")[0].argmax(1) == 1).any()


def test_the_metric_chooses_the_epoch_and_is_the_score(on):
    """What is told beside is of the same weights; each is what its word says of their answers."""
    found, seen, model = trained(on, metric="macro-f1")
    values = [each.val for each in seen]
    assert found.val == max(values) and found.epoch == values.index(max(values))
    for part in ("val", "test"):
        score = with_metric(TASK, "macro-f1").metric(*answers(model, on, part))
        assert getattr(found, part) == pytest.approx(score)
    logits, y = answers(model, on, "test")
    assert found.beside.keys() == {*TASK.also} - {"macro-f1"}
    for name, value in found.beside.items():
        assert value == pytest.approx(with_metric(TASK, name).metric(logits, y))


def test_less_of_an_error_is_better(on):
    found, seen, _ = trained(on, metric="log-loss")
    values = [each.val for each in seen]
    assert found.val == min(values) < values[0]


def test_training_stops_on_the_loss_of_validation(on):
    """The epoch is the one of least loss, though the metric is what is told."""
    losses = []

    def watch(model):
        logits, y = answers(model, on, "val")
        losses.append(nn.functional.cross_entropy(logits, y).item())
        model.train()

    torch.manual_seed(0)
    model = create_model("mlp", on.data.inputs, 2, dim=16, dropout=0.0)
    hooks = Hooks(after_epoch=lambda epoch: watch(model))
    found = fit(model, on, hooks, epochs=200, lr=0.05, patience=10, stop_on="loss")
    assert found.epoch == losses.index(min(losses)) and found.epochs == found.epoch + 11 < 200
    assert found.val == pytest.approx(TASK.metric(*answers(model, on, "val")))


@pytest.mark.parametrize("batching", [{"name": "random-nodes", "size": 60}, "full"])
def test_every_loss_of_classes_learns(on, batching):
    for loss in ("focal", "margin", "one-hot", {"name": "focal", "gamma": 0.5}):
        found, seen, _ = trained(on, loss=loss, class_weights="balanced", batching=batching)
        assert seen[-1].loss < seen[0].loss and seen[-1].train > 0.8


def test_numbers_are_learnt_by_other_losses_and_measured_by_other_metrics(data):
    y = (data.x @ torch.arange(8.0)).reshape(-1, 1) * 1000 + 5000
    numbers = zoo.Dataset.from_arrays(
        edges=torch.stack(data.graph.edges(), 1).numpy(),
        features=data.x.numpy(),
        labels=y[:, 0].numpy(),
        task="node-regression",
    )
    split = make_split("ratio-50-25-25", numbers.y, None, seed=0)
    on = TrainingData(numbers, split, pick(TASKS, "node-regression"))
    for loss in ("huber", "mae"):
        model = create_model("mlp", 8, 1, dim=32, dropout=0.0)
        found = fit(model, on, epochs=150, lr=0.02, loss=loss, metric="rmse", stop_on="loss")
        assert found.test < y[split.test].std() / 3  # in the unit of the targets
        assert found.beside.keys() == {"r2", "mae", "mse"} and found.beside["r2"] > 0.8


def test_what_always_answers_one_class_is_named_by_any_metric(on):
    logits = torch.tensor([1.0, 0.0]).expand(len(on.data.y), 2)
    for name in ("accuracy", "macro-f1", "balanced-accuracy"):
        task = with_metric(TASK, name)
        parts = {part: getattr(on.split, part) for part in ("train", "val", "test")}
        scores = {part: task.metric(logits[each], on.data.y[each]) for part, each in parts.items()}
        assert constant_prediction(task, on.data, on.split, scores) == "0"
        assert constant_prediction(task, on.data, on.split, {**scores, "test": 0.0}) == "0"
        better = {**scores, "test": scores["test"] + 0.01}
        assert constant_prediction(task, on.data, on.split, better) is None


@pytest.mark.parametrize("name, sign", [("r2", 1), ("rmse", -1)])
def test_a_model_no_better_than_the_mean_of_training_is_told(name, sign):
    data = load_graph("karate")
    y = torch.randn(34, generator=torch.Generator().manual_seed(0)) + 50
    data = dataclasses.replace(data, y=y, task="node-regression", labels=None)
    split = make_split("ratio-50-25-25", y, None, seed=0)
    task = with_metric(pick(TASKS, "node-regression"), name)
    mean = y[split.train].mean()
    score = task.metric(mean.expand(len(split.test), 1), y[split.test])
    told = {extra: constant_prediction(task, data, split, {"test": score + sign * extra})
            for extra in (-0.1, 0.0, 0.1)}  # fmt: skip
    assert told == {-0.1: "the mean of training", 0.0: "the mean of training", 0.1: None}


def test_a_run_tells_them_all(tmp_path, monkeypatch):
    """The metric of a recipe names the score everywhere; what was published is of another one."""
    monkeypatch.setitem(METRICS, "kappa", lambda: METRICS["mcc"]())
    monkeypatch.setitem(LOSSES, "mine", lambda: LOSSES["cross-entropy"]())
    recipe = load_recipe(
        "sgformer-digits-rba",
        ["train.epochs=3", "seeds=[0, 1]", "train.metric=kappa", "train.loss=mine"],
    )
    assert recipe.expect is None
    summary = run_recipe(recipe, runs=tmp_path)
    assert summary["metric"] == "kappa"
    assert summary["beside"]["mcc"]["mean"] == pytest.approx(summary["test"]["mean"])
    assert summary["beside"]["accuracy"]["runs"] == 2
    model = zoo.load(next(tmp_path.glob("*/seed-1")))
    assert model.about.metric == "kappa"
    score = zoo.evaluate(model, zoo.load_data("digits"))
    monkeypatch.delitem(METRICS, "kappa")  # of somebody else's
    assert zoo.evaluate(model, zoo.load_data("digits")) != score


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss": "mse"}, "the loss mse is of other labels"),
        ({"metric": "rmse"}, "the metric rmse is of other labels"),
        ({"class_weights": [1.0]}, "1 weights, and there are 2 classes"),
        ({"loss": "focal", "label_smoothing": 0.1}, "smoothed in the cross entropy"),
    ],
)
def test_what_does_not_fit_is_said_before_training(on, options, said):
    with pytest.raises(ZooError, match=said):
        trained(on, **options)


def test_weights_measured_by_a_metric_that_is_not_known_here_are_told(
    tmp_path, command, monkeypatch
):
    """The score is that of the task, by its own name, and one line says so."""
    (tmp_path / "kappa.py").write_text(
        "from zoo import METRICS\n"
        "from sklearn.metrics import cohen_kappa_score as kappa\n"
        "METRICS['kappa'] = lambda: lambda p, y: kappa(y, p.argmax(axis=1))\n"
    )
    recipe = tmp_path / "kappa.yaml"
    recipe.write_text(
        "imports: [kappa.py]\ndataset: digits\nmodel: gcn\ntrain: {epochs: 1, metric: kappa}\n"
    )
    run_recipe(load_recipe(recipe, trust=True), runs=tmp_path / "runs")
    kappa = METRICS.pop("kappa")
    [folder] = (tmp_path / "runs").glob("*/seed-0")
    code, out, said = command("evaluate", str(folder))
    assert code == 0 and out.startswith("accuracy ")
    assert "were measured by kappa, which is not known here, and this is accuracy" in said
    monkeypatch.setitem(METRICS, "kappa", kappa)
    code, out, said = command("evaluate", str(folder))
    assert code == 0 and out.startswith("kappa ") and "not known here" not in said


@pytest.mark.parametrize(
    "answer, message", [(lambda p, y: p, "the shape .*; return one number"),
                        (lambda p, y: float("nan"), "no number")]
)  # fmt: skip
def test_a_metric_that_is_no_number_is_refused(on, monkeypatch, answer, message):
    monkeypatch.setitem(zoo.METRICS, "strange", lambda: answer)
    task = with_metric(TASK, "strange")
    with pytest.raises(ZooError, match=message):
        task.metric(torch.zeros(len(on.data.y), 2), on.data.y)
