"""What is checked of a model: its answers, and its weights.

Answers are finite, the same each time, graph by graph and node by node; weights are all trained,
saved, and carried over to another graph.
"""

from __future__ import annotations

import inspect
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from zoo.canonical_form import WEIGHT
from zoo.config.options import Spec, options_of
from zoo.config.yaml_lines import line_text
from zoo.errors import ZooError
from zoo.graphs.examples import batch, odd_graphs, renamed, short_path, tiny_graph
from zoo.nn.attend import attentions_with_bias
from zoo.registry import MODELS, Model
from zoo.system.context import using
from zoo.tasks.task import TASKS
from zoo.testing.cases import CLASSES, FEATURES, RBA, Case, answer, inputs, some_labels, tiny
from zoo.testing.promise import Broken, keep, keep_close
from zoo.weights.create import create_model
from zoo.weights.save_and_load import load, save
from zoo.weights.transfer import transfer


def one_row_of_finite_logits_per_node(case: Case) -> None:
    """In training and in evaluation there is one row of finite logits per node."""
    graph, x, _ = tiny()
    model = case.build()
    for mode in (True, False):
        output = answer(model.train(mode), graph, x)
        keep(
            output.logits.shape == (12, CLASSES),
            f"for 12 nodes and {CLASSES} classes the logits are {tuple(output.logits.shape)}. "
            "Write `self.head = nn.Linear(dim, out_dim)`, and one row per node in `features`.",
        )
        keep(
            output.logits.isfinite().all() and torch.as_tensor(output.penalty).isfinite(),
            "logits or penalty are not finite before any step. Look for a division by zero, or a "
            "weight that was made by `torch.empty` and never filled.",
        )


def the_head_reads_the_features(case: Case) -> None:
    """The logits are `head(features(graph, x))`."""
    graph, x, _ = tiny()
    model = case.build().eval()
    hidden = model.features(graph, x, *inputs(model, len(x)))
    keep(
        isinstance(hidden, Tensor),
        f"`features` returned a {type(hidden).__name__}, and has to return one tensor (N, dim): "
        "embeddings and probes read it.",
    )
    keep_close(
        model.head(hidden),
        answer(model, graph, x).logits,
        "the logits are not `head(features(graph, x))`: they differ by {by}. Embeddings and "
        "probes count on it. Move what `forward` does beside it into `features`.",
    )


def renaming_nodes_renames_logits(case: Case) -> None:
    """A graph whose nodes are numbered anew gives the same logits in the new order."""
    graph, x, _ = tiny()
    model = case.build().eval()
    order = torch.randperm(12)
    # Random batches that are drawn by what nodes are, not by where they stand, move with them.
    identities, labels = torch.arange(12) ** 2, some_labels(12)
    with using(identities=identities):
        before = answer(model, graph, x, labels).logits[order]
    with using(identities=identities[order]):
        after = answer(model, renamed(graph, order), x[order], labels[order]).logits
    keep_close(
        after,
        before,
        "with the nodes numbered anew, each node's logits change by {by}. The model looks at where "
        "a node stands among the rows: at its number, at the row above, at the first rows. Let it "
        "look at edges, features and sums over all nodes alone.",
        rtol=1e-4,
        atol=1e-5,
    )


def evaluating_twice_gives_the_same_and_leaves_the_generator_alone(case: Case) -> None:
    """Evaluation is the same each time and draws nothing from torch's generator."""
    graph, x, _ = tiny()
    model = case.build().eval()
    before = torch.get_rng_state()
    keep(
        torch.equal(answer(model, graph, x).logits, answer(model, graph, x).logits),
        "in evaluation the same graph gives other logits each time. Write "
        "`F.dropout(x, p, self.training)`; draw at random in training only, or from a "
        "`torch.Generator` of your own that is seeded anew.",
    )
    keep(
        torch.equal(before, torch.get_rng_state()),
        "evaluation draws from torch's global generator, so that training goes on differently "
        "after it. Draw from a `torch.Generator` of your own.",
    )


def a_batch_of_graphs_equals_one_by_one(case: Case) -> None:
    """Graphs of a batch get the logits that each of them gets alone."""
    graph, x, _ = tiny()
    other, y = short_path(), torch.randn(3, FEATURES)
    labels = torch.cat([some_labels(nodes) for nodes in (12, 3, 12)])
    model = case.build().eval()
    together = answer(model, batch([graph, other, graph]), torch.cat([x, y, x]), labels).logits
    apart = torch.cat([answer(model, g, f).logits for g, f in ((graph, x), (other, y), (graph, x))])
    norms = [key for key, module in model.named_modules() if "BatchNorm" in type(module).__name__]
    hint = f" `{'`, `'.join(norms)}` may do it, without running means." if norms else ""
    keep_close(
        together,
        apart,
        "in a batch of graphs a node's logits change by {by}: the graphs see each other. A mean, a "
        "norm or an attention goes over all rows; take it over the rows of each graph, whose "
        "numbers are `graph.batch_num_nodes()`, as `Attend` of zoo.nn does, and keep "
        f"running means in a batch norm.{hint}",
        rtol=1e-4,
        atol=1e-5,
    )


