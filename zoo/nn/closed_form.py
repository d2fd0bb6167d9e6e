"""What can be said of nodes from a few labels without training: ridge regressions and label walks.

All of it is linear in the labels, and solved in closed form for each graph of a batch by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from zoo.errors import ZooError
from zoo.graphs.adjacency import degrees, node_counts
from zoo.graphs.edge_weights import edge_weights, weight_sums
from zoo.graphs.per_graph import per_graph
from zoo.graphs.shard import Graph, Shard
from zoo.graphs.spmm import sparse_product
from zoo.nn.feature_linear import sparse_form
from zoo.nn.propagation import Propagation, mean

AT_ONCE = 2**26
"""Numbers, of all nodes and some columns, that are propagated at a time: 256 MiB."""

KEPT = 2**26
"""Numbers of propagated features, of all powers, that are kept for the next step: 256 MiB."""

Filters = Sequence[Sequence[float]]
"""Polynomials of a propagation A, each by its coefficients of 1, A, A² and so on."""

POWERS = (1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)
"""The filters 1, A and A², by their coefficients."""

PENALTIES = 0.01, 0.1, 1.0, 10.0
"""From which `leave-one-out` chooses, as shares of the mean squared norm of a labelled row."""


RATES = 0.1, 0.3, 1.0
"""Rates g of the kernels exp(-g d² / E d²) of two nodes at distance d."""

KERNEL_PENALTY = 0.3
"""l of kernel ridge regression, beside k(i, i) = 1."""

CENTRES = 4096
"""Labelled nodes at most of a kernel ridge regression, whose Gram matrix is inverted, and of what
weighs predictors."""


class Labels(NamedTuple):
    """Labels of some nodes, as numbers that can be averaged.

    Attributes:
        targets: (N, C) fp32: one-hot rows, or numbers; 0 where unknown.
        known: (N,) bool.
    """

    targets: Tensor
    known: Tensor


def labels_of(context: Tensor, outputs: int) -> Labels:
    """Return a context, see `zoo.registry.Model.forward`, as labels; of one logit two classes.

    Args:
        context: classes (N,), -1 where unknown, or numbers (N,) or (N, T), NaN where unknown.
        outputs: logits of the model.
    """
    if context.is_floating_point():
        numbers = context.reshape(len(context), -1).float()
        known = numbers.isfinite().all(dim=1)
        return Labels(torch.where(known[:, None], numbers, 0.0), known)
    known = context >= 0
    one_hot = functional.one_hot(context.clamp(min=0), max(outputs, 2)).float()
    return Labels(one_hot * known[:, None], known)


def as_logits(scores: Tensor, outputs: int) -> Tensor:
    """Return scores of classes (N, C) as logits (N, outputs): of two classes one, if so asked."""
    return scores[:, 1:] - scores[:, :1] if outputs == 1 < scores.shape[1] else scores


def neighbour_mean(graph: Graph, x: Tensor) -> Tensor:
    """Return the mean over the neighbours of each node but itself, (N, ...); 0 without any."""
    if edge_weights(graph, x.device) is None:
        many = degrees(graph, x.device).to(x.dtype)
    else:
        many = weight_sums(graph, x.device).to(x.dtype)
    many = many.reshape(-1, *[1] * (x.dim() - 1))
    others = (many - 1).clamp(min=0)
    near = (mean(graph, x) * many - x) / others.clamp(min=1e-6)
    return torch.where(others > 1e-6, near, torch.zeros_like(near))


def label_walks(
    graph: Graph, labels: Labels, *, steps: int, restart: float, propagate: Propagation
) -> Tensor:
    """Return sum_k r (1 - r)^k A^k Y, (N, C), for k up to `steps` and labels Y.

    "Learning with local and global consistency" (Zhou et al. 2004), equation 4, iterated.
    """
    walked = labels.targets
    for _ in range(steps):
        walked = (1 - restart) * propagate(graph, walked) + restart * labels.targets
    return walked


class Fits(NamedTuple):
    """What ridge regressions on K filters of the features say.

    Attributes:
        values: (K, N, C).
        held_out: (K, N, C), of labelled nodes what a fit without each says of it; elsewhere 0.
    """

    values: Tensor
    held_out: Tensor


@torch.no_grad()
def ridge(
    graph: Graph,
    x: Tensor,
    labels: Labels,
    *,
    propagate: Propagation,
    filters: Filters = POWERS,
    penalty: float | None | Sequence[float] = 1.0,
    unit_rows: bool = True,
    centred: bool = True,
    leave_one_out: bool = True,
) -> Fits:
    """Fit the labels by ridge regression on each of K polynomials of a propagation of x.

    Of filter p and rows F = p(A) x it is F W, W = F_L^T (F_L F_L^T + l I)^-1 Y_L for the labelled
    rows L; neither F nor anything of N x N is formed. Gradients are not kept.

    Args:
        graph: of N nodes, or a batch of graphs, each fitted by itself.
        x: features (N, F).
        labels: of some nodes.
        propagate: A.
        filters: the polynomials p.
        penalty: l, as a share of the mean squared norm of the labelled rows, or that of each
            filter; None: that of `PENALTIES` whose answers without each node itself are best, in
            their squares.
        unit_rows: scale each row of x to norm 1.
        centred: centre F over the graph, and Y over its labels.
        leave_one_out: whether to say what fits without each labelled node say, or 0.
    """
    x, nodes = x.float(), labels.known.nonzero().squeeze(1)
    group, sizes = _groups(graph, x)
    scale, filters = _scales(x, unit_rows), tuple(map(tuple, filters))
    rows, means = _filtered_rows(graph, x, nodes, filters, propagate, unit_rows)
    shape = len(filters), len(x), labels.targets.shape[1]
    values, held_out = x.new_zeros(shape), x.new_zeros(shape)
    inputs = x.new_zeros(shape)  # of each filter x W
    penalties = penalty if isinstance(penalty, Sequence) else [penalty] * len(filters)
    for number, (of_filter, centre, own) in enumerate(zip(rows, means, penalties, strict=True)):
        for graph_number, members in _members(group[nodes], len(sizes)):
            here = nodes[members]
            y = labels.targets[here]
            middle = y.mean(0) if centred else torch.zeros_like(y[0])
            shift = centre[graph_number] if centred else torch.zeros_like(centre[0])
            weights, left_out = solve(of_filter[members] - shift, y - middle, own, leave_one_out)
            held_out[number, here] = left_out + middle
            alone = len(sizes) == 1
            inside = slice(None) if alone else group == graph_number
            projected = product(x if alone else x[inside], weights)
            inputs[number, inside] = projected * scale[inside, None]
            values[number, inside] = middle - shift @ weights
    return Fits(values + _filtered(graph, inputs, filters, propagate), held_out)


def solve(
    rows: Tensor, y: Tensor, penalty: float | None, leave_one_out: bool = True
) -> tuple[Tensor, Tensor]:
    """Return ridge weights (F, C) of rows (n, F) for y (n, C), and y of each without itself.

    By the smaller of the two Gram matrices, in fp64. Without itself it is y_i - a_i / G_ii for
    G = (F F^T + l I)^-1 and a = G y, or y_i - (y_i - F_i W) / (1 - h_i), h_i = F_i (F^T F + l I)^-1
    F_i^T.

    Args:
        rows: of the labelled nodes.
        y: their targets.
        penalty: as of `ridge`.
        leave_one_out: whether the second is asked for, or 0.
    """
    if penalty is None:
        tried = [solve(rows, y, each) for each in PENALTIES]
        return min(tried, key=lambda fit: float((fit[1] - y).square().sum()))
    wide, y64 = rows.double(), y.double()
    dual = len(rows) <= rows.shape[1]
    gram = wide @ wide.mT if dual else wide.mT @ wide
    weight = penalty * float(wide.square().sum()) / len(rows) + 1e-9
    gram.diagonal().add_(weight)
    factor = torch.linalg.cholesky(gram)
    if not leave_one_out:
        known = y64 if dual else wide.mT @ y64
        weights = torch.cholesky_solve(known, factor)
        weights = wide.mT @ weights if dual else weights
        return weights.to(rows.dtype), torch.zeros_like(y)
    inverse = torch.cholesky_inverse(factor)
    if dual:
        alpha = inverse @ y64
        weights, held_out = wide.mT @ alpha, y64 - alpha / inverse.diagonal()[:, None]
    else:
        weights = inverse @ (wide.mT @ y64)
        leverage = ((wide @ inverse) * wide).sum(1, keepdim=True)
        held_out = y64 - (y64 - wide @ weights) / (1 - leverage).clamp(min=1e-9)
    return weights.to(rows.dtype), held_out.to(y.dtype)


@torch.no_grad()
def kernel_ridge(graph: Graph, z: Tensor, labels: Labels) -> Fits:
    """Fit the labels by kernel ridge regression on the distances of nodes, one fit (1, N, C).

    k(i, j) is the mean over `RATES` of exp(-g d(i, j)^2 / E d^2), and a node is k_L (K + l I)^-1
    Y_L for the labelled nodes L, l = `KERNEL_PENALTY`: it may depend on columns together, where
    `ridge` adds them up. Of more than `CENTRES` labelled nodes these are so many, drawn at random.

    Args:
        graph: of N nodes, or a batch of graphs, each fitted by itself.
        z: (N, D).
        labels: of some nodes.
    """
    group, sizes = _groups(graph, z)
    values, held_out = torch.zeros_like(labels.targets), torch.zeros_like(labels.targets)
    nodes = labels.known.nonzero().squeeze(1)
    for number, members in _members(group[nodes], len(sizes)):
        own = some_of(nodes[members])
        inside = (group == number).nonzero().squeeze(1)
        spread = 2 * (z[inside] - z[inside].mean(0)).square().sum(1).mean()
        y = labels.targets[own]
        middle, centres = y.mean(0), z[own]
        gram = _kernel(centres, centres, spread).double()
        gram.diagonal().add_(KERNEL_PENALTY)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        alpha = inverse @ (y - middle).double()
        for some in inside.split(max(1, AT_ONCE // (4 * len(own)))):
            near = _kernel(z[some], centres, spread)
            values[some] = near @ alpha.to(z.dtype) + middle
        held_out[inside] = values[inside] * labels.known[inside, None]
        held_out[own] = (y - alpha / inverse.diagonal()[:, None]).to(y.dtype)
    return Fits(values[None], held_out[None])


def some_of(nodes: Tensor) -> Tensor:
    """Return these nodes (n,), or of more than `CENTRES` so many, the same ones each time."""
    if len(nodes) <= CENTRES:
        return nodes
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))
    return nodes[order[:CENTRES].to(nodes.device)]


def _kernel(z: Tensor, centres: Tensor, spread: Tensor) -> Tensor:
    """Return k(i, j), (N, n), for z (N, D) and centres (n, D)."""
    squares = torch.cdist(z, centres).square_().div_(-spread.clamp(min=1e-12))
    kernel = torch.zeros_like(squares)
    for rate in RATES:
        kernel += (rate * squares).exp_()
    return kernel.div_(len(RATES))


def _scales(x: Tensor, unit_rows: bool) -> Tensor:
    """Return 1 / the norm of each row of x, (N,), 0 where that is 0; or 1 where not `unit_rows`."""
    if not unit_rows:
        return x.new_ones(len(x))
    norms = torch.linalg.vector_norm(x, dim=1)
    return torch.where(norms > 0, 1 / norms.clamp(min=1e-12), 0.0)


def _groups(graph: Graph, x: Tensor) -> tuple[Tensor, list[int]]:
    """Return the number of the graph of each node of a batch (N,), and how many nodes each has."""
    if isinstance(graph, Shard):
        raise ZooError(
            "a closed form is of the whole graph, and this is a part of it: predict by "
            "`--batch-size` in the place of `--layerwise`, and train in one process."
        )
    sizes = [len(x) if size is None else size for size in node_counts(graph)]
    counts = torch.tensor(sizes, device=x.device)
    return torch.arange(len(sizes), device=x.device).repeat_interleave(counts), sizes


def graph_numbers(graph: Graph, x: Tensor) -> Tensor:
    """Return the number of the graph of each node, (N,), of a batch; x is of its N nodes."""
    return _groups(graph, x)[0]


def _members(group: Tensor, count: int) -> Iterator[tuple[int, Tensor]]:
    """Give the places of the nodes of each graph among some nodes; nothing of one without any."""
    for number in range(count):
        if len(members := (group == number).nonzero().squeeze(1)):
            yield number, members


class _Filtered(NamedTuple):
    """p(A) x of each filter, (K, N, F), its means over graphs (K, G, F), and the version of x."""

    features: Tensor
    means: Tensor
    version: int


@per_graph
def _kept(graph: Graph) -> WeakIdKeyDictionary:
    """Return what is kept of features x on a graph: it is asked for again in every step."""
    return WeakIdKeyDictionary()


def _filtered_rows(
    graph: Graph,
    x: Tensor,
    nodes: Tensor,
    filters: Filters,
    propagate: Propagation,
    unit_rows: bool,
) -> tuple[Tensor, Tensor]:
    """Return the rows of p(A) x, (K, n, F), of some nodes, and means over graphs (K, G, F).

    Small features are propagated whole, once, and kept for as long as they live. Of others features
    are propagated to the nodes, or the nodes to all features by A^T: what has fewer columns.
    """
    if len(filters) * x.numel() > KEPT or x.is_inference() or x.requires_grad:
        few = len(nodes) < x.shape[1]
        return (_rows_by_nodes if few else _rows_by_columns)(
            graph, x, nodes, filters, propagate, unit_rows
        )
    known, key = _kept(graph).setdefault(x, {}), (propagate, filters, unit_rows)
    if key not in known or known[key].version != x._version:
        with torch.inference_mode(False):
            every = torch.arange(len(x), device=x.device)
            whole = _rows_by_columns(graph, x, every, filters, propagate, unit_rows)
            known[key] = _Filtered(*whole, x._version)
    return known[key].features[:, nodes], known[key].means


def _rows_by_columns(
    graph: Graph,
    x: Tensor,
    nodes: Tensor,
    filters: Filters,
    propagate: Propagation,
    unit_rows: bool,
) -> tuple[Tensor, Tensor]:
    """Return what `_filtered_rows` does; the features are propagated, some columns at a time."""
    group, per_node = _shares(graph, x)
    scale, graphs = _scales(x, unit_rows)[:, None], len(node_counts(graph))
    rows = x.new_zeros(len(filters), len(nodes), x.shape[1])
    means = x.new_zeros(len(filters), graphs, x.shape[1])
    at_once = max(1, AT_ONCE // max(1, len(x)))
    for start in range(0, x.shape[1], at_once):
        wanted = slice(start, start + at_once)
        columns = x[:, wanted] * scale
        for power in range(max(map(len, filters))):
            columns = propagate(graph, columns) if power else columns
            of_graphs = means.new_zeros(graphs, columns.shape[1])
            of_graphs.index_add_(0, group, columns * per_node)
            for number, weight in _with_power(filters, power):
                rows[number, :, wanted] += weight * columns[nodes]
                means[number, :, wanted] += weight * of_graphs
    return rows, means


def _rows_by_nodes(
    graph: Graph,
    x: Tensor,
    nodes: Tensor,
    filters: Filters,
    propagate: Propagation,
    unit_rows: bool,
) -> tuple[Tensor, Tensor]:
    """Return what `_filtered_rows` does; some nodes at a time, and the means, are led back by A^T.

    ((A^T)^k e)^T x is the row of A^k x for the column e that is 1 at its node; or its mean, for one
    that is 1 / N at each node.
    """
    group, per_node = _shares(graph, x)
    scale, graphs = _scales(x, unit_rows)[:, None], len(node_counts(graph))
    rows = x.new_zeros(len(filters), len(nodes), x.shape[1])
    means = x.new_zeros(len(filters), graphs, x.shape[1])
    at_once = max(1, AT_ONCE // max(1, len(x)))

    def lead_back(columns: Tensor, out: Tensor) -> None:
        for power in range(max(map(len, filters))):
            columns = _transposed(propagate, graph, columns) if power else columns
            led_back = product_of_transposed(x, columns * scale).mT
            for number, weight in _with_power(filters, power):
                out[number] += weight * led_back

    for start in range(0, len(nodes), at_once):
        own = nodes[start : start + at_once]
        columns = x.new_zeros(len(x), len(own))
        columns[own, torch.arange(len(own), device=x.device)] = 1.0
        lead_back(columns, rows[:, start : start + at_once])
    for start in range(0, graphs, at_once):
        numbers = torch.arange(start, min(start + at_once, graphs), device=x.device)
        lead_back((group[:, None] == numbers) * per_node, means[:, start : start + at_once])
    return rows, means


def _with_power(filters: Filters, power: int) -> list[tuple[int, float]]:
    """Return the filters, by their numbers, that have a power, with its coefficient."""
    return [(number, each[power]) for number, each in enumerate(filters)
            if len(each) > power and each[power]]  # fmt: skip


def _shares(graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of the graph of each node (N,), and 1 / the nodes of that graph, (N, 1)."""
    group, sizes = _groups(graph, x)
    counts = torch.tensor(sizes, device=x.device, dtype=x.dtype)
    return group, 1 / counts[group].clamp(min=1)[:, None]


