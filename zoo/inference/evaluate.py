"""Trained weights measured on a graph, or a part of it: what `zoo evaluate` does."""

import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Spec
from zoo.config.recipe import divide
from zoo.data import Dataset
from zoo.data.known_nodes import read_known_or_none
from zoo.data.load import DATASETS, load_data
from zoo.data.load.named import path_of
from zoo.data.load.readers import dataset_reader, graph_reader
from zoo.data.samples import Samples, Separate
from zoo.data.splits import PARTS, split_of
from zoo.data.tables.columns import list_names
from zoo.data.tables.nodes_and_edges import node_columns, read_tables
from zoo.data.tables.read import CsvFormat
from zoo.errors import ZooError, unknown
from zoo.inference.forecast import Forecast, evaluate_forecasts, forecast
from zoo.inference.links import evaluate_links, links_as_trained
from zoo.inference.matching import class_names
from zoo.inference.predict import (
    Answers,
    Rows,
    Source,
    answers,
    chosen_rows,
    labelled,
    per_class,
    spec_of,
)
from zoo.inference.training_data import (
    Training,
    as_trained,
    dataset_of_run,
    is_seen,
    known_parts,
    may_be_known,
    new_nodes,
    part_is_seen,
    parts_in_training,
    same_nodes,
    spec_of_training,
    split_from_start,
    trained_nodes,
    training_part,
    training_spec,
    training_split,
)
from zoo.registry import Model
from zoo.tasks.labels import FORECASTING, LINKS, TRANSLATION
from zoo.tasks.task import Task, measured_beside
from zoo.training.batches import TrainingData
from zoo.weights.files import CONFIG
from zoo.weights.save_and_load import as_model

_LOG = logging.getLogger(__name__)


def evaluate(
    model: Source,
    data: Dataset | Samples | Spec | Path | None = None,
    nodes: Rows | None = None,
    *,
    part: str | None = None,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
    given: Rows | None = None,
) -> float:
    """Return the metric of a model's task on a graph.

    Where names of classes are known on both sides, classes are matched by name.

    Args:
        model: a trained model, or what `zoo.load` takes: a run, its folder, a name of weights.
        data: a graph with labels, or its name, as in `predict`; None: what it was trained on, of
            which the test part is measured, as `zoo evaluate` does. Links are measured of a graph
            by its name, in the part test if no other is named.
        nodes: numbers of the nodes that count, (n,), or a mask (N,); left out, all that are
            labelled, of which a warning says if the model was, or may have been, trained on some.
        part: `train`, `val` or `test` of the training of the weights, or `all`, in the place of
            nodes.
        batch_size: as in `predict`.
        layerwise: as in `predict`.
        device: where.
        context: as in `predict`.
        given: as in `predict`.

    Raises:
        ZooError: the graph has other features or classes, no labels, or does not fit into memory;
            or nothing says which nodes the part has, or one of `nodes` is none.
    """
    model = as_model(model)
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": device}
    if part is not None and nodes is not None:
        raise ZooError("`nodes` and `part` both say what is measured; leave one out.")
    in_memory = isinstance(data, Dataset | Separate)
    links = model.about.task == LINKS
    if links and nodes is not None:
        raise ZooError("links are measured, and not nodes; write `part` in the place of `nodes`.")
    if not in_memory and (data is None or part is not None or links):
        return _score_of_part(model, data, part, how, context, given)
    answer = answers(model, data, context=context, given=given, **how)
    if part not in (None, "all"):
        nodes = _part_in_memory(model, data, part)
    elif nodes is None and not model.context:
        _warn_of_training(model, data, answer)
    if nodes is None:
        return answer.task.metric(answer.logits, answer.y)
    chosen = chosen_rows("nodes", nodes, answer.seen.name, len(answer.y))
    return answer.task.metric(answer.logits[chosen], answer.y[chosen])


def _score_of_part(
    model: Model, data: Any, part: str | None, how: dict[str, Any], *others: Any
) -> float:
    """Return what `zoo evaluate` says of a part."""
    if any(each is not None for each in others):
        raise ZooError("a part is measured as in training; leave `context` and `given` out.")
    spec = None if data is None else spec_of(data)
    return evaluate_part(model, spec, part, folder=model.folder, **how)["score"]