def nothing_is_left_on_the_graph(case: Case) -> None:
    """The graph and the features are as they were, after a step of training."""
    graph, x, _ = tiny()
    edges, kept = graph.edges(), x.clone()
    _backward(answer(case.build(), graph, x).logits.sum())
    keep(
        not graph.ndata and not graph.edata,
        "the model leaves data on the graph, which is everybody's. Write `with "
        "graph.local_scope():` around `update_all`, or use zoo.nn.propagation.",
    )
    keep(
        all(map(torch.equal, edges, graph.edges())) and torch.equal(x, kept),
        "the model changes the edges of the graph or the features x, which are the data set's. "
        "Write `x = 2 * x` in the place of `x *= 2`, and change a copy of the graph.",
    )


def bfloat16_stays_finite_and_near(case: Case) -> None:
    """Under autocast to bfloat16 the logits are near those of fp32, and gradients finite."""
    graph, x, y = tiny()
    model = case.build().eval()
    exact = answer(model, graph, x).logits
    with torch.autocast("cpu", torch.bfloat16):
        logits = answer(model, graph, x).logits
    apart = (logits.float() - exact).abs().max()
    keep(
        apart < 0.1 * (1 + exact.abs().max()),
        f"in bfloat16 the logits differ by {apart:.2g} from those of fp32. Take sums over many "
        "nodes, norms and quotients in fp32: `x.float().sum(0)`.",
    )
    _backward(functional.cross_entropy(logits.float(), y))
    keep(
        all(
            parameter.grad is None or parameter.grad.isfinite().all()
            for parameter in model.parameters()
        ),
        "in bfloat16 gradients are not finite. Take norms and quotients in fp32: `x.float()`.",
    )


def _backward(loss: Tensor) -> None:
    """Go back through a loss, where the model has anything to train."""
    if loss.requires_grad:
        loss.backward()


def small_and_broken_graphs_give_finite_logits(case: Case) -> None:
    """One node, no edges, isolated nodes: the logits are finite, in training too."""
    _keep_finite(case.build(), odd_graphs())


def any_heads_and_any_propagation_will_do(case: Case) -> None:
    """Any number of heads and any propagation give finite logits, on odd graphs too."""
    _keep_finite(case.build(), [tiny_graph(), *odd_graphs()])


def _keep_finite(model: Model, graphs: Iterable[Any]) -> None:
    for graph, mode in itertools.product(graphs, (True, False)):
        x = torch.randn(graph.num_nodes(), FEATURES)
        where = f"{graph.num_nodes()} nodes and {graph.num_edges()} edges"
        try:
            logits = answer(model.train(mode), graph, x).logits
        except ZooError as error:
            raise Broken(f"on a graph of {where}: {error}") from error
        keep(
            logits.isfinite().all(),
            f"on a graph of {where} the logits are not finite. A mean over no neighbours, a "
            "standard deviation of one row or a softmax over nothing is 0 / 0: write "
            "`.clamp(min=1)` under the quotient.",
        )


def it_can_be_made(case: Case) -> None:
    """It is made of `in_dim`, `out_dim` and its options, and has a head."""
    case.build()


def every_parameter_gets_a_gradient(case: Case) -> None:
    """Every parameter gets a finite gradient."""
    graph, x, y = tiny()
    model = case.build()
    output = answer(model, graph, x)
    _backward(functional.cross_entropy(output.logits, y) + output.penalty)
    silent = [key for key, parameter in model.named_parameters() if parameter.grad is None]
    keep(
        not silent,
        f"{', '.join(silent)} got no gradient, and would never be trained. Use each in `features`, "
        "or do not make it; look for `.detach()`, `.data` and `torch.no_grad()`.",
    )
    wild = [
        key for key, parameter in model.named_parameters() if not parameter.grad.isfinite().all()
    ]
    keep(
        not wild,
        f"the gradient of {', '.join(wild)} is not finite: of a root, a norm or a logarithm at 0, "
        "or of a softmax over nothing. Add a small number inside: `(x + 1e-6).sqrt()`.",
    )


