"""Label tokens: what closed-form predictors say of each node and class, and how far to trust them.

They depend on the number and order of neither features nor classes, so that a network that reads
them answers for any graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from zoo.graphs.adjacency import degrees
from zoo.graphs.per_graph import per_graph
from zoo.graphs.shard import Graph
from zoo.nn.closed_form import (
    KEPT,
    POWERS,
    Labels,
    count_known,
    graph_means,
    graph_numbers,
    kernel_ridge,
    label_walks,
    mean_of_known,
    neighbour_mean,
    product,
    product_of_transposed,
    ridge,
    some_of,
    squared_errors,
)
from zoo.nn.propagation import gcn

WALK = tuple(0.15 * 0.85**step for step in range(8)) + (0.85**8,)
"""Personalised PageRank of 8 steps, by the coefficients of 1, A, A² and so on."""

FILTERS = *POWERS, WALK, (1.0, -1.0), (1.0, -2.0, 1.0), POWERS[2]
"""Of the ridge regressions on features: X, A X, A² X, their walk, what A leaves of X, twice, and
A² X with a small penalty, for features of which a few directions hold the most."""

FILTER_PENALTIES = 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1

CHANNELS = len(FILTERS) + 5
"""How many predictors there are: those, and what `_predictions` adds to them."""

RIDGES = len(POWERS)
"""The first of them, whose mean is the `ridge` model."""

WALKS, TAUGHT = len(FILTERS) + 1, CHANNELS - 1
"""Walks of the labels, and the ridge regression that learns of its own answers."""

WITHOUT_TRUST = {TAUGHT: 1.0, WALKS: 0.3, FILTER_PENALTIES.index(0.1): 0.3}
"""Weights where no class has two labels, so that nothing says how good predictors are."""

LITTLE_TRUST = 0.02
"""How much better the taught one is thought to be than the labelled nodes say."""

STACK_PENALTY, LEAST_PENALTY = 10_000.0, 10.0
"""How the weights of the predictors are held to those of their skill: the penalty of their squared
distance is the first / n for n labels, and no less than the second."""

TOKEN = 2 * CHANNELS + 3
"""Numbers of a token: of each channel its value, and that times its skill; and `places`."""

FOLDS = 4
"""Parts of the labelled nodes that walks of labels are hidden from in turn."""

COMPONENTS = 256
"""Principal components to which the features of a graph are reduced, where it has more."""

OF_DEGREES = 7
"""Columns of `structure` that are no products of others."""

DEGREES_COUNT = 0.7
"""Length of the columns of degrees in `surroundings`, beside 1 of the features."""

STRUCTURE = 0.3
"""Deviation of what degrees say beside that of the components."""

CONFIDENT = 0.2, 0.4, 0.6
"""Share of the nodes of each class whose answers are taken for labels, step by step."""

SHARP = 0.05
"""A predictor that is worse by so much, of all that there is to gain, weighs e times less."""

TEMPERATURES = 0.25, 0.5, 1.0, 2.0, 4.0
LEAST_ERROR = 0.01
LARGEST = 8.0


class LabelTokens(NamedTuple):
    """What closed-form predictors say.

    Attributes:
        tokens: (N, C, TOKEN).
        base: (N, C) the mean of three ridge regressions, as logits.
        mix: (N, C) a sum of all predictors, of classes as logits: see `_stacked`; of numbers their
            mean, weighted by skill.
        judged: (N,) bool, whether the labels of its graph say what the predictors are worth.
    """

    tokens: Tensor
    base: Tensor
    mix: Tensor
    judged: Tensor


def label_tokens(graph: Graph, x: Tensor, labels: Labels, *, classes: bool) -> LabelTokens:
    """Return the token of each node and class, or target.

    The skill of a predictor is its accuracy for the labelled nodes without themselves, each class
    alike, from 0 of chance to 1; of numbers 1 - error / variance. No weights take part, so that
    they are kept for labels that are given again, as long as the features live and there is room.

    Args:
        graph: of N nodes, or a batch of graphs, each by itself.
        x: features (N, F).
        labels: of some nodes.
        classes: whether targets are one-hot, and not numbers.
    """
    if x.is_inference() or labels.targets.numel() * (TOKEN + 2) > KEPT:
        return _label_tokens(graph, x, labels, classes)
    known = _tokens(graph).setdefault(x, {})
    key = (x._version, classes, _digest(labels))
    if key in known:
        return known[key]
    with torch.inference_mode(False):
        found = _label_tokens(graph, x, labels, classes)
    if sum(each.tokens.numel() for each in known.values()) + found.tokens.numel() <= KEPT:
        known[key] = found
    return found


def _digest(labels: Labels) -> bytes:
    """Return what labels are, in a few bytes."""
    digest = hashlib.blake2b()
    for part in labels:
        digest.update(part.cpu().numpy())
    return digest.digest()


@per_graph
def _tokens(graph: Graph) -> WeakIdKeyDictionary:
    """Return the tokens of features on a graph that are kept, by the labels that were given."""
    return WeakIdKeyDictionary()


@torch.no_grad()
def _label_tokens(graph: Graph, x: Tensor, labels: Labels, classes: bool) -> LabelTokens:
    values, held_out = _predictions(graph, x, labels, classes)  # (K, N, C)
    base, base_held = values[:RIDGES].mean(0), held_out[:RIDGES].mean(0)
    if classes:
        base = base / squared_errors(graph, labels, base_held).clamp(min=LEAST_ERROR)
        values, held_out = _standardised(graph, values, held_out)
    skill = _skills(graph, labels, held_out, classes)  # (N, K)
    weights = _weights(skill)
    if classes:
        mix_held = torch.einsum("nk,knc->nc", weights, held_out)
        weights = weights * _temperature(graph, labels, mix_held)
        weights, shift = _stacked(graph, labels, held_out, weights, ~skill.isnan().any(dim=1))
    mix = torch.einsum("nk,knc->nc", weights, values)
    mix = mix + shift if classes else mix
    values = values.permute(1, 2, 0)  # (N, C, K)
    known = skill.nan_to_num()[:, None, :]
    tokens = torch.cat([values, values * known, _places(graph, labels)], dim=2)
    return LabelTokens(tokens, base, mix, ~skill.isnan().any(dim=1))


def _predictions(graph: Graph, x: Tensor, labels: Labels, classes: bool) -> tuple[Tensor, Tensor]:
    """Return what each predictor says, and of labelled nodes without themselves, (K, N, C)."""
    of_features = ridge(graph, x, labels, propagate=gcn, filters=FILTERS, penalty=FILTER_PENALTIES)
    of_degrees = ridge(
        graph, structure(graph, x.device), labels, propagate=gcn, filters=FILTERS[:1],
        unit_rows=False,
    )  # fmt: skip
    walks = _walks(graph, labels, classes)
    summary = summarised(graph, x)
    how = {"propagate": gcn, "filters": FILTERS[:1], "unit_rows": False}
    of_summary = ridge(graph, summary, labels, **how)
    of_distances = kernel_ridge(graph, surroundings(graph, x), labels)
    taught = _self_taught(graph, summary, labels, of_summary.values[0], classes)
    parts = zip(of_features, of_degrees, walks, of_distances, of_summary, taught, strict=True)
    values, held_out = (torch.cat(each) for each in parts)
    return values, held_out


def _self_taught(
    graph: Graph, summary: Tensor, labels: Labels, first: Tensor, classes: bool
) -> tuple[Tensor, Tensor]:
    """Return what ridge regression says that learns of its own confident answers, (1, N, C).

    Labelled nodes without themselves are answered in folds, whose labels are hidden.

    Args:
        graph: of N nodes.
        summary: (N, F).
        labels: of some nodes.
        first: (N, C) what it says before.
        classes: whether these are classes; numbers are not learnt of answers.
    """
    held_out = torch.zeros_like(first)
    if not classes:
        return first[None], ridge(
            graph, summary, labels, propagate=gcn, filters=FILTERS[:1], unit_rows=False
        ).held_out
    for fold in _folds(graph, labels, classes):
        others = Labels(labels.targets * ~fold[:, None], labels.known & ~fold)
        said = _teach(graph, summary, others, None)
        held_out = torch.where(fold[:, None], said, held_out)
    return _teach(graph, summary, labels, first)[None], held_out[None]


def _teach(graph: Graph, summary: Tensor, labels: Labels, first: Tensor | None) -> Tensor:
    """Return the answers (N, C) of a ridge regression that has learnt of its own."""

    def fit(some: Labels) -> Tensor:
        return ridge(
            graph, summary, some, propagate=gcn, filters=FILTERS[:1], unit_rows=False,
            leave_one_out=False,
        ).values[0]  # fmt: skip

    first = _as_scores(graph, fit(labels) if first is None else first)
    answers = 2 * first
    for share in CONFIDENT:
        learnt = _confident(graph, answers, share)
        learnt = torch.where(labels.known[:, None], labels.targets, learnt)
        said = _as_scores(graph, fit(Labels(learnt, learnt.any(dim=1))))
        answers = first + said
    return said


def _as_scores(graph: Graph, values: Tensor) -> Tensor:
    return _standardised(graph, values[None], values[None])[0][0]


def _confident(graph: Graph, answers: Tensor, share: float) -> Tensor:
    """Return the answers of which a share of the nodes of each class is most sure, one-hot (N, C).

    Of each graph of a batch by itself; the others are 0.
    """
    sure, answer = answers.softmax(dim=1).max(dim=1)
    kind = graph_numbers(graph, answers) * answers.shape[1] + answer
    order = sure.argsort(descending=True, stable=True)
    many = share * torch.bincount(kind)[kind[order]] if len(kind) else sure
    chosen = order[_ranks(kind[order]) < many.clamp(min=1)]
    kept = torch.zeros_like(answers)
    kept[chosen, answer[chosen]] = 1.0
    return kept


def summarised(graph: Graph, x: Tensor) -> Tensor:
    """Return principal components of x, walked along the edges, and what degrees say, (N, D).

    Kept for as long as the features live.
    """
    known = _summaries(graph)
    if x in known and known[x][0] == x._version:
        return known[x][1]
    with torch.inference_mode(False):
        sizes = torch.bincount(graph_numbers(graph, x)).tolist()
        columns = torch.cat([_components(part) for part in x.split(sizes)]) if len(x) else x
        walked = WALK[0] * columns
        for weight in WALK[1:]:
            columns = gcn(graph, columns)
            walked = walked + weight * columns
        everyone = torch.ones(len(x), dtype=torch.bool, device=x.device)
        walked = walked - mean_of_known(graph, walked, everyone)
        deviation = mean_of_known(graph, walked.square(), everyone).mean(1, keepdim=True).sqrt()
        degrees_say = STRUCTURE * deviation * structure(graph, x.device)
        summary = torch.cat([walked, degrees_say], dim=1)
    if not x.is_inference():
        known[x] = (x._version, summary)
    return summary


def surroundings(graph: Graph, x: Tensor) -> Tensor:
    """Return features of each node and its neighbours, (N, D), for a kernel on their distances.

    x or its principal components, its mean over the neighbours, over theirs, and the columns of
    degrees, each centred and of mean squared length 1. Kept for as long as the features live.
    """
    known = _surroundings(graph)
    if x in known and known[x][0] == x._version:
        return known[x][1]
    with torch.inference_mode(False):
        columns, most = x, max(1, min(COMPONENTS, KEPT // max(1, len(x))))
        if x.shape[1] > most:
            sizes = torch.bincount(graph_numbers(graph, x)).tolist()
            columns = torch.cat([_components(part, most) for part in x.split(sizes)])
        blocks = [_of_length_one(graph, columns)]
        for _ in range(2):
            columns = neighbour_mean(graph, columns)
            blocks.append(_of_length_one(graph, columns))
        of_degrees = structure(graph, x.device)[:, :OF_DEGREES]
        blocks.append(DEGREES_COUNT * _of_length_one(graph, of_degrees))
        features = torch.cat(blocks, dim=1)
    if not x.is_inference():
        known[x] = (x._version, features)
    return features


@per_graph
def _surroundings(graph: Graph) -> WeakIdKeyDictionary:
    """Return the surroundings on a graph that are kept, by features."""
    return WeakIdKeyDictionary()


def _of_length_one(graph: Graph, z: Tensor) -> Tensor:
    """Return z (N, F) centred over its graph, and of mean squared length 1, or 0 if constant."""
    everyone = torch.ones(len(z), dtype=torch.bool, device=z.device)
    z = z - mean_of_known(graph, z, everyone)
    length = mean_of_known(graph, z.square().sum(1, keepdim=True), everyone)
    return torch.where(length > 1e-10, z / length.clamp(min=1e-10).sqrt(), 0.0)


def _components(x: Tensor, most: int = COMPONENTS) -> Tensor:
    """Return x (N, F) with rows of norm 1, or its principal components (N, `most`) if fewer.

    By two steps of subspace iteration (Halko et al. 2011, arXiv 0909.4061, algorithm 4.4).
    """
    scale = (1 / torch.linalg.vector_norm(x, dim=1).clamp(min=1e-12))[:, None]
    if x.shape[1] <= most:
        return x * scale
    generator = torch.Generator().manual_seed(0)  # of the CPU: a GPU has other numbers
    many = min(most, len(x))
    columns = torch.randn(x.shape[1], many, generator=generator, dtype=x.dtype).to(x.device)
    for _ in range(3):
        basis = torch.linalg.qr(product(x, columns) * scale).Q  # (N, many)
        columns = product_of_transposed(x, basis * scale)  # (F, many)
    directions = torch.linalg.svd(columns, full_matrices=False).U
    return functional.pad(product(x, directions) * scale, (0, most - many))


@per_graph
def _summaries(graph: Graph) -> WeakIdKeyDictionary:
    """Return the summaries of features on a graph that are kept."""
    return WeakIdKeyDictionary()


def _walks(graph: Graph, labels: Labels, classes: bool) -> tuple[Tensor, Tensor]:
    """Return what walks of the labels say, (1, N, C); labels of folds are hidden in turn."""
    known = labels.known[:, None].float()
    both = torch.cat([labels.targets, known], dim=1)  # (N, C + 1)
    width = both.shape[1]
    hidden = [*_folds(graph, labels, classes)]
    blocks = torch.cat([both, *(both * ~fold[:, None] for fold in hidden)], dim=1)
    walked = label_walks(
        graph, Labels(blocks, labels.known), steps=8, restart=0.15, propagate=neighbour_mean
    )
    little = 1e-4 * torch.cat([graph_means(graph, labels), torch.ones_like(known)], dim=1)
    answers = [
        arrived[:, :-1] / arrived[:, -1:].clamp(min=1e-12)
        for arrived in (block + little for block in walked.split(width, dim=1))
    ]
    held_out = torch.zeros_like(answers[0])
    for fold, answer in zip(hidden, answers[1:], strict=True):
        held_out = torch.where(fold[:, None], answer, held_out)
    return answers[0][None], held_out[None]


def _folds(graph: Graph, labels: Labels, classes: bool) -> Iterator[Tensor]:
    """Give the nodes (N,) bool of each fold: of each graph those of a class are dealt in order."""
    nodes = labels.known.nonzero().squeeze(1)
    kind = labels.targets.argmax(1) if classes else torch.zeros_like(labels.known, dtype=torch.long)
    kind = kind + graph_numbers(graph, labels.targets) * labels.targets.shape[1]
    rank = torch.full_like(kind, -1).index_copy(0, nodes, _ranks(kind[nodes]))
    for number in range(FOLDS):
        yield labels.known & (rank % FOLDS == number)


def _ranks(kind: Tensor) -> Tensor:
    """Return how many entries of the same number stand before each entry of kind (n,)."""
    order = kind.argsort(stable=True)
    counts = torch.bincount(kind)
    starts = counts.cumsum(0) - counts
    places = torch.arange(len(kind), device=kind.device) - starts[kind[order]]
    return torch.empty_like(kind).index_copy(0, order, places)


def _standardised(graph: Graph, values: Tensor, held_out: Tensor) -> tuple[Tensor, Tensor]:
    """Return values less their mean over classes, in units of their deviation in the graph."""
    everyone = torch.ones_like(values[0, :, 0], dtype=torch.bool)
    values = values - values.mean(2, keepdim=True)
    held_out = held_out - held_out.mean(2, keepdim=True)
    squares = values.square().mean(2).mT  # (N, K)
    deviation = mean_of_known(graph, squares, everyone).sqrt().mT[..., None] + 1e-6
    limits = {"min": -LARGEST, "max": LARGEST}
    return (values / deviation).clamp(**limits), (held_out / deviation).clamp(**limits)


def _skills(graph: Graph, labels: Labels, held_out: Tensor, classes: bool) -> Tensor:
    """Return the skill of each predictor in the graph of each node, (N, K); NaN where unknown."""
    if not classes:
        middle = graph_means(graph, labels)
        error = (held_out - labels.targets).square().mean(2).mT * labels.known[:, None]
        around = (labels.targets - middle).square().mean(1, keepdim=True) * labels.known[:, None]
        errors, around = (mean_of_known(graph, each, labels.known) for each in (error, around))
        return (1 - errors / around.clamp(min=1e-9)).clamp(min=-1)
    count = held_out.shape[2]
    share = graph_means(graph, labels)  # (N, C)
    own = (labels.targets * share).sum(1) * count_known(graph, labels)  # labels of its class
    asked = labels.known & (own > 1.5)  # of a class of one label nothing is left to say it
    right = held_out.argmax(2).mT == labels.targets.argmax(1)[:, None]  # (N, K)
    weight = torch.where(asked, 1 / own.clamp(min=1), 0.0)[:, None]
    hits = mean_of_known(graph, right * weight, asked)
    total = mean_of_known(graph, weight, asked)
    accuracy = torch.where(total > 0, hits / total.clamp(min=1e-12), torch.nan)
    return (accuracy - 1 / count) / (1 - 1 / count)


def _weights(skill: Tensor) -> Tensor:
    """Return the weight of each predictor, (N, K)."""
    unknown, little = torch.zeros_like(skill), torch.zeros_like(skill)
    unknown[:, [*WITHOUT_TRUST]] = skill.new_tensor([*WITHOUT_TRUST.values()])
    unknown = unknown / unknown.sum(dim=1, keepdim=True)
    little[:, TAUGHT] = LITTLE_TRUST
    weights = ((skill.nan_to_num() + little) / SHARP).softmax(dim=1)
    return torch.where(skill.isnan().any(dim=1, keepdim=True), unknown, weights)


def _stacked(
    graph: Graph, labels: Labels, held_out: Tensor, weights: Tensor, judged: Tensor
) -> tuple[Tensor, Tensor]:
    """Return weights of the predictors (N, K), and a logit of each class (N, C), of each graph.

    By logistic regression on what they say of labelled nodes without these (Wolpert 1992, Stacked
    generalization), which leaves the weights of their skill as far as labels tell better ones, of
    `CENTRES` nodes at most.

    Args:
        graph: of N nodes.
        labels: of some nodes.
        held_out: (K, N, C), as logits.
        weights: (N, K) those of their skill, the same for all nodes of a graph.
        judged: (N,) whether there is anything to learn from in the graph of a node.
    """
    number = graph_numbers(graph, weights)
    weights, shift = weights.clone(), torch.zeros_like(labels.targets)
    nodes = (labels.known & judged).nonzero().squeeze(1)
    for own in number[nodes].unique():
        known = some_of(nodes[number[nodes] == own])
        answers, truth = held_out[:, known].permute(1, 2, 0), labels.targets[known].argmax(1)
        here = number == own
        weights[here], shift[here] = _stack(answers, truth, weights[known[0]])
    return weights, shift


def _stack(answers: Tensor, truth: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights (K,) of predictors and logits (C,) of classes by logistic regression.

    Args:
        answers: logits of K predictors for n nodes and C classes.
        truth: (n,) classes.
        first: (K,) weights that the penalty draws to.
    """
    from scipy import optimize  # takes a tenth of a second

    answers, classes = answers.double(), answers.shape[1]
    start = functional.pad(first.double(), (0, classes))
    target = functional.one_hot(truth, classes)
    penalty = max(LEAST_PENALTY, STACK_PENALTY / len(truth))

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        both = torch.from_numpy(numbers).to(start)
        log = (answers @ both[: len(first)] + both[len(first) :]).log_softmax(dim=1)
        off, distance = log.exp() - target, both - start
        slope = torch.cat([torch.einsum("nck,nc->k", answers, off), off.sum(dim=0)])
        value = penalty / 2 * distance.square().sum() - (target * log).sum()
        return float(value), (slope + penalty * distance).cpu().numpy()

    minimum = optimize.minimize(loss, start.cpu().numpy(), jac=True, method="L-BFGS-B").x
    minimum = torch.from_numpy(minimum).to(first)
    return minimum[: len(first)], minimum[len(first) :]


