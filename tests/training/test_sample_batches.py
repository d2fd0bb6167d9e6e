"""Batches of many graphs: who is in them, that they train, and that sizes change no answer."""

import dataclasses

import numpy as np
import pytest
import torch
from quick import every
from torch.nn import functional

from zoo.config.options import pick
from zoo.data.load import load_data
from zoo.data.samples import Samples
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.graphs.graph_sets import SequenceGraphs
from zoo.system import process_group
from zoo.tasks.task import TASKS
from zoo.training.batches import BATCHING, TrainingData
from zoo.training.trainer import Trainer, fit
from zoo.weights.create import create_model, list_models

CPU = "cpu"
MODELS = list_models(task="graph-classification")
COUNT = 60


@pytest.fixture(scope="module")
def texts():
    """Sequences of 1 to 20 tokens; the class is whether the token 1 is among them."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 21, (COUNT,), generator=generator)
    x = torch.randint(2, 9, (int(lengths.sum()),), generator=generator)
    y = torch.arange(COUNT) % 2
    first = lengths.cumsum(0) - lengths
    x[first[y == 1]] = 1
    return Samples(
        name="texts",
        graphs=SequenceGraphs(lengths, window=1, skip=0),
        x=x,
        y=y,
        task="sequence-classification",
        metric="accuracy",
        split="ratio-50-25-25",
        masks=None,
        classes=2,
        tokens=9,
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of 4 x 4 pixels, light or dark."""
    pixels = np.random.default_rng(0).integers(0, 100, (COUNT, 4, 4)).astype(np.uint8)
    labels = np.arange(COUNT) % 2
    pixels[labels == 1] += 100
    path = tmp_path_factory.mktemp("images") / "shades.npz"
    np.savez(path, images=pixels, labels=labels)
    return load_data({"name": "images", "path": str(path), "patch": 2, "readout": "class-token"})


def on(data):
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    return TrainingData(data, split, pick(TASKS, data.task))


def over(data, **options):
    torch.manual_seed(7)
    return pick(BATCHING, {"name": "samples", **options}, data, on(data).split.train, CPU)


def whose(data, part):
    """Which samples a batch has, by their tokens."""
    starts = (data.graphs.sizes.cumsum(0) - data.graphs.sizes).tolist()
    sizes = data.graphs.sizes.tolist()
    rows = part.x.split(part.graph.batch_num_nodes().tolist())
    return [
        next(
            i for i in range(COUNT)
            if sizes[i] == len(row) and torch.equal(data.x[starts[i] : starts[i] + sizes[i]], row)
        )
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options", [{"size": 7}, {"tokens": 40}, {"tokens": 40, "size": 3}, {"tokens": 1}, {}]
)
def test_an_epoch_has_each_training_sample_once(texts, options):
    batches, train = over(texts, **options), on(texts).split.train
    first, again, second = (list(batches.batches(epoch)) for epoch in (0, 0, 1))
    seen = [each for part in first for each in whose(texts, part)]
    assert sorted(seen) == sorted(whose_all(texts, train))
    for part, same in zip(first, again, strict=True):
        assert torch.equal(part.x, same.x) and part.seed == same.seed
        assert part.weight == part.share == 1 and part.last
        assert torch.equal(part.y, texts.y[whose(texts, part)])
        assert part.rows.tolist() == list(range(len(part.y)))
        assert len(part.y) <= options.get("size", 128)
        assert len(part.x) <= options.get("tokens", 10**6) or len(part.y) == 1
    assert [part.seed for part in first] != [part.seed for part in second]
    assert len(first) == 1 or [len(p.x) for p in first] != [len(p.x) for p in second]


def whose_all(data, samples):
    """The first of the samples that are alike, for each."""
    graph, x = data.batch(samples)
    part = type("Part", (), {"graph": graph, "x": x})
    return whose(data, part)


def test_sizes_are_mixed_where_batch_norm_needs_it(texts):
    """Sums of graphs of one size say nothing of those of all: graphs are dealt at random."""

    def apart(**options):
        sizes = [
            part.graph.batch_num_nodes().double()
            for part in over(texts, size=6, **options).batches(0)
        ]
        assert sum(map(len, sizes)) == len(on(texts).split.train)
        return torch.stack([part.mean() for part in sizes]).std()

    assert apart(alike=False) < apart(alike=True) / 2 == apart() / 2
    graphs = dataclasses.replace(texts, tokens=None, x=texts.x[:, None].float())
    assert not over(graphs).alike and over(texts).alike