def every_parameter_is_trained_once(case: Case) -> None:
    """`parameter_groups` holds each parameter once."""
    model = case.build()
    grouped = [id(parameter) for group in model.parameter_groups() for parameter in group["params"]]
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    missing = [key for parameter, key in names.items() if grouped.count(parameter) != 1]
    keep(
        sorted(grouped) == sorted(names),
        f"`parameter_groups` does not hold each parameter exactly once: look at "
        f"{', '.join(missing) or 'parameters that are not of the model'}. A parameter that is left "
        "out is never trained.",
    )


def it_answers_by_the_labels_it_is_given(case: Case) -> None:
    """Other labels of the nodes that are not asked about give other logits."""
    graph, x, _ = tiny()
    model, labels = case.build().eval(), some_labels(12)
    others = torch.where(labels >= 0, (labels + 1) % CLASSES, -1)
    before, after = (answer(model, graph, x, each).logits for each in (labels, others))
    keep(
        not torch.allclose(before, after),
        "the labels that it is given make no difference. Read `context`, or do not declare it.",
    )
    unknown = torch.full_like(labels, -1)
    keep(
        answer(model, graph, x, unknown).logits.isfinite().all(),
        "without any label the logits are not finite. Answer all classes alike there.",
    )


def another_attention_gives_another_answer(case: Case) -> None:
    """The option `attention` is heard: attentions that differ give other logits."""
    words = attentions_with_bias(MODELS[case.name].pair_bias)
    pairs: list[tuple[Spec, Spec]] = [("native", RBA)]  # of a model whose own alone will do
    if "softmax" in words:
        pairs = [("softmax", {**RBA, "inner": "softmax"})]
    if "linear" in words:
        pairs.append(("softmax", "linear"))
    for pair in pairs:
        _keep_apart(
            case,
            "attention",
            pair,
            "Give the option to each `build_attend(attention, own, layer)` of zoo.nn and call what "
            "that returns, `attend(graph, q, k, v)`, in the place of an attention of your own; or "
            "leave the option out, so that nobody compares what is the same.",
        )


def another_propagation_gives_another_answer(case: Case) -> None:
    """The option `propagation` is heard: propagations that differ give other logits."""
    for pair in itertools.combinations(("gcn", "mean", "none"), 2):
        _keep_apart(
            case,
            "propagation",
            pair,
            "Give the option to each `build_propagation(propagation, dim)` of zoo.nn and call what "
            "that returns, `propagate(graph, x)`; or leave the option out, so that nobody compares "
            "what is the same.",
        )


def weights_of_edges_count_if_it_says_so(case: Case) -> None:
    """Other weights of edges give other logits, unless the class has `edge_weights = False`."""
    weighted = tiny_graph()
    weighted.edata[WEIGHT] = 1.0 + sum(weighted.edges()) % 5
    model = _moved(case.build())
    plain, other = (_evaluated(model, graph) for graph in (tiny_graph(), weighted))
    same, name = torch.equal(plain, other), type(model).__name__
    keep(
        not (same and model.edge_weights),
        "weights of edges make no difference, and training on a weighted graph would not say so. "
        f"Write `edge_weights = False` in the class {name}; or pass along edges by a propagation "
        "of zoo.nn, or multiply by `edge_weights(graph, x.device)` of zoo.nn, (E,), None where all "
        "are 1.",
    )
    keep(
        same or model.edge_weights,
        f"the class {name} has `edge_weights = False`, and weights of edges make a difference. "
        "Leave it out, so that nobody is told that they are ignored.",
    )


def _keep_apart(case: Case, key: str, values: tuple[Spec, Spec], advice: str) -> None:
    """Keep that two values of an option give other logits, with the same weights."""
    one, other = (case._replace(options={**case.options, key: value}) for value in values)
    first, second = _moved(one.build()), _moved(other.build())
    held = first.state_dict()
    second.load_state_dict(
        {k: held[k] if k in held and held[k].shape == v.shape else v
         for k, v in second.state_dict().items()}
    )  # fmt: skip
    keep(
        not torch.equal(_evaluated(first, tiny_graph()), _evaluated(second, tiny_graph())),
        f"`{key}: {line_text(values[0])}` and `{key}: {line_text(values[1])}` give the very same "
        f"logits: the option is ignored. {advice}",
    )


def _moved(model: Model) -> Model:
    """Return a model with weights a little off, also those that begin at 0, in its last phase."""
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    for epoch in (0, *model.phase_starts()):
        model.begin_epoch(epoch)
    return model


def _evaluated(model: Model, graph: Any) -> Tensor:
    with torch.no_grad():
        return answer(model.eval(), graph, tiny()[1]).logits


