"""Models that are given labels: never that of a node that they are asked about in that step."""

import dataclasses

import pytest
import torch
from torch import nn

import zoo
from zoo.data.dataset import labelled, unknown_but
from zoo.data.splits import split_of
from zoo.inference.evaluate import evaluate
from zoo.inference.predict import answers, embed, predict
from zoo.models.ridge import Ridge
from zoo.registry import MODELS, Model, register_model
from zoo.tasks.task import TASKS
from zoo.training import in_context
from zoo.training.batches import BATCHING, TrainingData, infer
from zoo.training.trainer import fit

SEEN: list = []

WAYS = [
    {"name": "full"},
    {"name": "random-nodes", "size": 300},
    {"name": "neighbours", "fanouts": [5, 5], "size": 64},
]


@pytest.fixture(scope="module", autouse=True)
def copycat():
    """A model that says of each node the label that it is given of it, and notes what that is."""

    @register_model("copycat")
    class Copycat(Model):
        """Answers what it is told.

        Args:
            in_dim: F.
            out_dim: C.
        """

        context = True
        any_graph = True
        tasks = ("node-classification",)

        def __init__(self, in_dim: int, out_dim: int):
            super().__init__()
            self.out_dim, self.head = out_dim, nn.Identity()
            self.gain = nn.Parameter(torch.ones(()))

        def features(self, graph, x, context):
            SEEN.append(context.clone())
            given = (context >= 0)[:, None]
            known = nn.functional.one_hot(context.clamp(min=0), self.out_dim) * given
            first = torch.zeros(len(x), self.out_dim).index_fill(1, torch.tensor([0]), 0.5)
            return self.gain * (known + first)

    yield Copycat
    del MODELS["copycat"]


@pytest.fixture
def data():
    SEEN.clear()
    return zoo.load_data("digits")


def copy_of(data):
    return zoo.create_model("copycat", data.inputs, data.classes)


def on(data, share=200):
    split = split_of(data, "ratio-60-20-20", 0)
    split = dataclasses.replace(split, train=split.train[:share])
    return TrainingData(data, split, TASKS["node-classification"]())


@pytest.mark.parametrize("batching", WAYS, ids=lambda way: way["name"])
@pytest.mark.parametrize("evaluation", ["full", "batches"])
def test_nobody_is_told_what_is_asked(data, batching, evaluation):
    """A copycat knows nothing, in training and in each part."""
    what = on(data)
    result = fit(copy_of(data), what, epochs=2, batching=batching, evaluate=evaluation)
    largest = (data.y[what.split.train] == 0).double().mean()
    assert result.train == pytest.approx(largest.item(), abs=1e-6)
    for part in ("val", "test"):
        zeros = (data.y[getattr(what.split, part)] == 0).double().mean().item()
        assert getattr(result, part) == pytest.approx(zeros, abs=1e-6)
    assert SEEN


def test_no_label_of_validation_or_test_is_given(data):
    """Nor in any inference: what is given are labels of training, as they are."""
    what = on(data)
    fit(copy_of(data), what, epochs=1)
    hidden = torch.cat([what.split.val, what.split.test])
    for context in SEEN:
        assert (context[hidden] == -1).all()
        given = context >= 0
        assert given.any() and torch.equal(context[given], data.y[given])


def test_a_planted_leak_is_seen(data, monkeypatch):
    """Were the labels not hidden, the copycat would be right on all of training."""
    monkeypatch.setattr(in_context, "_without", lambda known, fold: known)
    assert fit(copy_of(data), on(data), epochs=1).train == 1.0


def test_each_labelled_node_is_asked_once_with_all_others_of_other_folds(data):
    """In evaluation, folds are those of before; of each class they hold as many."""
    what = on(data)
    context = unknown_but(data.y, what.split.train)
    known = labelled(context).nonzero().squeeze(1)
    folds = in_context.deal(context, known, at_random=False)
    assert torch.equal(torch.cat(folds).sort().values, known)
    for number in range(10):
        counts = [int((data.y[fold] == number).sum()) for fold in folds]
        assert max(counts) - min(counts) <= 1
    again = in_context.deal(context, known, at_random=False)
    assert all(map(torch.equal, folds, again))
    others = [in_context.deal(context, known, at_random=True) for _ in range(60)]
    assert not any(all(map(torch.equal, folds, other)) for other in others)
    assert len({str(other) for other in others}) == in_context.DEALS


