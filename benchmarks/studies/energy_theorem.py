"""The theorem of DIFFormer measured as it stands; it is derived in `diffusion.py`."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from diffusion import DIFFUSIVITIES, Bound, Energy, adjacency_of, diffuse, energy_of, normalised
from study import OVER_SEEDS, Row, Series, Study
from torch import Tensor

from zoo.nn import mean

DIM = 8
"""Width of the states of the theorem."""

MIDDLE = 0.5
"""The step size that the table has more of: the `alpha` of a model as shipped."""

NEITHER = "neither rises nor falls"
"""The name of the line at 1."""

ROUNDING = 1e-18
"""The share of its first energy below which states are at consensus, but for rounding."""


class Falls(NamedTuple):
    """A setting: for each step size and seed, energy after each layer by that before it."""

    setting: str
    diffusivity: str
    growth: dict[float, list[list[float]]]

    def worst(self, step: float) -> list[float]:
        """Return the largest of each seed."""
        return [max(each) for each in self.growth[step]]

    def rising(self, step: float) -> list[int]:
        """Return the layers, from 1, in which the energy rises with any seed."""
        layers = itertools.zip_longest(*self.growth[step], fillvalue=0.0)
        return [number for number, each in enumerate(layers, start=1) if max(each) > 1]

    def line(self, test: str = "") -> dict[str, Any]:
        """Return a line of the table: step sizes at which it falls in every layer, and so on."""
        falling = [step for step in self.growth if not self.rising(step)]
        return {
            "setting": self.setting,
            "diffusivity": self.diffusivity,
            "falls at": _range(falling, list(self.growth)),
            f"rises at {MIDDLE}": ", ".join(map(str, self.rising(MIDDLE))) or "never",
            "worst layer": spread(self.worst(MIDDLE)),
            "test": test,
        }


def growth(levels: Sequence[float]) -> list[float]:
    """Return each energy by the one before it, as far as these are more than rounding."""
    pairs = itertools.pairwise(levels)
    return [after / before for before, after in pairs if before > ROUNDING * levels[0]]


def spread(values: Sequence[float]) -> str:
    """Return the mean of several seeds and their standard deviation."""
    return f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}"


def against_steps(title: str, x_label: str, settings: dict[str, Falls]) -> Series:
    """Return the worst layer against the step size, a line for each setting."""
    lines, margins = {}, {}
    for name, each in settings.items():
        lines[name], margins[name] = averaged({step: each.worst(step) for step in each.growth})
    steps = sorted({step for each in settings.values() for step in each.growth})
    lines[NEITHER] = ([steps[0], steps[-1]], [1.0, 1.0])
    return Series(title, x_label, lines, dashed=(NEITHER,), margins=margins, note=OVER_SEEDS)


Line = tuple[list[float], list[float]]


def averaged(found: dict[float, list[float]]) -> tuple[Line, list[float]]:
    """Return x and the mean of each x's seeds, and their standard deviations."""
    middles = [statistics.fmean(each) for each in found.values()]
    return (list(found), middles), [statistics.stdev(each) for each in found.values()]


def _range(chosen: list[float], steps: list[float]) -> str:
    """Return `all`, `none`, `0.1 to 1.2` for steps without a gap between them, or each of them."""
    if not chosen or chosen == steps:
        return "all" if chosen else "none"
    first = steps.index(chosen[0])
    if len(chosen) > 2 and steps[first : first + len(chosen)] == chosen:
        return f"{chosen[0]:g} to {chosen[-1]:g}"
    return ", ".join(f"{each:g}" for each in chosen)


def theorem(graph, *, steps: Sequence[float], seeds: int, layers: int) -> Study:
    """The steps of the theorem, from random states on the unit sphere, for every step size.

    Args:
        graph: canonical and undirected, of N nodes.
        steps: sizes tau.
        seeds: number of random states for each.
        layers: number of steps.
    """
    settings: dict[str, Falls] = {}
    kept: list[bool] = []
    tight: list[float] = []
    for (kind, diffusivity), linked in itertools.product(DIFFUSIVITIES.items(), (False, True)):
        found: dict[float, list[list[float]]] = {step: [] for step in steps}
        for step, _ in itertools.product(steps, range(seeds)):
            states = on_sphere(graph.num_nodes())
            edges = adjacency_of(graph) if linked else None
            walk = list(_walk(energy_of(states, diffusivity, 1.0, edges), states, step, layers))
            found[step].append([each.after / each.before for each in walk])
            promised = [each for each in walk if each.promised]
            kept += [each.after <= each.before for each in promised]
            # Near consensus the promise is the fall itself, but for rounding.
            tight += [each.least / (each.before - each.after) for each in promised[:2]]
        name = f"{kind}, graph" if linked else kind
        settings[name] = Falls("theorem, graph" if linked else "theorem", kind, found)
    rows = [
        Row("theorem: share of the steps it allows that lower the energy", _mean(kept), 1.0, 0.0),
        Row("theorem: fall that it promises by measured fall, largest", max(tight), 1.0, None),
    ]
    title = "Theorem: energy after by before,\nworst layer"
    plot = against_steps(title, "step size tau", settings)
    return Study("theorem", rows, [plot], [each.line() for each in settings.values()])