def it_memorises_the_tiny_graph(case: Case) -> None:
    """It learns 12 random labels by heart: 11 of 12 on average over random batches."""
    graph, x, y = tiny()
    known = options_of(MODELS[case.name])
    free = {key: 0.0 for key in known if key.startswith("drop") or "dropout" in key}
    model = case.build(**{key: rate for key, rate in free.items() if key not in case.options})
    optimiser = torch.optim.Adam(model.parameter_groups(), lr=0.005)
    # Random features are drawn anew at every step: their noise is learnt away slowly, by a rate
    # that falls to 0. One lucky draw is no memory. Nor is one random batch in evaluation: other
    # identities deal another one. What is found once for a graph is asked for as it was learnt
    # with: identities in the order of the rows cut the same clusters.
    recent, epochs = 1.0, 400 if case.options.get("attention") in (None, "native") else 1200
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda epoch: min(1.0, 2 - 2 * epoch / epochs)
    )
    for epoch in range(epochs):
        model.begin_epoch(epoch)
        optimiser.zero_grad()
        output = answer(model.train(), graph, x)
        loss = functional.cross_entropy(output.logits, y)
        (loss + output.penalty).backward()
        optimiser.step()
        falling.step()
        recent = 0.9 * recent + 0.1 * loss.item()
        if recent < 0.01:
            break
    right = []
    for _ in range(16 if "attention" in known else 1):
        dealt = torch.randint(2**62, (12,)).sort().values if "attention" in known else None
        with using(identities=dealt):
            right.append(answer(model.eval(), graph, x).logits.argmax(1) == y)
    rate = torch.stack(right).float().mean()
    keep(
        rate >= 11 / 12,
        f"after {epoch + 1} epochs it knows {rate:.0%} of 12 random labels, and should know 92 %. "
        "Something keeps it from learning: a wrong sign, a `detach`, weights that start at 0 or "
        "far too large, a layer that averages everything away, or a model too narrow.",
    )


def weights_move_to_other_sizes(case: Case) -> None:
    """Weights whose shape depends on the data set begin with `stem` or `head`, and no others."""
    source = case.build()
    target = create_model(case.name, 7, 2, **case.options)
    report = transfer(target, source.state_dict())
    wrong = [key for key in report.fresh if not key.startswith(("stem", "head"))]
    keep(
        (report.fresh or source.any_graph) and not wrong,
        f"{', '.join(wrong) or 'no weight'} changes its shape with the numbers of features or "
        "classes. Such weights have to begin with `stem` (of the features) or `head` (of the "
        "logits), and only they: all others are carried over to another graph by fine-tuning.",
    )
    moved = dict(target.state_dict())
    keep(
        all(torch.equal(moved[key], source.state_dict()[key]) for key in report.loaded),
        "weights that were carried over have changed: do not make them anew in `load_state_dict`.",
    )
    same = transfer(create_model(case.name, FEATURES, CLASSES, **case.options), source.state_dict())
    keep(
        not same.fresh and not same.unused,
        f"made twice with the same options it has other weights: {same.fresh + same.unused}.",
    )


def saved_and_loaded_it_answers_the_same(case: Case) -> None:
    """Saved and loaded again it gives the very same logits, in evaluation."""
    graph, x, _ = tiny()
    model = case.build().eval()
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        save(model, Path(folder) / "weights")
        again = load(Path(folder) / "weights")
    keep(not again.training, "a loaded model is in training: do not override `train` or `eval`.")
    keep(
        torch.equal(answer(again, graph, x).logits, answer(model, graph, x).logits),
        "saved and loaded again it gives other logits. What it knows has to be in parameters, in "
        "buffers (`self.register_buffer`) and in its options; a plain attribute is not saved.",
    )


def it_says_what_it_is(case: Case) -> None:
    """The docstring of its class has a line for each option, and its tasks are known."""
    model = MODELS[case.name]
    said = inspect.cleandoc(model.__doc__ or "")
    keep(
        said and "Args:" in said,
        f"the class {model.__name__} has no docstring with `Args:`. Write what the model is, an "
        "empty line, `Args:` and a line for each option: `zoo info` prints it.",
    )
    missing = [key for key in options_of(model) if f"    {key}: " not in said]
    keep(
        not missing,
        f"the docstring of {model.__name__} says nothing about {', '.join(missing)}. Write a line "
        f"`{(missing or [''])[0]}: what it is` under `Args:`.",
    )
    strange = set(model.tasks) - set(TASKS)
    keep(not strange, f"there are no tasks {strange}; choose from {', '.join(TASKS)}.")