def _temperature(graph: Graph, labels: Labels, held_out: Tensor) -> Tensor:
    """Return the factor of the logits of each node, (N, 1), under which labels are most likely."""
    truth = labels.targets.argmax(1)
    losses = torch.stack([
        functional.cross_entropy(factor * held_out, truth, reduction="none") * labels.known
        for factor in TEMPERATURES
    ], dim=1)  # fmt: skip
    best = mean_of_known(graph, losses, labels.known).argmin(dim=1)
    return torch.tensor(TEMPERATURES, device=held_out.device)[best][:, None]


def _places(graph: Graph, labels: Labels) -> Tensor:
    """Return of each node and class log degree, log share of the class, log of labels near by."""
    count = labels.targets.shape[1]
    near = label_walks(
        graph, Labels(labels.known[:, None].float(), labels.known), steps=8, restart=0.15,
        propagate=neighbour_mean,
    )  # fmt: skip
    degree = structure(graph, labels.known.device)[:, :1]
    of_nodes = torch.cat([degree, near.clamp(min=1e-5).log10() / 5 + 0.5], dim=1)
    share = (graph_means(graph, labels) * count).clamp(min=1e-3).log()
    return torch.cat([of_nodes[:, None].expand(-1, count, -1), share[:, :, None]], dim=2)


