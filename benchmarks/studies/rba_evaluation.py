"""Random batches in evaluation: how far answers are apart, and by how much averaging helps.

A model is trained once. Its predictions are then made with `inference: fixed` under several seeds,
with the `mean` over more and more partitions, and with `full` attention.
"""

from __future__ import annotations

import copy
import time
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from study import Row, Series, Study, run
from torch import Tensor

from zoo import ZooError, create_model, load_recipe
from zoo.runs.prepare import prepare, seed_everything
from zoo.runs.resolve import Plan, resolve
from zoo.training.trainer import all_logits, fit


def rba_evaluation(
    *,
    quick: bool = False,
    recipe: str = "sgformer-digits-rba",
    partitions: Annotated[int, Field(ge=2)] = 8,
) -> Study:
    """Standard deviation of predictions over partitions, and how it falls by averaging.

    Args:
        quick: train for 20 epochs.
        recipe: a shipped recipe, or a file, whose model has `attention: rba`; its first seed runs.
        partitions: number of partitions (seeds) for the standard deviation.
    """
    changes = ["train.epochs=20"] if quick else []
    plan = resolve(load_recipe(recipe, changes, trust=True), trust=True)
    attention = plan.model.get("attention")
    if not isinstance(attention, dict) or attention["name"] != "rba":
        raise ZooError(f"{recipe} has no `attention: rba`; choose a recipe that has.")
    answers = _Answers(plan, attention)
    draws = [1, 2, 4, 8]
    table = [answers.row(f"mean of {count}", _mean(count), partitions) for count in draws]
    table.append(answers.row("full", {"inference": "full"}, 1))
    spreads = [row["spread"] for row in table[:-1]]
    slope = float(np.polyfit(np.log(draws), np.log(spreads), 1)[0])
    straight = [spreads[0] * count**-0.5 for count in draws]
    lines = {"measured": (draws, spreads), "slope -1/2": (draws, straight)}
    plot = Series("Spread of probabilities over partitions", "draws", lines, dashed=("slope -1/2",))
    row = Row("slope of the spread in the number of partitions averaged", slope, -0.5, 0.3)
    return Study("rba-evaluation", [row], [plot], table)


def _mean(draws: int) -> dict[str, Any]:
    return {"inference": "mean", "draws": draws}


class _Answers:
    """A trained model whose weights are evaluated in several ways."""

    def __init__(self, plan: Plan, attention: dict[str, Any]):
        self.prepared, self.attention = prepare(plan), attention
        self.split = self.prepared.splits[0]
        seed_everything(plan.recipe.seeds[0])
        model = self._model({})
        if fit(model, self.prepared.training_data(self.split), **plan.train).interrupted:
            raise KeyboardInterrupt
        self.weights = copy.deepcopy(model.state_dict())

    def row(self, name: str, options: dict[str, Any], partitions: int) -> dict[str, Any]:
        """Return the test score, and the standard deviations of score and probabilities."""
        start = time.perf_counter()
        # Seeds far apart: no two evaluations share a partition.
        logits = torch.stack(
            [self._logits({**options, "seed": 1000 + i}) for i in range(partitions)]
        )
        seconds = (time.perf_counter() - start) / partitions
        test = self.split.test
        y, metric = self.prepared.data.y[test], self.prepared.task.metric
        scores = [metric(each[test], y) for each in logits]
        shares = _probabilities(logits[:, test])
        return {
            "inference": name,
            "test": round(float(np.mean(scores)), 4),
            "std": round(float(np.std(scores)), 4),
            "spread": float(f"{shares.std(0).mean():.3g}") if partitions > 1 else 0.0,
            "seconds": round(seconds, 3),
        }

    def _logits(self, options: dict[str, Any]) -> Tensor:
        model = self._model(options)
        model.load_state_dict(self.weights)
        return all_logits(model, self.prepared.data)

    def _model(self, options: dict[str, Any]):
        data, task = self.prepared.data, self.prepared.task
        spec = {**self.prepared.plan.model, "attention": {**self.attention, **options}}
        return create_model(spec.pop("name"), data.x.shape[1], task.outputs(data.classes), **spec)


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1) if logits.shape[-1] > 1 else logits.sigmoid()


if __name__ == "__main__":
    run(rba_evaluation)
