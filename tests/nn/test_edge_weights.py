"""Propagation with weights and directions equals its naive twins, gradients of weights too."""

from functools import partial

import numpy as np
import pytest
import torch
from needs_dgl import needs_dgl
from twins import assert_twins

import zoo
from zoo.canonical_form import WEIGHT
from zoo.data.files.prepared import write_prepared
from zoo.data.load import read_graph
from zoo.dgl import dgl
from zoo.graphs import sampling
from zoo.graphs.edge_weights import in_lists, one_relation
from zoo.nn import naive
from zoo.nn.propagation import GraphAttention, Separate, gcn, mean
from zoo.registry import MODELS
from zoo.testing.cases import answer
from zoo.weights.create import create_model, list_models

N = 9
EDGES = [[0, 1], [1, 2], [2, 0], [3, 1], [3, 4], [5, 3], [6, 5], [0, 6], [4, 0], [1, 0]]


def graph(direction="both", edges=EDGES, **options):
    torch.manual_seed(1)
    weights = torch.rand(len(edges)) + 0.1
    return zoo.canonical(edges, nodes=N, weights=weights, direction=direction, **options)


def its_twin(module, graph, x):
    return naive.graph_attention(graph, x, module.source, module.target, module.slope)[0]


@pytest.mark.parametrize("direction", ["both", "in", "out"])
@pytest.mark.parametrize("name", ["gcn", "mean", "gat"])
def test_weighted_propagation_equals_its_twin(backend, name, direction):
    """Values, and the gradients of features, weights and parameters."""
    made = graph(direction)
    weights = made.edata[WEIGHT].double().requires_grad_()
    made.edata[WEIGHT] = weights
    x = torch.randn(N, 6, dtype=torch.double, requires_grad=True)
    module = GraphAttention(6, 3, 0.2).double()
    fast, slow = {
        "gcn": (gcn, naive.gcn),
        "mean": (mean, naive.mean),
        "gat": (module, partial(its_twin, module)),
    }[name]
    inputs = [x, *(module.parameters() if name == "gat" else ())]
    if name != "gat" or direction == "both":  # at a weight of 0 its logarithm has no gradient
        inputs.append(weights)
    assert_twins(lambda: fast(made, x), lambda: slow(made, x), inputs)
    made.edata[WEIGHT] = weights.detach()  # what is found once per graph is the same
    torch.testing.assert_close(fast(made, x), slow(made, x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("fast,slow", [(gcn, naive.gcn), (mean, naive.mean)])
def test_separate_directions_equal_their_twins(backend, fast, slow):
    """Dir-GNN (arXiv 2305.10498), equation 6: each direction normalised on its own."""
    made = graph("separate")
    made.edata[WEIGHT] = made.edata[WEIGHT].double()
    x = torch.randn(N, 8, dtype=torch.double, requires_grad=True)
    into, out = (made.local_var() for _ in range(2))
    into.edata[WEIGHT], out.edata[WEIGHT] = made.edata[WEIGHT].unbind(1)
    assert_twins(
        lambda: Separate([fast, fast])(made, x),
        lambda: slow(into, x[:, :4]) + slow(out, x[:, 4:]),
        [x],
    )


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "htgn", "graphgps", "polynormer"])
def test_weights_of_one_are_no_weights(name):
    torch.manual_seed(0)
    ones = zoo.canonical(EDGES, nodes=N, weights=torch.ones(len(EDGES)))
    plain = zoo.canonical(EDGES, nodes=N)
    model = create_model(name, in_dim=5, out_dim=3).eval()
    x = torch.randn(N, 5)
    if name == "gat":
        assert WEIGHT in ones.edata and WEIGHT not in plain.edata
    torch.testing.assert_close(model(ones, x).logits, model(plain, x).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "htgn", "sgformer", "polynormer"])
