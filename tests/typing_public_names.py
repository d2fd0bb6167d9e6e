"""The public names as a type checker sees them: `make test` runs mypy on this file, nobody runs it.

Each line says the type that an editor is to show; `assert_type` fails where it is another, or where
a name is not found.
"""

from pathlib import Path
from typing import Any, assert_type

import torch

import zoo
from zoo.config.options import Count


@zoo.register_model("typed")
class Typed(zoo.Model):
    """A model as an author writes it."""

    def __init__(self, in_dim: int, out_dim: int, *, dim: Count = 8) -> None:
        super().__init__()
        self.stem = torch.nn.Linear(in_dim, dim)
        self.head = torch.nn.Linear(dim, out_dim)

    def features(self, graph: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.stem(x))


def models(folder: Path) -> None:
    model = zoo.create_model("sgformer", 5, 3, attention="rba", dim=64)
    assert_type(model, zoo.Model)
    assert_type(zoo.create_model("sgformer", pretrained="sgformer-digits-rba"), zoo.Model)
    assert_type(zoo.list_models("*former", attention="rba"), list[str])
    assert_type(zoo.MODELS["sgformer"], type[zoo.Model])
    assert_type(zoo.load(folder), zoo.Model)
    zoo.save(model, folder)


def answers(model: zoo.Model, data: zoo.Dataset) -> None:
    output = model(data.graph, data.x)
    assert_type(output, zoo.Output)
    assert_type(output.logits, torch.Tensor)
    assert_type(zoo.predict(model, data).table().shape[0], Any)
    zoo.evaluate(model, data)
    zoo.embed(model, data)


def data() -> None:
    found = zoo.load_graph("digits", neighbours=3)
    assert_type(found, zoo.Dataset)
    assert_type(found.classes, int)
    assert_type(found.x, torch.Tensor)
    assert_type(found.add_features(zoo.encodings.laplacian(found.graph, k=8)), zoo.Dataset)
    zoo.canonical(found.graph)
    zoo.canonical([(0, 1)], nodes=2)


def recipes() -> None:
    recipe = zoo.load_recipe("sgformer-digits-rba", ["train.epochs=5"])
    assert_type(recipe, zoo.Recipe)
    assert_type(zoo.run_recipe(recipe), dict[str, Any])


def commands(folder: Path) -> None:
    run = zoo.train("sgformer-digits-rba", ["train.epochs=5"])
    assert_type(run.test.mean, float)
    assert_type(run.seeds[0].epoch, int)
    assert_type(run.load(), zoo.Model)
    assert_type(zoo.finetune(run.folder, "karate").best.val.mean, float)
    assert_type(zoo.tune("gcn", ["dataset=karate"], trials=2).recipe, Path)
    assert_type(zoo.list_recipes("cora"), list[str])
    assert_type(zoo.split(zoo.load_graph("karate")).train, torch.Tensor)
    zoo.predict(run.load(), folder).table()
    zoo.predict([run, folder, "gcn-digits"], folder).table()
    assert_type(zoo.evaluate(run, folder, [0, 1]), float)
    assert_type(zoo.load(run), zoo.Model)
    zoo.write_report(run)
    zoo.predict_links(run.load(), folder, [("ann", "bob")])
    zoo.predict_links(run.load(), folder, top=3, nodes=["ann"])


def tables() -> None:
    for table in (zoo.ATTENTIONS, zoo.PROPAGATIONS, zoo.ENCODINGS, zoo.DATASETS):
        assert_type(sorted(table), list[str])
    zoo.pick(zoo.PROPAGATIONS, "gcn", 8)
    raise zoo.ZooError("one paragraph")


def promises() -> None:
    zoo.testing.check_model(Typed)
    zoo.testing.check_attention({"name": "rba", "size": 4})
    zoo.testing.check_encoding("laplacian")
    zoo.testing.check_propagation("gcn")
    assert_type(zoo.testing.model_promises("typed")[0].id, str)
