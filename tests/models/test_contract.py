"""The contract, held against every model of the registry with its own attention and with others."""

import itertools
import subprocess
import sys

import dgl
import numpy as np
import pytest
import torch

import zoo
from zoo.config.options import options_of
from zoo.datasets import GraphArrays
from zoo.datasets.tasks import TASKS
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import MODELS
from zoo.system.context import using
from zoo.weights.create import create_model, list_models
from zoo.weights.load import load, save, transfer

RBA = {"name": "rba", "size": 4}
ATTENTIONS = ["native", "softmax", "linear", "performer", RBA, {**RBA, "inner": "softmax"}]


def cases():
    """Every model, with every attention where it has a choice."""
    for name in list_models():
        attentions = ATTENTIONS if "attention" in options_of(MODELS[name]) else [None]
        for attention in attentions:
            options = {} if attention is None else {"attention": attention}
            yield pytest.param(name, options, id=f"{name}-{attention}")


each_case = pytest.mark.parametrize("name,options", list(cases()))
each_model = pytest.mark.parametrize("name", list_models())


def build(name, in_dim=5, out_dim=3, **options):
    torch.manual_seed(2)
    return create_model(name, in_dim, out_dim, **options)


@each_case
def test_one_row_of_finite_logits_per_node(name, options, tiny):
    graph, x, _ = tiny
    model = build(name, **options)
    for mode in (True, False):
        output = model.train(mode)(graph, x)
        assert output.logits.shape == (12, 3) and output.logits.isfinite().all()
        assert torch.as_tensor(output.penalty).isfinite()


@each_case
def test_the_head_reads_the_features(name, options, tiny):
    graph, x, _ = tiny
    model = build(name, **options).eval()
    torch.testing.assert_close(model.head(model.features(graph, x)), model(graph, x).logits)


@each_case
def test_every_parameter_gets_a_gradient(name, options, tiny):
    graph, x, y = tiny
    model = build(name, **options)
    output = model(graph, x)
    loss = torch.nn.functional.cross_entropy(output.logits, y) + output.penalty
    loss.backward()
    silent = [key for key, each in model.named_parameters() if each.grad is None]
    assert not silent
    assert all(each.grad.isfinite().all() for each in model.parameters())


@each_case
def test_every_parameter_is_trained_once(name, options):
    model = build(name, **options)
    grouped = [id(each) for group in model.parameter_groups() for each in group["params"]]
    assert sorted(grouped) == sorted(id(each) for each in model.parameters())


@each_case
def test_renaming_nodes_renames_logits(name, options, tiny):
    graph, x, _ = tiny
    model = build(name, **options).eval()
    order = torch.randperm(12)
    places = torch.argsort(order)
    tails, tips = graph.edges()
    renamed = dgl.graph((places[tails], places[tips]), num_nodes=12)
    # Random batches that are drawn by what nodes are, not by where they stand, move with them.
    identities = torch.arange(12) ** 2
    with using(identities=identities):
        before = model(graph, x).logits[order]
    with using(identities=identities[order]):
        after = model(renamed, x[order]).logits
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)


@each_case
def test_evaluating_twice_gives_the_same_and_leaves_the_generator_alone(name, options, tiny):
    graph, x, _ = tiny
    model = build(name, **options).eval()
    before = torch.get_rng_state()
    assert torch.equal(model(graph, x).logits, model(graph, x).logits)
    assert torch.equal(before, torch.get_rng_state())


@each_case
def test_a_batch_of_graphs_equals_one_by_one(name, options, tiny):
    graph, x, _ = tiny
    other = dgl.add_self_loop(dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1])))
    y = torch.randn(3, 5)
    model = build(name, **options).eval()
    together = model(dgl.batch([graph, other, graph]), torch.cat([x, y, x])).logits
    apart = torch.cat([model(g, f).logits for g, f in ((graph, x), (other, y), (graph, x))])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@each_case
def test_nothing_is_left_on_the_graph(name, options, tiny):
    graph, x, _ = tiny
    edges, kept = graph.edges(), x.clone()
    build(name, **options)(graph, x).logits.sum().backward()
    assert not graph.ndata and not graph.edata
    assert all(map(torch.equal, edges, graph.edges())) and torch.equal(x, kept)


@each_case
def test_bfloat16_stays_finite_and_near(name, options, tiny):
    graph, x, y = tiny
    model = build(name, **options).eval()
    exact = model(graph, x).logits
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(graph, x).logits
    assert (logits.float() - exact).abs().max() < 0.1 * (1 + exact.abs().max())
    torch.nn.functional.cross_entropy(logits.float(), y).backward()
    assert all(each.grad is None or each.grad.isfinite().all() for each in model.parameters())


