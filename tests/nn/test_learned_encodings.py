"""Encodings with weights equal their equations, and neither signs nor bases make a difference."""

import pytest
import torch

from zoo.config.options import options_of, pick
from zoo.dgl import dgl
from zoo.encodings import ENCODINGS, signnet, spe
from zoo.graphs.examples import batch, preferential_attachment, short_path, tiny_graph
from zoo.nn import ENCODING_NETWORKS, SPE, SignNet

NETWORKS = [
    lambda: SignNet(k=4, dim=6),
    lambda: SignNet(k=4, dim=6, eigenvalues=False),
    lambda: SignNet(k=4, dim=6, propagation="mean"),
    lambda: SPE(k=4, dim=6),
]
each_network = pytest.mark.parametrize("make", NETWORKS)


def cycle(count):
    """A ring, of which every eigenvalue but the first and the last is double."""
    src = torch.arange(count)
    graph = dgl.graph((src, (src + 1) % count), num_nodes=count)
    return dgl.add_self_loop(dgl.add_reverse_edges(graph))


def affine(layer, x):
    return x @ layer.weight.T + layer.bias


def rho(network, x):
    first, _, second, norm = network
    x = affine(second, affine(first, x).clamp(min=0))
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + norm.eps)
    return (x - mean) / spread * norm.weight + norm.bias


def adjacency(graph):
    src, dst = graph.edges()
    dense = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.float64)
    dense[dst, src] = 1
    return dense


def naive_signnet(network, graph, pairs):
    """The equation, node by node and eigenvector by eigenvector."""
    vectors, values = pairs.chunk(2, dim=1)
    a, rows = adjacency(graph), []
    average = a / a.sum(1, keepdim=True)
    for column in range(vectors.shape[1]):
        total = 0
        for sign in (1, -1):
            h = (sign * vectors[:, column])[:, None]
            if network.eigenvalues:
                h = torch.cat([h, values[:, column, None]], dim=1)
            for layer in network.phi:
                h = h + average @ h if network.propagate.__name__ == "mean" else h
                h = affine(layer, h).clamp(min=0)
            total = total + h
        rows.append(total * (values[:, column, None] > 0))
    return rho(network.rho, torch.cat(rows, dim=1))


def naive_spe(network, graph, pairs):
    """The N x N x m numbers, all of them, masked to the edges afterwards."""
    vectors, values = pairs.chunk(2, dim=1)
    first, _, second = network.phi
    functions = affine(second, affine(first, values[0][:, None]).clamp(min=0))  # (k, m)
    full = torch.stack(
        [vectors @ torch.diag(functions[:, m]) @ vectors.T for m in range(functions.shape[1])],
        dim=-1,
    )
    seen = affine(network.pair, full).clamp(min=0)  # (N, N, dim)
    others = adjacency(graph) - torch.eye(len(vectors), dtype=torch.float64)
    own = seen.diagonal().T
    return rho(network.rho, (1 + network.eps) * own + (others[:, :, None] * seen).sum(1))


@each_network
def test_values_and_gradients_are_those_of_the_equation(make):
    torch.manual_seed(0)
    graph, network = tiny_graph(), make().double()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    vectors, values = spe(graph, k=4).double().chunk(2, dim=1)
    vectors, values = vectors.clone().requires_grad_(), values[0].clone().requires_grad_()
    pairs = torch.cat([vectors, values.expand(12, -1)], dim=1)
    naive = naive_spe if isinstance(network, SPE) else naive_signnet
    probe = torch.randn(12, 6, dtype=torch.float64)
    both = []
    for compute in (network, lambda *inputs: naive(network, *inputs)):
        out = compute(graph, pairs)
        inputs = [vectors, values, *network.parameters()]
        score = (out * probe).sum()
        grads = torch.autograd.grad(score, inputs, retain_graph=True, allow_unused=True)
        both.append([out, *grads])
    for fast, slow in zip(*both, strict=True):
        torch.testing.assert_close(fast, slow)


@each_network
def test_signs_make_no_difference(make):
    graph, network = preferential_attachment(200), make()
    pairs = spe(graph, k=4)
    flipped = pairs.clone()
    flipped[:, [0, 3]] *= -1
    assert torch.equal(network(graph, flipped), network(graph, pairs))


def test_the_basis_of_a_double_eigenvalue_makes_no_difference_to_spe():
    graph, pairs = cycle(9), spe(cycle(9), k=4)
    assert torch.allclose(pairs[:, [4, 6]], pairs[:, [5, 7]], atol=1e-6)  # they are double
    turned, angle = pairs.clone(), torch.tensor(0.7)
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()]).view(2, 2)
    turned[:, :2], turned[:, 2:4] = pairs[:, :2] @ turn, pairs[:, 2:4] @ turn.T
    network, other = SPE(k=4, dim=6), SignNet(k=4, dim=6)
    torch.testing.assert_close(network(graph, turned), network(graph, pairs), atol=1e-4, rtol=0)
    assert not torch.allclose(other(graph, turned), other(graph, pairs), atol=1e-2)


def test_what_a_perceptron_of_entries_cannot_tell_apart_the_mean_of_neighbours_can():
    """On a path of four nodes, whose first eigenvector has one sign on either half."""
    graph = dgl.add_self_loop(dgl.graph(([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2])))
    there, back = signnet(graph, k=1), signnet(graph, k=1)
    back[:, 0] = back[:, 0].abs()
    torch.manual_seed(0)
    entries, along = SignNet(k=1), SignNet(k=1, propagation="mean")
    assert torch.equal(entries(graph, there), entries(graph, back))
    assert not torch.allclose(along(graph, there), along(graph, back), atol=1e-2)


@each_network
def test_a_graph_with_fewer_eigenvectors_gives_the_same_with_columns_of_zeros(make):
    """Those of a path of three nodes: two, whatever stands in the two columns beside them."""
    graph, network = short_path(), make()
    pairs = spe(graph, k=4)
    assert not pairs[:, [2, 3, 6, 7]].any() and pairs[:, [0, 1, 4, 5]].any(dim=0).all()
    larger = batch([graph, tiny_graph()])
    both = network(larger, torch.cat([pairs, spe(tiny_graph(), k=4)]))
    torch.testing.assert_close(both[:3], network(graph, pairs))


@pytest.mark.parametrize("name", ENCODING_NETWORKS)
def test_function_and_network_have_the_same_options(name):
    function, network = options_of(ENCODINGS[name]), options_of(ENCODING_NETWORKS[name])
    assert {key: (option.annotation, option.default) for key, option in function.items()} == {
        key: (option.annotation, option.default) for key, option in network.items()
    }
    assert pick(ENCODING_NETWORKS, name).columns == pick(ENCODINGS, name, tiny_graph()).shape[1]
