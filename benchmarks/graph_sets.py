"""Sets of graphs: epochs beside PyTorch Geometric, and batches of several sizes beside one size.

    python benchmarks/graph_sets.py [--full]

GIN and GraphGPS with the same widths, layers, norms and batches of 128 graphs, on PROTEINS and on
Lipophilicity, without the features of edges: an epoch is all steps of Adam on all graphs, batches
included. PyTorch Geometric has its `DataLoader`, `GINConv` and `GPSConv`. Each has its own process.

Attentions and steps of whole models on 128 graphs: as large as each ninth of PROTEINS by size, 4 to
620 nodes, and all as large as their mean. Nodes of both are linked alike, so that they differ in
sizes alone. Softmax has more pairs of nodes to look at where sizes differ, which the column
`a pair` takes out. Without --full, fewer epochs and steps.
"""

import time
from statistics import median

import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from torch import nn
from torch.nn import functional

from zoo.config.options import pick
from zoo.data.load import load_data
from zoo.dgl import dgl
from zoo.graphs.graph_sets import StoredGraphs
from zoo.nn import build_attend, linear, softmax
from zoo.system.allocator import keep_freed_memory
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import Trainer
from zoo.weights.create import create_model

BATCH, DIM, LAYERS, HEADS, RATE = 128, 64, 3, 4, 0.1
SETS = ("proteins", "lipophilicity")
OPTIONS = {
    "gine": {"dim": DIM, "layers": LAYERS, "dropout": RATE, "norm": "batch"},
    "graphgps": {"dim": DIM, "layers": LAYERS, "heads": HEADS, "dropout": RATE, "norm": "batch"},
}

ATTENTIONS = {
    "softmax": ("softmax", softmax),
    "linear, of SGFormer": ("linear", linear),
    "performer": ("performer", linear),
    "rba of 64, softmax": ({"name": "rba", "size": 64, "inner": "softmax"}, softmax),
    "rba of 64, linear": ({"name": "rba", "size": 64, "inner": "linear"}, linear),
    "rba of 256, softmax": ({"name": "rba", "size": 256, "inner": "softmax"}, softmax),
}
MODELS = ("transformer", "graphgps", "sgformer", "polynormer", "nodeformer", "htgn")
BY_PAIRS = ("softmax", "rba of 256, softmax", "transformer", "graphgps")
"""Those that look at all pairs of nodes of a graph."""


def zoo_epoch(name: str, model: str):
    """Return an epoch of the zoo, as `zoo train` takes it; it returns the loss."""
    keep_freed_memory()
    torch.manual_seed(0)
    data = load_data({"name": name})
    split = _Split(torch.arange(len(data.y)))
    trainer = Trainer(
        create_model(model, data.inputs, data.classes, **OPTIONS[model]),
        TrainingData(data, split, pick(TASKS, data.task)),
        batching={"name": "samples", "size": BATCH},
    )
    optimiser = torch.optim.Adam(trainer.model.parameters(), lr=0.001)
    numbers = iter(range(10**9))
    return lambda: trainer.train(optimiser, next(numbers))


class _Split:
    """All graphs are for training."""

    def __init__(self, train: torch.Tensor):
        self.train, self.val, self.test = train, train[:0], train[:0]


def peer_epoch(name: str, model: str):
    """Return the same epoch of PyTorch Geometric."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    torch.manual_seed(0)
    data = load_data({"name": name})
    starts = data.graphs.sizes.cumsum(0) - data.graphs.sizes
    graphs = []
    for number, (graph, start) in enumerate(zip(data.graphs.graphs, starts.tolist(), strict=True)):
        ends = torch.stack(dgl.remove_self_loop(graph).edges())
        x = data.x[start : start + graph.num_nodes()]
        graphs.append(Data(x=x, edge_index=ends, y=data.y[number]))
    loader = DataLoader(graphs, batch_size=BATCH, shuffle=True)
    net = Peer(data.inputs, data.classes, model)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.001)
    classes = data.y.dtype == torch.int64
    measure = functional.cross_entropy if classes else squared_error

    def epoch() -> float:
        total = 0.0
        net.train()
        for batch in loader:
            optimiser.zero_grad(set_to_none=True)
            loss = measure(net(batch.x, batch.edge_index, batch.batch), batch.y)
            loss.backward()
            optimiser.step()
            total += loss.item()
        return total / len(loader)

    return epoch


def squared_error(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean of (logits - y)^2 for logits (B, 1) and y (B,)."""
    return functional.mse_loss(logits.squeeze(1), y)


class Peer(nn.Module):
    """GIN or GraphGPS by the layers of PyTorch Geometric, and the mean over each graph."""

    def __init__(self, in_dim: int, out_dim: int, model: str):
        from torch_geometric.nn import GCNConv, GINConv, GPSConv

        super().__init__()
        self.stem, self.head = nn.Linear(in_dim, DIM), nn.Linear(DIM, out_dim)
        self.gin = model == "gine"
        if self.gin:
            layers = [GINConv(self._perceptron(), train_eps=True) for _ in range(LAYERS)]
        else:
            options = {"heads": HEADS, "dropout": RATE, "norm": "batch_norm"}
            layers = [GPSConv(DIM, GCNConv(DIM, DIM), **options) for _ in range(LAYERS)]
        self.layers = nn.ModuleList(layers)

    @staticmethod
    def _perceptron() -> nn.Module:
        parts = [part for _ in range(2) for part in (nn.Linear(DIM, DIM), nn.BatchNorm1d(DIM),
                                                     nn.ReLU())]  # fmt: skip
        return nn.Sequential(*parts)

    def forward(self, x, edges, owners):
        """Return a row of logits for each graph."""
        from torch_geometric.nn import global_mean_pool

        z = functional.dropout(self.stem(x), RATE, self.training)
        for layer in self.layers:
            if self.gin:
                z = z + functional.dropout(layer(z, edges), RATE, self.training)
            else:
                z = layer(z, edges, owners)
        return global_mean_pool(self.head(z), owners)


