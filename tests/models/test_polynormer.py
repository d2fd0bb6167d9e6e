"""Polynormer equals its equations, worked out here from the paper, and its phase is its own state.

The twin is dense: adjacency and attention are N x N matrices, heads are lists of columns.
"""

import copy
import math

import pytest
import torch

from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.data.splits import make_split
from zoo.models.polynormer import weighted
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import Hooks, fit
from zoo.weights.create import create_model
from zoo.weights.save_and_load import load, save, transfer

DRY = {"input_dropout": 0.0, "dropout": 0.0}
SMALL = {"norm": "none", **DRY, "dim": 6, "local_layers": 3, "global_layers": 2}
GAT = {"name": "gat", "heads": 2}


def slices(dim, heads):
    """The columns of each head in the zoo: cut off one after the other, the last ones shorter."""
    width = math.ceil(dim / heads)
    return [list(range(dim))[start : start + width] for start in range(0, heads * width, width)]


def dealt(dim, heads):
    """The columns of each head in the authors' program: dealt out to the heads in turn."""
    return [list(range(head, dim, heads)) for head in range(heads)]


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def adjacency(graph, dtype):
    src, dst = graph.edges()
    a = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=dtype)
    a[dst, src] = 1.0
    return a


def neighbours(state, name, graph, z, options):
    a = adjacency(graph, z.dtype)
    if options.get("propagation") == "gcn":
        d = a.sum(1)
        return (a / torch.sqrt(d[:, None] * d[None, :])) @ z
    source, target = state[f"{name}.propagate.source"], state[f"{name}.propagate.target"]
    outs = []
    for head, columns in enumerate(slices(z.shape[1], len(source))):
        scores = (z[:, columns] @ target[head])[:, None] + (z[:, columns] @ source[head])[None, :]
        scores = torch.where(scores > 0, scores, 0.2 * scores)
        weights = torch.exp(scores) * a
        outs.append(weights / weights.sum(1, keepdim=True) @ z[:, columns])
    return torch.cat(outs, 1)


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def gates(state, name, options):
    raw = state[f"{name}.raw"]
    return raw if "beta" in options else sigmoid(raw)


def local_phase(state, graph, x, options):
    activate = (lambda x: x) if options.get("activation") is False else torch.relu
    x, total = affine(state, "stem", x), 0
    for i, b in enumerate(gates(state, "local_gates", options)):
        name = f"local_layers.{i}"
        if options.get("norm_first"):
            x = layer_norm(state, f"{name}.pre_norm", x)
        t = activate(affine(state, f"{name}.multiply", x))
        z = x @ state[f"{name}.convolution.linear.weight"].T
        gathered = neighbours(state, f"{name}.convolution", graph, z, options)
        y = gathered + affine(state, f"{name}.skip", x)
        if options.get("norm") == "batch":
            y = (y - y.mean(0)) / (y.var(0, unbiased=False) + 1e-5).sqrt()
            y = y * state[f"{name}.between.weight"] + state[f"{name}.between.bias"]
        y = activate(y)
        x = (1 - b) * layer_norm(state, f"{name}.norm", t * y) + b * y
        total = total + x
    return total


def twin(state, graph, x, options, columns_of=slices):
    activate = (lambda x: x) if options.get("activation") is False else torch.relu
    x = local_phase(state, graph, x, options)
    if options.get("local_epochs"):
        return affine(state, "head_local", x)
    x = layer_norm(state, "norm", x)
    for i, b in enumerate(gates(state, "global_gates", options)):
        name = f"global_layers.{i}"
        k, v = sigmoid(affine(state, f"{name}.key", x)), affine(state, f"{name}.value", x)
        q = k if options.get("qk_shared", True) else sigmoid(affine(state, f"{name}.query", x))
        attended = torch.zeros_like(v)
        for columns in columns_of(v.shape[1], options.get("heads", 1)):
            scores = q[:, columns] @ k[:, columns].T  # (N, N)
            attended[:, columns] = scores / scores.sum(1, keepdim=True) @ v[:, columns]
        a = layer_norm(state, f"{name}.norm", attended)
        x = activate(affine(state, "output.0", a * (affine(state, f"{name}.multiply", x) + b)))
    return affine(state, "head_global", x)