class Layer(NamedTuple):
    """Energy before and after a step, whether the theorem allows it, and the fall it promises."""

    before: float
    after: float
    promised: bool
    least: float


def _walk(energy: Energy, states: Tensor, step: float, layers: int) -> Iterator[Layer]:
    """Yield the layers until there is consensus."""
    previous, first = states, energy(states, states)
    for _ in range(layers):
        weights, before = energy.weights(states), energy(states, previous)
        if before < ROUNDING * first:
            return
        bound, after = Bound.of(energy, weights), diffuse(states, normalised(weights), step)
        least = (states - previous).square().sum().item() + bound.fall(energy, after - states, step)
        yield Layer(before, energy(after, states), step <= bound.largest, least)
        previous, states = states, after


def limits(graph, *, strengths: Sequence[float], seeds: int) -> Study:
    """The largest step that lowers the energy: near consensus, from the sphere, along the edges.

    Args:
        graph: canonical and undirected, of N nodes.
        strengths: products of lambda and the mean mass of a node.
        seeds: number of random states for each.
    """
    rows: list[Row] = []
    bounds: list[float] = []
    lines: dict[str, Line] = {}
    margins = {}
    for kind, diffusivity in DIFFUSIVITIES.items():
        found: dict[float, list[float]] = {}
        for strength in strengths:
            near = 1e-3 * on_sphere(graph.num_nodes()) + DIM**-0.5 / 2
            largest, _ = _first_step(energy_of(near, diffusivity, strength), near)
            name = f"largest step near consensus, {kind}, lambda N f = {strength:g}"
            rows.append(Row(name, largest, _at_consensus(strength), 1e-3))
            starts = [on_sphere(graph.num_nodes()) for _ in range(seeds)]
            pairs = [_first_step(energy_of(z, diffusivity, strength), z) for z in starts]
            found[strength] = [largest for largest, _ in pairs]
            bounds += [bound / largest for largest, bound in pairs]
        lines[kind], margins[kind] = averaged(found)
    name = "predicted near consensus"
    lines[name] = (list(strengths), [_at_consensus(each) for each in strengths])
    rows.append(Row("largest step from the sphere: allowed by measured", max(bounds), 1.0, None))
    rows.append(_along_edges(graph))
    title, x_label = "Theorem: largest step size\nthat lowers the energy", "lambda times mean mass"
    plot = Series(title, x_label, lines, (name,), True, margins, OVER_SEEDS)
    return Study("limits", rows, [plot])


def on_sphere(nodes: int) -> Tensor:
    """Return random states of norm 1, (N, DIM)."""
    return torch.nn.functional.normalize(torch.randn(nodes, DIM, dtype=torch.double), dim=1)


def _at_consensus(strength: float) -> float:
    return 4 * strength / (1 + 2 * strength)


def _first_step(energy: Energy, states: Tensor) -> tuple[float, float]:
    """Return the largest first step that lowers the energy, and the largest that is allowed."""
    weights, first = energy.weights(states), energy(states, states)
    s = normalised(weights)
    found = largest_step(lambda step: energy(diffuse(states, s, step), states) > first)
    return found, Bound.of(energy, weights).largest


def _along_edges(graph) -> Row:
    """The graph alone, delta(d) = d along its edges: from the states that change sign the most."""
    adjacency = adjacency_of(graph)
    scale = adjacency.sum(1).rsqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * adjacency * scale)
    states = (scale * vectors[:, 0]).unsqueeze(1)
    gathered = mean(graph, states)
    alone = DIFFUSIVITIES["DIFFormer-s"]._replace(potential=torch.zeros_like)
    energy = Energy(alone, 1.0, adjacency)
    first = energy.smoothness(states)
    found = largest_step(lambda tau: energy.smoothness(states + tau * (gathered - states)) > first)
    return Row("largest step along the edges alone", found, 2 / (1 - values[0].item()), 1e-6)


def largest_step(rises: Callable[[float], bool], most: float = 4.0) -> float:
    """Return where steps begin to raise something that small steps lower, by bisection."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) else (middle, high)
    return low


def _mean(values: Sequence[bool]) -> float:
    return statistics.fmean(map(float, values))
