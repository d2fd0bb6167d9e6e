"""What forecasts have to be better than: the last value, that of last season, and ridge on lags."""

import numpy as np
import torch
from torch import Tensor

from zoo.data.snapshots import Snapshots

PENALTY = 1.0
"""Of the squared weights of ridge, against the sum of squared errors: scikit-learn's own."""


def last_value(data: Snapshots, chosen: Tensor) -> Tensor:
    """Return the last value of each node for each next one, (B, N * horizon), of samples (B,)."""
    return _at(data, chosen, lambda step: torch.zeros_like(chosen))


def seasonal_value(data: Snapshots, chosen: Tensor, period: int) -> Tensor:
    """Return the values of the last season: those so many times before each, (B, N * horizon).

    Of a horizon longer than a season those of the last one are repeated; where nothing is as long
    ago, the last value stands for it.
    """

    def back(step: int) -> Tensor:
        ago = period * -(-step // period) - step  # from the last time that is read
        return torch.where(chosen + data.lags - 1 >= ago, ago, 0)

    return _at(data, chosen, back)


def ridge_on_lags(data: Snapshots, train: Tensor, chosen: Tensor) -> Tensor | None:
    """Return linear forecasts from what a model reads, fitted on training samples by ridge.

    One regression of each step to come for all nodes, with an intercept, on scaled values; it is
    fitted where the value of this step is known.

    Args:
        data: what is read, encodings included.
        train: samples that it is fitted on, (m,).
        chosen: samples that are predicted, (B,).

    Returns:
        (B, N * horizon), in the unit of the series; None where a step is never known in training.
    """
    from sklearn.linear_model import Ridge

    inputs, y = data.batch(train)[1].numpy(), data.scaled_targets(train)
    targets = y.reshape(len(inputs), -1).numpy()
    known = np.isfinite(targets)
    if not known.any(axis=0).all():
        return None
    asked, found = data.batch(chosen)[1].numpy(), []
    for rows, step in zip(known.T, targets.T, strict=True):
        fitted = Ridge(alpha=PENALTY).fit(inputs[rows], step[rows])
        found.append(fitted.predict(asked))
    return data.reader(chosen)(torch.from_numpy(np.stack(found, axis=1)))


def _at(data: Snapshots, chosen: Tensor, back) -> Tensor:
    """Return values so many times before the last that is read, for each step to come."""
    last = chosen + data.lags - 1
    steps = [data.x[last - back(step), :, 0] for step in range(1, data.horizon + 1)]
    found = torch.stack(steps, dim=2).flatten(0, 1)  # (B * N, horizon)
    return data.reader(chosen)(found)
