"""Where the layers of DIFFormer lower the energy that they are derived from, and where not.

`diffusion.py` has the theorem and its step sizes. It is about states in the unit ball,
weights that are a function of the distance, and nothing else in a layer. Measured is the theorem as
it stands; what the zoo's model adds to it, a thing at a time; and what training makes of it.
Distances are in units of the longest state of a model, and lambda is one over the mean mass of a
node, so that the theorem alone lowers the energy at every `alpha`. Margins are standard deviations
over seeds.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from diffusion import DIFFUSIVITIES, adjacency_of, energy_of, unified_view
from energy_theorem import (
    MIDDLE,
    NEITHER,
    Falls,
    against_steps,
    averaged,
    growth,
    limits,
    spread,
    theorem,
)
from pydantic import Field, NonNegativeInt, PositiveInt
from study import OVER_SEEDS, Row, Series, Study, run
from tqdm import tqdm

from zoo import Dataset, Model, ZooError, create_model, load, load_data, run_recipe

STEPS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4)
"""Step sizes tau of the theorem; the `alpha` of a model are those up to 1."""

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Products of lambda and the mean mass of a node."""

PARTS: dict[str, dict[str, Any]] = {
    "weights of z itself": {"norm": "none", "use_graph": False, "qk_norm": "row"},
    "maps of q and k": {"norm": "none", "use_graph": False, "qk_norm": "row"},
    "Frobenius norm": {"norm": "none", "use_graph": False},
    "map of the values": {"norm": "none", "use_graph": False, "use_weight": True},
    "layer norm": {"use_graph": False},
    "graph of weight 1/2": {"norm": "none", "graph_weight": 0.5},
    "graph added": {"norm": "none"},
    "all, as shipped": {},
}
"""Models of random weights; the first attends to z itself, the last three have the graph."""

MEAN = "Frobenius norm"
"""The part that makes the attention nearly the mean: near it, a layer leaves (1 - alpha)^2."""

LEARNED = ("maps of q and k", MEAN, "layer norm", "all, as shipped")
"""Parts of the models that are trained."""

COVERED = ("weights of z itself", MEAN)
"""Parts that are not drawn: on top of the line of the maps."""

LARGEST = 5000
"""Nodes of which the energy of all pairs is computed."""


