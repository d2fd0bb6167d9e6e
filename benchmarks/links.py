"""An epoch of link prediction, beside that of PyTorch Geometric.

    python benchmarks/links.py [cora computer] [--full]

Both take the same steps: a fifth of the training links is predicted in each, beside as many pairs
that are drawn anew, and taken out of the graph meanwhile; two convolutions of width 64 and a linear
head, an MLP on the product of both ends, binary cross entropy, Adam. Without --full, few rounds.
"""

import argparse
import statistics

import torch
from contest import Aim, conclude, contest_of_processes
from torch import nn
from torch.nn import functional

DIM, STEPS, RATE = 64, 5, 0.01
TASK = {"name": "link-prediction", "dim": DIM}


def links(dataset):
    """Return the links of a data set, with the message graph of training, and their split."""
    import zoo
    from zoo.config.options import pick
    from zoo.data.links import LinkData
    from zoo.data.splits import split_of
    from zoo.tasks import TASKS

    data = LinkData.of(zoo.load_graph(dataset), pick(TASKS, TASK))
    split = split_of(data, data.split, 0)
    return data.trained_on(split.train), split


def zoo_epoch(dataset):
    """Return a function that trains an epoch of the zoo, and returns its loss."""
    import zoo
    from zoo.training.batches import TrainingData
    from zoo.training.trainer import Trainer

    torch.manual_seed(0)
    data, split = links(dataset)
    plain = {"dim": DIM, "layers": 2, "dropout": 0.0, "norm": "none", "residual": False}
    model = zoo.create_model("gcn", data.inputs, DIM, decoder="hadamard-mlp", **plain)
    on = TrainingData(data, split, data.how)
    trainer = Trainer(model, on, batching={"name": "links", "share": 1 / STEPS})
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    epochs = iter(range(10**6))
    return lambda: trainer.train(optimiser, next(epochs))


def pyg_epoch(dataset):
    """Return a function that trains the same epoch by PyG, in eager mode, and returns its loss."""
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import negative_sampling

    torch.manual_seed(0)
    data, split = links(dataset)
    pairs, x, nodes = data.links.pairs[split.train].T, data.x.float(), len(data.x)
    known = torch.cat([pairs, pairs.flip(0)], dim=1)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(x.shape[1], DIM), GCNConv(DIM, DIM)
            self.head = nn.Linear(DIM, DIM)
            self.decoder = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))

        def forward(self, x, edges, source, target):
            h = self.first(x, edges).relu()
            h = self.head(self.second(h, edges).relu())
            return self.decoder(h[source] * h[target]).squeeze(-1)

    model = Encoder()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def epoch():
        losses = []
        for rows in torch.randperm(pairs.shape[1]).tensor_split(STEPS):
            others = torch.ones(pairs.shape[1], dtype=torch.bool)
            others[rows] = False
            seen = pairs[:, others]
            seen = torch.cat([seen, seen.flip(0)], dim=1)
            negatives = negative_sampling(known, nodes, num_neg_samples=len(rows))
            source, target = torch.cat([pairs[:, rows], negatives], dim=1)
            labels = torch.zeros(len(source))
            labels[: len(rows)] = 1
            optimiser.zero_grad()
            logits = model(x, seen, source, target)
            loss = functional.binary_cross_entropy_with_logits(logits, labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return statistics.fmean(losses)

    return epoch


def beside_pyg(dataset, rounds):
    """Return rows of the table, and how many times PyG's epoch takes."""
    ways = {"zoo": (zoo_epoch, (dataset,)), "PyG": (pyg_epoch, (dataset,))}
    costs = contest_of_processes(ways, rounds=rounds)
    table = [
        {
            "links of": dataset,
            "way": name,
            "ms per epoch": f"{1000 * cost.seconds:.0f}",
            "GiB": f"{cost.bytes / 2**30:.2f}",
        }
        for name, cost in costs.items()
    ]
    return table, costs["PyG"].seconds / costs["zoo"].seconds


def main():
    """Measure, print the table and write it to results.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=["cora", "computer"])
    parser.add_argument("--full", action="store_true", help="Many rounds.")
    asked = parser.parse_args()
    table, aims = [], []
    for dataset in asked.datasets:
        rows, ratio = beside_pyg(dataset, 15 if asked.full else 3)
        table += rows
        aims.append(Aim(f"PyG by zoo, an epoch on {dataset}", ratio, 2, least=True))
        print(table[-2:], aims[-1], flush=True)
    conclude(__file__, asked.full, table, aims)


if __name__ == "__main__":
    main()
