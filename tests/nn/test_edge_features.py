"""Features of edges: in canonical graphs and parts of them, and in models, by dense formulas."""

import numpy as np
import pytest
import torch
from twins import assert_twins

import zoo
from zoo.canonical_form import FEATURE, WEIGHT
from zoo.data.canonical import concatenate_graphs
from zoo.graphs import sampling
from zoo.graphs.edge_weights import one_relation
from zoo.models.htgn import AttentionEdges
from zoo.nn import naive
from zoo.nn.propagation import GraphAttention, Isomorphism, attend_to_neighbours
from zoo.training.layerwise import Layerwise
from zoo.weights.create import create_model

N, F = 9, 3
EDGES = [[0, 1], [1, 2], [2, 0], [3, 1], [3, 4], [5, 3], [6, 5], [0, 6], [4, 0], [1, 0], [7, 7]]


def graph(weights=False, **options):
    torch.manual_seed(1)
    given = {"weights": torch.rand(len(EDGES)) + 0.1} if weights else {}
    features = torch.randn(len(EDGES), F)
    return zoo.canonical(EDGES, nodes=N, edge_features=features, **given, **options)


def dense(graph, values):
    """Return (N, N, ...), row v what leads to v, of values (E, ...)."""
    src, dst = graph.edges()
    return values.new_zeros(N, N, *values.shape[1:]).index_put((dst, src), values)


def test_of_an_edge_that_is_there_more_than_once_they_are_averaged():
    rows, features = [[0, 1], [0, 1], [1, 0], [2, 1], [2, 2]], [[1.0], [3], [5], [7], [9]]
    made = zoo.canonical(rows, nodes=4, edge_features=features)
    # In order: 0-0, 0-1, 1-0, 1-1, 1-2, 2-1, 2-2, 3-3; the other way where none leads this one.
    assert made.edata[FEATURE].flatten().tolist() == [0, 2, 5, 0, 7, 7, 9, 0]
    again = zoo.canonical(made)
    assert torch.equal(again.edata[FEATURE], made.edata[FEATURE])
    empty = zoo.canonical(np.zeros((0, 2), int), nodes=2, edge_features=np.zeros((0, 3)))
    assert empty.edata[FEATURE].tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([[1.0], [float("nan")]], "is not finite at row 1, column 0"),
        ([1.0, 2.0], r"shape \(2,\) and should have \(2, F\)"),
        ([[1.0]], r"shape \(1, 1\) and should have \(2, F\)"),
        ([["a"], ["b"]], "edge_features"),
    ],
)
def test_wrong_features_are_refused(features, said):
    with pytest.raises(zoo.ZooError, match=said):
        zoo.canonical([[0, 1], [1, 2]], nodes=3, edge_features=features)


def test_parts_of_a_graph_carry_them():
    made = graph(weights=True)
    nodes = torch.tensor([0, 1, 3, 4, 5])
    part, expected = sampling.induced(made, nodes), made.subgraph(nodes)
    place = {
        (int(u), int(v)): f for u, v, f in zip(*part.edges(), part.edata[FEATURE], strict=True)
    }
    for u, v, f in zip(*expected.edges(), expected.edata[FEATURE], strict=True):
        assert torch.equal(place[int(u), int(v)], f)
    around, near = sampling.neighbourhood(made, torch.tensor([1]), [-1], 0)
    for u, v, f in zip(*near.edges(), near.edata[FEATURE], strict=True):
        [number] = made.edge_ids([around[u]], [around[v]])
        assert torch.equal(made.edata[FEATURE][number], f)
    both = concatenate_graphs([made, made])
    assert torch.equal(both.edata[FEATURE], made.edata[FEATURE].repeat(2, 1))
    with pytest.raises(zoo.ZooError, match="features of edges, and others have not"):
        concatenate_graphs([made, zoo.canonical(EDGES, nodes=N)])
    apart = graph(direction="separate")
    one = one_relation(apart, 0, 2)
    assert len(one.edata[FEATURE]) == one.num_edges() < apart.num_edges()


@pytest.mark.parametrize("weights", [False, True])
def test_graph_attention_equals_its_twin(backend, weights):
    """Values, and the gradients of features of nodes and edges, and of parameters."""
    made = graph(weights)
    features = made.edata[FEATURE].double().requires_grad_()
    made.edata[FEATURE] = features
    x = torch.randn(N, 6, dtype=torch.double, requires_grad=True)
    module = GraphAttention(6, 3, 0.2, edge_dim=F).double()
    if weights:
        made.edata[WEIGHT] = made.edata[WEIGHT].double()

    def slow():
        parts = module.source, module.target, module.slope, module.edge_scores.weight
        return naive.graph_attention(made, x, *parts)[0]

    assert_twins(lambda: module(made, x), slow, [x, features, *module.parameters()])


@pytest.mark.parametrize("weights", [False, True])
def test_attention_to_neighbours_equals_its_twin(backend, weights):
    """Keys and values see the features of edges, which have gradients."""
    made = graph(weights)
    features = made.edata[FEATURE].double().requires_grad_()
    made.edata[FEATURE] = features
    q, k, v = torch.randn(3, N, 2, 4, dtype=torch.double).requires_grad_()
    edge = torch.randn(2, 4, F, dtype=torch.double, requires_grad=True)
    if weights:
        made.edata[WEIGHT] = made.edata[WEIGHT].double()
    for part in (0, 1):
        both = (
            lambda of=of, part=part: of(made, q, k, v, edge)[part]
            for of in (attend_to_neighbours, naive.attend_to_neighbours)
        )
        assert_twins(*both, [q, k, v, edge, features])