def test_an_edge_of_weight_two_counts_as_two(name):
    """In gcn, the mean and attention alike; and another weight gives other logits."""
    torch.manual_seed(0)
    x, model = torch.randn(N, 5), create_model(name, in_dim=5, out_dim=3).eval()
    heavy = zoo.canonical(EDGES, nodes=N, weights=[2.0, *[1.0] * (len(EDGES) - 1)])
    assert not torch.allclose(model(heavy, x).logits, model(graph(), x).logits)
    twice = zoo.canonical([*EDGES, EDGES[0]], nodes=N, weights=[1.0] * 11, duplicates="sum")
    src, dst = twice.edges()
    ends = {
        (int(u), int(v)): float(w) for u, v, w in zip(src, dst, twice.edata[WEIGHT], strict=True)
    }
    assert ends[0, 1] == ends[1, 0] == 3 and ends[1, 2] == 1  # 0-1 is in the list three times
    assert heavy.edata[WEIGHT].max() == 1.5  # the mean of 2 and 1


def test_canonical_weights():
    rows, weights = [[0, 1], [1, 0], [1, 2], [2, 2]], [1.0, 3.0, 5.0, 7.0]
    found = {
        (duplicates, direction): zoo.canonical(
            rows, nodes=4, weights=weights, duplicates=duplicates, direction=direction
        )
        for duplicates in ("mean", "sum", "max")
        for direction in ("both", "in", "out", "separate")
    }
    # In order: 0-0, 0-1, 1-0, 1-1, 1-2, 2-1, 2-2, 3-3; a self-loop that is added is 1.
    assert found["mean", "both"].edata[WEIGHT].tolist() == [1, 2, 2, 1, 5, 5, 7, 1]
    assert found["sum", "both"].edata[WEIGHT].tolist() == [1, 4, 4, 1, 5, 5, 7, 1]
    assert found["max", "both"].edata[WEIGHT].tolist() == [1, 3, 3, 1, 5, 5, 7, 1]
    assert found["sum", "in"].edata[WEIGHT].tolist() == [1, 1, 3, 1, 5, 0, 7, 1]
    assert found["sum", "out"].edata[WEIGHT].tolist() == [1, 3, 1, 1, 0, 5, 7, 1]
    both = torch.stack([found["sum", each].edata[WEIGHT] for each in ("in", "out")], dim=1)
    assert torch.equal(found["sum", "separate"].edata[WEIGHT], both)
    bare = zoo.canonical([[0, 1]], nodes=2, direction="in")
    assert bare.edata[WEIGHT].tolist() == [1, 1, 0, 1]
    for made in found.values():
        again = zoo.canonical(made)
        assert torch.equal(again.edata[WEIGHT], made.edata[WEIGHT])
        assert all(map(torch.equal, again.edges(), made.edges()))


@pytest.mark.parametrize("kinds, wanted", [([0, 0], [0.25]), ([0, 1], [0.5, 0])])
def test_a_weight_of_zero_has_a_part_in_the_mean_of_its_kind(kinds, wanted):
    apart = zoo.canonical([[0, 1], [0, 1]], nodes=2, weights=[0.5, 0.0], relations=kinds)
    assert apart.edata[WEIGHT][1].tolist() == wanted
    again = zoo.canonical(apart)
    assert torch.equal(again.edata[WEIGHT], apart.edata[WEIGHT])


def test_self_loops_do_not_change_what_other_edges_weigh():
    """Also where the rows are in canonical form: those of a matrix, and of kinds of edges."""
    rows = np.argwhere(
        np.eye(4) + np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 1, 0]])
    )
    walk = (1 / np.bincount(rows[:, 0]))[rows[:, 0]]  # D^-1 (A + I)
    for kinds in (None, rows[:, 0] % 2):
        found = []
        for kept in (np.ones(len(rows), bool), rows.any(axis=1)):  # without the loop of node 0
            own = None if kinds is None else kinds[kept]
            made = zoo.canonical(rows[kept], nodes=4, weights=walk[kept], relations=own)
            found.append(made.edata[WEIGHT])
        assert torch.equal(*(each[1:] for each in found))  # all but that loop
        assert found[0][0].flatten()[0] == 0.25 and (found[1][0] == 1).all()
        back = made.edge_ids(*made.edges()[::-1])
        assert torch.equal(found[0], found[0][back])


