"""GRU and GCN-GRU against slow twins of their equations, and the promises of every model."""

import numpy as np
import pytest
import torch
from needs_dgl import needs_dgl

from zoo.config.options import options_of
from zoo.data.snapshots import NodeSeries, Snapshots, Steps, with_columns
from zoo.errors import ZooError
from zoo.graphs.examples import tiny_graph
from zoo.registry import MODELS
from zoo.testing import model_promises, promises
from zoo.weights.create import create_model

NODES, TIMES, COLUMNS, DIM, OUT = 12, 4, 3, 5, 2


def built(name, **more):
    torch.manual_seed(3)
    model = create_model(name, TIMES * COLUMNS, OUT, dim=DIM, columns=COLUMNS, **more)
    return model.double().eval()


def values():
    torch.manual_seed(4)
    return torch.randn(NODES, TIMES * COLUMNS, dtype=torch.double, requires_grad=True)


def snapshots(features, lags=4, nodes=4):
    drawn = np.random.default_rng(0).normal(size=(20, nodes, features)).astype(np.float32)
    names = tuple(map(str, range(features)))
    series = NodeSeries(np.arange(20), Steps(1), drawn, names, None, [np.zeros((0, 2), np.int64)],
                        np.zeros(20, np.int64))  # fmt: skip
    return Snapshots.of("random", series, lags=lags, horizon=2)


def slow_gru(model, x):
    """Node by node, time by time, number by number."""
    net, rows = model.network, []
    wx, wh = net.weight_ih_l0, net.weight_hh_l0
    bx, bh = net.bias_ih_l0, net.bias_hh_l0
    for node in range(len(x)):
        h = [x.new_zeros(()) for _ in range(DIM)]
        for time in range(TIMES):
            now = x[node, time * COLUMNS : (time + 1) * COLUMNS]

            def of_input(row, now=now):
                return sum(wx[row, c] * now[c] for c in range(COLUMNS)) + bx[row]

            def of_state(row, h=h):
                return sum(wh[row, d] * h[d] for d in range(DIM)) + bh[row]

            r = [torch.sigmoid(of_input(d) + of_state(d)) for d in range(DIM)]
            u = [torch.sigmoid(of_input(DIM + d) + of_state(DIM + d)) for d in range(DIM)]
            c = [torch.tanh(of_input(2 * DIM + d) + r[d] * of_state(2 * DIM + d))
                 for d in range(DIM)]  # fmt: skip
            h = [u[d] * h[d] + (1 - u[d]) * c[d] for d in range(DIM)]
        rows.append(torch.stack(h))
    return torch.stack(rows) @ model.head.weight.T + model.head.bias


def slow_gcn_gru(model, x):
    """All nodes by a dense S, from the definition of the concatenation [x_t, h]."""
    near = torch.zeros(NODES, NODES, dtype=torch.double)
    src, dst = tiny_graph().edges()
    near[dst, src] = 1
    scale = near.sum(1) ** -0.5
    near = scale[:, None] * near * scale
    w, b = model.input.weight, model.input.bias
    both = torch.cat(
        [w, torch.cat([model.gates.weight, model.candidate.weight])], dim=1
    )  # of [x,h]
    h = torch.zeros(NODES, DIM, dtype=torch.double)
    for time in range(TIMES):
        now = x[:, time * COLUMNS : (time + 1) * COLUMNS]
        found = near @ torch.cat([now, h], dim=1) @ both.T + b
        u, r = torch.sigmoid(found[:, :DIM]), torch.sigmoid(found[:, DIM : 2 * DIM])
        c = near @ torch.cat([now, r * h], dim=1) @ both[2 * DIM :].T + b[2 * DIM :]
        h = u * h + (1 - u) * torch.tanh(c)
    return h @ model.head.weight.T + model.head.bias


@pytest.mark.parametrize(("name", "slow"), [("gru", slow_gru), ("gcn-gru", slow_gcn_gru)])
def test_it_equals_its_slow_twin(name, slow):
    model, x = built(name), values()
    if name == "gcn-gru":  # a state of zeros would hide the bias
        assert model.input.bias.abs().sum() > 0
    found, wanted = model(tiny_graph(), x).logits, slow(model, x)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    weights = [x, *model.parameters()]
    gradients = [torch.autograd.grad(each.square().sum(), weights) for each in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)


def test_the_last_values_come_last():
    """The order of times matters, and the first of them is forgotten rather than the last."""
    model, x = built("gru"), values().detach()
    early, late = x.clone(), x.clone()
    early[:, :COLUMNS] += 5
    late[:, -COLUMNS:] += 5
    found = [model(None, each).logits for each in (x, early, late)]
    assert (found[1] - found[0]).abs().mean() < (found[2] - found[0]).abs().mean()


@pytest.mark.parametrize("name", ["gru", "gcn-gru"])
def test_columns_have_to_divide_what_is_read(name):
    with pytest.raises(ZooError, match=f"{name}: 7 features .* not 3 at each .*`columns`"):
        create_model(name, 7, 1, columns=3)
    assert options_of(MODELS[name])["columns"].default is None
    assert create_model(name, 7, 1).columns == 1


@pytest.mark.parametrize("name", ["gru", "gcn-gru"])
def test_columns_are_those_of_the_data(name):
    data = snapshots(lags=4, features=2)
    assert with_columns(name, {"dim": 8}, data) == {"dim": 8, "columns": 2}
    assert with_columns(name, {"columns": None}, data) == {"columns": 2}
    assert with_columns(name, {"columns": 2}, data) == {"columns": 2}
    assert with_columns("mlp", {"dim": 8}, data) == {"dim": 8}
    assert with_columns(name, {}, snapshots(features=1)) == {"columns": 1}
    with pytest.raises(ZooError, match=f"{name}: 8 features .* not 1 at each of 4 times"):
        with_columns(name, {"columns": 1}, data)
    encoded = data.encoded(lambda graph: torch.zeros(4, 2))
    with pytest.raises(ZooError, match="10 features .* not 2 .*An encoding is none of them"):
        with_columns(name, {}, encoded)


@promises(model_promises("gru"))
def test_gru(promise):
    promise()


@promises(model_promises("gcn-gru"))
def test_gcn_gru(promise):
    promise()


@needs_dgl
@pytest.mark.parametrize("name", ["gru", "gcn-gru"])
def test_renaming_nodes_renames_values(name):
    from zoo.dgl import dgl

    model, x, order = built(name), values().detach(), torch.randperm(NODES)
    graph = tiny_graph()
    renamed = dgl.reorder_graph(graph, "custom", permute_config={"nodes_perm": order},
                                store_ids=False)  # fmt: skip
    torch.testing.assert_close(
        model(renamed, x[order]).logits, model(graph, x).logits[order], rtol=1e-9, atol=1e-9
    )