def difformer_energy(
    *,
    quick: bool = False,
    seed: NonNegativeInt = 0,
    seeds: Annotated[int, Field(ge=2, le=100)] = 10,
    layers: PositiveInt = 8,
    dataset: Annotated[str, Field(min_length=1)] = "digits",
    epochs: PositiveInt = 40,
) -> Study:
    """Energy of DIFFormer before and after each layer, against its theorem and its step size.

    Args:
        quick: two seeds, few step sizes, and 5 epochs on the karate club.
        seed: of all random draws.
        seeds: number of draws; models are trained with three of them.
        layers: number of layers; trained models have half as many.
        dataset: an undirected graph on which models are trained, of at most 5,000 nodes.
        epochs: of their training.

    Raises:
        ZooError: the data set is unknown, or not one graph, or too large.
    """
    torch.manual_seed(seed)
    name, few, steps = ("karate", 2, STEPS[1::3]) if quick else (dataset, seeds, STEPS)
    data, karate = _small(name), _small("karate")
    alphas = [each for each in steps if each <= 1]
    own = [(seed + each) % 2**63 for each in range(min(few, 3))]
    epochs, half = min(epochs, 5) if quick else epochs, -(-layers // 2)
    alone = theorem(karate.graph, steps=steps, seeds=few, layers=layers)
    limit = limits(karate.graph, strengths=STRENGTHS[::2] if quick else STRENGTHS, seeds=few)
    added = additions(karate, alphas=alphas, seeds=few, layers=layers)
    after = learned(name, data, seeds=own, layers=half, epochs=epochs)
    rows = [*alone.rows, *limit.rows, nearly_the_mean(karate), *after.rows]
    columns = zip([*alone.plots, *limit.plots], added.plots, after.plots, strict=True)
    plots = [plot for row in columns for plot in row]
    table = alone.table + added.table + after.table
    return Study("difformer-energy", rows + unified_view(karate.graph), plots, table)


def _small(name: str) -> Dataset:
    """Return a data set whose pairs of nodes are few enough."""
    data = load_data(name)
    if not isinstance(data, Dataset):
        raise ZooError(f"{name} is not one graph; name one, such as --dataset digits.")
    if data.graph.num_nodes() > LARGEST:
        raise ZooError(
            f"{name} has {data.graph.num_nodes():,} nodes, and the energy is a sum over all pairs; "
            f"name a graph of at most {LARGEST:,} nodes, such as --dataset digits."
        )
    return data


def additions(data: Dataset, *, alphas: Sequence[float], seeds: int, layers: int) -> Study:
    """What the layers of the model have and the theorem has not, at every `alpha`.

    Args:
        data: the graph and the features.
        alphas: step sizes.
        seeds: number of random weights for each.
        layers: number of layers.
    """
    table, plots = [], []
    for kind, diffusivity in DIFFUSIVITIES.items():
        settings = {}
        for part in _parts(kind, PARTS):
            found: dict[float, list[list[float]]] = {alpha: [] for alpha in alphas}
            for alpha, _ in itertools.product(alphas, range(seeds)):
                given = {
                    "kernel": diffusivity.kernel,
                    "layers": layers,
                    "alpha": alpha,
                    **PARTS[part],
                }
                model = create_model("difformer", data.inputs, data.classes, dim=32, **given)
                if part == "weights of z itself":
                    _attend_to_states(model)
                found[alpha].append(growth(levels(model, data, kind)))
            settings[part] = Falls(part, kind, found)
        title = f"{kind}, random weights:\nenergy after by before, worst layer"
        shown = {part: each for part, each in settings.items() if part not in COVERED}
        plots.append(against_steps(title, "alpha", shown))
        table += [each.line() for each in settings.values()]
    return Study("additions", [], plots, table)


def _attend_to_states(model: Any) -> None:
    for layer in model.layers:
        for each in (layer.query, layer.key):
            torch.nn.init.eye_(each.weight)
            torch.nn.init.zeros_(each.bias)


@torch.no_grad()
def nearly_the_mean(data: Dataset) -> Row:
    """How far DIFFormer-s with the published norm is from a step to the mean, by its length.

    The squares of all q_i . k_j have a sum of at most 1. So have those of a row, whose own sum is
    then at most sqrt(N), and the difference is at most 1 / (N - sqrt(N)) of |Z - mean|.
    """
    options = {"norm": "none", "use_graph": False, "alpha": 1.0, "dropout": 0.0}
    model: Any = create_model("difformer", data.inputs, data.classes, **options).double().eval()
    z = model.finish(model.norm(model.stem(data.x.double())))
    middle = z.mean(0)
    apart = ((model.layers[0](data.graph, z, None) - middle).norm() / (z - middle).norm()).item()
    nodes = len(z)
    return Row("Frobenius norm: distance from the mean", apart, 1 / (nodes - nodes**0.5), None)


@torch.no_grad()
def levels(model: Any, data: Dataset, kind: str) -> list[float]:
    """Return the energy of DIFFormer's states before its first layer and after each.

    Args:
        model: it is made one of double precision, in evaluation.
        data: the graph and the features.
        kind: a word of `DIFFUSIVITIES`.
    """
    model.double().eval()
    states = [model.finish(model.norm(model.stem(data.x.double())))]
    for layer in model.layers:
        states.append(layer(data.graph, states[-1], states[0] if model.use_source else None))
    unit = max(each.norm(dim=1).max().item() for each in states)
    states = [each / unit for each in states]
    edges = adjacency_of(data.graph) if model.use_graph else None
    return energy_of(states[0], DIFFUSIVITIES[kind], 1.0, edges).along(states)


def learned(name: str, data: Dataset, *, seeds: Sequence[int], layers: int, epochs: int) -> Study:
    """The same before and after a short training, layer by layer, with `alpha` as shipped.

    Args:
        name: of the data set.
        data: the same, loaded.
        seeds: of the weights and of the training.
        layers: number of layers.
        epochs: of the training.
    """
    table: list[dict[str, Any]] = []
    rows, plots = [], []
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    with tqdm(total=sum(len(_parts(kind, LEARNED)) for kind in DIFFUSIVITIES), disable=None) as bar:
        for kind, diffusivity in DIFFUSIVITIES.items():
            found: dict[str, list[list[float]]] = {}
            for part in _parts(kind, LEARNED):
                options = {"kernel": diffusivity.kernel, "layers": layers, **PARTS[part]}
                options |= {"name": "difformer", "dim": 32, "dropout": 0.2}
                recipe = {"dataset": name, "model": options}
                fresh, trained, test = _trained(recipe, data, seeds, epochs)
                for label, models, score in (("", fresh, ""), (", trained", trained, test)):
                    found[part + label] = [growth(levels(each, data, kind)) for each in models]
                    falls = Falls(f"{name}, {part}{label}", kind, {MIDDLE: found[part + label]})
                    table.append(falls.line(score))
                if part == MEAN:
                    last = statistics.fmean(each[-1] for each in found[f"{part}, trained"])
                    what = "Frobenius norm, trained: energy after by before, last layer"
                    rows.append(Row(what, last, (1 - MIDDLE) ** 2, 0.02))
                bar.update()
            plots.append(_by_layer(f"{kind} on {name}:\nenergy after by before", found))
    return Study("learned", rows, plots, table)


def _parts(kind: str, parts: Iterable[str]) -> list[str]:
    """Return the parts that DIFFormer has with a diffusivity: its sigmoid normalises no q and k."""
    return [each for each in parts if each != MEAN or DIFFUSIVITIES[kind].kernel == "simple"]


def _trained(
    recipe: dict[str, Any], data: Dataset, seeds: Sequence[int], epochs: int
) -> tuple[list[Model], list[Model], str]:
    """Return models with random weights, trained ones, and the test score of these."""
    fresh = []
    for seed in seeds:
        torch.manual_seed(seed)
        fresh.append(create_model(in_dim=data.inputs, out_dim=data.classes, **recipe["model"]))
    train = {
        "epochs": epochs,
        "lr": 0.01,
        "evaluate_every": 5,
        "batching": {"name": "random-nodes", "size": 600},
    }
    with tempfile.TemporaryDirectory() as runs:
        summary = run_recipe({**recipe, "train": train, "seeds": list(seeds)}, runs=runs)
        if summary["interrupted"]:
            raise KeyboardInterrupt
        folder = Path(summary["folder"])
        trained = [load(folder / f"seed-{seed}") for seed in seeds]
    return fresh, trained, spread([each["test"] for each in summary["seeds"]])


def _by_layer(title: str, found: dict[str, list[list[float]]]) -> Series:
    """Return the energy after each layer by that before it, for each seed of each line."""
    lines, margins = {}, {}
    for name, runs in found.items():
        alike = zip(*runs, strict=False)  # of fewer layers where a seed comes to consensus
        layers = {float(number): list(each) for number, each in enumerate(alike, start=1)}
        lines[name], margins[name] = averaged(layers)
    x = next(iter(lines.values()))[0]
    lines[NEITHER] = (x, [1.0] * len(x))
    dashed = (*(each for each in found if each.endswith("trained")), NEITHER)
    return Series(title, "layer", lines, dashed, margins=margins, note=OVER_SEEDS)


if __name__ == "__main__":
    run(difformer_energy)
