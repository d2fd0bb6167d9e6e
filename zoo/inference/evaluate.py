"""Trained weights measured on a part of a graph: what `zoo evaluate` does."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.config.options import Spec
from zoo.config.recipe import divide
from zoo.data import Dataset
from zoo.data.load import DATASETS, load_data
from zoo.data.load.obtain import path_of
from zoo.data.load.readers import reader_of, whole_reader
from zoo.data.splits import PARTS, split_of
from zoo.data.tables.columns import listed
from zoo.data.tables.read import Written
from zoo.data.tables.tables import node_columns, read_tables
from zoo.errors import ZooError, unknown
from zoo.inference.forecast import Forecast, evaluate_forecasts, forecast
from zoo.inference.predict import answers, labelled, per_class
from zoo.inference.training_data import (
    Training,
    as_trained,
    class_names,
    columns_read,
    is_seen,
    of_training,
    own_split,
    same_nodes,
    trained_nodes,
    training_part,
    whole_is_seen,
    with_columns_of,
)
from zoo.registry import Model
from zoo.tasks.labels import FORECASTING, TRANSLATION
from zoo.tasks.task import measured_beside


def evaluate_part(
    model: Model,
    spec: Spec | None,
    part: str | None,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    trained_on: Spec | None = None,
    beams: int | None = None,
    length_penalty: float | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Measure a trained model on nodes of a graph.

    Args:
        model: as `zoo.load` gives it.
        spec: the graph, as a recipe names it, `split` included; None is the one that the model was
            trained on. Where it is that one, it is divided as then, unless `split` is said.
        part: `train`, `val`, `test` or `all`; None is `test` on the graph of training, else `all`.
        batch_size: as in `zoo.predict`.
        layerwise: as in `zoo.predict`.
        device: where.
        trained_on: the graph of training as the run's own recipe names it, which knows its path.
        beams: of a translation, see `zoo.sequences.translate`.
        length_penalty: of a translation, likewise.
        folder: of the weights in the folder of their run, which may know the ids of its nodes.

    Returns:
        `data`, `part`, `nodes` (how many had a label), `unit` (what these are), `metric`, `score`,
        `seen`: whether some that the model was trained on are, or may be, among them, `per_class`,
        as `zoo.inference.predict.per_class` gives it.
        Of translations `pairs` instead of nodes, and how they were made and measured.

    Raises:
        ZooError: as `zoo.evaluate`, or nothing is known of the graph of training, or another lies
            in its place.
    """
    about = model.about
    if part not in (None, "all", *PARTS):
        raise ZooError(unknown("part", part, ("all", *PARTS)))
    known = type(model).tasks == (TRANSLATION,)
    if not known and (beams, length_penalty) != (None, None):
        raise ZooError("beams and their length penalty are for translations; leave them out.")
    part = part or ("test" if spec is None or known else "all")
    known_data = trained_on or (about.recipe or {}).get("dataset")
    as_then = of_training(about, trained_on) if spec is None else as_trained(spec, known_data)
    if spec is not None:
        known_table = with_columns_of(about, known_data)
        spec = as_trained(spec, known_table, columns_read(about), about.step)
        _need_labels(spec, known_data)
    spec, own = divide(as_then if spec is None else spec, ("split",))
    as_then, _ = divide(as_then, ("split",))
    then = Training(about, known_data, folder)
    data, theirs = load_data(spec), own_split(as_then, known_data, about)
    own = {**(theirs or {}), **own}
    if data.task == FORECASTING:
        if layerwise:
            raise ZooError(f"--layerwise is for one graph, and {data.name} is none; leave it out.")
        found = evaluate_forecasts(model, data, part, own.get("split", data.split),
                                   batch_size=batch_size, device=device)  # fmt: skip
        train = trained_nodes(about, theirs, data)  # snapshots
        if train is None:
            return {**found, "seen": whole_is_seen(then, spec, data, part)}
        asked_of = _nodes(model, data, own.get("split", data.split), part)
        return {**found, "seen": bool(torch.isin(asked_of, train).any())}
    if data.task == TRANSLATION:
        if layerwise:
            raise ZooError(f"--layerwise is for graphs, and {data.name} is none; leave it out.")
        given = {"beams": beams, "length_penalty": length_penalty, "batch_size": batch_size}
        given = {key: value for key, value in given.items() if value is not None}
        from zoo.sequences.translate import evaluate_pairs

        found = evaluate_pairs(model, data, part, device=device, **given)
        return {**found, "seen": whole_is_seen(then, spec, data, part)}
    split = own.get("split", data.split)
    seen = is_seen(then, as_then, theirs, data, _nodes(model, data, split, part), part)
    rows, nodes, context = asked(model, data, split, part, trained_on)
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": device}
    found = answers(model, rows, context=context, **how)
    logits, y = found.logits[nodes], found.y[nodes]
    if about.metric not in (None, found.task.metric_name):
        logging.getLogger(__name__).warning(
            f"the weights were measured by {about.metric}, which is not known here, and this is "
            f"{found.task.metric_name}; name the file that has it by `--import`."
        )
    return {
        "data": data.name,
        "part": part,
        "nodes": int(labelled(y).sum()),
        "unit": data.unit,
        "metric": found.task.metric_name,
        "score": found.task.metric(logits, y),
        "beside": measured_beside(found.task, logits, y),
        "seen": seen,
        "per_class": per_class(found.task.name, logits, y, class_names(about, data)),
    }


