"""Training steps of Polynormer, DIFFormer-s and NodeFormer against plain torch and PyG.

The size of ogbn-arxiv: 169,343 nodes, 2.3 million directed edges and the self-loops, 128 features,
width 256, dropout 0.5; forward, loss, backward and Adam. Plain torch is written from the equations
of the papers and trains the same weights as the zoo's model, after a check that logits agree.
DIFFormer-s normalises each query and key, as its derivation does, or all by one Frobenius norm, as
published. PyG's Polynormer is another variant (fixed gates, a W_o for each layer): it has the same
number of layers and width, not the same results. The zoo's allocator keeps freed memory, as in its
command.

    python benchmarks/model_steps.py [--full]
"""

import math

import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from sgformer_step import CLASSES, RATE, normalised, training, work
from torch.nn import functional

from zoo.dgl import dgl
from zoo.system.allocator import keep_freed_memory
from zoo.weights.create import create_model

LOCAL, GLOBAL, LAYERS, NOISES, TEMPERATURE = 3, 1, 2, 5, 0.25
OPTIONS = {
    "polynormer": {
        "local_layers": LOCAL,
        "global_layers": GLOBAL,
        "propagation": "gcn",
        "norm": "batch",
        "input_dropout": 0.0,
    },
    "difformer": {"layers": LAYERS, "use_weight": True, "qk_norm": "row"},
    "difformer, one norm": {"layers": LAYERS, "use_weight": True, "qk_norm": "frobenius"},
    "nodeformer": {
        "layers": LAYERS,
        "full_heads": 1,
        "orders": 1,
        "order_weight": "identity",
        "norm": "layer",
        "epsilon": 0.0,
        "activation": True,
        "random_features": 50,
        "samples": NOISES,
    },
}


def zoo_step(name, *size):
    """Return a step of the zoo's model, as `zoo train` takes it."""
    keep_freed_memory()
    return step_of(name, lambda model, graph: lambda x, rate: model(graph, x), *size)


def plain_step(name, *size):
    """Return a step of the same model in plain torch."""
    return step_of(name, PLAIN[name], *size)


def step_of(name, answer, nodes, edges, features, dim):
    """Return a training step of the zoo's weights with one implementation of the forward pass."""
    graph, x, y = work(nodes, edges, features)
    model = created(name, features, dim, RATE, OPTIONS[name])
    answers = answer(model, graph)

    def loss():
        logits, penalty = answers(x, RATE)
        return functional.cross_entropy(logits, y) + penalty

    return training(model, loss, False)


def created(name, features, dim, rate, options):
    """Return a model of the zoo by its name, up to a comma."""
    model, _, _ = name.partition(",")
    return create_model(model, features, CLASSES, dim=dim, dropout=rate, **options)


def peer_step(name, nodes, edges, features, dim):
    """Return a step of PyTorch Geometric's Polynormer in its global phase."""
    from torch_geometric.nn.models import Polynormer

    graph, x, y = work(nodes, edges, features)
    rates = {"in_dropout": 0.0, "dropout": RATE, "global_dropout": RATE}
    model = Polynormer(
        features, dim, CLASSES, local_layers=LOCAL, global_layers=GLOBAL, qk_shared=True, **rates
    )
    model._global = True
    ends, batch = torch.stack(dgl.remove_self_loop(graph).edges()), x.new_zeros(nodes).long()
    return training(model, lambda: functional.cross_entropy(model(x, ends, batch), y), False)


class Weights:
    """The weights of a zoo model by name, and plain torch layers on them."""

    def __init__(self, model):
        self.of = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def affine(self, name, x):
        """Return W x + b, or W x where the map has no b."""
        return functional.linear(x, self.of[f"{name}.weight"], self.of.get(f"{name}.bias"))

    def layer_norm(self, name, x):
        """Return the layer norm of x (N, D)."""
        scale, shift = self.of[f"{name}.weight"], self.of[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[1:], scale, shift)

    def batch_norm(self, name, x):
        """Return the batch norm of x (N, D), in training mode."""
        kept = (self.of[f"{name}.{each}"] for each in ("running_mean", "running_var"))
        scale, shift = self.of[f"{name}.weight"], self.of[f"{name}.bias"]
        return functional.batch_norm(x, *kept, scale, shift, training=True)


def polynormer(model, graph):
    """Return Polynormer in its global phase, arXiv 2403.01232, as a function of features, rate."""
    weights, adjacency = Weights(model), normalised(graph)

    def answer(x, rate):
        x = functional.dropout(weights.affine("stem", x), rate)
        total, gates = 0.0, weights.of["local_gates.raw"].sigmoid()
        for i, b in enumerate(gates):
            name = f"local_layers.{i}"
            gathered = adjacency @ weights.affine(f"{name}.convolution.linear", x)
            y = weights.batch_norm(f"{name}.between", gathered + weights.affine(f"{name}.skip", x))
            y = functional.dropout(y.relu(), rate)
            product = weights.affine(f"{name}.multiply", x).relu() * y
            x = (1 - b) * weights.layer_norm(f"{name}.norm", product) + b * y
            total = total + x
        x = weights.layer_norm("norm", total)
        for i, b in enumerate(weights.of["global_gates.raw"].sigmoid()):
            name = f"global_layers.{i}"
            k = weights.affine(f"{name}.key", x).sigmoid()
            v = weights.affine(f"{name}.value", x)
            mean = k @ (k.T @ v) / (k @ k.sum(0))[:, None]
            x = weights.layer_norm(f"{name}.norm", mean) * (
                weights.affine(f"{name}.multiply", x) + b
            )
            x = functional.dropout(weights.affine("output.0", x).relu(), rate)
        return weights.affine("head_global", x), 0.0

    return answer


