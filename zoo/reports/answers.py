"""What the weights of each seed predict for the test part, beside the true labels."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo.config.recipe import divide
from zoo.config.scores import gain
from zoo.data import Dataset
from zoo.data.load import load_data
from zoo.errors import ZooError
from zoo.graphs.adjacency import degrees
from zoo.inference import forecast
from zoo.inference.evaluate import nodes_of_part, rows_of_part
from zoo.inference.matching import class_names
from zoo.inference.predict import answers, embed, labelled, names_of, task_of
from zoo.inference.training_data import spec_of_training
from zoo.registry import Model
from zoo.reports.history import History
from zoo.tasks.labels import FORECASTING, TRANSLATION
from zoo.tasks.task import Task
from zoo.weights.create import restore
from zoo.weights.files import read_folder

POINTS = 2000
"""Test nodes that a picture of embeddings shows at most."""


class Answered(NamedTuple):
    """Predictions of a seed for the n labelled rows of the test part.

    Attributes:
        seed: the seed.
        task: that of the weights, with its loss and metric.
        names: of the classes, or targets.
        unit: what a row is, in words: nodes, graphs, ...
        logits: (n, C) fp32.
        y: true labels, (n,) or (n, T), in the numbers of the model.
        score: by the metric of the task; None where it does not exist.
        degree: neighbours of each row that is a node, (n,) int64, itself aside; or None.
        homophily: share of its neighbours of a known class that have its own class, (n,), NaN
            without such neighbours; or None.
    """

    seed: int
    task: Task
    names: list[str]
    unit: str
    logits: torch.Tensor
    y: torch.Tensor
    score: float | None
    degree: np.ndarray | None = None
    homophily: np.ndarray | None = None


class Embedded(NamedTuple):
    """Embeddings of some test rows, what the head of a seed reads, in two dimensions.

    Attributes:
        seed: the seed.
        points: (n, 2), the principal components of the rows of the test part.
        shares: of their variance in each direction, (2,).
        y: their true labels, (n,) or (n, T).
        rows: how many test rows there are, of which n are drawn.
    """

    seed: int
    points: np.ndarray
    shares: np.ndarray
    y: np.ndarray
    rows: int


class Answers(NamedTuple):
    """The answers of the seeds of a run, the best one embedded, and what is left out and why."""

    seeds: list[Answered]
    embedded: Embedded | None
    horizon: int | None
    left_out: list[str]


def answers_of(
    run: History,
    *,
    load: Callable[[Any], Any] = load_data,
    device: str | torch.device = "cpu",
    layerwise: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Answers:
    """Predict the test part with the weights of every seed of a run.

    What the recipe imports is not run. Data that cannot be had, or a model that is not known here,
    are no error, and named in what is left out.

    Args:
        run: what its folder says.
        load: reads data as `load_data`.
        device: where to compute.
        layerwise: as of `zoo.predict`.
        tell: called with a sentence before each seed.

    Raises:
        ZooError: a file of weights is damaged.
    """
    folders = {row["seed"]: run.folder / f"seed-{row['seed']}" for row in run.results}
    stored = {seed: read_folder(folder) for seed, folder in folders.items() if folder.is_dir()}
    if not stored:
        return Answers([], None, None, ["No seed has weights yet, so that nothing can be asked."])
    if run.task == TRANSLATION:
        why = "Answers are not drawn of translations: `zoo evaluate` measures them."
        return Answers([], None, None, [why])
    spec, own = divide(run.recipe["dataset"], ("split",))
    try:
        spec_of_training(next(iter(stored.values())).about, spec)
        data = load(spec)
        split = own.get("split", data.split)
        predict = _of_series if data.task == FORECASTING else _of_rows
        how = {"device": device, "layerwise": layerwise}
        seeds = []
        for seed in stored:
            tell(f"{run.name}, seed {seed}: what the weights say of the test part")
            seeds.append(predict(restore(stored[seed]).eval(), data, split, run, seed, how))
    except ZooError as error:
        why = f"What the weights answer is left out: {str(error).partition('. Write --data')[0]}"
        if run.recipe.get("imports"):
            why += (
                " The recipe imports code, which is not run for a page: read it, and name it by "
                "`--import` if it may run as you."
            )
        return Answers([], None, None, [why])
    if data.task == FORECASTING:
        return Answers(seeds, None, data.horizon, [])
    rows = [row for row in run.results if row["seed"] in stored]
    best = max(rows, key=lambda row: gain(run.metric, row["val"]))["seed"]
    try:
        model = restore(stored[best]).eval()
        y = next(answered.y for answered in seeds if answered.seed == best)
        return Answers(seeds, _embedded(model, data, split, run, best, how, y), None, [])
    except ZooError as error:
        return Answers(seeds, None, None, [f"Embeddings are left out: {error}"])


def _of_rows(model: Model, data, split, run: History, seed: int, how: dict) -> Answered:
    nodes = nodes_of_part(model, data, split, "test")
    rows, chosen, context = rows_of_part(model, data, nodes, run.recipe["dataset"])
    result = answers(model, rows, context=context, **how)
    known = chosen[labelled(result.y[chosen])]
    logits, y = result.logits[known], result.y[known]
    degree, homophily = _neighbourhood(result, known)
    return Answered(
        seed=seed,
        task=result.task,
        names=names_of(result.task.name, logits, class_names(model.about, data)),
        unit=data.unit,
        logits=logits,
        y=y,
        score=score_of(result.task, logits, y),
        degree=degree,
        homophily=homophily,
    )


def _of_series(model: Model, data, split, run: History, seed: int, how: dict) -> Answered:
    data, _, chosen, logits = forecast.predict_part(
        model, data, "test", split, device=how["device"]
    )
    task, y = task_of(model.about, FORECASTING), data.y[chosen]
    return Answered(seed, task, [], data.unit, logits, y, score_of(task, logits, y))


def score_of(task: Task, logits: torch.Tensor, y: torch.Tensor) -> float | None:
    """Return the metric of a task, None where it does not exist."""
    try:
        return task.metric(logits, y)
    except ZooError:
        return None


def _neighbourhood(
    result: Any, chosen: torch.Tensor
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the degree and the homophily of some rows that are nodes, as the model saw them."""
    data = result.seen
    if not isinstance(data, Dataset):
        return None, None
    rows = chosen + len(data.y) - len(result.y)
    degree = degrees(data.graph)[rows].long() - 1  # itself
    if not degree.any():
        return None, None
    if result.task.kind not in ("classes", "binary"):
        return degree.numpy(), None
    src, dst = data.graph.edges()
    known = (src != dst) & (data.y[src] >= 0) & (data.y[dst] >= 0)
    src, dst = src[known].long(), dst[known].long()
    same = (data.y[src] == data.y[dst]).double()
    count = torch.bincount(dst, minlength=len(data.y))
    share = torch.bincount(dst, same, minlength=len(data.y)) / count  # NaN without neighbours
    return degree.numpy(), share[rows].numpy()


def _embedded(
    model: Model, data, split, run: History, seed: int, how: dict, y: torch.Tensor
) -> Embedded | None:
    """Return the principal components of what the head reads of the test part."""
    from sklearn.decomposition import PCA

    nodes = nodes_of_part(model, data, split, "test")
    rows, chosen, context = rows_of_part(model, data, nodes, run.recipe["dataset"])
    chosen = chosen[labelled(rows.y[chosen])]
    values = embed(model, rows, context=context, **how).values[chosen.numpy()]
    if min(values.shape) < 2:
        return None
    pca = PCA(2, svd_solver="full" if values.shape[1] <= 512 else "randomized", random_state=0)
    points = pca.fit_transform(values)
    shown = np.sort(np.random.default_rng(0).permutation(len(points))[:POINTS])
    shares = pca.explained_variance_ratio_
    return Embedded(seed, points[shown], shares, y.numpy()[shown], len(points))
