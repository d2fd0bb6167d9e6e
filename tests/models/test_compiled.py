"""Models under `torch.compile`: one piece each, with answers and gradients of the eager ones."""

import copy
import logging

import numpy as np
import pytest
import torch
from quick import every

import zoo
from zoo.config.options import options_of
from zoo.graphs.examples import batch, preferential_attachment, tiny_graph
from zoo.registry import MODELS, discover
from zoo.testing.cases import FEATURES, RBA, Case

discover()
NAMES = [
    name for name, each in MODELS.items()
    if each.__module__.startswith("zoo.models.") and not each.context  # closed forms stay eager
]  # fmt: skip
WITH_RBA = [name for name in NAMES if "attention" in options_of(MODELS[name])]
DRAW_INSIDE = {"htgn", "nodeformer"}  # in training, inside of random batches: other numbers


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """What the compiler writes about each step would be kept by pytest: most of the time."""
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)


class Pieces:
    """A backend that runs what it is given as it is, and counts it."""

    def __init__(self):
        torch.compiler.reset()
        self.count = 0

    def __call__(self, module, inputs):
        self.count += 1
        return module.forward


def answers(model, call, graph, x):
    """Logits, gradients and what the next random number is, from one seed."""
    torch.manual_seed(7)
    logits, penalty = call(graph, x)
    loss = (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum() + penalty
    parameters = [each for each in model.parameters() if each.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return logits, gradients, torch.rand(())


def check(model, backend, graph, x):
    """Compare a model with itself compiled; its running statistics move in a copy alike."""
    model(graph, x)
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend=backend)
    found = answers(other, compiled, graph, x)
    for one, two in zip(answers(model, model, graph, x), found, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
    for key, one in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[key], one)
    return compiled


@pytest.mark.parametrize("name", every(NAMES, 3))
def test_a_model_is_one_piece_and_answers_as_it_did(name, tiny):
    graph, x, _ = tiny
    pieces, options = Pieces(), options_of(MODELS[name])
    few = {key: 1 for key in options if key.endswith("layers")}  # the time is that of their trace
    check(Case(name, few).build().train(), pieces, graph, x)
    assert pieces.count == 1  # no break


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attention", ["own", "rba"])
@pytest.mark.parametrize("training", [True, False])
def test_traced_gradients_are_those_of_the_eager_model(name, attention, training, tiny):
    if attention == "rba" and name not in WITH_RBA:
        pytest.skip(f"{name} has no attention to choose")
    if attention == "rba" and training and name in DRAW_INSIDE:
        pytest.skip(f"{name} draws inside of random batches, in a trace from the global generator")
    torch.compiler.reset()
    options = {"attention": RBA} if attention == "rba" else {}
    check(Case(name, options).build().train(training), "aot_eager", *tiny[:2])


@pytest.mark.slow
def test_each_layer_draws_random_batches_of_its_own(tiny):
    """Equal calls that draw are not taken for one: the layers' orders differ as they do eagerly."""
    graph, x, _ = tiny
    torch.compiler.reset()
    check(Case("transformer", {"attention": RBA}).build().train(), "aot_eager", graph, x)


@pytest.mark.slow
def test_each_graph_is_answered_for_by_itself(tiny):
    graph, x, _ = tiny
    pieces = Pieces()
    model = Case("gat", {}).build().eval()
    compiled = check(model, pieces, graph, x)
    larger = preferential_attachment(30, 2)
    for other in (larger, batch([graph, larger]), graph):
        rows = torch.randn(other.num_nodes(), FEATURES)
        torch.testing.assert_close(compiled(other, rows), model(other, rows))
    count, grown = pieces.count, zoo.canonical(np.array([[0, 1], [1, 2]]), nodes=12)
    for _ in range(2):  # what is compiled for a graph holds until it is another one
        torch.testing.assert_close(compiled(grown, x), model(grown, x))
        assert pieces.count == (count := count + 1)
        grown.add_edges([3, 4], [4, 3])


@pytest.mark.slow
def test_attention_stays_inside_each_graph_of_a_batch():
    graph, pieces = batch([tiny_graph(), preferential_attachment(30, 2)]), Pieces()
    x = torch.randn(graph.num_nodes(), FEATURES)
    check(Case("sgformer", {}).build().eval(), pieces, graph, x)


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [False, True])
def test_weights_of_edges_count_and_may_change(learnt, tiny):
    """Learnt ones end the trace, and have their gradient all the same."""
    graph, x, _ = tiny
    graph = copy.copy(graph)
    graph.edata["weight"] = torch.rand(graph.num_edges(), requires_grad=learnt) + 0.5
    model, pieces = Case("gcn", {}).build().eval(), Pieces()
    compiled = check(model, pieces, graph, x)
    assert learnt or pieces.count == 1
    for weights in (torch.rand(graph.num_edges()) + 0.5, None):
        if weights is None:
            del graph.edata["weight"]
        else:
            graph.edata["weight"] = weights
        torch.testing.assert_close(compiled(graph, x), model(graph, x))


TO_NEIGHBOURS = {"name": "transformer", "edge_dim": 2, "gate": True}


@pytest.mark.parametrize(
    ("name", "options"),
    [("gat", {"edge_dim": 2}), ("sgformer", {"graph_layers": 1, "propagation": TO_NEIGHBOURS})],
)
def test_features_of_edges_count(name, options, tiny):
    graph, x, _ = tiny
    graph = copy.copy(graph)
    graph.edata["feature"] = torch.randn(graph.num_edges(), 2)
    pieces = Pieces()
    check(Case(name, options).build().eval(), pieces, graph, x)
    assert pieces.count == 1


@pytest.mark.slow
def test_zeros_of_wide_features_are_skipped(tiny):
    """Outside of the trace, as their sparse form is found by the tensor itself."""
    graph, _, _ = tiny
    x = (torch.rand(12, 300) < 0.05).float()
    for name, most in {"sgformer": 4, "polynormer": 3}.items():
        pieces = Pieces()
        check(Case(name, {}).build(in_dim=300).train(), pieces, graph, x)
        assert pieces.count <= most


def test_a_model_compiled_in_place_keeps_its_names(tiny):
    graph, x, _ = tiny
    model, pieces = Case("sgformer", {}).build().eval(), Pieces()
    expected, names = model(graph, x).logits, [*model.state_dict()]
    model.compile(backend=pieces)
    torch.testing.assert_close(model(graph, x).logits, expected)
    assert pieces.count == 1 and [*model.state_dict()] == names


def test_second_gradients_are_refused(tiny):
    """By torch: a compiled model has none, and says so."""
    graph, x, _ = tiny
    torch.compiler.reset()
    model = Case("gcn", {}).build().eval()
    rows = x.clone().requires_grad_()
    logits = torch.compile(model, backend="aot_eager")(graph, rows).logits
    (first,) = torch.autograd.grad(logits.square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(first.square().sum(), rows)