@each_case
def test_it_memorises_the_tiny_graph(name, options, tiny):
    graph, x, y = tiny
    free = {
        key: 0.0 for key in options_of(MODELS[name]) if key.startswith("drop") or "dropout" in key
    }
    model = build(name, **options, **free)
    optimiser = torch.optim.Adam(model.parameter_groups(), lr=0.005)
    # Random features are drawn anew at every step: their noise is learnt away slowly, and one lucky
    # draw is no memory. Nor is one random batch in evaluation: each identity deals another one.
    recent = 1.0
    for epoch in range(400 if options.get("attention") in (None, "native") else 2000):
        model.begin_epoch(epoch)
        optimiser.zero_grad()
        output = model.train()(graph, x)
        loss = torch.nn.functional.cross_entropy(output.logits, y)
        (loss + output.penalty).backward()
        optimiser.step()
        recent = 0.9 * recent + 0.1 * loss.item()
        if recent < 0.01:
            break
    found = []
    for _ in range(16):
        with using(identities=torch.randint(2**62, (12,))):
            found.append(model.eval()(graph, x).logits.argmax(1) == y)
    assert torch.stack(found).float().mean() >= 11 / 12


@each_case
def test_weights_move_to_other_sizes(name, options):
    source = build(name, **options)
    target = create_model(name, 7, 2, **options)
    report = transfer(target, source.state_dict())
    assert report.fresh and all(key.startswith(("stem", "head")) for key in report.fresh)
    moved = dict(target.state_dict())
    assert all(torch.equal(moved[key], source.state_dict()[key]) for key in report.loaded)
    same = transfer(create_model(name, 5, 3, **options), source.state_dict())
    assert not same.fresh and not same.unused


@each_case
def test_saved_and_loaded_it_answers_the_same(name, options, tiny, tmp_path):
    graph, x, _ = tiny
    model = build(name, **options).eval()
    save(model, tmp_path / "weights")
    again = load(tmp_path / "weights")
    assert not again.training
    assert torch.equal(again(graph, x).logits, model(graph, x).logits)


def test_all_of_them_predict_the_same_in_a_new_process(tiny, tmp_path):
    graph, x, y = tiny
    edges = torch.stack(graph.edges(), 1).numpy()
    zoo.datasets.write_prepared(GraphArrays(edges, y.numpy(), x.numpy()), tmp_path / "graph.npz")
    data = zoo.load_graph(tmp_path / "graph.npz")
    found = {}
    for number, case in enumerate(cases()):
        name, options = case.values
        model = build(name, **options)
        save(model, tmp_path / str(number))
        found[str(number)] = zoo.predict(model, data).values.numpy()
    np.savez(tmp_path / "found.npz", **found)
    code = """
import sys, numpy, zoo
data = zoo.load_graph("graph.npz")
found = numpy.load("found.npz")
wrong = [n for n in found if (zoo.predict(zoo.load(n), data).values.numpy() != found[n]).any()]
sys.exit(f"different: {wrong}" if wrong else 0)
"""
    call = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(found) > 40 and all((abs(each.sum(1) - 1) < 1e-5).all() for each in found.values())


def small_graphs():
    """One, two and five nodes: without any edge, with self-loops only, with isolated nodes."""
    for n in (1, 2, 5):
        graph = dgl.graph(([], []), num_nodes=n)
        yield graph
        yield dgl.add_self_loop(graph)
    yield dgl.graph(([0, 1], [1, 0]), num_nodes=5)


def assert_finite(model, graphs):
    for graph, mode in itertools.product(graphs, (True, False)):
        x = torch.randn(graph.num_nodes(), 5)
        assert model.train(mode)(graph, x).logits.isfinite().all()


@each_model
@pytest.mark.parametrize("heads,word", list(itertools.product([1, 2, 5], PROPAGATIONS)))
def test_any_heads_and_any_propagation_will_do(name, heads, word, tiny):
    known = options_of(MODELS[name])
    options = {"heads": heads, "propagation": word}
    model = build(name, **{key: value for key, value in options.items() if key in known})
    assert_finite(model, [tiny[0], *small_graphs()])


@each_case
def test_small_and_broken_graphs_give_finite_logits(name, options):
    assert_finite(build(name, **options), small_graphs())


@each_model
def test_it_says_what_it_is(name):
    model = MODELS[name]
    assert model.__doc__ and "Args:" in model.__doc__
    undocumented = [key for key in options_of(model) if f"        {key}: " not in model.__doc__]
    assert not undocumented
    assert set(model.tasks) <= set(TASKS)
