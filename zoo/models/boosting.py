"""Gradient boosting on features and those of neighbours: what a table is worth, with its graph."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.nn import as_logits, labels_of, neighbour_mean, node_counts
from zoo.registry import Count, Model, Number, Positive, register_model

LEAST = 1e-5
"""Probability of a class that no tree answers, and of one that no given label has."""


@register_model("boosting")
class Boosting(Model):
    """Boosted trees on X, M X and M² X, by the labels that it is given; M: mean of neighbours.

    f(x) = f_0 + r sum_m tree_m(x): each tree is fitted to the gradients of the loss where the sum
    of those before it stands (Friedman 2001, algorithm 1), on columns in 255 bins, by scikit-learn.
    Of classes f are logits. For columns of numbers and kinds it is the baseline that a model of
    graphs has to beat; with `hops: 0` it sees no edge.

    Args:
        in_dim: node features F; any number does.
        out_dim: logits C.
        trees: M, for each class.
        rate: r, what a tree counts.
        leaves: of a tree, at most; each holds 20 of the given labels, or a twentieth if fewer.
        hops: how often neighbours are averaged: 2 gives X, M X and M² X.
    """

    paper = "Greedy Function Approximation: A Gradient Boosting Machine (Friedman 2001)"
    context = True
    any_graph = True
    tasks = ("node-classification", "node-binary", "node-regression")

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        trees: Count = 100,
        rate: Positive = 0.1,
        leaves: Count = 31,
        hops: Number = 2,
    ):
        super().__init__()
        self.out_dim, self.hops = out_dim, hops
        self.options = {
            "max_iter": trees, "learning_rate": rate, "max_leaf_nodes": leaves,
            "early_stopping": False, "random_state": 0,
        }  # fmt: skip
        self.head = nn.Identity()

    def features(self, graph, x: Tensor, context: Tensor) -> Tensor:
        """Return the logits themselves, (N, out_dim): nothing lies before them."""
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            near = [x.float()]
            for _ in range(self.hops):
                near.append(neighbour_mean(graph, near[-1]))
            labels = labels_of(self.in_own_units(context), self.out_dim)
            fit = self._numbers if context.is_floating_point() else self._classes
            several = torch.cat(near, dim=1), labels.targets, labels.known
            counts = [len(x) if count is None else count for count in node_counts(graph)]
            parts = zip(*(each.cpu().split(counts) for each in several), strict=True)
            scores = np.concatenate([fit(*(each.numpy() for each in part)) for part in parts])
            scores = torch.from_numpy(scores.astype(np.float32)).to(x.device)
            return scores if context.is_floating_point() else as_logits(scores, self.out_dim)

    def _numbers(self, columns: np.ndarray, targets: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return numbers (n, T) for columns (n, F): trees for each target."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        if not known.any():
            return np.zeros_like(targets)
        trees = HistGradientBoostingRegressor(**self._options(known))
        return np.stack(
            [trees.fit(columns[known], y[known]).predict(columns) for y in targets.T], 1
        )

    def _classes(self, columns: np.ndarray, targets: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return logarithms of the probabilities of all classes (n, C) for columns (n, F)."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        chances, y = np.zeros(targets.shape), targets[known].argmax(axis=1)
        there = np.unique(y)
        if len(there) > 1:
            trees = HistGradientBoostingClassifier(**self._options(known))
            chances[:, there] = trees.fit(columns[known], y).predict_proba(columns)
        else:
            chances[:, there] = 1
        return np.log(chances.clip(LEAST))

    def _options(self, known: np.ndarray) -> dict[str, Any]:
        return {**self.options, "min_samples_leaf": int(np.clip(known.sum() // 20, 1, 20))}
