"""A trained model and series in time to what comes next, and to scores beside those of baselines.

Beyond its horizon a model reads what it has predicted itself: block after block of `horizon` times.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Count, Spec, pick, value_problems
from zoo.data.load.series import time_names
from zoo.data.snapshots import Snapshots
from zoo.data.splits import Split, split_of
from zoo.errors import ZooError
from zoo.graphs.spmm import place
from zoo.inference.matching import match_features
from zoo.registry import Model
from zoo.tasks.labels import FORECASTING
from zoo.tasks.task import TASKS, measured_beside
from zoo.training.batches import SnapshotBatches, evaluating
from zoo.weights.transfer import shortened

if TYPE_CHECKING:
    from pandas import DataFrame

PENALTY = 1.0
"""Of the squared weights of ridge, against the sum of squared errors: scikit-learn's own."""


class Forecast(NamedTuple):
    """What a model says comes next.

    Attributes:
        ids: the nodes (N,), as the owner of the series names them.
        times: the next K times, as they are written.
        values: (K, N) fp32, in the unit of the series.
    """

    ids: np.ndarray
    times: list[str]
    values: Tensor

    def table(self) -> "DataFrame":
        """Return a row for each node and time: `id`, `time`, `value`; time after time."""
        from pandas import DataFrame

        return DataFrame({
            "id": np.tile(self.ids, len(self.times)),
            "time": np.repeat(self.times, len(self.ids)),
            "value": self.values.flatten().numpy(),
        })  # fmt: skip


def forecast(
    model: Model,
    data: Snapshots,
    steps: int | None = None,
    *,
    device: str | torch.device = "cpu",
) -> Forecast:
    """Predict what follows the last time of which any value is known.

    Further columns are read as they are written for later times, and held where they are not.

    Args:
        model: of forecasts, as `zoo.load` gives it.
        data: series as `zoo.load_data` gives them, with what the model was trained on.
        steps: times to predict; left out, the horizon of the model.
        device: where.

    Raises:
        ZooError: the series are not those that the model reads, or nothing is known of them.
    """
    data = match_series(model, data)
    steps = data.horizon if steps is None else steps
    if value_problems(Count, steps, ()):
        raise ZooError(f"steps: {steps} is no number of times to predict; write 1 or more.")
    known = np.flatnonzero(np.isfinite(data.series.values[:, :, 0]).any(axis=1))
    if len(known) == 0:
        raise ZooError(f"{data.name}: no value is known, so that nothing can follow from any.")
    last = int(known[-1])
    values = roll_out(model, data, last, steps, device)
    times = data.series.times[last + 1 : last + 1 + steps]
    more = data.series.steps.after(data.series.times[-1], steps - len(times))
    names = time_names(np.concatenate([data.series.times[:1], times, more]))[1:]
    ids = np.arange(values.shape[1]) if data.ids is None else data.ids
    return Forecast(ids, names, values)


def roll_out(
    model: Model, data: Snapshots, last: int, steps: int, device: str | torch.device = "cpu"
) -> Tensor:
    """Return the values (steps, N) that follow a time, each block from those before it.

    Args:
        model: of forecasts.
        data: as the model reads it.
        last: the last time that is known to the model, from 0; what is later is not looked at,
            except columns that are not predicted.
        steps: times to predict.
        device: where.
    """
    if last + 1 < data.lags:
        raise ZooError(
            f"{data.name}: {last + 1} times are known, and {data.lags} are read; give as many."
        )
    room = max(0, last + 1 + steps + data.horizon - len(data.x))
    x = torch.cat([data.x, data.x[-1:].expand(room, -1, -1)])
    with evaluating(model, device) as dtype:
        for now in range(last + 1, last + 1 + steps, data.horizon):
            kind = torch.tensor(data.series.graph_of[min(now, len(data.x)) - 1]).reshape(1)
            graph = place(data.graphs.graphs[int(kind)], device)
            inputs = data.read(x[None, now - data.lags : now], kind).to(device, dtype)
            predicted = model(graph, inputs).logits.float().cpu()  # (N, horizon)
            x[now : now + data.horizon, :, 0] = predicted.T
    return x[last + 1 : last + 1 + steps, :, 0] * data.spread[:, 0] + data.shift[:, 0]


