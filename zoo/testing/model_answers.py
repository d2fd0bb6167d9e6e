"""The promises of a model's answers: finite, the same each time, graph by graph, node by node."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from zoo.errors import ZooError
from zoo.graphs.examples import batch, odd_graphs, renamed, short_path, tiny_graph
from zoo.registry import Model
from zoo.system.context import using
from zoo.testing.cases import CLASSES, FEATURES, Case, tiny
from zoo.testing.promise import Broken, keep, keep_close


def one_row_of_finite_logits_per_node(case: Case) -> None:
    """In training and in evaluation there is one row of finite logits per node."""
    graph, x, _ = tiny()
    model = case.build()
    for mode in (True, False):
        output = model.train(mode)(graph, x)
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
    hidden = model.features(graph, x)
    keep(
        isinstance(hidden, Tensor),
        f"`features` returned a {type(hidden).__name__}, and has to return one tensor (N, dim): "
        "embeddings and probes read it.",
    )
    keep_close(
        model.head(hidden),
        model(graph, x).logits,
        "the logits are not `head(features(graph, x))`: they differ by {by}. Embeddings and "
        "probes count on it. Move what `forward` does beside it into `features`.",
    )


def renaming_nodes_renames_logits(case: Case) -> None:
    """A graph whose nodes are numbered anew gives the same logits in the new order."""
    graph, x, _ = tiny()
    model = case.build().eval()
    order = torch.randperm(12)
    # Random batches that are drawn by what nodes are, not by where they stand, move with them.
    identities = torch.arange(12) ** 2
    with using(identities=identities):
        before = model(graph, x).logits[order]
    with using(identities=identities[order]):
        after = model(renamed(graph, order), x[order]).logits
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
        torch.equal(model(graph, x).logits, model(graph, x).logits),
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
    model = case.build().eval()
    together = model(batch([graph, other, graph]), torch.cat([x, y, x])).logits
    apart = torch.cat([model(g, f).logits for g, f in ((graph, x), (other, y), (graph, x))])
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
    case.build()(graph, x).logits.sum().backward()
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
    exact = model(graph, x).logits
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(graph, x).logits
    apart = (logits.float() - exact).abs().max()
    keep(
        apart < 0.1 * (1 + exact.abs().max()),
        f"in bfloat16 the logits differ by {apart:.2g} from those of fp32. Take sums over many "
        "nodes, norms and quotients in fp32: `x.float().sum(0)`.",
    )
    functional.cross_entropy(logits.float(), y).backward()
    keep(
        all(
            parameter.grad is None or parameter.grad.isfinite().all()
            for parameter in model.parameters()
        ),
        "in bfloat16 gradients are not finite. Take norms and quotients in fp32: `x.float()`.",
    )


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
            logits = model.train(mode)(graph, x).logits
        except ZooError as error:
            raise Broken(f"on a graph of {where}: {error}") from error
        keep(
            logits.isfinite().all(),
            f"on a graph of {where} the logits are not finite. A mean over no neighbours, a "
            "standard deviation of one row or a softmax over nothing is 0 / 0: write "
            "`.clamp(min=1)` under the quotient.",
        )
