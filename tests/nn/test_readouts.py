"""Readouts equal a loop over the graphs, and models with one train, are measured and carry over."""

import pytest
import torch
from torch import nn

from zoo import ZooError, create_model
from zoo.config.options import pick
from zoo.data.samples import Samples
from zoo.graphs.adjacency import csc
from zoo.graphs.examples import short_path, tiny_graph
from zoo.graphs.graph_sets import StoredGraphs
from zoo.nn.readouts import READOUTS, last_node, max_of_nodes, mean_of_nodes, sum_of_nodes

SIZES = torch.tensor([3, 1, 7, 4])
POOLS = {"sum": sum_of_nodes, "mean": mean_of_nodes, "max": max_of_nodes, "last": last_node}


def one_by_one(name, pool, rows):
    """What a pool gives for one graph alone, written down as its equation."""
    if name in ("sum", "mean"):
        return getattr(rows, name)(dim=0)
    if name == "max":
        return rows.max(dim=0).values
    if name == "last":
        return rows[-1]
    if name == "attention":
        return (pool.gate(rows).softmax(dim=0) * rows).sum(dim=0)
    if name == "set2set":
        hidden, cell, memory = (torch.zeros(1, width) for width in (8, 8, 16))
        for _ in range(pool.steps):
            hidden, cell = pool.cell(memory, (hidden, cell))
            memory = torch.cat([hidden, (rows @ hidden[0]).softmax(0)[None] @ rows], dim=1)
        return memory[0]
    attended = nn.functional.scaled_dot_product_attention(
        *(x.unflatten(1, (pool.heads, -1)).transpose(0, 1)
          for x in (pool.seeds, pool.key(rows), pool.value(rows)))
    )  # fmt: skip
    return attended.transpose(0, 1).flatten()


@pytest.mark.parametrize("name", [*POOLS, "attention", "set2set", "seeds"])
def test_pools_equal_a_loop_over_the_graphs(name):
    torch.manual_seed(0)
    pool = POOLS.get(name) or pick(READOUTS, {"name": name, "dim": 8}, 2).pool
    rows = torch.randn(int(SIZES.sum()), 8, requires_grad=True)
    together = pool(rows, SIZES)
    apart = torch.stack([one_by_one(name, pool, part) for part in rows.split(SIZES.tolist())])
    torch.testing.assert_close(together, apart)
    weights = torch.randn_like(apart)
    torch.testing.assert_close(
        *(torch.autograd.grad((out * weights).sum(), rows)[0] for out in (together, apart))
    )


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("sizes", [[2, 0, 1], [0, 3, 0], [0, 0, 0], [0], [2, 2]])
def test_pools_of_graphs_without_nodes_are_zero(name, sizes):
    rows = torch.arange(2.0 * sum(sizes)).add(1).view(-1, 2)
    pooled = POOLS[name](rows, torch.tensor(sizes))
    for row, part in zip(pooled, rows.split(sizes), strict=True):
        assert torch.equal(row, one_by_one(name, None, part) if len(part) else torch.zeros(2))


def test_every_readout_gives_answers_and_has_gradients():
    for name in READOUTS:
        model = create_model("gcn", 5, 3, readout=name)
        logits = model(StoredGraphs([tiny_graph()], torch.zeros(2).long()).batch(torch.arange(2)),
                       torch.randn(24, 5)).logits  # fmt: skip
        assert logits.shape == (24, 64)
        answers = model.read_graphs(logits, torch.tensor([12, 12]))
        assert answers.shape == (2, 3) and model.config["out_dim"] == 3
        answers.square().sum().backward()
        assert all(weight.grad is not None for weight in model.head_readout.parameters())


def test_heads_of_seeds_divide_their_width():
    with pytest.raises(ZooError, match="3 heads do not divide dim 64"):
        create_model("gcn", 5, 3, readout={"name": "seeds", "heads": 3})
    with pytest.raises(ZooError, match="has no readout"):
        create_model("gcn", 5, 3).read_graphs(torch.zeros(4, 3), torch.tensor([4]))


def test_a_virtual_node_is_linked_with_all_nodes_of_its_graph():
    graphs = StoredGraphs([tiny_graph(), short_path()], torch.tensor([1, 0, 1]))
    x = torch.arange(18.0 * 2).reshape(18, 2)
    data = Samples("three", graphs, x, torch.zeros(3).long(), "graph-classification", "accuracy",
                   "ratio-60-20-20", None, 2)  # fmt: skip
    data = data.encoded(lambda graph: torch.full((graph.num_nodes(), 1), 1.0 * graph.num_nodes()))
    joined, rows = data.with_virtual_nodes().batch(torch.tensor([2, 1]))
    assert joined.batch_num_nodes().tolist() == [4, 13]
    assert rows[:4].tolist() == [[30, 31, 0, 3], [32, 33, 0, 3], [34, 35, 0, 3], [0, 0, 1, 0]]
    offsets, sources = csc(joined)
    lists = [part.tolist() for part in sources.tensor_split(offsets[1:-1].long())]
    assert [*map(sorted, lists[:4])] == [[0, 1, 3], [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]]
    assert sorted(lists[16]) == [*range(4, 17)] and all(
        16 in neighbours for neighbours in lists[4:]
    )
    plain, _ = csc(data.batch(torch.tensor([2, 1]))[0])
    assert joined.num_edges() == plain[-1] + 2 * 15 + 2