def _part_in_memory(model: Model, data: Any, part: str) -> Tensor:
    """Return the nodes (n,) of a graph in memory that were a part of the training."""
    if part not in PARTS:
        raise ZooError(unknown("part", part, ("all", *PARTS)))
    known = model.folder and parts_in_training(model, model.folder, None, data)
    nodes = [row for row, own in enumerate(known or ()) if own == part]
    if not nodes:
        raise ZooError(
            f"nothing says which nodes of {data.name} were those of the part {part}; give `nodes`, "
            "or the name or path of the data."
        )
    return torch.tensor(nodes)


def _warn_of_training(model: Model, data: Any, answer: Answers) -> None:
    """Warn where the score of all nodes is one of nodes that the weights were trained on."""
    if model.folder is None or len(answer.seen.y) > len(answer.y):
        return
    spec = spec_of(data)
    parts = parts_in_training(model, model.folder, spec, answer.seen)
    if parts is None and (model.folder / CONFIG).is_file():
        training = Training(model.about, training_spec(model.folder), model.folder)
        spec = spec and divide(as_trained(spec, training.spec), ("split",))[0]
        if may_be_known(training, spec, answer.seen) is None:
            _LOG.warning(
                "nothing says whether the model was trained on some of these %s; if it was, the "
                "score is too good.", answer.seen.unit,
            )  # fmt: skip
    if parts and (count := parts.count("train")):
        _LOG.warning(
            "%d of these %s are those that the model was trained on; give `nodes`, or write "
            "`part=\"test\"`.", count, answer.seen.unit,
        )  # fmt: skip


