"""A training step of SGFormer against PyTorch Geometric's and one in plain torch.

The size of ogbn-arxiv: 169,343 nodes, 2.3 million directed edges and the self-loops, 128 features,
width 256, one attention layer, three graph convolutions, dropout 0.5; forward, loss, backward and
Adam. At the size of Cora, with bag-of-words features, an evaluation follows each step. Each way
runs in a process of its own, alternating, after a check that the same weights give the same logits.
The zoo uses the allocator of its command, such as jemalloc where it is installed; the others use
that of the C library, and at the full size PyTorch Geometric also runs with the zoo's.

    python benchmarks/sgformer_step.py [--full]
"""

import functools

import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from graphs import canonical, power_law
from torch import nn
from torch.nn import functional

from zoo.dgl import dgl
from zoo.system.allocator import installed, keep_freed_memory
from zoo.weights.create import create_model

CLASSES, LAYERS, RATE = 40, 3, 0.5
WORDS = 1000  # above this number of features they are a bag of words
OPTIONS = {
    "activation": True,
    "dropout": RATE,
    "norm": "layer",
    "alpha": 0.5,
    "graph_branch": "residual",
    "graph_dropout": RATE,
    "graph_layers": LAYERS,
    "graph_norm": "batch",
    "graph_weight": 0.5,
    "qk_norm": "row",
    "use_weight": True,
}


def work(nodes: int, edges: int, features: int):
    """Return (graph, x, y), the same for all ways."""
    graph = canonical(power_law(nodes, edges), nodes)
    torch.manual_seed(0)
    x = torch.randn(nodes, features)
    if features > WORDS:
        x = (torch.rand(nodes, features) < 0.0127).float()  # density of Cora's features
    return graph, x, torch.randint(CLASSES, (nodes,))


def zoo_step(nodes, edges, features, dim):
    """Return a step of the zoo's model, as `zoo train` takes it."""
    keep_freed_memory()
    graph, x, y = work(nodes, edges, features)
    model = create_model("sgformer", features, CLASSES, dim=dim, **OPTIONS)
    return training(
        model, lambda: functional.cross_entropy(model(graph, x).logits, y), features > WORDS
    )


def peer_step(nodes, edges, features, dim):
    """Return a step of PyTorch Geometric's model."""
    graph, x, y = work(nodes, edges, features)
    model = peer(features, dim)
    ends, batch = torch.stack(dgl.remove_self_loop(graph).edges()), x.new_zeros(nodes).long()
    return training(model, lambda: functional.nll_loss(model(x, ends, batch), y), features > WORDS)


def plain_step(nodes, edges, features, dim):
    """Return a step of the model in plain torch."""
    graph, x, y = work(nodes, edges, features)
    model = Plain(features, dim)
    adjacency = normalised(graph)
    return training(
        model, lambda: functional.cross_entropy(model(adjacency, x), y), features > WORDS
    )


def training(model, loss, evaluated):
    """Return a training step, followed by an evaluation if `evaluated`; it returns the loss."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        model.train()
        optimiser.zero_grad(set_to_none=True)
        found = loss()
        found.backward()
        optimiser.step()
        if evaluated:
            model.eval()
            with torch.no_grad():
                loss()
        return found.item()

    return step


def peer(features: int, dim: int, rate: float = RATE) -> nn.Module:
    """Return PyTorch Geometric's SGFormer."""
    from torch_geometric.nn.models import SGFormer

    layers = {"trans_num_layers": 1, "gnn_num_layers": LAYERS}
    return SGFormer(
        features, dim, CLASSES, trans_dropout=rate, gnn_dropout=rate, graph_weight=0.5, **layers
    )


class Plain(nn.Module):
    """SGFormer in plain torch, from the equations of arXiv 2306.10759."""

    def __init__(self, features: int, dim: int, rate: float = RATE):
        super().__init__()
        self.rate = rate
        self.stems = nn.ModuleList(nn.Linear(features, dim) for _ in range(2))
        self.project = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(LAYERS))
        self.layer_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.batch_norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(LAYERS + 1))
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, adjacency, x):
        """Return logits (N, C) for features x (N, F) and the normalised adjacency (N, N), CSR."""
        drop = functools.partial(functional.dropout, p=self.rate, training=self.training)
        z = drop(self.layer_norms[0](self.stems[0](x)).relu())
        q, k, v = (each(z) for each in self.project)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        mass = len(x) + q @ k.sum(0)
        attended = (len(x) * v + q @ (k.T @ v)) / mass[:, None]
        z = drop(self.layer_norms[1]((attended + z) / 2).relu())
        first = h = drop(self.batch_norms[0](self.stems[1](x)).relu())
        for linear, norm in zip(self.maps, self.batch_norms[1:], strict=True):
            h = drop(norm(linear(adjacency @ h)).relu()) + first
        return self.head((z + h) / 2)


