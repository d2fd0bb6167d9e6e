"""An epoch of GCNII, GPR-GNN, NSA and the propagation `transformer` beside PyTorch Geometric's.

A step of training (forward, loss, backward, Adam) and an evaluation, on a graph of the size of
Cora with bag-of-words features, and on a larger one. GCNII is 16 GCN2Conv of PyG; `transformer` are
three TransformerConv with four heads and the gate; NSA, MMS, is two of these, torch's multi-head
attention and the same perceptrons. PyG has no GPR-GNN: plain torch sums powers of a sparse matrix.
First logits and gradients of both are compared for the same weights, without dropout.

    python benchmarks/edge_steps.py [--full]
"""

import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from sgformer_step import CLASSES, RATE, normalised, training, work
from torch import nn
from torch.nn import functional

from zoo.nn import Convolution, FeatureLinear, Linear, ReluDropout, build_propagation
from zoo.system.allocator import keep_freed_memory
from zoo.weights.create import create_model

HEADS, ALPHA, LAYERS, STEPS, PATTERN = 4, 0.1, 16, 10, "MMS"
OPTIONS = {
    "gcnii": {"layers": LAYERS, "alpha": ALPHA, "map_weight": 0.5},
    "gprgnn": {"steps": STEPS, "alpha": ALPHA},
    "nsa": {"pattern": PATTERN, "heads": HEADS},
}


class Stack(nn.Module):
    """Three convolutions with the propagation `transformer` of the zoo, ReLU and dropout."""

    def __init__(self, features, dim, rate):
        super().__init__()
        word = {"name": "transformer", "heads": HEADS, "gate": True}
        self.stem, self.head = FeatureLinear(features, dim), Linear(dim, CLASSES)
        self.layers = nn.ModuleList(
            Convolution(dim, dim, build_propagation(word, dim), bias=False) for _ in range(3)
        )
        self.finish = ReluDropout(rate)

    def forward(self, graph, x):
        """Return logits (N, C) for x (N, F)."""
        z = self.stem(x)
        for layer in self.layers:
            z = self.finish(layer(graph, z))
        return self.head(z)


def ours(name, features, dim, rate):
    """Return a model of the zoo, as a function of a graph and features, with its weights."""
    torch.manual_seed(0)
    if name == "transformer":
        return Stack(features, dim, rate)
    more = {"walk_dropout": rate} if name == "gprgnn" else {}
    return create_model(name, features, CLASSES, dim=dim, dropout=rate, **OPTIONS[name], **more)


class Peer(nn.Module):
    """The same model of PyTorch Geometric's convolutions and torch, on `prepared(graph)`."""

    def __init__(self, features, dim, rate):
        super().__init__()
        self.stem, self.head = nn.Linear(features, dim), nn.Linear(dim, CLASSES)
        self.rate = rate

    def drop(self, x):
        """Return Drop(x)."""
        return functional.dropout(x, self.rate, self.training)

    @staticmethod
    def prepared(graph):
        """Return the edges (2, E), self-loops among them."""
        return torch.stack(graph.edges())


class PeerGCNII(Peer):
    """GCN2Conv, whose normalised edges are kept."""

    def __init__(self, features, dim, rate):
        from torch_geometric.nn import GCN2Conv

        super().__init__(features, dim, rate)
        options = {"alpha": ALPHA, "theta": 0.5, "cached": True}
        self.layers = nn.ModuleList(
            GCN2Conv(dim, layer=number + 1, **options) for number in range(LAYERS)
        )

    def forward(self, edges, x):
        """Return logits (N, C)."""
        h = first = self.stem(self.drop(x)).relu()
        for layer in self.layers:
            h = layer(self.drop(h), first, edges).relu()
        return self.head(self.drop(h))

    def pairs(self, model):
        """Give the weights of this one and those of the zoo's."""
        yield from ((layer.weight1, own.near.weight.T)
                    for layer, own in zip(self.layers, model.layers, strict=True))  # fmt: skip


