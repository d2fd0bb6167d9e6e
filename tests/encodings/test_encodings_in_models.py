"""An encoding with weights is a part of any model: trained, batched, saved, loaded, fine-tuned."""

import json

import pytest
import torch
from quick import every

import zoo
from zoo.encodings import spe
from zoo.errors import ZooError
from zoo.graphs.examples import batch, short_path, tiny_graph
from zoo.inference.evaluate import evaluate_part
from zoo.registry import MODELS, discover
from zoo.runs.resolve import load_recipe

SPECS = [{"name": "signnet", "k": 3, "dim": 4}, {"name": "spe", "k": 3, "dim": 4}]
SBM = {"name": "sbm", "nodes": 60, "classes": 2}

discover()
FOR_NODES = [name for name, model in MODELS.items()
             if "node-classification" in model.tasks and not model.any_graph]  # fmt: skip


def inputs(graph):
    """Five features, and three eigenvectors with their eigenvalues."""
    return torch.cat([torch.rand(graph.num_nodes(), 5), spe(graph, k=3)], dim=1)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", every(FOR_NODES, 4))
def test_every_model_trains_it_saves_it_and_loads_it(name, spec, tmp_path):
    torch.manual_seed(0)
    graph, model = tiny_graph(), zoo.create_model(name, 11, 3, encoding=spec)
    x = inputs(graph)
    logits = model(graph, x).logits
    (logits * torch.randn_like(logits)).sum().backward()
    weights = dict(model.stem_encoding.named_parameters())
    assert weights and all(weight.grad.any() for weight in weights.values())
    in_groups = {id(weight) for group in model.parameter_groups() for weight in group["params"]}
    assert {id(weight) for weight in model.parameters()} == in_groups
    model.eval()
    flipped = x.clone()
    flipped[:, [5, 7]] *= -1
    zoo.save(model, tmp_path)
    again = zoo.load(tmp_path)
    for features in (x, flipped):
        assert torch.equal(again(graph, features).logits, model(graph, x).logits)


@pytest.mark.parametrize("spec", SPECS)
def test_graphs_of_a_batch_are_answered_one_by_one(spec):
    model = zoo.create_model("sgformer", 11, 3, encoding=spec).eval()
    graphs = [tiny_graph(), short_path()]
    rows = [*map(inputs, graphs)]
    apart = torch.cat([model(graph, x).logits for graph, x in zip(graphs, rows, strict=True)])
    torch.testing.assert_close(model(batch(graphs), torch.cat(rows)).logits, apart)


def run(tmp_path, **recipe):
    recipe = {"dataset": SBM, "model": {"name": "gcn", "dim": 8}, "seeds": [0], **recipe}
    recipe["train"] = {"epochs": 2, "lr": 0.01, **recipe.get("train", {})}
    zoo.run_recipe(recipe, runs=tmp_path)
    return max(tmp_path.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"train": {"batching": {"name": "random-nodes", "size": 20}}},
        {"train": {"batching": {"name": "neighbours", "size": 20, "fanouts": [3, 3]}}},
        {"train": {"evaluate": "layerwise"}},
        {"task": "link-prediction"},
        {"model": {"name": "sgformer", "dim": 8, "attention": {"name": "rba", "size": 8}}},
    ],
    ids=["full", "random-nodes", "neighbours", "layerwise", "links", "rba"],
)
def test_a_recipe_trains_it_and_its_weights_answer(recipe, spec, tmp_path):
    folder = run(tmp_path, encoding=spec, **recipe)
    config = json.loads((folder / "seed-0" / "config.json").read_text())
    assert config["encoding"] == {**spec, **config["encoding"]}
    model = zoo.load(folder)
    assert model.stem_encoding.dim == 4
    data = zoo.load_graph(SBM)
    if "task" not in recipe:
        assert zoo.predict(model, data).values.shape == (60, 2)
        assert zoo.embed(model, data).values.shape == (60, 8)


@pytest.mark.parametrize("readout", ["mean", "virtual-node"])
@pytest.mark.parametrize("spec", SPECS)
def test_so_does_a_recipe_of_graphs(readout, spec, tmp_path, monkeypatch):
    made = []
    for number in range(24):  # stars and paths
        ends, star = torch.arange(4 + number % 4), number % 2
        edges = torch.stack([torch.zeros_like(ends) if star else ends, ends + 1])
        x = torch.randn(len(ends) + 1, 2)
        made.append({"edge_index": edges, "x": x, "y": torch.tensor(star)})
    torch.save(made, tmp_path / "set.pt")
    monkeypatch.chdir(tmp_path)
    folder = run(tmp_path / "runs", dataset="set.pt", readout=readout, encoding=spec)
    summary = json.loads((folder / "summary.json").read_text())
    again = evaluate_part(zoo.load(folder), None, None)
    assert again["score"] == pytest.approx(summary["test"]["mean"], abs=1e-6)


def test_layer_by_layer_the_answers_are_the_same(tmp_path):
    folder, data = run(tmp_path, encoding=SPECS[1]), zoo.load_graph(SBM)
    model = zoo.load(folder)
    whole, apart = (zoo.predict(model, data, layerwise=each).values for each in (False, True))
    torch.testing.assert_close(whole, apart)


@pytest.mark.parametrize("spec", [*SPECS, {**SPECS[0], "propagation": "mean"}])
def test_it_is_compiled_in_one_piece_with_the_model(spec):
    torch.compiler.reset()
    graph, model, pieces = tiny_graph(), zoo.create_model("gcn", 11, 3, encoding=spec), []
    x = inputs(graph)

    def as_it_is(module, _):
        pieces.append(module)
        return module.forward

    model(graph, x)
    both = []
    for call in (model, torch.compile(model, backend=as_it_is)):
        torch.manual_seed(0)
        score = call(graph, x).logits.square().sum()
        both.append(torch.autograd.grad(score, [*model.parameters()]))
    assert len(pieces) == 1
    for one, two in zip(*both, strict=True):
        torch.testing.assert_close(one, two)


def test_weights_go_with_the_features_and_the_encoding_that_they_read(tmp_path):
    for spec in SPECS:
        zoo.save(zoo.create_model("gcn", 11, 3, encoding=spec), tmp_path / spec["name"])
    same = zoo.create_model("gcn", pretrained=tmp_path / "spe", out_dim=2)
    stored = zoo.load(tmp_path / "spe").state_dict()
    assert torch.equal(same.stem_encoding.pair.weight, stored["stem_encoding.pair.weight"])
    other = zoo.create_model("gcn", pretrained=tmp_path / "spe", out_dim=2, encoding=SPECS[0])
    assert other.stem_encoding.columns == 6 and not hasattr(other.stem_encoding, "pair")


def test_mistakes_are_said():
    with pytest.raises(ZooError, match="reads 6 columns.*`in_dim` is 5"):
        zoo.create_model("gcn", 5, 3, encoding=SPECS[0])
    with pytest.raises(ZooError, match="no encoding with weights is called 'laplacian'"):
        zoo.create_model("gcn", 50, 3, encoding="laplacian")
    with pytest.raises(ZooError, match="would not be trained"):
        zoo.create_model("ridge", 11, 3, encoding=SPECS[0])
    recipe = {"dataset": "karate", "model": "gcn"}
    with pytest.raises(ZooError, match="no signs to flip"):
        load_recipe({**recipe, "encoding": {**SPECS[0], "flip_signs": True}})
    with pytest.raises(ZooError, match="no option 'eigenvalues'"):
        load_recipe({**recipe, "encoding": {**SPECS[1], "eigenvalues": False}})