def _need_labels(spec: Spec, trained_on: Spec | None) -> None:
    """Refuse a table without a column of labels that the training had, and without `label`."""
    theirs = trained_on.get("label") if isinstance(trained_on, Mapping) else None
    if not theirs or not isinstance(spec, Mapping) or spec.get("label"):
        return
    path, names = path_of(spec["name"]), listed(theirs)
    table = spec["name"] not in DATASETS and path.exists() and not whole_reader(path, spec)
    if not table or reader_of(path) is not read_tables:
        return
    held = node_columns(path, Written(spec.get("separator")))
    lost = [each for each in names if each not in held]
    if not lost or (len(names) == 1 and "label" in held):
        return
    raise ZooError(
        f"{spec['name']} has no column {', '.join(map(repr, lost))}, and the weights were trained "
        f"with label={','.join(names)}, which a score needs; add what is missing, or name the "
        f"same {'columns' if len(names) > 1 else 'column'} of this table, `label=COLUMN`; "
        "`zoo predict` needs no labels."
    )


def asked(
    model: Model, data: Dataset, split: Spec, part: str, trained_on: Spec | None = None
) -> tuple[Dataset, Tensor, Dataset | None]:
    """Return the rows that a model reads to answer for a part, which of them it is, and a context.

    Args:
        model: as `zoo.load` gives it.
        data: one graph, or samples.
        split: which says what the parts are.
        part: `train`, `val`, `test` or `all`.
        trained_on: as of `evaluate_part`.
    """
    nodes = _nodes(model, data, split, part)
    known = training_part(model, trained_on)
    if known is None:
        return data, nodes, None
    whole, train = known  # nodes beside these and the part are not to be seen
    if not same_nodes(data, whole):
        return data.part(nodes), torch.arange(len(nodes)), whole.part(train)
    seen = torch.cat([train, nodes[~torch.isin(nodes, train)]])
    places = torch.empty(len(data.y), dtype=torch.int64)
    places[seen] = torch.arange(len(seen))
    return data.part(seen), places[nodes], None


def _nodes(model: Model, data: Dataset, split: Spec, part: str) -> Tensor:
    """Return the nodes (n,) of a part, as the seed of training divides them."""
    if part == "all":
        return torch.arange(len(data.y))
    return getattr(split_of(data, split, model.about.seed or 0), part)


def forecast_of(
    model: Model,
    spec: Spec | None,
    steps: int | None,
    *,
    trained_on: Spec | None = None,
    device: str | torch.device = "cpu",
) -> Forecast:
    """Return what a model says comes next, in the series it was trained on or in others.

    Args:
        model: of forecasts, as `zoo.load` gives it.
        spec: the series; of a path alone the options are those of training; None: these series.
        steps: times to predict; None: the model's horizon.
        trained_on: the series of training as the run's own recipe names them.
        device: where.

    Raises:
        ZooError: as `zoo.inference.forecast.forecast`, or nothing is known of the series.
    """
    known = divide(trained_on or (model.about.recipe or {}).get("dataset"), ("split",))[0]
    given = (
        of_training(model.about, known)
        if spec is None
        else as_trained(spec, known, step=model.about.step)
    )
    return forecast(model, load_data(given), steps, device=device)
