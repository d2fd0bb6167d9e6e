"""AnyGraph: pretrained on episodes, and measured on graphs that its weights have not seen.

    python benchmarks/studies/any_graph.py --leave-out        # each graph left out in turn
    python benchmarks/studies/any_graph.py --scratch          # and models trained from scratch
    python benchmarks/studies/any_graph.py --write FOLDER     # weights of all graphs

An episode is a graph, real or generated, of which a few nodes of each class have labels; the loss
is of all others. What closed-form predictors say of them is found once for each episode.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from scipy import stats
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

import zoo
from zoo.config.metadata import About
from zoo.data import Dataset
from zoo.data.dataset import unknown_but
from zoo.data.splits import Split
from zoo.inference.predict import answers
from zoo.models.anygraph import AnyGraph
from zoo.nn import label_tokens, labels_of
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import fit
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

LEFT_OUT = 0.601
"""Mean accuracy over all graphs, each of which was left out, with 5 labels of each class."""

SCRATCH = {"gcn": {"dim": 64}, "sgformer": {"dim": 64}, "polynormer": {"dim": 64}}


class Episode(NamedTuple):
    """Tokens (n, C, T) of nodes without a label, base and mix (n, C), and what they are (n,)."""

    tokens: Tensor
    base: Tensor
    mix: Tensor
    y: Tensor


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
    graph, x: Tensor, y: Tensor, budget: float, generator: torch.Generator, most: int
) -> Episode:
    """Return an episode of at most so many nodes."""
    labelled = draw(y, budget, generator)
    labels = labels_of(unknown_but(y, labelled), max(2, int(y.max()) + 1))
    said = label_tokens(graph, x, labels, classes=True)
    asked = y >= 0
    asked[labelled] = False
    nodes = asked.nonzero().squeeze(1)
    nodes = nodes[torch.randperm(len(nodes), generator=generator)[:most]]
    return Episode(*(each[nodes].clone() for each in (*said, y)))


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


def episodes_of(data: Dataset) -> list[Episode]:
    """Return what is learnt of a graph."""
    generator = torch.Generator().manual_seed(7)
    budgets = EPISODES * (1 if len(data.y) > 15_000 else 2)
    return [episode(data.graph, data.x, data.y, each, generator, 1_000) for each in budgets]


def generated(count: int) -> list[list[Episode]]:
    """Return episodes of generated graphs."""
    found = []
    for seed in tqdm(range(count), "generated graphs", leave=False, disable=None):
        graph, x, y = generate(seed)
        generator = torch.Generator().manual_seed(seed)
        found.append([episode(graph, x, y, each, generator, 400) for each in EPISODES])
    return found


def logits(model: AnyGraph, of: Episode) -> Tensor:
    """Return what a model says of an episode."""
    model.head.out_dim = of.base.shape[1]
    hidden = model.stem(of.tokens)
    said = torch.stack([of.base, of.mix], dim=2)
    return model.head(torch.cat([said, hidden], dim=2).flatten(1))


def pretrain(
    real: list[list[list[Episode]]], made: list[list[Episode]], steps: int, seed: int
) -> AnyGraph:
    """Return a model trained on episodes, half of them of generated graphs.

    Args:
        real: of each kind, of each of its graphs, the episodes.
        made: of each generated graph.
        steps: of AdamW.
        seed: of all draws.
    """
    torch.manual_seed(seed)
    draws = np.random.default_rng(seed)
    model = AnyGraph(1, 2).train()
    with torch.no_grad():  # from the mean of all predictors by their skill
        model.head.weight[:2] = torch.tensor([0.0, 1.0])
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
            rows = torch.from_numpy(draws.permutation(len(one.y))[:NODES])
            one = Episode(*(each[rows] for each in one))
            loss = functional.cross_entropy(logits(model, one), one.y)
            losses.append(loss / np.log(one.base.shape[1]))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def scores(model: AnyGraph, data: Dataset, budget: float, seed: int) -> dict[str, float]:
    """Return the accuracy, for all nodes without a label, of a model and of what it is made of."""
    one = episode(
        data.graph, data.x, data.y, budget, torch.Generator().manual_seed(seed), len(data.y)
    )
    with torch.no_grad():
        said = {"ridge": one.base, "all, by skill": one.mix, "anygraph": logits(model, one)}
    return {name: float((each.argmax(1) == one.y).float().mean()) for name, each in said.items()}


def other_scores(data: Dataset, budget: float, seed: int, scratch: bool) -> dict[str, float]:
    """Return the accuracy of other models for the same nodes; of what they train on, a fifth stops.

    With one label of each class none is left to stop by: they train for 100 epochs.
    """
    labelled = draw(data.y, budget, torch.Generator().manual_seed(seed))
    asked = data.y >= 0
    asked[labelled] = False
    test = asked.nonzero().squeeze(1)
    found, outputs = {}, max(2, data.classes)
    walk = zoo.create_model("label-propagation", data.inputs, outputs)
    data = _of_classes(data)
    answer = answers(walk, data, given=labelled)
    found["label-propagation"] = float((answer.logits.argmax(1) == data.y)[test].float().mean())
    if not scratch:
        return found
    few = budget == 1
    val = labelled if few else labelled[::5]
    train = labelled if few else labelled[~torch.isin(labelled, val)]
    on = TrainingData(data, Split(train, val, test, ""), TASKS["node-classification"]())
    for name, options in SCRATCH.items():
        torch.manual_seed(seed)
        model = zoo.create_model(name, data.inputs, outputs, **options)
        last = {"evaluate_from": 99} if few else {"patience": 50}
        result = fit(model, on, epochs=100 if few else 200, lr=0.01, weight_decay=5e-4, **last)
        found[name] = result.test
    return found


def _of_classes(data: Dataset) -> Dataset:
    return dataclasses.replace(data, task="node-classification", classes=max(2, data.classes))


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


def show(results: dict[tuple[str, float], list[dict[str, float]]]) -> None:
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
    scratch: bool = False,
    write: Annotated[Path | None, typer.Option()] = None,
    steps: int = 600,
    draws: int = 5,
    graphs: Annotated[str, typer.Option(help="Kinds, with commas; all if left out.")] = "",
    measured: Annotated[str, typer.Option(help="Kinds left out in turn; all if left out.")] = "",
    first_draw: int = 100,
) -> None:
    """Pretrain on all kinds of graphs but one, and measure that one; or write weights of all."""
    kinds = {name: KIN[name] for name in (graphs.split(",") if graphs else KIN)}
    data = {name: zoo.load_data(name) for names in kinds.values() for name in names}
    real = {
        kind: [episodes_of(data[name]) for name in names]
        for kind, names in tqdm(kinds.items(), "episodes", leave=False, disable=None)
    }
    made = generated(GENERATED)
    if write is not None:
        model = pretrain([*real.values()], made, steps, seed=0)
        publish(model, write, len(data))
    results: dict[tuple[str, float], list[dict[str, float]]] = {}
    chosen = measured.split(",") if measured else [*kinds]
    for kind in chosen if leave_out or scratch else ():
        others = [each for name, each in real.items() if name != kind]
        model = pretrain(others, made, steps, seed=0)
        for name in kinds[kind]:
            for budget in BUDGETS:
                for seed in range(first_draw, first_draw + draws):
                    row = scores(model, data[name], budget, seed)
                    row |= other_scores(data[name], budget, seed, scratch)
                    results.setdefault((name, budget), []).append(row)
            print(name, flush=True)
    show(results)


if __name__ == "__main__":
    typer.run(main)
