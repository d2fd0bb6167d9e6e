"""Links that a trained model expects: scores of pairs, the best partners of each node, metrics.

The model sees the whole graph that it is given: all links that are known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec, pick
from zoo.config.recipe import word
from zoo.data import Dataset
from zoo.data.links import LinkData, node_places, read_node_pairs
from zoo.data.splits import KEPT, log_kept_nodes, split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError, unknown
from zoo.graphs.pairs import links_of
from zoo.inference.matching import match_features, match_graph
from zoo.inference.predict import Source, logits, read_by_name, run_inference, task_of
from zoo.registry import Model
from zoo.tasks.labels import LINKS
from zoo.tasks.links import OF_RECIPES
from zoo.tasks.task import named_scores
from zoo.training.batches import TrainingData, evaluating
from zoo.training.links import LinkBatches, scores_of
from zoo.weights.save_and_load import as_model

if TYPE_CHECKING:
    from pandas import DataFrame

BLOCK = 2**20
"""Pairs that are compared at a time, where the best of all are looked for."""


def predict_links(
    model: Source,
    data: Dataset | Spec | Path,
    pairs: Path | str | Sequence[Sequence[Any]] | np.ndarray | Tensor | DataFrame | None = None,
    *,
    top: int | None = None,
    nodes: Sequence[Any] | np.ndarray | Tensor | int | None = None,
    known: bool = False,
    device: torch.device | str = "cpu",
) -> DataFrame:
    """Predict which nodes are linked, as `zoo predict --pairs` and `--top` do.

    Args:
        model: trained by `task: link-prediction`, as of `zoo.predict`.
        data: a graph with the features of training; or its name, path or mapping, which is read as
            that one was.
        pairs: ids of two nodes each, (P, 2), or a table whose first two columns they are, of pandas
            or by its path (CSV, Parquet).
        top: in the place of pairs, the partners that each node is most likely linked with.
        nodes: with `top`, ids of the nodes whose partners are asked for, or one; left out, all.
        known: with `top`, whether links that the graph has count too.
        device: where.

    Returns:
        A row for each pair: `source`, `target`, and `probability`, against a pair that is drawn as
        in training.

    Raises:
        ZooError: neither or both of pairs and top, an id is none of a node, the model is of another
            task, or the graph has other features.
    """
    if (pairs is None) == (top is None) or (top is None and (known or nodes is not None)):
        raise ZooError(
            "links are predicted of pairs of nodes, such as those of a table, --pairs pairs.csv, "
            "or as the best partners of each node, --top 10, of some by --node ID (`nodes`), with "
            "those it is linked with already by --known."
        )
    model = as_model(model)
    graph, *_ = read_by_name(model, data, None, None, labels=False)
    if pairs is None:
        chosen = None if nodes is None else find_nodes(np.atleast_1d(_names(nodes)), graph)
        best, likely = best_partners(model, graph, top, nodes=chosen, known=known, device=device)
        return _table(graph, best.flatten(0, 1), likely.flatten())
    if isinstance(pairs, str | Path):
        places = read_pairs(Path(pairs), graph)
    else:
        names = _names(pairs.iloc[:, :2] if hasattr(pairs, "columns") else pairs)
        if names.ndim != 2 or names.shape[1] != 2 or not len(names):
            raise ZooError("pairs are ids of two nodes each, such as [(0, 33), (5, 16)].")
        places = find_nodes(names.flatten(), graph, once=False).reshape(-1, 2)
    return _table(graph, places, score_pairs(model, graph, places, device=device))


def _names(ids: Any) -> np.ndarray:
    """Return ids, of a list, an array, a tensor or a table, as they are written."""
    return np.asarray(ids, dtype=object).astype(str).astype(object)  # Python's own strings


def score_pairs(
    model: Model, data: Dataset, pairs: Tensor, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the probability that nodes are linked, (P,) fp32.

    Args:
        model: trained by `task: link-prediction`.
        data: a graph with the features of training.
        pairs: (P, 2) int64, numbers of nodes.
        device: where.

    Raises:
        ZooError: the model is of another task, or the graph has other features.
    """
    _, rows = _rows(model, data, device)
    with torch.no_grad():
        return scores_of(model.eval(), rows, pairs.unsqueeze(1)).squeeze(1).sigmoid().cpu()