def difformer(model, graph, norm=functional.normalize):
    """Return DIFFormer-s, arXiv 2301.09474, as a function of features and rate."""
    weights, adjacency = Weights(model), normalised(graph)

    def answer(x, rate):
        z = functional.dropout(weights.layer_norm("norm", weights.affine("stem", x)).relu(), rate)
        for i in range(LAYERS):
            name = f"layers.{i}"
            q, k = (norm(weights.affine(f"{name}.{each}", z)) for each in ("query", "key"))
            v = weights.affine(f"{name}.value", z)
            mass = len(x) + q @ k.sum(0)
            attended = (v.sum(0) + q @ (k.T @ v)) / mass[:, None]
            mixed = 0.5 * (attended + adjacency @ v) + 0.5 * z
            z = functional.dropout(weights.layer_norm(f"{name}.norm", mixed), rate)
        return weights.affine("head", z), 0.0

    return answer


def nodeformer(model, graph):
    """Return NodeFormer, arXiv 2306.08385, as a function of features, rate and noise or none."""
    weights, adjacency = Weights(model), normalised(graph)
    src, dst = graph.edges()
    share = graph.in_degrees().float().reciprocal()[dst] / len(dst)

    def features(x, w):
        x = x / x.shape[1] ** 0.25
        return (x @ w.T - x.square().sum(1, keepdim=True) / 2).exp()

    def answer(x, rate, noises=NOISES):
        z = functional.elu(weights.layer_norm("norm", weights.affine("stem", x)))
        z, penalty = functional.dropout(z, rate), 0.0
        for i in range(LAYERS):
            name = f"layers.{i}"
            q, k, v = (weights.affine(f"{name}.{each}", z) for each in ("query", "key", "value"))
            w = weights.of[f"{name}.kernel.directions"]
            q, k = (features(each / math.sqrt(TEMPERATURE), w) for each in (q, k))
            attended = torch.zeros_like(v)
            for _ in range(noises):
                noise = -torch.empty(len(k)).exponential_().log()
                noisy = k * (noise / TEMPERATURE).exp()[:, None]
                attended = attended + q @ (noisy.T @ v) / (q @ noisy.sum(0))[:, None]
            attended = attended / noises if noises else q @ (k.T @ v) / (q @ k.sum(0))[:, None]
            gathered = weights.of[f"{name}.strengths.0"] * (adjacency @ v)
            out = weights.affine(f"{name}.output", attended + gathered)
            pairs = (q[dst] * k[src]).sum(1).log() - (q @ k.sum(0)).log()[dst]
            penalty = penalty - 0.1 * (share * pairs).sum() / LAYERS
            z = functional.elu(weights.layer_norm(f"{name}.norm", z + out))
            z = functional.dropout(z, rate)
        return weights.affine("head", z), penalty

    return answer


def as_published(model, graph):
    """Return DIFFormer-s with one norm for the queries of all nodes, and one for the keys."""
    return difformer(model, graph, lambda x: x / x.norm())


PLAIN = {
    "polynormer": polynormer,
    "difformer": difformer,
    "difformer, one norm": as_published,
    "nodeformer": nodeformer,
}


def check(nodes=70_000, edges=210_000):
    """Check that logits, penalties and gradients of both agree without dropout and noise.

    By default the graph is large enough for the kernels of large graphs.
    """
    graph, x, _ = work(nodes, edges, 16)
    for name, plain in PLAIN.items():
        options = {**OPTIONS[name], **({"samples": 0} if name == "nodeformer" else {})}
        model = created(name, 16, 32, 0.0, options)
        quiet = (0,) if name == "nodeformer" else ()
        found = []
        for answer in (model(graph, x), plain(model, graph)(x, 0.0, *quiet)):
            logits, penalty = answer
            loss = logits.square().sum() + penalty
            gradient = torch.autograd.grad(loss, model.stem.weight)[0]
            found.append([logits, torch.as_tensor(penalty), gradient])
        for one, other in zip(*found, strict=True):
            scale = float(one.detach().abs().max())
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * scale)


def main():
    """Check, measure, and write the results."""
    full = full_asked(__doc__)
    check()
    size = (169_343, 1_166_000, 128, 256) if full else (20_000, 138_000, 128, 128)
    table, aims = [], []
    for name in PLAIN:
        ways = {"zoo": zoo_step, "plain torch": plain_step}
        if name == "polynormer":
            ways["PyG"] = peer_step
        costs = contest_of_processes(
            {way: (make, (name, *size)) for way, make in ways.items()}, rounds=3 if full else 5
        )
        zoo = costs["zoo"].seconds
        for way, cost in costs.items():
            table.append(
                {
                    "model": name,
                    "step": way,
                    "ms": f"{1000 * cost.seconds:.0f}",
                    "GB": f"{cost.bytes / 1e9:.2f}",
                    "ratio": f"{cost.seconds / zoo:.2f}",
                }
            )
            limit = {"plain torch": 3, "PyG": 4}.get(way)
            if limit:
                ratio = cost.seconds / zoo
                aims.append(Aim(f"{way} by zoo, {name}", ratio, limit, least=True))
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