def epochs(rounds: int) -> tuple[list[dict], list[Aim]]:
    """Return lines of the table about epochs, and what is aimed at."""
    table, aims = [], []
    for name in SETS:
        for model in OPTIONS:
            ways = {"zoo": zoo_epoch, "PyG": peer_epoch}
            costs = contest_of_processes(
                {way: (make, (name, model)) for way, make in ways.items()}, rounds=rounds
            )
            ratio = costs["PyG"].seconds / costs["zoo"].seconds
            table.append(
                {
                    "what": f"epoch of {model}, {name}",
                    "zoo, or ragged, ms": f"{1000 * costs['zoo'].seconds:.0f}",
                    "PyG, or even, ms": f"{1000 * costs['PyG'].seconds:.0f}",
                    "ratio": f"{ratio:.2f}",
                    "a pair": "",
                }
            )
            print(*table[-1].values(), flush=True)
            aims.append(Aim(f"PyG by zoo, {model}, {name}", ratio, 2, least=True))
    return table, aims


def batches() -> dict[str, tuple[dgl.DGLGraph, int]]:
    """Return a batch of graphs of several sizes, one of their mean, and the pairs in them."""
    sizes = load_data({"name": "proteins"}).graphs.sizes.sort().values
    ragged = sizes[torch.linspace(0, len(sizes) - 1, BATCH).long()]
    even = torch.full((BATCH,), int(ragged.sum()) // BATCH)
    ragged[-2] -= int(ragged.sum() - even.sum())
    made = {}
    for word, many in (("ragged", ragged), ("even", even)):
        graphs = StoredGraphs([linked(size) for size in many.tolist()], torch.arange(BATCH))
        made[word] = graphs.batch(torch.arange(BATCH)), int(many.square().sum())
    return made


def linked(size: int) -> dgl.DGLGraph:
    """Return a graph of nodes in a ring, each linked with the next two."""
    nodes = torch.arange(size)
    ends = torch.cat([torch.stack([nodes, (nodes + step) % size]) for step in (1, 2)], dim=1)
    graph = dgl.to_bidirected(dgl.graph(tuple(ends), num_nodes=size))
    return dgl.add_self_loop(dgl.remove_self_loop(graph))


def attention_step(word: str, graph: dgl.DGLGraph):
    """Return a call of an attention and its gradient."""
    spec, native = ATTENTIONS[word]
    attend = build_attend(spec, native).train()
    torch.manual_seed(0)
    qkv = [torch.randn(graph.num_nodes(), HEADS, DIM // HEADS, requires_grad=True) for _ in "qkv"]
    given = torch.randn_like(qkv[2])
    return lambda: torch.autograd.grad(attend(graph, *qkv), qkv, given)


def model_step(name: str, graph: dgl.DGLGraph):
    """Return a step of Adam of a whole model."""
    torch.manual_seed(0)
    x, y = torch.randn(graph.num_nodes(), 32), torch.arange(BATCH) % 2
    model = create_model(name, 32, 2, dim=DIM, readout="mean")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    sizes = graph.batch_num_nodes()

    def step():
        optimiser.zero_grad(set_to_none=True)
        logits, penalty = model(graph, x)
        loss = functional.cross_entropy(model.read_graphs(logits, sizes), y) + penalty
        loss.backward()
        optimiser.step()

    return step


def timed(rounds: int, **steps) -> dict[str, float]:
    """Return the median milliseconds that each step has a processor, all alternating."""
    spent = {name: [] for name in steps}
    for _ in range(rounds + 2):
        for name, step in steps.items():
            start = time.process_time()
            step()
            spent[name].append(1000 * (time.process_time() - start))
    return {name: median(each[2:]) for name, each in spent.items()}


def ragged_batches(rounds: int) -> tuple[list[dict], list[Aim]]:
    """Return lines of the table about batches of several sizes, and what is aimed at."""
    keep_freed_memory()
    made = batches()
    pairs = made["ragged"][1] / made["even"][1]
    table, aims = [], []
    steps = [(word, attention_step, "attention") for word in ATTENTIONS]
    steps += [(word, model_step, "step of") for word in MODELS]
    for word, make, what in steps:
        ms = timed(rounds, **{size: make(word, graph) for size, (graph, _) in made.items()})
        ratio = ms["ragged"] / ms["even"]
        table.append(
            {
                "what": f"{what} {word}",
                "zoo, or ragged, ms": f"{ms['ragged']:.1f}",
                "PyG, or even, ms": f"{ms['even']:.1f}",
                "ratio": f"{ratio:.2f}",
                "a pair": f"{ratio / pairs:.2f}" if word in BY_PAIRS else "",
            }
        )
        print(*table[-1].values(), flush=True)
        aims.append(Aim(f"ragged by even, {what} {word}", ratio, 1.2))
    return table, aims


def main() -> None:
    """Measure and conclude."""
    full = full_asked(__doc__)
    torch.set_num_threads(1)
    parts = [ragged_batches(25 if full else 5), epochs(9 if full else 2)]
    conclude(__file__, full, *(sum(each, []) for each in zip(*parts, strict=True)))


if __name__ == "__main__":
    main()