def _filtered(graph: Graph, inputs: Tensor, filters: Filters, propagate: Propagation) -> Tensor:
    """Return p(A) z of each filter p and its own z, (K, N, C), by Horner's rule."""
    count, nodes, width = inputs.shape
    order = max(len(each) for each in filters)
    padded = inputs.new_tensor([[*each, *[0.0] * (order - len(each))] for each in filters])
    z = inputs.transpose(0, 1)  # (N, K, C)
    out = z * padded[:, -1:]
    for power in reversed(range(order - 1)):
        out = propagate(graph, out.reshape(nodes, count * width)).view(nodes, count, width)
        out = out + z * padded[:, power : power + 1]
    return out.transpose(0, 1)


def _transposed(propagate: Propagation, graph: Graph, x: Tensor) -> Tensor:
    """Return A^T x: the gradient of a propagation, which is linear."""
    with torch.inference_mode(False), torch.enable_grad():
        start = torch.zeros_like(x).requires_grad_()
        return torch.autograd.grad(propagate(graph, start), start, x.clone())[0]


def product(x: Tensor, weights: Tensor) -> Tensor:
    """Return x W for features x (N, F), without their zeros."""
    sparse = sparse_form(x)
    return x @ weights if sparse is None else sparse_product(weights, *sparse[:2])