def normalised(graph) -> torch.Tensor:
    """Return D^-1/2 A D^-1/2 (N, N) as CSR."""
    offsets, indices, _ = graph.adj_tensors("csc")
    scale = graph.in_degrees().float().rsqrt()
    rows = torch.repeat_interleave(graph.in_degrees())
    return torch.sparse_csr_tensor(offsets, indices, scale[rows] * scale[indices])


def check():
    """Check that logits and gradients of all agree, with the same weights."""
    torch.manual_seed(1)
    graph, x, y = work(300, 900, 16)
    theirs, plain = peer(16, 32, rate=0.0), Plain(16, 32, rate=0.0)
    options = {**OPTIONS, "dropout": 0.0, "graph_dropout": 0.0}
    ours = create_model("sgformer", 16, CLASSES, dim=32, **options)
    branch, other = theirs.trans_conv, theirs.graph_conv
    attention, layer = branch.attns[0], ours.layers[0]
    zero = torch.zeros(32)
    for their, our, plainly in (
        (branch.fcs[0], ours.stem_attention, plain.stems[0]),
        (attention.q, layer.query, plain.project[0]),
        (attention.k, layer.key, plain.project[1]),
        (attention.v, layer.value, plain.project[2]),
        (other.fcs[0], ours.stem_graph.linear, plain.stems[1]),
        *(
            (c, g.linear, m)
            for c, g, m in zip(other.convs, ours.graph.layers, plain.maps, strict=True)
        ),
        (theirs.fc, ours.head, plain.head),
    ):
        weight = their.lin.weight if hasattr(their, "lin") else their.weight
        for each in (our, plainly):
            each.load_state_dict(
                {"weight": weight, "bias": zero if their.bias is None else their.bias}
            )
    ends = torch.stack(dgl.remove_self_loop(graph).edges())
    log = functional.log_softmax
    found = [
        log(ours(graph, x).logits, -1),
        theirs(x, ends, torch.zeros(300, dtype=torch.long)),
        log(plain(normalised(graph), x), -1),
    ]
    for each in found:
        functional.nll_loss(each, y).backward()
    gradients = [each.weight.grad for each in (ours.stem_attention, branch.fcs[0], plain.stems[0])]
    for values in (found, gradients):
        for each in values[1:]:
            torch.testing.assert_close(values[0], each, rtol=1e-3, atol=1e-5)


def main():
    """Check, measure, and write the results."""
    full = full_asked(__doc__)
    check()
    table, aims = [], []
    sizes = {"Cora": (2708, 5278, 1433, 64), "arxiv": (169_343, 1_166_000, 128, 256)}
    if not full:
        sizes["arxiv"] = (20_000, 138_000, 128, 128)
    for name, size in sizes.items():
        ways = {"zoo": zoo_step, "PyG": peer_step, "plain torch": plain_step}
        rounds = 3 if size[0] > 100_000 else 9
        costs = contest_of_processes(
            {way: (make, size) for way, make in ways.items()}, rounds=rounds
        )
        better = installed()
        if full and name == "arxiv" and better:
            alone = contest_of_processes({"PyG": (peer_step, size)}, rounds=3, preloaded=("PyG",))
            costs[f"PyG, {better.name}"] = alone["PyG"]
        zoo = costs["zoo"]
        for way, cost in costs.items():
            table.append(
                {
                    "graph": f"{size[0]:,} nodes",
                    "step": way,
                    "ms": f"{1000 * cost.seconds:.0f}",
                    "GB": f"{cost.bytes / 1e9:.2f}",
                    "ratio": f"{cost.seconds / zoo.seconds:.2f}",
                }
            )
        at_least = 7 if name == "arxiv" else 2
        ratio = costs["PyG"].seconds / zoo.seconds
        aims.append(Aim(f"PyG by zoo, {size[0]:,} nodes", ratio, at_least, least=True))
    aims.append(Aim("GB", zoo.bytes / 1e9, 4.5))
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
