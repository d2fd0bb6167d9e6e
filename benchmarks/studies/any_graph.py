"""AnyGraph: pretrained on episodes, and measured on graphs that its weights have not seen.

    python benchmarks/studies/any_graph.py --leave-out        # each graph left out in turn
    python benchmarks/studies/any_graph.py --leave-out --beside gcn,sgformer,tuned-gcn,fine-tuned
    python benchmarks/studies/any_graph.py --leave-out --body sgformer --attention rba
    python benchmarks/studies/any_graph.py --write FOLDER     # weights of all graphs
    python benchmarks/studies/any_graph.py --numbers          # numbers in the place of classes
    python benchmarks/studies/any_graph.py --tables           # shipped weights, rows as nodes

An episode is a graph, real or generated, of which a few nodes of each class have labels; the loss
is of all others. What closed-form predictors say of them is found once for each episode.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, cast

import numpy as np
import torch
import typer
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import r2_score
from sklearn.preprocessing import scale
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

import zoo
from zoo.config.metadata import About
from zoo.data import Dataset
from zoo.data.dataset import unknown_but
from zoo.data.splits import Split, split_of
from zoo.graphs.knn import nearest
from zoo.inference.predict import answers
from zoo.models.anygraph import AnyGraph
from zoo.nn import LabelTokens, label_tokens, labels_of
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import Fit, Hooks, fit
from zoo.weights.create import resized
from zoo.weights.files import WEIGHTS, sha256_of
from zoo.weights.index import INDEX, Entry, read_index

KIN = {
    "cora": ["cora", "cora-ml"],
    "citeseer": ["citeseer"],
    "dblp": ["dblp"],
    "actor": ["actor"],
    "chameleon": ["chameleon"],
    "minesweeper": ["minesweeper"],
    "amazon": ["computer", "photo"],
    "cs": ["cs"],
    "twitch": ["twitch-de", "twitch-engb", "twitch-fr", "twitch-ru"],
    "airports": ["usa-airports"],
}
"""Graphs that are left out together: they are of one kind."""

BUDGETS = 1, 5, 0.1
"""Labels of each class, or the share of all nodes that has one."""

EPISODES = (1, 1, 2, 3, 5, 5, 10, 20, 0.02, 0.05, 0.1, 0.1)
"""Budgets of the episodes of a graph, each twice where it is small."""

GENERATED = 150
BATCH, NODES = 4, 200
FINE_TUNING = {"epochs": 100, "lr": 1e-3, "weight_decay": 0.01, "optimizer": "adamw"}

LEFT_OUT = 0.603
"""Mean accuracy over all graphs, each of which was left out, with 5 labels of each class."""

TRAINING = {"epochs": 200, "patience": 50, "lr": 0.01, "weight_decay": 5e-4}
TUNED = [
    {"lr": lr, "dim": dim, "dropout": dropout}
    for lr in (0.01, 0.002)
    for dim, dropout in ((64, 0.2), (64, 0.6), (256, 0.5))
]
"""Settings among which the validation labels choose, of `tuned-` models."""


Results = dict[tuple[str, float], list[dict[str, float]]]
"""Of each graph and budget, for each draw, the accuracy of each model."""


class Episode(NamedTuple):
    """What predictors say of n nodes, which of them have no label, and what all are.

    Attributes:
        said: tokens (n, C, T), base and mix (n, C).
        asked: (m,) nodes of a loss, rows of `said`.
        y: (n,).
        graph: of the n nodes, for a body; None: of some nodes alone.
    """

    said: LabelTokens
    asked: Tensor
    y: Tensor
    graph: zoo.dgl.DGLGraph | None


def draw(y: Tensor, budget: float, generator: torch.Generator) -> Tensor:
    """Return nodes to be labelled: so many of each class, or a share of all."""
    nodes = (y >= 0).nonzero().squeeze(1)
    of_class = [nodes[y[nodes] == number] for number in range(int(y.max()) + 1)]
    of_class = [own[torch.randperm(len(own), generator=generator)] for own in of_class if len(own)]
    if budget >= 1:
        return torch.cat([own[: min(int(budget), max(1, len(own) // 2))] for own in of_class])
    some = nodes[torch.randperm(len(nodes), generator=generator)[: int(budget * len(nodes))]]
    missing = [own[:1] for own in of_class if not torch.isin(own, some).any()]
    return torch.cat([some, *missing])


def episode(
    graph, x: Tensor, y: Tensor, budget: float, generator: torch.Generator, most: int | None
) -> Episode:
    """Return an episode of at most so many nodes; None: of the whole graph."""
    labelled = draw(y, budget, generator)
    labels = labels_of(unknown_but(y, labelled), max(2, int(y.max()) + 1))
    said = label_tokens(graph, x, labels, classes=True)
    asked = y >= 0
    asked[labelled] = False
    nodes = asked.nonzero().squeeze(1)
    if most is None:
        return Episode(said, nodes, y, graph)
    nodes = nodes[torch.randperm(len(nodes), generator=generator)[:most]]
    return _rows(Episode(said, nodes, y, None), nodes)


def _rows(one: Episode, nodes: Tensor) -> Episode:
    """Return an episode of some of its nodes."""
    said = LabelTokens(*(each[nodes].clone() for each in one.said))
    return Episode(said, torch.arange(len(nodes)), one.y[nodes], None)


def generate(seed: int) -> tuple[zoo.dgl.DGLGraph, Tensor, Tensor]:
    """Return a graph of a stochastic block model, its features and classes.

    Degrees may follow a power law, and tell the class; classes link among themselves, with others,
    or at random; features are dense, words, constant or noise.
    """
    draws = np.random.default_rng(seed)
    classes, nodes = int(draws.integers(2, 11)), int(draws.integers(400, 2500))
    shares = draws.dirichlet(np.full(classes, draws.choice([1.0, 5.0, 50.0]))) + 0.02
    y = draws.choice(classes, nodes, p=shares / shares.sum())
    kind = draws.choice(["alike", "others", "mixed", "random"], p=[0.5, 0.2, 0.2, 0.1])
    rates = np.ones((classes, classes)) * draws.uniform(0.02, 0.3)
    if kind == "alike":
        rates += np.eye(classes) * draws.uniform(0.2, 2)
    elif kind == "others":
        rates += np.roll(np.eye(classes), 1, 1) * draws.uniform(0.2, 2)
    elif kind == "mixed":
        rates = draws.gamma(draws.uniform(0.2, 1), 1, (classes, classes))
    rates = rates + rates.T
    pull = draws.pareto(draws.uniform(1.5, 4), nodes) + 0.3
    pull = pull if draws.random() < 0.7 else np.ones(nodes)
    if draws.random() < 0.25:
        rank = draws.permutation(classes)[y] / classes
        pull = pull * np.exp(2 * draws.uniform(0.3, 1.5) * rank)
    links = int(nodes * np.exp(draws.uniform(np.log(1.5), np.log(15))))
    total = np.array([pull[y == number].sum() for number in range(classes)])
    cells = (rates * total[:, None] * total).ravel()
    cells = draws.choice(classes * classes, links, p=cells / cells.sum())
    ends = np.zeros((links, 2), int)
    for side, number in enumerate((cells // classes, cells % classes)):
        for own in range(classes):
            members, wanted = np.flatnonzero(y == own), number == own
            if wanted.any():
                chance = pull[members] / pull[members].sum()
                ends[wanted, side] = draws.choice(members, wanted.sum(), p=chance)
    x = _features(draws, y, classes)
    ends = ends[ends[:, 0] != ends[:, 1]]
    graph = zoo.canonical(torch.from_numpy(ends), nodes=nodes)
    return graph, torch.from_numpy(x).float(), torch.from_numpy(y)


def _features(draws: np.random.Generator, y: np.ndarray, classes: int) -> np.ndarray:
    kind = draws.choice(["dense", "words", "constant", "noise"], p=[0.35, 0.45, 0.1, 0.1])
    width = int(np.exp(draws.uniform(np.log(4), np.log(400))))
    strength = draws.choice([0.15, 0.4, 0.8, 1.5])
    if kind == "constant":
        return np.ones((len(y), 1))
    if kind == "words":
        width = max(width, 50)
        often = draws.pareto(1.5, width) + 0.05
        often = often * np.exp(1.3 * strength * draws.standard_normal((classes, width)))
        often /= often.sum(1, keepdims=True)
        return (draws.poisson(draws.uniform(4, 40) * often[y]) > 0).astype(float)
    inner = int(draws.integers(1, min(width, 20) + 1))
    centres = draws.standard_normal((classes, inner)) * (0 if kind == "noise" else strength)
    hidden = 1.5 * centres[y] + draws.standard_normal((len(y), inner))
    mixed = hidden @ draws.standard_normal((inner, width)) / np.sqrt(inner)
    return mixed + draws.uniform(0.1, 1) * draws.standard_normal((len(y), width))


def episodes_of(data: Dataset, whole: bool) -> list[Episode]:
    """Return what is learnt of a graph."""
    generator = torch.Generator().manual_seed(7)
    budgets = EPISODES * (1 if len(data.y) > 15_000 or whole else 2)
    most = None if whole else 1_000
    return [episode(data.graph, data.x, data.y, each, generator, most) for each in budgets]


def generated(count: int, whole: bool) -> list[list[Episode]]:
    """Return episodes of generated graphs."""
    found, most = [], None if whole else 400
    for seed in tqdm(range(count), "generated graphs", leave=False, disable=None):
        graph, x, y = generate(seed)
        generator = torch.Generator().manual_seed(seed)
        found.append([episode(graph, x, y, each, generator, most) for each in EPISODES])
    return found


def logits(model: AnyGraph, of: Episode) -> Tensor:
    """Return what a model says of an episode."""
    model.head.out_dim = of.said.base.shape[1]
    return model.head(model.read(of.graph, of.said))


def pretrain(
    real: list[list[list[Episode]]],
    made: list[list[Episode]],
    steps: int,
    seed: int,
    body: dict | None = None,
) -> AnyGraph:
    """Return a model trained on episodes, half of them of generated graphs.

    Args:
        real: of each kind, of each of its graphs, the episodes.
        made: of each generated graph.
        steps: of AdamW.
        seed: of all draws.
        body: a model that reads whole graphs, which the episodes have to be of.
    """
    torch.manual_seed(seed)
    draws = np.random.default_rng(seed)
    model = zoo.create_model("anygraph", 1, 2, body=body).train()
    with torch.no_grad():  # from the mean of all predictors by their skill, which numbers keep
        model.head.weight[:, :2] = torch.tensor([0.0, 1.0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.05)
    for _ in range(steps):
        losses = []
        for _ in range(BATCH):
            if not made or draws.random() < 0.5:
                kind = real[draws.integers(len(real))]
                several = kind[draws.integers(len(kind))]
            else:
                several = made[draws.integers(len(made))]
            one = several[draws.integers(len(several))]
            rows = one.asked[torch.from_numpy(draws.permutation(len(one.asked))[:NODES])]
            if body is None:
                one, rows = _rows(one, rows), slice(None)
            loss = functional.cross_entropy(logits(model, one)[rows], one.y[rows])
            losses.append(loss / np.log(one.said.base.shape[1]))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():  # of numbers nothing was learnt
        model.head.weight[1] = torch.eye(len(model.head.weight[1]))[1]
    return model.eval()


def scores(model: AnyGraph, data: Dataset, budget: float, seed: int) -> dict[str, float]:
    """Return the accuracy, for all nodes without a label, of a model and of what it is made of."""
    one = episode(data.graph, data.x, data.y, budget, torch.Generator().manual_seed(seed), None)
    torch.manual_seed(seed)  # of random batches
    with torch.no_grad():
        own = logits(model, one)
    said = {"ridge": one.said.base, "predictors": one.said.mix, "anygraph": own}
    right = {name: each.argmax(1) == one.y for name, each in said.items()}
    return {name: float(each[one.asked].float().mean()) for name, each in right.items()}


class Labels(NamedTuple):
    """A graph of which a model may know a few labels: some it trains on, others tell it to stop.

    With one label of each class none is left to stop by.
    """

    data: Dataset
    labelled: Tensor
    split: Split
    few: bool
    seed: int


def labels_for(data: Dataset, budget: float, seed: int) -> Labels:
    """Return the labels of a draw; a fifth of them stops."""
    labelled = draw(data.y, budget, torch.Generator().manual_seed(seed))
    asked = data.y >= 0
    asked[labelled] = False
    few = budget == 1
    val = labelled if few else labelled[::5]
    train = labelled if few else labelled[~torch.isin(labelled, val)]
    split = Split(train, val, asked.nonzero().squeeze(1), "")
    return Labels(_of_classes(data), labelled, split, few, seed)


def score(name: str, on: Labels, anygraph: AnyGraph, kind: str, device: str = "cpu") -> float:
    """Return the accuracy of a model for all nodes without a label.

    Args:
        name: `label-propagation`; `graphany`, trained on Cora, or on Citeseer where Cora is left
            out; `fine-tuned`, the weights of `anygraph` trained on; any other model from scratch,
            or `tuned-` and its name.
        on: the labels.
        anygraph: weights that have not seen the graph.
        kind: of the graph.
        device: where models are trained from scratch.
    """
    if name == "label-propagation":
        return _as_loaded(zoo.create_model(name, 1, 2), on)
    if name == "graphany":
        return _as_loaded(graphany("citeseer" if kind == "cora" else "cora"), on)
    if name == "fine-tuned":
        model = resized(anygraph, on.data)
        if not on.few:
            _train(model, on, FINE_TUNING | {"epochs": 20}, Hooks(pretrained=True))
        return _as_loaded(model, on)
    if not name.startswith("tuned-"):
        return _from_scratch(name, on, {"dim": 64, "lr": 0.01}, device).test
    name = name.removeprefix("tuned-")
    if on.few:
        return _from_scratch(name, on, TUNED[0], device).test
    found = [_from_scratch(name, on, each, device) for each in TUNED]
    return max(found, key=lambda each: each.val).test


def _as_loaded(model: zoo.Model, on: Labels) -> float:
    right = answers(resized(model, on.data), on.data, given=on.labelled).logits.argmax(1)
    return float((right == on.data.y)[on.split.test].float().mean())


def _from_scratch(name: str, on: Labels, settings: dict, device: str) -> Fit:
    torch.manual_seed(on.seed)
    options = dict(settings)
    training = TRAINING | {"lr": options.pop("lr")}
    if on.few:
        training |= {"epochs": 100, "patience": None, "evaluate_from": 99}
    model = zoo.create_model(name, on.data.inputs, max(2, on.data.classes), **options)
    return _train(model, on, training, Hooks(), device)


def _train(model: zoo.Model, on: Labels, training: dict, hooks: Hooks, device: str = "cpu") -> Fit:
    task = TASKS["node-classification"]()
    return fit(model, TrainingData(on.data, on.split, task), hooks, device, **training)


@functools.cache
def graphany(of: str) -> zoo.Model:
    """Return GraphAny, trained as its recipe says on 20 labels of each class of a graph."""
    torch.manual_seed(0)
    data = _of_classes(zoo.load_data(of))
    model = zoo.create_model("graphany", data.inputs, data.classes)
    split = split_of(data, "benchmark", 0)
    on = Labels(data, split.train, split, False, 0)
    _train(model, on, {"epochs": 100, "lr": 2e-4, "weight_decay": 0.02, "optimizer": "adamw"},
           Hooks())  # fmt: skip
    return model.eval()


def _of_classes(data: Dataset) -> Dataset:
    return dataclasses.replace(data, task="node-classification", classes=max(2, data.classes))


def patients() -> Dataset:
    """Return 442 patients, ten columns of each, how far their diabetes is after a year, as numbers.

    By scikit-learn, after Efron et al. 2004, Least angle regression; joined to their nearest five.
    """
    return joined(*load_diabetes(return_X_y=True), "euclidean")


def numbers(draws: int) -> None:
    """Print R² of numbers of the nodes without a label, of 5, 10 and 30 % labels, mean and std."""
    data, count = patients(), 442
    answering = {name: zoo.create_model(name, data.inputs, 1)
                 for name in ("ridge", "label-propagation", "boosting")}  # fmt: skip
    answering["anygraph"] = resized(zoo.load("anygraph"), data)
    for share in (0.05, 0.1, 0.3):
        rows: dict[str, list[float]] = {}
        for seed in range(draws):
            order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
            labelled, asked = order[: int(share * count)], order[int(share * count) :]
            for name, model in answering.items():
                said = answers(model, data, given=labelled).logits.flatten()
                rows.setdefault(name, []).append(r2_score(data.y[asked], said[asked]))
            split = Split(labelled[len(labelled) // 5 :], labelled[: len(labelled) // 5], asked, "")
            for name in ("gcn", "sgformer"):
                torch.manual_seed(seed)
                model = zoo.create_model(name, data.inputs, 1, dim=64)
                of = TrainingData(data, split, TASKS["node-regression"]())
                rows.setdefault(name, []).append(fit(model, of, Hooks(), **TRAINING).test)
        for name, each in rows.items():
            print(f"{share:.0%} {name}: {np.mean(each):.3f} ± {np.std(each, ddof=1):.3f}")


def tables() -> dict[str, Dataset]:
    """Return tables that no weights were trained on, each row joined to its nearest five.

    Wines, breast cancer and digits by scikit-learn, and the telegrams of R8.
    """
    found = {}
    for load in (load_wine, load_breast_cancer, load_digits):
        x, y = load(return_X_y=True)
        x = x if load is load_digits else scale(x)
        found[load.__name__.removeprefix("load_")] = joined(x, y, "euclidean")
    r8 = zoo.load_data("r8")
    return found | {"r8": joined(r8.x.numpy(), r8.y.numpy(), "cosine")}


def joined(x: np.ndarray, y: np.ndarray, metric: Literal["cosine", "euclidean"]) -> Dataset:
    """Return rows as nodes, each joined to its nearest five."""
    near = nearest(x, 5, metric)
    ends = np.stack([np.repeat(np.arange(len(x)), 5), near.ravel()], axis=1)
    task = "node-regression" if np.issubdtype(y.dtype, np.floating) else "node-classification"
    return Dataset.from_arrays(ends, x, y, task=task)


def publish(model: AnyGraph, folder: Path, graphs: int) -> None:
    """Write weights into a folder, and into the index beside it if there is one."""
    model.head.out_dim = model.out_dim
    about = About(
        data=f"{graphs} graphs, {GENERATED} generated",
        task="node-classification",
        metric="accuracy",
        recipe={"model": {"name": "anygraph"}, "train": FINE_TUNING},
    )
    zoo.save(model, folder, about)
    index = folder.parent / INDEX
    if not index.is_file():
        return
    entry = Entry(
        "anygraph", about.data, about.metric, LEFT_OUT, LEFT_OUT, (folder / WEIGHTS).stat().st_size,
        {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
    )  # fmt: skip
    entries = read_index(index) | {folder.name: entry}
    plain = {name: entries[name]._asdict() for name in sorted(entries)}
    index.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")


def measure(
    data: Mapping[str, Dataset],
    model: AnyGraph,
    kind: str,
    others: Sequence[str],
    seeds: Iterable[int],
    device: str,
) -> Results:
    """Return, and print, the accuracies on graphs of a kind, of a model and of others beside it."""
    results: Results = {}
    for name, budget, seed in itertools.product(data, BUDGETS, seeds):
        row = scores(model, data[name], budget, seed)
        on = labels_for(data[name], budget, seed)
        row |= {other: score(other, on, model, kind, device) for other in others}
        results.setdefault((name, budget), []).append(row)
        print(json.dumps({"graph": name, "budget": budget, "draw": seed} | row), flush=True)
    return results


def show(results: Results) -> None:
    """Print means of each graph, and paired gains of AnyGraph over each other over graphs."""
    for budget in BUDGETS:
        rows = {name: each for (name, own), each in results.items() if own == budget}
        if not rows:
            continue
        what = f"{budget:g} labels of each class" if budget >= 1 else f"{budget:.0%} of the labels"
        names = list(next(iter(rows.values()))[0])
        print(f"\n{what}\n| graph | {' | '.join(names)} |\n| -- |{' -- |' * len(names)}")
        means = {}
        for graph, several in rows.items():
            means[graph] = [statistics.fmean(each[name] for each in several) for name in names]
            print(f"| {graph} | {' | '.join(f'{100 * each:.1f}' for each in means[graph])} |")
        table = np.array([*means.values()]) * 100
        print(f"| mean | {' | '.join(f'{each:.1f}' for each in table.mean(0))} |")
        place = names.index("anygraph")
        for number, name in enumerate(names):
            if number == place or len(table) < 2:
                continue
            gains = table[:, place] - table[:, number]
            half = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / len(gains) ** 0.5
            worst = ", ".join(
                f"{graph} {gain:+.1f}"
                for graph, gain in zip(means, gains, strict=True)
                if gain < -1
            )
            print(
                f"anygraph over {name}: {gains.mean():+.2f} ± {half:.2f}; loses: {worst or 'none'}"
            )


def main(
    leave_out: bool = False,
    beside: Annotated[str, typer.Option(help="Models, with commas.")] = "label-propagation",
    write: Annotated[Path | None, typer.Option()] = None,
    steps: int = 600,
    draws: int = 5,
    graphs: Annotated[str, typer.Option(help="Kinds, with commas; all if left out.")] = "",
    measured: Annotated[str, typer.Option(help="Kinds left out in turn; all if left out.")] = "",
    first_draw: int = 100,
    body: Annotated[str, typer.Option(help="A transformer; it reads whole graphs.")] = "",
    attention: str = "",
    device: Annotated[
        str, typer.Option(help="Where models beside are trained from scratch.")
    ] = "cpu",
    many: Annotated[int, typer.Option(help="Generated graphs.")] = GENERATED,
    of_numbers: Annotated[bool, typer.Option("--numbers", help="Of the shipped weights.")] = False,
    of_tables: Annotated[bool, typer.Option("--tables", help="Of the shipped weights.")] = False,
) -> None:
    """Pretrain on all kinds of graphs but one, and measure that one; or write weights of all."""
    if of_numbers:
        return numbers(draws)
    others, seeds = beside.split(",") if beside else [], range(first_draw, first_draw + draws)
    if of_tables:
        shipped = cast(AnyGraph, zoo.load("anygraph"))
        return show(measure(tables(), shipped, "", others, seeds, device))
    kinds = {name: KIN[name] for name in (graphs.split(",") if graphs else KIN)}
    data = {name: zoo.load_data(name) for names in kinds.values() for name in names}
    real = {
        kind: [episodes_of(data[name], bool(body)) for name in names]
        for kind, names in tqdm(kinds.items(), "episodes", leave=False, disable=None)
    }
    made = generated(many, bool(body))
    spec = {"name": body, "dim": 32} if body else None
    if spec and attention:
        spec["attention"] = attention
    if write is not None:
        model = pretrain([*real.values()], made, steps, 0, spec)
        publish(model, write, len(data))
    results: Results = {}
    for kind in (measured.split(",") if measured else [*kinds]) if leave_out else ():
        model = pretrain(
            [each for name, each in real.items() if name != kind], made, steps, 0, spec
        )
        of_kind = {name: data[name] for name in kinds[kind]}
        results |= measure(of_kind, model, kind, others, seeds, device)
    show(results)


if __name__ == "__main__":
    typer.run(main)
