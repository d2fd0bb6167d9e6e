"""What is trained on a GPU in the tests: small models on a small graph."""

import itertools
from typing import Any, NamedTuple

import torch

from zoo.canonical_form import FEATURE
from zoo.config.options import options_of, pick
from zoo.data import Dataset
from zoo.data.splits import Split
from zoo.graphs.examples import preferential_attachment
from zoo.graphs.spmm import place
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import MODELS
from zoo.tasks.labels import NODE_METRICS
from zoo.tasks.task import TASKS
from zoo.testing.cases import attention_specs
from zoo.training.batches import TrainingData
from zoo.weights.create import create_model, list_models

NODES, FEATURES, CLASSES = 24, 5, 3
RBA: dict[str, Any] = {"name": "rba", "size": 8}
MEAN = {**RBA, "inference": "mean", "draws": 2}
SMALL = {"dim": 4, "layers": 1, "local_layers": 1, "global_layers": 1}

GRAPH = preferential_attachment(NODES)
GRAPH.edata[FEATURE] = torch.randn(GRAPH.num_edges(), 2, generator=torch.Generator().manual_seed(3))


class Case(NamedTuple):
    """What is trained, and how often the host may wait for a step and for an evaluation."""

    model: str
    options: dict[str, Any] = {}  # noqa: RUF012 (never written)
    train: dict[str, Any] = {}  # noqa: RUF012
    task: str = "node-classification"
    step: int = 1  # the loss
    evaluation: int = 3  # once for each part

    def __str__(self):
        words = [self.model, *self.options.items(), *self.train.items(), self.task]
        return "-".join("".join(c for c in str(each) if c.isalnum()) for each in words)

    def build(self):
        torch.manual_seed(2)
        known = options_of(MODELS[self.model])
        small = {name: value for name, value in SMALL.items() if name in known}
        outputs = pick(TASKS, self.task).outputs(CLASSES)
        return create_model(self.model, FEATURES, outputs, **{**small, **self.options})

    def data(self):
        torch.manual_seed(1)
        y = {
            "node-classification": torch.arange(NODES) % CLASSES,
            "node-binary": torch.arange(NODES) % 2,
            "node-multilabel": torch.randint(2, (NODES, CLASSES)).float(),
            "node-regression": torch.randn(NODES, CLASSES),
        }[self.task]
        x = torch.randn(NODES, FEATURES)
        metric = NODE_METRICS[self.task]
        data = Dataset("made", GRAPH, x, y, self.task, metric, "random", None, CLASSES)
        order = torch.randperm(NODES)
        parts = [each.sort().values for each in order.split([12, 6, 6])]
        return TrainingData(data, Split(*parts, "random"), pick(TASKS, self.task))


OF_BATCHES = {"batching": {"name": "random-nodes", "size": NODES}}
SAMPLED = {"batching": {"name": "neighbours", "size": 12, "fanouts": [3]}, "evaluate": "batches"}

MODELS_TRIED = [
    Case("gcn"),
    Case("gat"),
    Case("gat", {"edge_dim": 2}),
    Case("gine"),
    Case("gine", {"edge_dim": 2}),
    Case("sage"),
    Case("mlp"),
    Case("sgformer"),
    Case("transformer", {"attention": {**MEAN, "inner": "performer"}}),
    Case("difformer", {"attention": {**RBA, "inner": "softmax", "recompute": True}}),
    Case("graphgps", {"attention": "linear", "propagation": "mean"}),
    Case("graphormer"),
    Case("grit"),
    Case("exphormer"),
    Case("nagphormer"),
    Case("nodeformer", {"redraw": "step"}),
    Case("polynormer", {"local_epochs": 1, "attention": {**RBA, "inner": "linear"}}),
    Case("htgn", {"kernel": "sine"}),
    Case("gcnii", {"layers": 3, "separate": True}),
    Case("gprgnn"),
    Case("nsa", {"attention": MEAN}),
    Case("graphgps", {"propagation": {"name": "transformer", "edge_dim": 2, "gate": True}}),
    Case("htgn", {"edges": "attention", "edge_dim": 2}),
]

MODES_TRIED = [
    Case("gcn", train={"loss": "one-hot", "precision": "tf32"}),
    Case("gcn", train={"label_smoothing": 0.1, "precision": "bf16", "clip": 1.0}),
    # Of a metric of the CPU two tensors are copied.
    Case("gcn", task="node-binary", evaluation=6),
    Case("gcn", task="node-multilabel", evaluation=6),
    Case("gcn", task="node-regression", evaluation=6),
    # Features, labels and numbers of nodes are copied anew.
    Case("gcn", train=OF_BATCHES, evaluation=6),
    Case("difformer", train=OF_BATCHES, evaluation=6),
    Case("gat", train=SAMPLED),
    Case("gine", {"edge_dim": 2}, train=SAMPLED),
]


def all_of_them():
    """Every model with every attention and propagation."""
    more = [MEAN, {**RBA, "recompute": True}]
    for name in list_models(task="node-classification", context=False):
        known = options_of(MODELS[name])
        choices = {
            "attention": [*attention_specs(MODELS[name].pair_bias), *more],
            "propagation": list(PROPAGATIONS),
        }
        choices = {word: found for word, found in choices.items() if word in known}
        for chosen in itertools.product(*choices.values()):
            yield Case(name, dict(zip(choices, chosen, strict=True)))


COMBINATIONS = [*all_of_them()]

ORDERS = {"attention": {"name": "rba", "size": 8, "inner": "softmax"}}

RECORDED = [
    *(case for case in MODELS_TRIED if "performer" not in str(case)),
    Case("transformer", ORDERS),
    Case("sgformer", {"attention": "performer"}),
    Case("nodeformer", {"redraw": "epoch"}),
    Case("gcn", {"norm": "batch"}, {"loss": "one-hot"}),
    Case("gcn", train={"label_smoothing": 0.1, "precision": "bf16", "clip": 1.0}),
    Case("gcn", task="node-multilabel"),
    Case("gcn", train={"optimizer": "adamw", "weight_decay": 0.1}),
]


def without_dropout(case):
    """On the pretended GPU masks and orders are of one generator, and would change places."""
    rates = {name: 0.0 for name in options_of(MODELS[case.model]) if "drop" in name}
    return case._replace(options={**case.options, **rates})


def compare(case, model, cuda, most):
    """Compare logits and gradients on a GPU with those of the CPU in double precision."""
    data, model = case.data().data, model.eval()
    expected = values(model.double(), data.graph, data.x.double())
    with cuda:
        model.float().to("cuda")
        found = values(model, place(data.graph, "cuda"), data.x.to("cuda"))
        found = [each.cpu().double() for each in found]
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= most * (other.norm() + 1), case


def values(model, graph, x):
    """The logits, and the gradient of each weight."""
    for each in model.parameters():
        each.grad = None
    logits, penalty = model(graph, x)
    (logits.square().mean() + penalty).backward()
    return [logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