@needs_dgl
@pytest.mark.parametrize("direction", ["both", "in"])
def test_a_canonical_graph_of_dgl_is_read_as_it_is(direction, tmp_path):
    made = graph(direction)
    dgl.save_graphs(str(tmp_path / "own.bin"), [made])
    spec = {"name": str(tmp_path / "own.bin"), "weight": WEIGHT}
    write_prepared(read_graph(spec), tmp_path / "own.npz")
    for data in (
        zoo.Dataset.from_dgl(made, weight=WEIGHT),
        zoo.load_graph(spec),
        zoo.load_graph(tmp_path / "own.npz"),
    ):
        assert all(map(torch.equal, data.graph.edges(), made.edges()))
        assert torch.equal(data.graph.edata[WEIGHT], made.edata[WEIGHT])
    for bare in (
        zoo.Dataset.from_dgl(made, weights="ignore"),
        zoo.load_graph(tmp_path / "own.npz", weights="ignore"),
    ):
        assert WEIGHT not in bare.graph.edata
    found = read_graph({"name": str(tmp_path / "own.npz")})
    with pytest.raises(zoo.ZooError, match="`edge_form` is canonical.*edge_form"):
        write_prepared(found._replace(edges=found.edges[1:], weights=found.weights[1:]),
                       tmp_path / "own.npz")  # fmt: skip
    with pytest.raises(zoo.ZooError, match="`edge_form` is 'other'"):
        write_prepared(found._replace(form="other"), tmp_path / "own.npz")


@pytest.mark.parametrize(
    "weights,said",
    [
        ([1.0, -1.0], "is -1 at row 1"),
        ([1.0, float("nan")], "is nan at row 1"),
        ([float("inf"), 1.0], "is inf at row 0"),
        ([1.0], r"shape \(1,\) and should have \(2,\)"),
        (["a", "b"], "edge_weights"),
    ],
)
def test_wrong_weights_are_refused(weights, said):
    with pytest.raises(zoo.ZooError, match=said):
        zoo.canonical([[0, 1], [1, 2]], nodes=3, weights=weights)


@pytest.mark.parametrize("direction", ["both", "in", "separate"])
def test_parts_of_a_graph_carry_its_weights(direction):
    made = graph(direction)
    nodes = torch.tensor([5, 3, 1, 0, 4])
    part = sampling.induced(made, nodes)
    expected = made.subgraph(nodes)
    assert part.num_edges() == expected.num_edges()
    place = {(int(u), int(v)): w for u, v, w in zip(*part.edges(), part.edata[WEIGHT], strict=True)}
    for u, v, w in zip(*expected.edges(), expected.edata[WEIGHT], strict=True):
        assert torch.equal(place[int(u), int(v)], w)
    numbers = made.adj_tensors("csc")[2]
    held = made.edata[WEIGHT]
    assert torch.equal(in_lists(made)[WEIGHT], held[numbers] if len(numbers) else held)
    assert in_lists(zoo.canonical(EDGES, nodes=N)) == {}


def test_models_say_which_graphs_they_take():
    made = graph("separate")
    x = torch.randn(N, 5)
    for name in ("gcn", "sage", "gat"):
        model = create_model(name, in_dim=5, out_dim=2, direction="separate")
        assert model(made, x).logits.isfinite().all()
        with pytest.raises(zoo.ZooError, match="dataset.direction=separate"):
            model(graph(), x)
    for name in ("gcn", "htgn", "polynormer"):
        with pytest.raises(zoo.ZooError, match="model.direction=separate"):
            create_model(name, in_dim=5, out_dim=2)(made, x)
    assert one_relation(made, 1, 2).num_edges() < made.num_edges()


@pytest.mark.parametrize("name", list_models())
def test_what_a_model_says_of_weights_is_so(name):
    if MODELS[name].tasks == ("translation",):
        pytest.skip("it reads sentences, whose edges have no weights")
    if name == "boosting":
        pytest.skip("of so few rows no split need move; test_in_context.py asks it of more")
    torch.manual_seed(0)
    x, model = torch.randn(N, 5), create_model(name, in_dim=5, out_dim=3).eval()
    plain = zoo.canonical(EDGES, nodes=N)
    same = torch.equal(answer(model, graph(), x).logits, answer(model, plain, x).logits)
    assert same == (not model.edge_weights)