def product_of_transposed(x: Tensor, columns: Tensor) -> Tensor:
    """Return x^T Z, (F, D), for features x (N, F), without their zeros."""
    sparse = sparse_form(x)
    return x.mT @ columns if sparse is None else sparse_product(columns, *sparse[1::-1])


def graph_means(graph: Graph, labels: Labels) -> Tensor:
    """Return the mean of the labels of its graph for each node, (N, C); 0 where there are none."""
    return mean_of_known(graph, labels.targets, labels.known)


def squared_errors(graph: Graph, labels: Labels, held_out: Tensor) -> Tensor:
    """Return the mean squared error of what is said of the labelled nodes of its graph, (N, 1).

    Args:
        graph: of N nodes, or a batch.
        labels: of some of them.
        held_out: (N, C) what is said of these without themselves.
    """
    errors = (held_out - labels.targets).square().mean(dim=1, keepdim=True)
    return mean_of_known(graph, errors * labels.known[:, None], labels.known)


def count_known(graph: Graph, labels: Labels) -> Tensor:
    """Return how many labelled nodes the graph of each node has, (N,)."""
    group, sizes = _groups(graph, labels.targets)
    known = labels.known.to(labels.targets.dtype)
    return known.new_zeros(len(sizes)).index_add(0, group, known)[group]


def mean_of_known(graph: Graph, x: Tensor, known: Tensor) -> Tensor:
    """Return the mean over the known nodes of its graph for each node, (N, C), of x (N, C)."""
    group, sizes = _groups(graph, x)
    sums = x.new_zeros(len(sizes), x.shape[1]).index_add(0, group, x)
    many = x.new_zeros(len(sizes)).index_add(0, group, known.to(x.dtype))
    return (sums / many.clamp(min=1)[:, None])[group]
