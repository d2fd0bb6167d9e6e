"""A trained model and series in time to what comes next, and to scores beside those of baselines.

Beyond its horizon a model reads what it has predicted itself: block after block of `horizon` times.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Count, Spec, pick, value_problems
from zoo.data.snapshots import Snapshots
from zoo.data.splits import Split, split_of
from zoo.data.tables.times import time_names
from zoo.errors import ZooError
from zoo.graphs.spmm import place
from zoo.inference.forecast_baselines import last_value, ridge_on_lags, seasonal_value
from zoo.inference.predict import answering
from zoo.inference.training_data import fitted
from zoo.registry import Model
from zoo.tasks.labels import FORECASTING
from zoo.tasks.task import TASKS, measured_beside
from zoo.training.batches import SnapshotBatches
from zoo.weights.transfer import shortened

if TYPE_CHECKING:
    from pandas import DataFrame


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

        count = len(self.ids)
        return DataFrame({
            "id": np.tile(self.ids, len(self.times)),
            "time": np.repeat(self.times, count),
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
    data = as_read(model, data)
    steps = data.horizon if steps is None else steps
    if value_problems(Count, steps, ()):
        raise ZooError(f"steps: {steps} is no number of times to predict; write 1 or more.")
    known = np.flatnonzero(np.isfinite(data.series.values[:, :, 0]).any(axis=1))
    if len(known) == 0:
        raise ZooError(f"{data.name}: no value is known, so that nothing can follow from any.")
    last = int(known[-1])
    values = rolled_out(model, data, last, steps, device)
    times = data.series.times[last + 1 : last + 1 + steps]
    more = data.series.steps.after(data.series.times[-1], steps - len(times))
    names = time_names(np.concatenate([data.series.times[:1], times, more]))[1:]
    ids = np.arange(values.shape[1]) if data.ids is None else data.ids
    return Forecast(ids, names, values)


def rolled_out(
    model: Model, data: Snapshots, last: int, steps: int, device: str | torch.device = "cpu"
) -> Tensor:
    """Return the values (steps, N) that follow a time, each block from those before it.

    Args:
        model: of forecasts.
        data: as the model reads it.
        last: the last time that is known to the model, from 0; what is later is not looked at, but
            for columns that are not predicted.
        steps: times to predict.
        device: where.
    """
    if last + 1 < data.lags:
        raise ZooError(
            f"{data.name}: {last + 1} times are known, and {data.lags} are read; give as many."
        )
    room = max(0, last + 1 + steps + data.horizon - len(data.x))
    x = torch.cat([data.x, data.x[-1:].expand(room, -1, -1)])
    with answering(model, device) as dtype:
        for now in range(last + 1, last + 1 + steps, data.horizon):
            kind = torch.tensor(data.series.graph_of[min(now, len(data.x)) - 1]).reshape(1)
            graph = place(data.graphs.graphs[int(kind)], device)
            given = data.read(x[None, now - data.lags : now], kind).to(device, dtype)
            found = model(graph, given).logits.float().cpu()  # (N, horizon)
            x[now : now + data.horizon, :, 0] = found.T
    return x[last + 1 : last + 1 + steps, :, 0] * data.spread[:, 0] + data.shift[:, 0]


def as_read(model: Model, data: Snapshots) -> Snapshots:
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
    data = _in_columns(about, data)
    if about.scaling is not None:
        ids = [str(each) for each in (range(data.y.shape[1] // horizon) if data.ids is None
               else data.ids)]  # fmt: skip
        lost = [each for each in ids if each not in about.scaling]
        if lost:
            raise ZooError(
                f"{data.name} has nodes that the model was not trained on, such as {lost[0]!r}, "
                "and their scale is not known to it. Leave them out, or train with `scale: none`."
            )
        told = torch.tensor([about.scaling[each] for each in ids])  # (N, 2, F)
        if told.shape[2] != data.x.shape[2]:
            raise ZooError(f"{data.name} has {data.x.shape[2]} columns, the model {told.shape[2]}.")
        data = data.scaled(told[:, 0], told[:, 1])
    return fitted(model, data)


def _in_columns(about: About, data: Snapshots) -> Snapshots:
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
    held = data.series.names
    if names is None or names == list(held):
        return data
    if held[0] != names[0]:
        raise ZooError(
            f"of {data.name} {held[0]!r} is to be predicted, and the model was trained to predict "
            f"{names[0]!r}; write `target: {names[0]}`."
        )
    more = ", ".join(names[1:])
    fix = f"write `columns: [{more}]`." if more else "leave `columns` out."
    if lost := [each for each in names if each not in held]:
        raise ZooError(f"the model reads {shortened(lost)} too, and {data.name} does not; {fix}")
    if extra := [each for each in held if each not in names]:
        raise ZooError(f"the model was not trained on {shortened(extra)} of {data.name}; {fix}")
    return data.in_order(names)


def _columns_and_lags(about: About) -> tuple[list[str] | None, int | None]:
    """Return the names of the columns that weights read, and their lags, None where not known.

    Older weights do not say them; then the options of their recipe do, where it has them.
    """
    told = (about.recipe or {}).get("dataset")
    told = told if isinstance(told, Mapping) else {}
    target, columns, lags = (told.get(key) for key in ("target", "columns", "lags"))
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
    data, parts, chosen, found = answered(model, data, part, split, batch_size, device)
    answers = {"last value": last_value(data, chosen)}
    if data.period is not None:
        answers[f"seasonal value, {data.period}"] = seasonal_value(data, chosen, data.period)
    ridge = None if parts is None else ridge_on_lags(data, parts.train, chosen)
    if ridge is not None:
        answers["ridge on lags"] = ridge
    measures, y = {task.metric_name: task.metric, **task.beside}, data.y[chosen]
    return {
        "data": data.name,
        "part": part,
        "nodes": len(chosen),
        "unit": data.unit,
        "metric": task.metric_name,
        "score": task.metric(found, y),
        "beside": measured_beside(task, found, y),
        "baselines": {
            name: {metric: measure(answer, y) for metric, measure in measures.items()}
            for name, answer in answers.items()
        },
    }


def answered(
    model: Model,
    data: Snapshots,
    part: str,
    split: Spec,
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
) -> tuple[Snapshots, Split | None, Tensor, Tensor]:
    """Return series as a model reads them, their split, the snapshots (B,) of a part, and answers.

    Arguments as those of `evaluate_forecasts`; the answers are (B, N * horizon) fp32 on the CPU, in
    the unit of `y`, and the split is None of all.
    """
    data = as_read(model, data)
    parts = None if part == "all" else split_of(data, split, 0)
    known = (~data.y.isnan()).any(dim=1).nonzero().flatten()
    chosen = known if parts is None else getattr(parts, part)
    if len(chosen) == 0:
        raise ZooError(
            f"{data.name} has no time whose next {data.horizon} are known after {data.lags} that "
            "are read, so that nothing can be measured; add rows."
        )
    over = SnapshotBatches(data, chosen, device, size=batch_size or 1)
    with answering(model, device) as kind:
        found = over.logits(lambda graph, x: model(graph, x.to(kind)).logits.float(), chosen).cpu()
    return data, parts, chosen, found