@pytest.mark.parametrize(
    "options",
    [
        {**SMALL, "heads": 2, "propagation": GAT},
        {**SMALL, "heads": 3, "propagation": "gcn", "qk_shared": False},
        {**SMALL, "activation": False, "norm_first": True, "beta": 0.4, "propagation": GAT},
        {**SMALL, "heads": 4, "beta": 2.0, "norm_first": True},
        {**SMALL, "dim": 32, "heads": 2},
        {**SMALL, "local_epochs": 5, "propagation": GAT, "norm_first": True},
        {**SMALL, "local_epochs": 5, "propagation": "gcn", "norm": "batch"},
    ],
    ids=["r", "own-queries", "polynomial", "padded", "wide", "local", "local-norm"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("polynormer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    fast, slow = model(graph, x).logits, twin(state, graph, x, options)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    silent = ("norm.", "global_", "output.", "head_global.") if "local_epochs" in options else ()
    inputs = [x, *(each for name, each in state.items() if not name.startswith(silent))]
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_the_published_order_of_heads_is_one_permutation_away(tiny):
    graph, x, _ = tiny
    options = {**SMALL, "heads": 3, "propagation": GAT}
    model = create_model("polynormer", 5, 3, **options).double()
    x, state = x.double(), dict(model.state_dict())
    order = torch.empty(6, dtype=torch.long)
    for ours, theirs in zip(slices(6, 3), dealt(6, 3), strict=True):
        order[theirs] = torch.tensor(ours)
    for i in range(2):
        for part in ("key", "value", "multiply", "norm"):
            for kind in ("weight", "bias"):
                name = f"global_layers.{i}.{part}.{kind}"
                state[name] = state[name][order]
    state["global_gates.raw"] = state["global_gates.raw"][:, order]
    state["output.0.weight"] = state["output.0.weight"][:, order]
    published = twin(state, graph, x, options, columns_of=dealt)
    torch.testing.assert_close(model(graph, x).logits, published, rtol=0, atol=1e-9)
    unpermuted = twin(model.state_dict(), graph, x, options, columns_of=dealt)
    assert (model(graph, x).logits - unpermuted).abs().max() > 1e-6


@pytest.mark.parametrize("n,width", [(50, 4), (3, 8)])
def test_attention_is_a_weighted_mean(n, width):
    q, k, v = (torch.rand(2, n, 3, width, dtype=torch.double) for _ in range(3))
    ones = torch.ones_like(v)
    torch.testing.assert_close(weighted(q, k, ones), ones, rtol=0, atol=1e-12)
    torch.testing.assert_close(weighted(q, k, v)[1], weighted(q[1], k[1], v[1]))
    out = weighted(q, k, v)
    assert (out <= v.amax(-3, keepdim=True)).all() and (out >= v.amin(-3, keepdim=True)).all()


def test_attention_sums_half_precision_in_full():
    same = torch.full((5000, 1, 4), 0.5, dtype=torch.bfloat16)
    v = torch.randn(5000, 1, 4).to(torch.bfloat16) + 1
    with torch.autocast("cpu", torch.bfloat16):
        out = weighted(same, same, v)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out[0].double(), v.double().mean(0), rtol=0.005, atol=0)


def test_a_head_without_mass_gives_zeros_and_finite_gradients():
    q, k = (torch.zeros(6, 2, 3, requires_grad=True) for _ in range(2))
    v = torch.zeros(6, 2, 3, requires_grad=True)
    out = weighted(q, k, v)
    out.sum().backward()
    assert not out.any() and all(each.grad.isfinite().all() for each in (q, k, v))


def test_given_gates_are_a_first_value_and_learned_ones_a_sigmoid():
    given = create_model("polynormer", 5, 3, beta=1.5)
    for each in (given.local_gates, given.global_gates):
        assert (each() == 1.5).all() and each.raw.requires_grad
        with torch.no_grad():
            each.raw.fill_(-1.0)
        assert (each() == -1.0).all()
    learned = create_model("polynormer", 5, 3, dim=512, local_layers=8).local_gates
    assert learned.raw.std().item() == pytest.approx(math.sqrt(2 / (8 + 512)), rel=0.05)
    torch.testing.assert_close(learned(), sigmoid(learned.raw))


def test_no_global_dropout_is_not_a_value_left_out(tiny):
    graph, x, _ = tiny
    options = {"input_dropout": 0.0, "local_layers": 1, "heads": 2}
    model = create_model("polynormer", 5, 3, **options, dropout=0.0, global_dropout=0.0).train()
    assert torch.equal(model(graph, x).logits, model(graph, x).logits)
    model = create_model("polynormer", 5, 3, **options, dropout=0.0, global_dropout=0.5).train()
    assert not torch.equal(model(graph, x).logits, model(graph, x).logits)
    parts = {"dropout": 0.5, "global_dropout": 0.0}
    assert create_model("polynormer", 5, 3, **parts).output[-1].p == 0.0
    assert create_model("polynormer", 5, 3, dropout=0.5).output[-1].p == 0.5


def test_the_phase_begins_in_its_epoch_and_chooses_the_head(tiny):
    graph, x, y = tiny
    model = create_model("polynormer", 5, 3, **SMALL, local_epochs=2)
    for epoch, layers in enumerate([{"head_local"}, {"head_local"}, {"head_global", "output"}]):
        model.begin_epoch(epoch)
        model.zero_grad()
        output = model(graph, x)
        torch.testing.assert_close(model.head(model.features(graph, x)), output.logits)
        torch.nn.functional.cross_entropy(output.logits, y).backward()
        moved = {name for name, each in model.named_parameters() if each.grad is not None}
        found = {name.split(".")[0] for name in moved}
        assert found & {"head_local", "head_global", "output"} == layers
        assert ("global_layers" in found) == (epoch == 2) and "local_layers" in found


def test_without_local_epochs_it_is_global_from_the_start():
    model = create_model("polynormer", 5, 3)
    assert model.head is model.head_global and model.head_local is None
    assert model.phase_starts() == ()


@pytest.mark.parametrize("epochs", [1, 4])
def test_the_phase_is_saved_and_loaded(epochs, tiny, tmp_path):
    graph, x, _ = tiny
    model = create_model("polynormer", 5, 3, **SMALL, local_epochs=3)
    for epoch in range(epochs):
        model.begin_epoch(epoch)
    save(model.eval(), tmp_path / "weights")
    again = load(tmp_path / "weights")
    assert torch.equal(again(graph, x).logits, model(graph, x).logits)
    assert bool(again.global_phase) == (epochs == 4)
    assert again.phase_starts() == (() if epochs == 4 else (3,))


def test_a_new_graph_does_not_lead_back_to_the_local_phase():
    source = create_model("polynormer", 5, 3, **SMALL, local_epochs=3)
    source.begin_epoch(3)
    target = create_model("polynormer", 7, 2, **SMALL, local_epochs=100)
    assert "global_phase" in transfer(target, source.state_dict()).loaded
    target.begin_epoch(0)
    assert target.head is target.head_global and target.phase_starts() == ()


def test_weights_of_the_local_phase_serve_a_model_without_one(tiny):
    graph, x, _ = tiny
    source = create_model("polynormer", 5, 3, **SMALL, local_epochs=3)
    target = create_model("polynormer", 5, 3, **SMALL)
    transfer(target, source.state_dict())
    assert target.head is target.head_global and target(graph, x).logits.isfinite().all()


def test_training_goes_on_from_the_best_local_weights():
    data = load_graph({"name": "sbm", "nodes": 120, "classes": 3, "dim": 8, "seed": 1})
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(2)
    model = create_model("polynormer", data.x.shape[1], data.classes, dim=8, local_epochs=30)
    epochs, ended, began = [], [], []
    begin = model.begin_epoch

    def spy(epoch):
        began.append(copy.deepcopy(model.state_dict()))
        begin(epoch)

    model.begin_epoch = spy

    def watch(epoch):
        epochs.append(epoch)
        ended.append(copy.deepcopy(model.state_dict()))

    task = pick(TASKS, "node-classification")
    on = TrainingData(data, split, task)
    result = fit(model, on, Hooks(after_epoch=watch), epochs=36, lr=0.05)
    scores = [each.val for each in epochs]
    best = scores.index(max(scores[:30]))
    assert best < 29, "this seed cannot tell the best local weights from the last"
    assert all(torch.equal(began[30][key], ended[best][key]) for key in began[30])
    assert [bool(each["global_phase"]) for each in ended] == [False] * 30 + [True] * 6
    assert result.epoch == scores.index(max(scores))
    assert bool(model.global_phase) == (result.epoch >= 30)


def test_weights_that_are_an_average_are_in_the_phase_of_their_buffer(tiny):
    graph, x, _ = tiny
    model = create_model("polynormer", 5, 3, **SMALL, local_epochs=1)
    average = torch.optim.swa_utils.AveragedModel(model)
    for epoch in range(3):
        model.begin_epoch(epoch)
        average.update_parameters(model)
    assert average.module.head is average.module.head_global
    torch.testing.assert_close(average.eval()(graph, x).logits, model.eval()(graph, x).logits)


def test_the_inference_mode_has_models_too(tiny):
    graph, x, _ = tiny
    model = create_model("polynormer", 5, 3, **SMALL, local_epochs=3).eval()
    local = model(graph, x).logits
    with torch.inference_mode():
        copied = copy.deepcopy(model)
        assert torch.equal(copied(graph, x).logits, local)
        copied.global_phase.fill_(True)
        assert copied.head is copied.head_global
        assert create_model("polynormer", 5, 3, **SMALL).phase_starts() == ()


def test_the_phase_is_that_of_the_buffers_given(tiny):
    graph, x, _ = tiny
    model = create_model("polynormer", 5, 3, **SMALL, local_epochs=3).eval()
    local, begun = model(graph, x).logits, torch.tensor(True)
    found = torch.func.functional_call(model, {"global_phase": begun}, (graph, x)).logits
    assert torch.equal(model(graph, x).logits, local)
    model.begin_epoch(3)
    assert torch.equal(found, model(graph, x).logits) and not torch.equal(found, local)