def test_predictions_are_those_of_the_loop(data):
    """Of the same given labels: scores, embeddings, and the answers for the nodes themselves."""
    what = on(data)
    model = zoo.create_model("ridge", data.inputs, data.classes)
    result = fit(model, what)
    given = what.split.train
    assert evaluate(model, data, what.split.test, given=given) == pytest.approx(result.test)
    assert evaluate(model, data, given, given=given) == pytest.approx(result.train)
    answer = answers(model, data, given=given)
    embedded = embed(model, data, given=given).values
    for same in (given.numpy(), given.tolist()):
        assert (embed(model, data, given=same).values == embedded).all()
    with pytest.raises(zoo.ZooError, match="`given` are numbers of rows .* 9999 is none"):
        embed(model, data, given=[9999])
    torch.testing.assert_close(torch.from_numpy(embedded), answer.logits)
    loader = BATCHING["full"](data.with_context(given), given, "cpu")
    every = torch.arange(len(data.y))
    logits = infer(model, loader, "fp32", lambda forward: loader.logits(forward, every))
    torch.testing.assert_close(answer.logits, logits)


def test_a_graph_without_labels_is_one_sentence():
    bare = zoo.Dataset.from_arrays([(0, 1), (1, 2)], torch.eye(3).numpy())
    for ask in (predict, embed, evaluate):
        with pytest.raises(zoo.ZooError, match="has no labels, and Ridge answers by those of some"):
            ask(zoo.create_model("ridge", 3, 2), bare)


def test_any_columns_and_classes_will_do(data):
    """A model made for one data set answers for another, of which all labels are then given."""
    model = zoo.create_model("ridge", 3, 2)
    probabilities = predict(model, data).values
    assert probabilities.shape == (len(data.y), data.classes)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(data.y)))
    assert evaluate(model, data) > 0.9


def test_what_else_is_seen_has_labels_too(data):
    """A context given as data: its labels count, and no answer is for it."""
    train = split_of(data, "ratio-60-20-20", 0).train
    others = torch.arange(len(data.y))[~torch.isin(torch.arange(len(data.y)), train)]
    blind = dataclasses.replace(data.part(others), y=torch.full((len(others),), -1))
    model = zoo.create_model("ridge", data.inputs, data.classes)
    predicted = predict(model, blind, context=data.part(train)).values.argmax(1)
    assert len(predicted) == len(others)
    assert (predicted == data.y[others]).float().mean() > 0.85
    with pytest.raises(zoo.ZooError, match="no labels"):
        predict(model, blind)


def test_of_two_classes_one_logit_and_of_numbers_their_units():
    """Binary and regression: better than nothing, in the units of the targets."""
    torch.manual_seed(0)
    graph = zoo.graphs.examples.preferential_attachment(400, 3)
    x = torch.randn(400, 6)
    score = x @ torch.randn(6)
    for y, task in (((score > 0).long(), "node-binary"), (1000 + 50 * score, "node-regression")):
        data = dataclasses.replace(
            zoo.load_data("digits").part(torch.arange(400)), graph=graph, x=x, y=y, task=task,
            classes=2 if task == "node-binary" else 1, own=None, feature_names=None, labels=None,
        )  # fmt: skip
        split = split_of(data, "ratio-60-20-20", 0)
        model = zoo.create_model("ridge", 6, 1)
        result = fit(model, TrainingData(data, split, TASKS[task]()))
        assert result.test > 0.5, task  # of three regressions one reads what tells
        again = evaluate(model, data, split.test, given=split.train)
        assert again == pytest.approx(result.test)


def test_what_it_cannot_do_is_said(data, tmp_path):
    """Labels where none are taken, none where they are needed, and layer by layer."""
    ridge = Ridge(data.inputs, data.classes)
    with pytest.raises(zoo.ZooError, match="context"):
        ridge(data.graph, data.x)
    gcn = zoo.create_model("gcn", data.inputs, data.classes)
    with pytest.raises(zoo.ZooError, match="no labels"):
        gcn(data.graph, data.x, data.y)
    with pytest.raises(zoo.ZooError, match="--batch-size"):
        predict(ridge, data, layerwise=True)
    with pytest.raises(zoo.ZooError, match="all at once"):
        fit(zoo.create_model("ridge", data.inputs, data.classes), on(data), evaluate="layerwise")


def test_on_the_graph_of_a_run_nodes_without_a_label_are_answered_by_all_labels(data, tmp_path):
    y = torch.where(torch.rand(len(data.y)) < 0.5, data.y, -1)
    some = dataclasses.replace(data, y=y, masks=None, split="ratio-60-20-20")
    some.save(tmp_path / "some.npz")
    path, bare = str(tmp_path / "some.npz"), y < 0
    run = zoo.train("ridge", ["seeds=[0]"], data=path, runs=tmp_path / "runs")
    model, by_all = run.load(), predict(run.load(), zoo.load_graph(path))
    found, table = predict(model, path), predict(model, path).table()
    assert torch.equal(found.values[bare], by_all.values[bare])
    assert not torch.equal(found.values, by_all.values)
    test = table[table["part"] == "test"]
    assert (test["label"] == test["known"]).mean() == pytest.approx(run.test.mean)
    assert table["label"][bare.numpy()].equals(by_all.table()["label"][bare.numpy()])
