"""Lemmas and theorem of the paper of Random Batch Attention, checked on the zoo's implementation.

"How Particle-System Random Batch Methods Enhance Graph Transformer" (arXiv 2511.06044) reads
attention as particles X on the unit sphere, dX_i/dt = 1/(N-1) sum_{j != i} K(X_i, X_j) with
K(x, y) = exp(x^T W^T y) w (y - <y, x> x); random batches replace the mean over all others by the
mean over the others of the batch. Every measurement calls `RandomBatchAttention`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field, NonNegativeInt
from study import Row, Series, Study, run
from torch import Tensor

from zoo.nn.attention import softmax
from zoo.nn.random_batch_attention import RandomBatchAttention

DIM = 3
"""Dimension D of the space: particles are on its unit sphere."""

LARGEST = 128
"""Particles of the largest batch of Lemma 3; fewer than four of them are too few to average."""


class Particles(NamedTuple):
    """N particles X (N, D) of norm 1, the matrix W (D, D) and the weights w (N,) of the kernel."""

    x: Tensor
    w_matrix: Tensor
    weights: Tensor


def rba_theory(
    *,
    quick: bool = False,
    seed: NonNegativeInt = 0,
    particles: Annotated[int, Field(ge=4 * LARGEST, multiple_of=LARGEST)] = 1024,
) -> Study:
    """Lemmas 2 and 3, Theorem 1, and the bias of softmax inside batches.

    Args:
        quick: fewer draws, in seconds instead of a minute.
        seed: seed of all random draws.
        particles: number N for Lemma 3, from 512, a multiple of the largest batch, 128.
    """
    torch.manual_seed(seed)
    scale = 1 if quick else 8
    parts = (
        co_occurrence(nodes=48, size=8, draws=2500 * scale),
        variance(particles, sizes=(2, 8, 32, LARGEST), draws=60 if quick else 200),
        trajectories(nodes=256, sizes=(2, 3, 5, 9, 17), draws=3 * scale),
        softmax_bias(nodes=512, sizes=(16, 32, 64, 128), draws=150 * scale),
    )
    rows = [row for part in parts for row in part.rows]
    return Study("rba-theory", rows, [plot for part in parts for plot in part.plots])


def co_occurrence(*, nodes: int, size: int, draws: int) -> Study:
    """Lemma 2: two given nodes share a batch with probability (p-1)/(N-1); three likewise."""
    together = {"pair": 0.0, "triple": 0.0}
    identity = torch.eye(nodes).unsqueeze(1)  # (N, 1, N): each node's value is its one-hot index
    shares = RandomBatchAttention(_mean_of_set, size)
    for _ in range(draws):
        with_first = shares(identity, identity, identity)[0, 0] > 0  # (N,) in the batch of node 0
        together["pair"] += bool(with_first[1])
        together["triple"] += bool(with_first[1] & with_first[2])
    pair = (size - 1) / (nodes - 1)
    predicted = {"pair": pair, "triple": pair * (size - 2) / (nodes - 2)}
    rows = [
        Row(
            f"Lemma 2: {name} in one batch, p = {size} of {nodes}",
            together[name] / draws,
            chance,
            5 * math.sqrt((1 - chance) / (chance * draws)),
        )
        for name, chance in predicted.items()
    ]
    return Study("co-occurrence", rows)


def variance(nodes: int, *, sizes: tuple[int, ...], draws: int) -> Study:
    """Lemma 3: the force of a batch has the mean of the full force, and a known variance."""
    system = _draw(nodes)
    kernel = _kernel(system.x, system, system.x, system.weights)  # (N, N, D)
    others = nodes - 1
    mean = kernel.sum(1) / others
    lambdas = (kernel - mean.unsqueeze(1)).square().sum(-1)
    lambdas = (lambdas.sum(1) - lambdas.diagonal()) / (others - 1)  # (N,)
    rows, measured, predicted = [], [], []
    for size in sizes:
        errors = torch.stack([_force(system, size) - mean for _ in range(draws)])  # (R, N, D)
        measured.append(errors.square().sum(-1).mean().item())
        predicted.append(((1 / (size - 1) - 1 / others) * lambdas).mean().item())
        # Without bias, the squared mean error of R draws is 1/R of the variance.
        bias = errors.mean(0).square().sum(-1).mean().item() * draws / measured[-1]
        rows.append(Row(f"Lemma 3: variance, p = {size}", measured[-1], predicted[-1], 0.05))
        rows.append(Row(f"Lemma 3: bias over noise, p = {size}", bias, 1.0, 0.25))
    points = [float(size) for size in sizes]
    lines = {"measured": (points, measured), "Lemma 3": (points, predicted)}
    plot = Series("Variance of the force of a batch", "p", lines, dashed=("Lemma 3",))
    return Study("variance", rows, [plot])


def trajectories(*, nodes: int, sizes: tuple[int, ...], draws: int) -> Study:
    """Theorem 1: the distance J of the two systems is at most C (tau/(p-1) + tau^2)."""
    system = _draw(nodes)
    steps = (8, 16, 32, 64)
    grid = np.zeros((len(steps), len(sizes)))
    for row, count in enumerate(steps):
        full = list(_positions(system, nodes, count))
        for column, size in enumerate(sizes):
            worst = [
                max(
                    (a - b).square().sum(-1).mean().item() / 2
                    for a, b in zip(_positions(system, size, count), full, strict=True)
                )
                for _ in range(draws)
            ]
            grid[row, column] = np.mean(worst)
    inverse = [1 / (size - 1) for size in sizes]
    taus = [1 / count for count in steps]
    rows = [
        Row(f"Theorem 1: slope in 1/(p-1), tau = 1/{count}", _slope(inverse, line), 1.0, 0.2)
        for count, line in zip(steps, grid, strict=True)
    ]
    slope = float(np.mean([_slope(taus, line) for line in grid.T]))
    rows.append(Row("Theorem 1: slope in tau, mean over p", slope, 1.0, 0.2))
    lines = {
        f"tau = 1/{count}": (inverse, line.tolist())
        for count, line in zip(steps, grid, strict=True)
    }
    lines["slope 1"] = (inverse, [grid[0, -1] / inverse[-1] * each for each in inverse])
    title = "Distance J from the full system"
    return Study("trajectories", rows, [Series(title, "1/(p-1)", lines, dashed=("slope 1",))])


def softmax_bias(*, nodes: int, sizes: tuple[int, ...], draws: int) -> Study:
    """Softmax of a batch is a ratio: besides its variance it has a bias of order 1/p."""
    q, k, v = torch.randn(3, nodes, 1, 8, dtype=torch.double)
    exact = softmax(q, k, v)
    biases = []
    for size in sizes:
        attend = RandomBatchAttention(softmax, size)
        errors = torch.stack([attend(q, k, v) - exact for _ in range(draws)])
        noise = errors.var(0).sum() / draws  # variance of the mean of the draws
        squared = (errors.mean(0).square().sum() - noise).clamp(min=1e-12)
        biases.append((squared / nodes).sqrt().item())
    points = [1 / size for size in sizes]
    rows = [Row("Softmax in batches: slope of the bias in 1/p", _slope(points, biases), 1.0, 0.25)]
    straight = [biases[-1] * each / points[-1] for each in points]
    lines = {"measured": (points, biases), "slope 1": (points, straight)}
    plot = Series("Bias of softmax in batches", "1/p", lines, dashed=("slope 1",))
    return Study("softmax bias", rows, [plot])


def _draw(nodes: int) -> Particles:
    x = torch.randn(nodes, DIM, dtype=torch.double)
    w_matrix = torch.randn(DIM, DIM, dtype=torch.double) / DIM**0.5
    weights = 0.5 + torch.rand(nodes, dtype=torch.double)
    return Particles(x / x.norm(dim=1, keepdim=True), w_matrix, weights)


def _kernel(x: Tensor, system: Particles, y: Tensor, weights: Tensor) -> Tensor:
    """Return K(x_i, y_j), (..., N, M, D), for x (..., N, D), y (..., M, D), weights (..., M)."""
    strength = torch.exp(x @ system.w_matrix.T @ y.mT) * weights.unsqueeze(-2)
    along = (x @ y.mT).unsqueeze(-1) * x.unsqueeze(-2)
    return strength.unsqueeze(-1) * (y.unsqueeze(-3) - along)


def _force(system: Particles, size: int) -> Tensor:
    """Return the mean of K over the other members of each particle's batch, (N, D)."""
    x, weights = system.x.unsqueeze(1), system.weights.reshape(-1, 1, 1)  # (N, 1, ...): one head
    attend = functools.partial(_mean_force, system)
    return RandomBatchAttention(attend, size)(x, weights, x).squeeze(1)


def _mean_force(system: Particles, x: Tensor, weights: Tensor, _: Tensor) -> Tensor:
    """An attention (..., N, 1, D): each particle and the force of the others of its set."""
    points, weights = x.squeeze(-2), weights.squeeze(-1).squeeze(-1)
    # A particle does not move itself: K(x, x) is 0 on the sphere.
    total = _kernel(points, system, points, weights).sum(-2)
    return (total / (points.shape[-2] - 1)).unsqueeze(-2)


def _positions(system: Particles, size: int, count: int) -> Iterator[Tensor]:
    """Yield the positions after each of `count` steps up to time 1, with new batches in each."""
    for _ in range(count):
        x = system.x + _force(system, size) / count
        system = system._replace(x=x / x.norm(dim=1, keepdim=True))
        yield system.x


def _mean_of_set(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v.mean(-3, keepdim=True).expand_as(v)


def _slope(x: list[float], y: list[float] | np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


if __name__ == "__main__":
    run(rba_theory)