def evaluate_part(
    model: Model,
    spec: Spec | None,
    part: str | None,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    only_new: bool = False,
    device: str | torch.device = "cpu",
    beams: int | None = None,
    length_penalty: float | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Measure a trained model on nodes of a graph.

    Args:
        model: as `zoo.load` gives it.
        spec: the graph, as a recipe names it, `split` included; None: the one that the model was
            trained on. That one is split as in training, unless `split` is given.
        part: `train`, `val`, `test` or `all`, of other data the nodes that were of this part in
            training, if its run has noted them, unless `split` is given; None: `test` on the graph
            of training, and of links, else `all`.
        batch_size: as in `zoo.predict`.
        layerwise: as in `zoo.predict`.
        only_new: of the part the nodes alone that training has not seen, as in `zoo.predict`.
        device: where.
        beams: of a translation, see `zoo.sequences.translate`.
        length_penalty: of a translation, likewise.
        folder: of the weights, in that of their run, which has the path of the graph of training
            and may have the ids of its nodes.

    Returns:
        `data`, `part`, `nodes` (how many had a label), `unit` (what these are), `metric`, `score`,
        `seen`: whether the model was, or may have been, trained on some of them, None where nothing
        says it, and `per_class`, as `zoo.inference.predict.per_class` gives it.
        For translations `pairs` instead of nodes, and how they were made and measured.

    Raises:
        ZooError: as `zoo.evaluate`, or nothing is known of the graph of training, or another lies
            in its place; or none of the nodes is new.
    """
    about = model.about
    if part not in (None, "all", *PARTS):
        raise ZooError(unknown("part", part, ("all", *PARTS)))
    translates = type(model).tasks == (TRANSLATION,)
    of_nodes = layerwise or only_new or batch_size is not None
    _check_links(about.task, part == "all" or of_nodes)
    if not translates and (beams, length_penalty) != (None, None):
        raise ZooError("beams and their length penalty are for translations; leave them out.")
    part = part or ("test" if spec is None or translates or about.task == LINKS else "all")
    of_run = dataset_of_run(folder) if folder else None
    training = Training(about, of_run or (about.recipe or {}).get("dataset"), folder)
    if spec is None:
        spec = compared = spec_of_training(about, of_run)
    else:
        compared = as_trained(spec, training.spec)
        spec = as_trained(spec, training.spec or {}, about)
        _check_labels(spec, training.spec)
    spec, split = divide(spec, ("split",))
    compared, _ = divide(compared, ("split",))
    data, split_then = load_data(spec), training_split(compared, training)
    if about.task == LINKS:
        known = folder and (lambda links: split_from_start(str(folder), compared, links))
        on = links_as_trained(model, data, {**(split_then or {}), **split}.get("split"), known)
        seen = _links_are_seen(model, training, compared, split_then, on, part)
        return {**evaluate_links(model, on, part, device=device), "seen": seen}
    is_divided = bool(split) or split_then is not None or only_new
    split = {**(split_then or {}), **split}.get("split", data.split)
    if data.task in (FORECASTING, TRANSLATION):
        _check_no_graph(data, {"--layerwise": layerwise, "--only-new": only_new})
    if data.task == FORECASTING:
        result = evaluate_forecasts(model, data, part, split, batch_size=batch_size, device=device)
        train = trained_nodes(about, split_then, data)  # snapshots
        if train is None:
            return {**result, "seen": part_is_seen(training, spec, data, part)}
        snapshots = nodes_of_part(model, data, split, part)
        return {**result, "seen": bool(torch.isin(snapshots, train).any())}
    if data.task == TRANSLATION:
        from zoo.sequences.translate import evaluate_pairs

        how = {"beams": beams, "length_penalty": length_penalty, "batch_size": batch_size}
        how = {key: value for key, value in how.items() if value is not None}
        result = evaluate_pairs(model, data, part, device=device, **how)
        return {**result, "seen": part_is_seen(training, spec, data, part)}
    known = {} if is_divided or part == "all" else _known_parts(training, compared, data, part)
    own = known.get if known else functools.partial(nodes_of_part, model, data, split)
    nodes = own(part)
    kept = _new_of(nodes, data, folder) if only_new else torch.arange(len(nodes))
    learns = _learns_of_nodes(model, training)
    seen = learns and is_seen(training, compared, split_then, data, nodes[kept], part)
    rows, places, context = rows_of_part(model, data, nodes, of_run)
    given = model.context and part != "all" and rows is data
    given = own("train") if given else None
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": device, "given": given}
    answer = answers(model, rows, context=context, **how)
    logits, y, task = answer.logits[places[kept]], answer.y[places[kept]], answer.task
    if not labelled(y).any():
        raise ZooError(
            f"of this part of {data.name} no {data.unit} have a label that the model knows."
        )
    about = About() if model.any_graph else about  # of the data of training, which are others
    _warn_of_metric(about, task)
    return {
        "data": data.name,
        "part": part,
        "nodes": int(labelled(y).sum()),
        "unit": data.unit,
        "metric": task.metric_name,
        "score": task.metric(logits, y),
        "beside": measured_beside(task, logits, y),
        "seen": seen,
        "per_class": per_class(task.name, logits, y, class_names(about, data)),
    }


def _known_parts(training: Training, spec: Spec, data: Dataset, part: str) -> dict[str, Tensor]:
    """Return the nodes of each part of a training that are among data, if a run has noted some.

    Raises:
        ZooError: none of them with a label was of the part that is measured.
    """
    known = known_parts(training, spec, data)
    if known:
        labels = int(labelled(data.y).sum())
        if not len(known[part]):
            raise ZooError(
                f"of {data.name} no {data.unit} with a label were of the part {part} of the "
                "training; choose another, or name a split, such as `split=ratio-60-20-20`."
            )
        _LOG.warning(
            "of %s the %s %s are measured that were of the part %s of the training, and not the %s "
            "others with a label.", data.name, f"{len(known[part]):,}", data.unit, part,
            f"{labels - len(known[part]):,}",
        )  # fmt: skip
    return known


def _learns_of_nodes(model: Model, training: Training) -> bool:
    """Return whether a model may have learnt of a user's nodes: not by closed forms, see `context`.

    Nor has one that answers for any graph, where nobody has fine-tuned it.
    """
    begun = model.any_graph and training.spec is None
    return not begun and any(True for _ in model.parameters())


def _warn_of_metric(about: About, task: Task) -> None:
    """Say that weights are measured otherwise than in their training."""
    if about.metric not in (None, task.metric_name):
        logging.getLogger(__name__).warning(
            f"the weights were measured by {about.metric}, which is not known here, and this is "
            f"{task.metric_name}; name the file that has it by `--import`."
        )


def _check_no_graph(data: Dataset, words: Mapping[str, Any]) -> None:
    """Refuse options of one graph for data that are none."""
    for word, given in words.items():
        if given:
            raise ZooError(f"{word} is for one graph, and {data.name} is none; leave it out.")


def _new_of(nodes: Tensor, data: Dataset, folder: Path | None) -> Tensor:
    """Return the places (m,) of nodes (n,) that are new to training, some with a label."""
    places = torch.from_numpy(new_nodes(folder, data))[nodes].nonzero().flatten()
    if not labelled(data.y[nodes[places]]).any():
        raise ZooError(f"of this part of {data.name} no {data.unit} with a label are new.")
    return places


def _check_links(task: str | None, otherwise: bool) -> None:
    """Refuse to measure links otherwise than in a part, by the whole graph of training links."""
    if task == LINKS and otherwise:
        raise ZooError(
            f"links are measured in {', '.join(PARTS)}, by the graph of all links of training at "
            "once; leave `all` and what is for nodes out: batch size, layerwise, only new."
        )


def _links_are_seen(
    model: Model,
    training: Training,
    spec: Spec,
    split: dict[str, Any] | None,
    on: TrainingData,
    part: str,
) -> bool | None:
    """Return whether some links of a part were learnt; of other data by the ids of their nodes.

    None where nothing says it.
    """
    rows, links = getattr(on.split, part), on.data
    seen = is_seen(training, spec, split, links, rows, part)
    noted = training.folder is not None and read_known_or_none(training.folder) is not None
    if seen is not None or split is not None or noted or links.nodes.ids is None:
        return seen  # a run of a former version has noted no links, which its data tell
    try:
        then, own = divide(spec_of_training(training.about, training.spec), ("split",))
        before = links_as_trained(model, load_data(then), own.get("split"))
    except ZooError:  # the data of training are not here
        return None
    pairs = before.data.links.pairs[before.split.train]
    learnt = {frozenset(map(str, pair)) for pair in before.data.names(pairs)}
    measured = links.names(links.links.pairs[rows])
    return any(frozenset(map(str, pair)) in learnt for pair in measured)


def _check_labels(spec: Spec, trained_on: Spec | None) -> None:
    """Refuse a table without a column of labels that the training had, and without `label`."""
    label = trained_on.get("label") if isinstance(trained_on, Mapping) else None
    if not label or not isinstance(spec, Mapping) or spec.get("label"):
        return
    path, names = path_of(spec["name"]), list_names(label)
    if spec["name"] in DATASETS or not path.exists() or dataset_reader(path, spec):
        return
    if graph_reader(path) is not read_tables:
        return
    present = node_columns(path, CsvFormat(spec.get("separator")))
    missing = [name for name in names if name not in present]
    if not missing or (len(names) == 1 and "label" in present):
        return
    raise ZooError(
        f"{spec['name']} has no column {', '.join(map(repr, missing))}, and the weights were "
        f"trained with label={','.join(names)}, which a score needs; add what is missing, or name "
        f"the same {'columns' if len(names) > 1 else 'column'} of this table, `label=COLUMN`; "
        "`zoo predict` needs no labels."
    )


def rows_of_part(
    model: Model, data: Dataset, nodes: Tensor, trained_on: Spec | None = None
) -> tuple[Dataset, Tensor, Dataset | None]:
    """Return the rows that a model reads to answer for a part, which of them it is, and a context.

    Args:
        model: as `zoo.load` gives it.
        data: one graph, or samples.
        nodes: those of the part, (n,).
        trained_on: the graph of training as the run's own recipe names it.
    """
    inductive = training_part(model, trained_on)
    if inductive is None:
        return data, nodes, None
    whole, train = inductive  # nodes beside these and the part are not to be seen
    if not same_nodes(data, whole):
        return data.part(nodes), torch.arange(len(nodes)), whole.part(train)
    seen = torch.cat([train, nodes[~torch.isin(nodes, train)]])
    places = torch.empty(len(data.y), dtype=torch.int64)
    places[seen] = torch.arange(len(seen))
    return data.part(seen), places[nodes], None


def nodes_of_part(model: Model, data: Dataset, split: Spec, part: str) -> Tensor:
    """Return the nodes (n,) of a part, split by the seed of training."""
    if part == "all":
        return torch.arange(len(data.y))
    return getattr(split_of(data, split, model.about.seed or 0), part)


def forecast_of(
    model: Model,
    spec: Spec | None,
    steps: int | None,
    *,
    folder: Path,
    device: str | torch.device = "cpu",
) -> Forecast:
    """Return what a model says comes next, in the series it was trained on or in others.

    Args:
        model: of forecasts, as `zoo.load` gives it.
        spec: the series; of a path alone the options are those of training; None: these series.
        steps: times to predict; None: the model's horizon.
        folder: of the weights in the folder of their run.
        device: where.

    Raises:
        ZooError: as `zoo.inference.forecast.forecast`, or nothing is known of the series.
    """
    of_run = dataset_of_run(folder) or (model.about.recipe or {}).get("dataset")
    trained_on, _ = divide(of_run, ("split",))
    if spec is None:
        spec = spec_of_training(model.about, trained_on)
    else:
        spec = as_trained(spec, trained_on, model.about)
    return forecast(model, load_data(spec), steps, device=device)