@pytest.mark.parametrize("learnt", ["weight", "feature"])
def test_learnt_edges_of_one_direction_keep_their_gradient(learnt):
    made, x = graph("separate"), torch.randn(N, 5)
    made.edata["feature"] = torch.randn(made.num_edges(), 2)
    values = made.edata[learnt] = torch.nn.Parameter(made.edata[learnt].clone())
    model = create_model("gat", 5, 2, direction="separate", edge_dim=2).eval()
    with torch.no_grad():
        before = model(made, x).logits
    for _ in range(2):
        values.grad = None
        answer = model(made, x).logits
        answer.square().sum().backward()
        assert values.grad.abs().sum() > 0 and torch.equal(answer, before)


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.bfloat16, torch.int64])
def test_weights_of_any_type_are_summed_in_full(kind):
    star = zoo.canonical([[0, each] for each in range(1, 600)], nodes=600)
    x = torch.rand(600, 3)
    expected = gcn(star, x), mean(star, x)
    star.edata[WEIGHT] = torch.ones(star.num_edges(), dtype=kind)
    for found, wanted in zip((gcn(star, x), mean(star, x)), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_an_edge_of_weight_0_tells_nothing(scale):
    torch.manual_seed(0)
    made = zoo.canonical([[0, 1]], nodes=2, direction="in")
    x = scale * torch.rand(2, 8)
    for _ in range(10):
        model = create_model("gat", 8, 2, layers=1, norm="none").eval()
        other = torch.stack([x[0], -x[1]])
        assert torch.equal(model(made, x).logits[0], model(made, other).logits[0])


@pytest.mark.parametrize("name", ["gcn", "gat", "nodeformer", "sage"])
def test_a_model_that_was_asked_in_inference_mode_can_be_trained(name):
    made, x = graph("both"), torch.zeros(N, 300)
    x[:, 3] = 1.0
    model = create_model(name, 300, 2)
    with torch.inference_mode():
        fresh, more = zoo.canonical(EDGES, nodes=N, weights=[1.0] * len(EDGES)), x.clone()
        assert model.eval()(made, x).logits.isfinite().all()
        assert model(fresh, more).logits.isfinite().all()
    model.train()(made, x).logits.sum().backward()


def test_a_self_loop_keeps_its_weight():
    """As PyG's GCNConv has it; nodes without one get a loop of weight 1."""
    edges = np.array([[0, 0], [0, 1], [1, 2], [2, 2], [2, 2]])
    weights = np.array([50.0, 1, 1, 2, 4])
    wanted = {"mean": 3.0, "sum": 6.0, "max": 4.0}
    for duplicates, of_two in wanted.items():
        for direction in ("both", "in", "out"):
            made = zoo.canonical(edges, nodes=4, weights=weights, duplicates=duplicates,
                              direction=direction)  # fmt: skip
            a = torch.zeros(4, 4)
            a[made.edges()[::-1]] = made.edata["weight"]
            assert a.diagonal().tolist() == [50, 1, of_two, 1]
    a = torch.tensor([[50.0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 3, 0], [0, 0, 0, 1]])
    scale = a.sum(1).rsqrt()
    x = torch.randn(4, 2)
    made = zoo.canonical(edges, nodes=4, weights=weights)
    torch.testing.assert_close(gcn(made, x), scale[:, None] * (a @ (scale[:, None] * x)))
    again = zoo.canonical(made)
    assert torch.equal(again.edata["weight"], made.edata["weight"])
    nothing = zoo.canonical(edges[:2], nodes=2, weights=np.array([0.0, 0]))
    assert gcn(nothing, x[:2]).isfinite().all()  # a loop that weighs nothing is none


def test_a_self_loop_keeps_its_kind_and_its_features():
    edges, kinds = np.array([[0, 0], [0, 1], [1, 1]]), np.array([0, 1, 1])
    told = {"weights": np.array([5.0, 2, 3]), "relations": kinds}
    made = zoo.canonical(edges, nodes=3, **told, edge_features=np.array([[7.0], [8], [9]]))
    loops = made.edges()[0] == made.edges()[1]
    assert made.edata["weight"][loops].tolist() == [[5, 1], [1, 3], [1, 1]]
    assert made.edata["feature"][loops].flatten().tolist() == [7, 9, 0]