class PeerGPRGNN(Peer):
    """Plain torch: S^k h for each k, and their weighted sum."""

    def __init__(self, features, dim, rate):
        super().__init__(features, dim, rate)
        self.gamma = nn.Parameter(torch.empty(STEPS + 1))

    prepared = staticmethod(normalised)

    def forward(self, edges, x):
        """Return logits (N, C)."""
        h = self.drop(self.head(self.drop(self.stem(self.drop(x)).relu())))
        out = self.gamma[0] * h
        for weight in self.gamma[1:]:
            h = edges @ h
            out = out + weight * h
        return out

    def pairs(self, model):
        """Give the weights of this one and those of the zoo's."""
        yield self.gamma, model.gamma


class PeerTransformer(Peer):
    """TransformerConv with its gated residual."""

    def __init__(self, features, dim, rate):
        from torch_geometric.nn import TransformerConv

        super().__init__(features, dim, rate)
        self.layers = nn.ModuleList(
            TransformerConv(dim, dim // HEADS, heads=HEADS, beta=True) for _ in range(3)
        )

    def forward(self, edges, x):
        """Return logits (N, C)."""
        z = self.stem(x)
        for layer in self.layers:
            z = self.drop(layer(z, edges).relu())
        return self.head(z)

    def pairs(self, model):
        """Give the weights of this one and those of the zoo's, whose values are x itself."""
        for layer, own in zip(self.layers, model.layers, strict=True):
            attention, identity = own.propagate, torch.eye(len(own.linear.weight))
            yield own.linear.weight, identity
            yield layer.lin_value.weight, identity
            yield layer.lin_value.bias, torch.zeros(len(identity))
            for each, part in ((layer.lin_query, 0), (layer.lin_key, 1)):
                yield each.weight, attention.project.weight.chunk(2)[part]
                yield each.bias, attention.project.bias.chunk(2)[part]
            yield layer.lin_skip.weight, attention.own.weight
            yield layer.lin_skip.bias, attention.own.bias
            yield layer.lin_beta.weight, attention.gate.weight


class PeerNSA(Peer):
    """TransformerConv for M, torch's multi-head attention for S, gated perceptrons."""

    def __init__(self, features, dim, rate):
        from torch_geometric.nn import TransformerConv

        super().__init__(features, dim, rate)
        self.attentions = nn.ModuleList(
            TransformerConv(dim, dim // HEADS, heads=HEADS, root_weight=False)
            if letter == "M"
            else nn.MultiheadAttention(dim, HEADS)
            for letter in PATTERN
        )
        self.merges = nn.ModuleList(nn.Linear(dim, dim) for letter in PATTERN if letter == "M")
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * len(PATTERN) + 1))
        self.widen = nn.ModuleList(nn.Linear(dim, 4 * dim) for _ in PATTERN)
        self.narrow = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in PATTERN)

    def forward(self, edges, x):
        """Return logits (N, C)."""
        z, merges = self.drop(self.stem(x)), iter(self.merges)
        for place, letter in enumerate(PATTERN):
            normed, attention = self.norms[2 * place](z), self.attentions[place]
            if letter == "M":
                gathered = next(merges)(attention(normed, edges))
            else:
                gathered = attention(normed, normed, normed, need_weights=False)[0]
            z = z + self.drop(gathered)
            gate, values = self.widen[place](self.norms[2 * place + 1](z)).chunk(2, -1)
            z = z + self.drop(self.narrow[place](self.drop(functional.silu(gate) * values)))
        return self.head(self.norms[-1](z))

    def pairs(self, model):
        """Give the weights of this one and those of the zoo's."""
        merges = iter(self.merges)
        for place, (letter, block) in enumerate(zip(PATTERN, model.blocks, strict=True)):
            own, attention = block.attention, self.attentions[place]
            if letter == "M":
                maps = attention.lin_query, attention.lin_key, attention.lin_value
                for each, weight, bias in zip(
                    maps, own.project.weight.chunk(3), own.project.bias.chunk(3), strict=True
                ):
                    yield each.weight, weight
                    yield each.bias, bias
                merge = next(merges)
            else:
                yield attention.in_proj_weight, own.project.weight
                yield attention.in_proj_bias, own.project.bias
                merge = attention.out_proj
            for theirs, mine in ((merge, own.merge),
                                 (self.widen[place], block.perceptron.widen),
                                 (self.narrow[place], block.perceptron.narrow)):  # fmt: skip
                yield from zip(theirs.parameters(), mine.parameters(), strict=True)