def best_partners(
    model: Model,
    data: Dataset,
    count: int,
    *,
    nodes: Tensor | None = None,
    known: bool = False,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, Tensor]:
    """Return the nodes that each node is most likely linked with, and how likely, best first.

    All their pairs are compared, some at a time: n N scores are computed and few kept.

    Args:
        model: trained by `task: link-prediction`.
        data: a graph with the features of training.
        count: partners of each node.
        nodes: those whose partners are asked for, (n,) int64; left out, all.
        known: whether links that the graph has count too.
        device: where.

    Returns:
        Pairs (n, count, 2), -1 where a node has fewer partners, and their probabilities (n, count).
    """
    seen, rows = _rows(model, data, device)
    every = torch.arange(len(data.x))
    nodes, count = every if nodes is None else nodes, min(count, len(every) - 1)
    links = links_of(seen.graph).pairs
    src, dst = torch.cat([links, links.flip(1)]).T
    row = torch.full_like(every, -1)  # of a node among those at hand
    partners, likely = [], []
    with torch.no_grad():
        for some in nodes.split(max(1, BLOCK // max(1, len(every)))):
            pairs = torch.cartesian_prod(some, every).unflatten(0, (len(some), len(every)))
            scores = scores_of(model.eval(), rows, pairs).cpu()
            row[some] = torch.arange(len(some))
            scores[row[some], some] = -torch.inf
            if not known:
                own = row[src] >= 0
                scores[row[src[own]], dst[own]] = -torch.inf
            row[some] = -1
            best = scores.topk(count, dim=1)
            likely.append(best.values.sigmoid())
            partners.append(best.indices.masked_fill(best.values == -torch.inf, -1))
    pairs = torch.stack([nodes.unsqueeze(1).expand(-1, count), torch.cat(partners)], dim=-1)
    return pairs, torch.cat(likely)


def _rows(model: Model, data: Dataset, device: torch.device | str) -> tuple[Dataset, Tensor]:
    """Return the whole graph as a model reads it, and what it says of each node, (N, E)."""
    if model.about.task != LINKS:
        raise ZooError(
            f"these weights are of {model.about.task or 'another task'}, and say nothing of pairs; "
            f"train some by `task={LINKS}`."
        )
    seen = match_features(model, data)
    rows, _ = run_inference(model, seen, logits, None, False, device)
    return seen, rows.to(next(model.parameters()).device)


def read_pairs(path: Path, data: Dataset) -> Tensor:
    """Return the pairs of a table, (P, 2) int64: its first two columns are ids of nodes.

    Raises:
        ZooError: there is no such table, it has one column, no line of names or no pairs, or an id
            is none of a node.
    """
    return read_node_pairs(path, data)[0]


def find_nodes(ids: Sequence[str] | np.ndarray, data: Dataset, *, once: bool = True) -> Tensor:
    """Return the numbers of nodes (n,) by their ids; each once, if so asked.

    Raises:
        ZooError: an id is none of a node.
    """
    places = node_places(data)
    if (wrong := next((each for each in ids if each not in places), None)) is not None:
        raise ZooError(unknown(f"node of {data.name}", wrong, places))
    return torch.tensor([places[name] for name in (dict.fromkeys(ids) if once else ids)])


def _table(data: Dataset, pairs: Tensor, likely: Tensor) -> DataFrame:
    """Return a row for each pair (P, 2): `source`, `target` and `probability`, by its ids."""
    from pandas import DataFrame

    there = (pairs >= 0).all(dim=1)
    pairs, likely = pairs[there].numpy(), likely[there].numpy()
    names = pairs if data.ids is None else data.ids[pairs]
    return DataFrame({"source": names[:, 0], "target": names[:, 1], "probability": likely})


def links_as_trained(
    model: Model,
    data: Dataset,
    split: Spec | None = None,
    known: Callable[[LinkData], Spec | None] | None = None,
) -> TrainingData:
    """Return the links of a graph, made, divided and encoded as in the training of a model.

    Args:
        model: trained by `task: link-prediction`.
        data: a graph with the features of training.
        split: of its links; None: that of training.
        known: returns the split in which links that the weights know keep their part, or None; it
            counts where no split is given.

    Raises:
        ZooError: the graph has other features, or few links, or the split is none of links.
    """
    about = model.about
    recipe = about.recipe or {}
    how = pick(OF_RECIPES, recipe.get("task", LINKS))
    nodes = match_graph(model, data)
    dataset = recipe.get("dataset")
    then = dataset.get("split") if isinstance(dataset, dict) else None
    if then is not None and word(then) == KEPT:  # by a run that may be gone
        then = then.get("new")
    # What is learnt of columns is what training has learnt.
    links = LinkData.of(dataclasses.replace(nodes, columns=None), how, split or then)
    if split is None and known is not None and (split := known(links)):
        log_kept_nodes(split, links)
    own = split_of(links, split or then or links.split, about.seed or 0)
    links = links.trained_on(own.train).encoded(
        lambda graph: pick(ENCODINGS, about.encoding, graph)
    )
    task = dataclasses.replace(task_of(about, LINKS), also=how.also)
    return TrainingData(links, own, task)


def evaluate_links(
    model: Model, on: TrainingData, part: str, *, device: torch.device | str = "cpu"
) -> dict[str, Any]:
    """Measure a trained model on a part of links.

    Args:
        model: trained by `task: link-prediction`.
        on: what `links_as_trained` returns.
        part: `train`, `val` or `test`.
        device: where.

    Returns:
        As `evaluate_part`, without `seen`.
    """
    with evaluating(model, device):
        loader = LinkBatches(on.data, on.split.train, device)
        measure, words = loader.scores(model, on, "fp32"), on.task.beside
        score, *others = measure(part, [on.task.metric, *words.values()])
    return {
        "data": on.data.name,
        "part": part,
        "nodes": len(loader.compared(on, part)),
        "unit": on.data.unit,
        "metric": on.task.metric_name,
        "score": score,
        "beside": named_scores(words, others),
        "per_class": None,
    }