def test_the_convolution_of_attention_scores_equals_the_dense_formula():
    made = graph()
    made.edata[FEATURE] = made.edata[FEATURE].double()
    module = AttentionEdges(6, 2, F).double()
    z, q, k = (torch.randn(N, *shape).double() for shape in ((6,), (2, 4), (2, 4)))
    own = torch.einsum("vuf,hf->vuh", dense(made, made.edata[FEATURE]), module.edge_scores.weight)
    there = dense(made, torch.ones(made.num_edges()).double())[:, :, None]
    alpha = there * (torch.einsum("vhr,uhr->vuh", q, k) / 2 + own).exp()
    alpha = alpha / alpha.sum(1, keepdim=True)
    values = module.linear(z).reshape(N, 2, 3)
    slow = torch.einsum("vuh,uhd->vhd", alpha, values).reshape(N, -1)
    torch.testing.assert_close(module(made, z, q, k)[0], slow, rtol=0, atol=1e-9)


@pytest.mark.parametrize("edge_dim", [0, F])
@pytest.mark.parametrize("weights", [False, True])
def test_isomorphism_equals_the_dense_formula(backend, weights, edge_dim):
    """Without the self-loops of the canonical graph, as in the papers."""
    made = graph(weights)
    src, dst = made.edges()
    given = made.edata[FEATURE].double().requires_grad_()
    made.edata[FEATURE] = features = given * (src != dst).unsqueeze(1)  # of loops always 0
    w = made.edata[WEIGHT].double() if weights else torch.ones(made.num_edges()).double()
    w.requires_grad_(weights)
    if weights:
        made.edata[WEIGHT] = w
    x = torch.randn(N, 4, dtype=torch.double, requires_grad=True)
    module = Isomorphism(4, edge_dim).double()
    with torch.no_grad():
        module.eps.fill_(0.3)

    def slow():
        a = dense(made, w) - torch.eye(N).double()
        messages = x[None].expand(N, N, 4)
        if edge_dim:
            messages = (messages + module.linear(dense(made, features))).relu()
        return (1 + module.eps) * x + torch.einsum("vu,vud->vd", a, messages)

    inputs = [x, *module.parameters(), *([given] if edge_dim else []), *([w] if weights else [])]
    assert_twins(lambda: module(made, x), slow, inputs)


@pytest.mark.parametrize("name", ["gat", "htgn", "gine"])
def test_models_read_them(name):
    torch.manual_seed(0)
    made, x = graph(), torch.randn(N, 5)
    model = create_model(name, 5, 2, edge_dim=F).eval()
    other = zoo.canonical(made)
    other.edata[FEATURE] = -made.edata[FEATURE]
    assert not torch.allclose(model(made, x).logits, model(other, x).logits)
    plain = create_model(name, 5, 2).eval()
    assert torch.equal(plain(made, x).logits, plain(other, x).logits)
    for bare in (zoo.canonical(EDGES, nodes=N), made):
        with pytest.raises(zoo.ZooError, match="reads 2 features of each edge.*have (none|3)"):
            create_model(name, 5, 2, edge_dim=2)(bare, x)


@pytest.mark.parametrize("name", ["gat", "gine", "sgformer"])
def test_layer_by_layer_gives_the_same(name):
    features = torch.randn(len(EDGES), F).numpy()
    data = zoo.Dataset.from_arrays(EDGES, np.eye(N), [0, 1, 1] * 3, edge_features=features)
    options = {"edge_dim": data.edge_dim}
    if name == "sgformer":
        options = {"propagation": {"name": "transformer", **options}}
    model = create_model(name, N, 2, **options).eval()
    with torch.no_grad():
        found = Layerwise(data, "cpu").logits(lambda *given: model(*given).logits, torch.arange(N))
        torch.testing.assert_close(found, model(data.graph, data.x).logits, rtol=0, atol=1e-5)


def planted(seed=0, nodes=200):
    """Neighbours of the same class are told by a feature of the edge, and by nothing else."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=nodes)
    edges = rng.integers(nodes, size=(nodes * 8, 2))
    same = y[edges[:, 0]] == y[edges[:, 1]]
    features = np.stack([np.where(same, 1, -1) + 0.3 * rng.normal(size=len(edges)),
                         rng.normal(size=len(edges))], axis=1)  # fmt: skip
    hints = np.eye(2)[y] * 0.8 + rng.normal(size=(nodes, 2))
    return edges, hints, y, features


@pytest.mark.parametrize(
    "name", ["gine", *(pytest.param(each, marks=pytest.mark.slow) for each in ("gat", "htgn"))]
)
def test_a_planted_signal_is_found(tmp_path, name):
    edges, x, y, features = planted()
    found = []
    for given in (features, None):
        data = zoo.Dataset.from_arrays(edges, x, y, edge_features=given)
        path = tmp_path / f"{given is None}.npz"
        arrays = {"edges": edges, "node_labels": y, "node_features": x.astype(np.float32)}
        np.savez(path, **arrays, **({} if given is None else {"edge_features": given}))
        assert zoo.load_graph(str(path)).edge_dim == data.edge_dim
        recipe = {"model": {"name": name, "dim": 32}, "dataset": str(path), "seeds": [0, 1],
                  "train": {"epochs": 60, "lr": 0.01}}  # fmt: skip
        found.append(zoo.run_recipe(recipe, runs=tmp_path / "runs")["test"]["mean"])
    assert found[0] > found[1] + 0.1