PEERS = {
    "gcnii": PeerGCNII,
    "gprgnn": PeerGPRGNN,
    "transformer": PeerTransformer,
    "nsa": PeerNSA,
}


def logits_of(model, graph, x):
    """Return logits (N, C), as every model of the zoo and of PyG gives them."""
    out = model(graph, x)
    return out if isinstance(out, torch.Tensor) else out.logits


def check():
    """Check that logits and gradients of both agree, with the same weights."""
    graph, x, y = work(300, 900, 16)
    for name, kind in PEERS.items():
        own, peer = ours(name, 16, 32, 0.0), kind(16, 32, 0.0)
        head = own.head_linear if name == "gprgnn" else own.head
        with torch.no_grad():
            for theirs, mine in peer.pairs(own):
                theirs.copy_(mine)
        peer.stem.load_state_dict(own.stem.state_dict())
        peer.head.load_state_dict(head.state_dict())
        found = [logits_of(own, graph, x), peer(peer.prepared(graph), x)]
        gradients = [torch.autograd.grad(functional.cross_entropy(each, y), model.stem.weight)[0]
                     for each, model in zip(found, (own, peer), strict=True)]  # fmt: skip
        for one, other in (found, gradients):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def zoo_step(name, nodes, edges, features, dim):
    """Return an epoch of the zoo's model, as `zoo train` takes it."""
    keep_freed_memory()
    graph, x, y = work(nodes, edges, features)
    model = ours(name, features, dim, RATE)
    return training(
        model, lambda: functional.cross_entropy(logits_of(model, graph, x), y), evaluated=True
    )


def peer_step(name, nodes, edges, features, dim):
    """Return an epoch of PyTorch Geometric's."""
    graph, x, y = work(nodes, edges, features)
    model = PEERS[name](features, dim, RATE)
    if name == "gprgnn":
        nn.init.constant_(model.gamma, 1 / (STEPS + 1))
    known = model.prepared(graph)
    return training(model, lambda: functional.cross_entropy(model(known, x), y), evaluated=True)


def main():
    """Check, measure, and write the results."""
    full = full_asked(__doc__)
    check()
    table, aims = [], []
    sizes = {"Cora": (2708, 5278, 1433, 64), "larger": (20_000, 138_000, 128, 128)}
    if not full:
        sizes["larger"] = (5000, 35_000, 128, 64)
    for name in PEERS:
        way = "plain torch" if name == "gprgnn" else "PyG"
        for graph, size in sizes.items():
            costs = contest_of_processes(
                {"zoo": (zoo_step, (name, *size)), way: (peer_step, (name, *size))},
                rounds=5,
            )
            ratio = costs[way].seconds / costs["zoo"].seconds
            table.append(
                {
                    "model": name,
                    "graph": graph,
                    "zoo, ms": f"{1000 * costs['zoo'].seconds:.0f}",
                    "peer": way,
                    "peer, ms": f"{1000 * costs[way].seconds:.0f}",
                    "ratio": f"{ratio:.2f}",
                    "zoo, GB": f"{costs['zoo'].bytes / 1e9:.2f}",
                    "peer, GB": f"{costs[way].bytes / 1e9:.2f}",
                }
            )
            aims.append(Aim(f"{way} by zoo, {name}, {graph}", ratio, 1.0, least=True))
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