@per_graph
def structure(graph: Graph, device: torch.device | str) -> Tensor:
    """Return what degrees say of each node, (N, 35), standardised over its graph.

    The logarithms of its degree and of the sum of the inverse degrees of its neighbours, means of
    these over the neighbours, once and twice, the deviation among them, and all products.
    """
    degree = (degrees(graph, device).float() - 1).clamp(min=0)[:, None]
    log = degree.log1p()
    near = neighbour_mean(graph, log)
    spread = (neighbour_mean(graph, log.square()) - near.square()).clamp(min=0).sqrt()
    inverse = (degree * neighbour_mean(graph, 1 / degree.clamp(min=1))).log1p()
    columns = torch.cat([
        log, near, neighbour_mean(graph, near), spread, neighbour_mean(graph, spread), inverse,
        neighbour_mean(graph, inverse),
    ], dim=1)  # fmt: skip
    columns = _of_deviation_one(graph, columns).clamp(-4, 4)
    first, second = torch.triu_indices(OF_DEGREES, OF_DEGREES, device=columns.device)
    products = _of_deviation_one(graph, columns[:, first] * columns[:, second]) / 2
    return torch.cat([columns, products], dim=1)


def _of_deviation_one(graph: Graph, columns: Tensor) -> Tensor:
    everyone = torch.ones(len(columns), dtype=torch.bool, device=columns.device)
    centred = columns - mean_of_known(graph, columns, everyone)
    deviation = mean_of_known(graph, centred.square(), everyone).sqrt()
    return torch.where(deviation > 1e-5, centred / deviation.clamp(min=1e-5), 0.0)