def test_samples_of_like_size_are_together(texts):
    parts = list(over(texts, size=5).batches(0))
    spreads = [int(np.ptp(part.graph.batch_num_nodes().numpy())) for part in parts]
    assert np.mean(spreads) <= 4  # of 19 at random


def test_several_batches_make_a_step(texts):
    parts = list(over(texts, size=8, per_step=3).batches(0))  # 30 samples in four batches
    assert [part.last for part in parts] == [False, False, True, True]
    assert sum(part.weight for part in parts[:3]) == pytest.approx(1) and parts[3].weight == 1


@pytest.mark.parametrize("count", [2, 3, 16])
def test_processes_divide_the_batches_of_a_step(texts, monkeypatch, count):
    alone = [whose(texts, part) for part in over(texts, size=6).batches(0)]
    monkeypatch.setattr(process_group, "count", lambda: count)
    found, weights = [], {}
    for rank in range(count):
        monkeypatch.setattr(process_group, "rank", lambda rank=rank: rank)
        for step, part in enumerate(over(texts, size=6).batches(0)):
            weights.setdefault(step, []).append(part.weight)
            found += [whose(texts, part)] if part.weight else []
    assert sorted(found) == sorted(alone)
    assert all(len(each) == count and sum(each) == pytest.approx(1) for each in weights.values())


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_each_sample_alone(texts, images, name):
    for data in (texts, images):
        torch.manual_seed(3)
        model = create_model(name, data.inputs, 2).eval()

        def answer(graph, x, model=model):
            return model(graph, x).logits

        asked = torch.tensor([5, 0, 17, 5])
        with torch.no_grad():
            found = over(data, size=2).logits(answer, asked)
            for row, sample in zip(found, asked, strict=True):
                rows = answer(*data.batch(sample[None]))
                wanted = rows[-1] if data is images else rows.mean(0)
                torch.testing.assert_close(row, wanted, rtol=1e-4, atol=1e-5)
            together = over(data, tokens=1000).logits(answer, asked)
        torch.testing.assert_close(found, together, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_one_hot_rows(texts, name):
    graph, x = texts.batch(torch.arange(9))
    model = create_model(name, texts.inputs, 2).eval()  # one number or nine are dropped by others
    found = []
    for rows in (x, functional.one_hot(x, 9).float()):
        model.zero_grad()
        torch.manual_seed(1)
        out = model(graph, rows)
        (texts.pool(torch.arange(9), out.logits).sin().sum() + out.penalty).backward()
        found.append([out.logits, *(each.grad for each in model.parameters())])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", every(["gcn", "mlp", "htgn", "vit"], 2))
@pytest.mark.parametrize("kind", ["texts", "images"])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_models_learn(name, kind, precision, request):
    data = request.getfixturevalue(kind)
    torch.manual_seed(0)
    quiet = {"dropout": 0.0, **({"drop_path": 0.0} if name == "htgn" else {})}
    model = create_model(name, data.inputs, 2, dim=16, layers=1, **quiet)
    epochs, batching = {"mlp": 60, "gcn": 60}.get(name, 12), {"name": "samples", "size": 10}
    found = fit(model, on(data), epochs=epochs, lr=0.02, batching=batching, precision=precision,
                evaluate_every=4)  # fmt: skip
    # The last patch has no features: the perceptron knows nothing of the others.
    assert found.train >= 0.9 or (name, kind) == ("mlp", "images")


def test_scores_are_those_of_the_parts(texts):
    torch.manual_seed(0)
    model, given = create_model("gcn", texts.inputs, 2), on(texts)
    steps = Trainer(model, given, batching={"name": "samples", "size": 4}, evaluation="full")
    score = steps.evaluate()
    graph, x = texts.batch(given.split.val)
    with torch.no_grad():
        logits = texts.pool(given.split.val, model.eval()(graph, x).logits)
    right = (logits.argmax(1) == texts.y[given.split.val]).double().mean().item()
    assert score("val") == pytest.approx(right)


def test_tokens_have_no_features_to_drop(texts):
    graph, x = texts.batch(torch.arange(3))
    model = create_model("gcn", texts.inputs, 2, input_dropout=0.5)
    with pytest.raises(ZooError, match="input_dropout.*tokens"):
        model(graph, x)
    with pytest.raises(ZooError, match="tokens from 0 to 8"):
        create_model("gcn", texts.inputs, 2)(graph, x + 8)