def match_series(model: Model, data: Snapshots) -> Snapshots:
    """Return series as a model reads them: in the order and scale of those it was trained on.

    Args:
        model: of forecasts.
        data: series as `zoo.load_data` gives them.

    Raises:
        ZooError: they have other nodes, another horizon, other lags, or other columns.
    """
    about, horizon = model.about, model.config["out_dim"]
    if about.task not in (None, FORECASTING) or not isinstance(data, Snapshots):
        raise ZooError(
            f"{data.name} and the weights are not both of forecasts: {data.task}, and "
            f"{about.task or 'unknown'}."
        )
    if (step := str(data.series.steps.size)) != (about.step or step):
        raise ZooError(
            f"{data.name} goes on in steps of {step}, and the model was trained on steps of "
            f"{about.step}; sum its rows up, or leave some out, for the same steps."
        )
    if data.horizon != horizon:
        raise ZooError(
            f"{data.name} is cut for a horizon of {data.horizon}, and the model predicts {horizon} "
            f"times at once; write `horizon: {horizon}`, and `--steps` for more times."
        )
    data = _match_columns(about, data)
    if about.scaling is not None:
        ids = range(data.y.shape[1] // horizon) if data.ids is None else data.ids
        ids = [str(id) for id in ids]
        if unknown := [id for id in ids if id not in about.scaling]:
            raise ZooError(
                f"{data.name} has nodes that the model was not trained on, such as {unknown[0]!r}, "
                "and their scale is not known to it. Leave them out, or train with `scale: none`."
            )
        scaling = torch.tensor([about.scaling[id] for id in ids])  # (N, 2, F)
        data = data.scaled(scaling[:, 0], scaling[:, 1])
    return match_features(model, data)


def _match_columns(about: About, data: Snapshots) -> Snapshots:
    """Return series with their columns in the order of training, as far as that is known.

    Raises:
        ZooError: they have other columns or lags, or another one is predicted.
    """
    names, lags = _columns_and_lags(about)
    if lags not in (None, data.lags):
        raise ZooError(
            f"{data.name} is read with {data.lags} lags, and the model reads {lags}; write "
            f"`lags: {lags}`."
        )
    present = data.series.names
    if names is None or names == list(present):
        return data
    if present[0] != names[0]:
        raise ZooError(
            f"of {data.name} {present[0]!r} is to be predicted, and the model was trained to "
            f"predict {names[0]!r}; write `target: {names[0]}`."
        )
    more = ", ".join(names[1:])
    fix = f"write `columns: [{more}]`." if more else "leave `columns` out."
    if missing := [name for name in names if name not in present]:
        raise ZooError(f"the model reads {shortened(missing)} too, and {data.name} does not; {fix}")
    if extra := [name for name in present if name not in names]:
        raise ZooError(f"the model was not trained on {shortened(extra)} of {data.name}; {fix}")
    return data.in_order(names)


def _columns_and_lags(about: About) -> tuple[list[str] | None, int | None]:
    """Return the names of the columns that weights read, and their lags, None where not known.

    Older weights do not say them; then the options of their recipe do, where it has them.
    """
    options = (about.recipe or {}).get("dataset")
    options = options if isinstance(options, Mapping) else {}
    target, columns, lags = (options.get(key) for key in ("target", "columns", "lags"))
    names = None
    if isinstance(target, str):
        more = columns if isinstance(columns, list) else []
        names = list(dict.fromkeys([target, *map(str, more)]))
    return about.series or names, about.lags or (lags if isinstance(lags, int) else None)


def evaluate_forecasts(
    model: Model,
    data: Snapshots,
    part: str,
    split: Spec,
    *,
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
) -> dict[str, Any]:
    """Measure the forecasts of a model, and baselines on the same snapshots.

    Args:
        model: of forecasts.
        data: series as `zoo.load_data` gives them.
        part: `train`, `val`, `test` or `all`.
        split: which says what these are. Ridge is fitted on its training part, and left out of all
            and where a step of the horizon is never known in training.
        batch_size: snapshots at a time, which changes nothing but the memory it takes.
        device: where.

    Returns:
        `data`, `part`, `nodes`: how many snapshots, `unit`, `metric`, `score`, `beside`: further
        metrics, and `baselines`: name to metrics.
    """
    task = pick(TASKS, FORECASTING)
    data, parts, chosen, predicted = predict_part(model, data, part, split, batch_size, device)
    baselines = simple_forecasts(data, parts and parts.train, chosen)
    metrics, y = {task.metric_name: task.metric, **task.beside}, data.y[chosen]
    return {
        "data": data.name,
        "part": part,
        "nodes": len(chosen),
        "unit": data.unit,
        "metric": task.metric_name,
        "score": task.metric(predicted, y),
        "beside": measured_beside(task, predicted, y),
        "baselines": {
            name: {metric: measure(values, y) for metric, measure in metrics.items()}
            for name, values in baselines.items()
        },
    }


def predict_part(
    model: Model,
    data: Snapshots,
    part: str,
    split: Spec,
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
) -> tuple[Snapshots, Split | None, Tensor, Tensor]:
    """Return series as a model reads them, their split, the snapshots (B,) of a part, and answers.

    Arguments as those of `evaluate_forecasts`; forecasts are (B, N * horizon) fp32 on the CPU, in
    the unit of `y`, and the split is None of all.
    """
    data = match_series(model, data)
    parts = None if part == "all" else split_of(data, split, 0)
    known = (~data.y.isnan()).any(dim=1).nonzero().flatten()
    chosen = known if parts is None else getattr(parts, part)
    if len(chosen) == 0:
        raise ZooError(
            f"{data.name} has no time whose next {data.horizon} are known after {data.lags} that "
            "are read, so that nothing can be measured; add rows."
        )
    batches = SnapshotBatches(data, chosen, device, size=batch_size or 1)
    with evaluating(model, device) as dtype:
        logits = batches.logits(lambda graph, x: model(graph, x.to(dtype)).logits.float(), chosen)
    return data, parts, chosen, logits.cpu()


# What forecasts have to be better than


def simple_forecasts(data: Snapshots, train: Tensor | None, chosen: Tensor) -> dict[str, Tensor]:
    """Return what simple rules say, by name, (B, N * horizon) each, of samples (B,).

    Args:
        data: the series.
        train: samples that ridge is fitted on; None: it is left out, as where it cannot be.
        chosen: the samples.
    """
    found = {"last value": last_value(data, chosen)}
    if data.period is not None:
        found[f"seasonal value, {data.period}"] = seasonal_value(data, chosen, data.period)
    if train is not None and (ridge := ridge_on_lags(data, train, chosen)) is not None:
        found["ridge on lags"] = ridge
    return found


def last_value(data: Snapshots, chosen: Tensor) -> Tensor:
    """Return the last value of each node for each next one, (B, N * horizon), of samples (B,)."""
    return _values_before(data, chosen, lambda step: torch.zeros_like(chosen))


def seasonal_value(data: Snapshots, chosen: Tensor, period: int) -> Tensor:
    """Return the values of the last season: those so many times before each, (B, N * horizon).

    Of a horizon longer than a season those of the last one are repeated; where nothing is as long
    ago, the last value stands for it.
    """

    def back(step: int) -> Tensor:
        ago = period * -(-step // period) - step  # from the last time that is read
        return torch.where(chosen + data.lags - 1 >= ago, ago, 0)

    return _values_before(data, chosen, back)


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
    new, predicted = data.batch(chosen)[1].numpy(), []
    for rows, step in zip(known.T, targets.T, strict=True):
        predicted.append(Ridge(alpha=PENALTY).fit(inputs[rows], step[rows]).predict(new))
    return data.values_of(torch.from_numpy(np.stack(predicted, axis=1)))


def _values_before(data: Snapshots, chosen: Tensor, back: Callable[[int], Tensor]) -> Tensor:
    """Return values so many times before the last that is read, for each step to come."""
    last = chosen + data.lags - 1
    steps = [data.x[last - back(step), :, 0] for step in range(1, data.horizon + 1)]
    return data.values_of(torch.stack(steps, dim=2).flatten(0, 1))  # (B * N, horizon)
