"""From a folder of one's own to predictions and fine-tuning, by commands alone."""

import json

import networkx
import numpy as np
import pandas
import pytest
import torch
from heterographs import heterograph, pyg_dict
from needs_dgl import needs_dgl
from quick import every

from zoo.dgl import dgl

FIELDS = ("database", "mining", "wireless")


def trade(folder, later):
    """Countries with dates; who sells to whom, and how much."""
    rng = np.random.default_rng(later)
    bloc = rng.integers(3, size=90)
    joined = pandas.Timestamp("1990-01-01") + pandas.to_timedelta(rng.integers(0, 9000, 90), "D")
    nodes = pandas.DataFrame(
        {"id": [f"c{each}" for each in range(90)], "joined": joined.date, "bloc": bloc}
    )
    nodes["people"] = (rng.lognormal(3, 0.5, 90) + 15 * bloc).round(2)
    seller, buyer = rng.integers(90, size=(2, 700))
    amount = np.where(bloc[buyer] == (bloc[seller] + 1) % 3, 50, 1) * rng.random(700)
    edges = pandas.DataFrame({"seller": nodes["id"][seller].to_numpy(), "amount": amount,
                              "buyer": nodes["id"][buyer].to_numpy()})  # fmt: skip
    folder.mkdir()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges[["seller", "buyer", "amount"]].to_csv(folder / "edges.csv", index=False)
    return folder


def customers(folder, later):
    """Customers, some of whose ages are not known, and the products that they buy."""
    rng = np.random.default_rng(later)
    kind = rng.integers(2, size=120)
    words = ("garden seed spade flower", "cable phone charger screen")
    age = np.where(rng.random(120) < 0.2, np.nan, rng.integers(18, 80, 120))
    people = pandas.DataFrame(
        {"id": [f"u{each}" for each in range(120)], "age": age,
         "town": rng.choice(["Rome", "Bonn", "Lyon"], 120), "segment": kind}
    )  # fmt: skip
    sort = rng.integers(2, size=40)
    goods = pandas.DataFrame(
        {"id": [f"g{each}" for each in range(40)], "price": rng.random(40).round(3),
         "title": [" ".join(rng.choice(words[each].split(), 3)) for each in sort]}
    )  # fmt: skip
    bought = [
        (u, rng.choice(np.flatnonzero(sort == kind[u]))) for u in range(120) for _ in range(4)
    ]
    folder.mkdir()
    people.to_csv(folder / "nodes-customer.csv", index=False)
    goods.to_csv(folder / "nodes-product.csv", index=False)
    pandas.DataFrame([(f"u{u}", f"g{g}") for u, g in bought], columns=["source", "target"]).to_csv(
        folder / "edges-customer-product.csv", index=False
    )
    return folder


def social(folder, later):
    """A social graph of NetworkX whose nodes have vectors."""
    rng = np.random.default_rng(later)
    graph = networkx.planted_partition_graph(3, 30, 0.2, 0.02, seed=int(rng.integers(99)))
    for node, data in graph.nodes(data=True):
        data.pop("block", None)
        club = node // 30
        data |= {"club": FIELDS[club], "taste": (rng.normal(size=4) + 0.3 * club).tolist()}
    graph.graph.clear()
    networkx.write_gml(graph, folder.with_suffix(".gml"))
    return folder.with_suffix(".gml")


def pyg(folder, later):
    """What PyG's HeteroData gives as plain tensors."""
    torch.save(pyg_dict(heterograph()), folder.with_suffix(".pt"))
    return folder.with_suffix(".pt")


def hetero(folder, later):
    """A heterograph that DGL has saved."""
    dgl.save_graphs(str(folder.with_suffix(".bin")), [heterograph()])
    return folder.with_suffix(".bin")


WALKS = {
    trade: [
        "label=bloc", "source=seller", "target=buyer", "weight=amount", "direction=separate",
        "dates=joined", "numbers=standard", "time_column=joined", "split=time-70-10-20",
    ],
    customers: ["label=segment", "text=title", "one_hot=town", "missing=mean", "numbers=standard"],
    social: ["label=club", "numbers=raw"],
    pyg: ["features=standard", "relations=separate"],
    hetero: ["features=standard"],
}  # fmt: skip
MODEL = {trade: ["model.direction=separate"], pyg: ["model.relations=2"]}


@pytest.mark.parametrize(
    "build",
    [*every([trade, customers, social, pyg], 2), pytest.param(hetero, marks=needs_dgl)],
    ids=lambda each: each.__name__,
)
def test_a_walk(tmp_path, zoo, build):
    path, words = build(tmp_path / "mine", 0), WALKS[build]
    reading = [each for each in words if not each.startswith(("split=", "features="))]
    code, printed = zoo("data", "check", path, *reading)
    assert code == 0, printed.err + printed.out
    options = [f"dataset.{each}" for each in words]
    small = [
        "model={name: gcn, dim: 16, layers: 2, dropout: 0.2}",
        "train.lr=0.01",
        "train.epochs=60",
        "seeds=[0]",
        "--runs",
        "runs",
    ]
    split = (
        [] if any(each.startswith("split=") for each in words) else ["dataset.split=ratio-60-20-20"]
    )
    code, printed = zoo("train", "gcn-cora", f"dataset={path}", *options, *split,
                        *small, *MODEL.get(build, []), "--json")  # fmt: skip
    assert code == 0, printed.err
    assert json.loads(printed.out)["test"]["mean"] > 0.5
    (run,) = (tmp_path / "runs").glob("gcn-*")
    new = build(tmp_path / "new", 1)
    code, printed = zoo("predict", run, "--data", new, "--out", "new.csv")
    assert code == 0, printed.err
    found = pandas.read_csv(tmp_path / "new.csv")
    assert len(found) >= 90 and found.filter(like="probability").sum(axis=1).round(3).eq(1).all()
    code, printed = zoo("evaluate", run, "--data", new, "--json")
    assert code == 0 and json.loads(printed.out)["score"] > 0.45, printed.err
    code, printed = zoo("finetune", run, "--data", new, "train.epochs=5", "--runs", "tuned")
    assert code == 0, printed.err
    (tuned,) = (tmp_path / "tuned").glob("gcn-*")
    begun = json.loads((tuned / "start_from.json").read_text())
    assert not begun["fresh"], "what was learnt of the columns is kept, and the stem with it"
