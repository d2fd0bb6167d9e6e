"""New data in the features and classes that a model was trained on, matched by their names."""

import dataclasses
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zoo.canonical_form import WEIGHT, derived
from zoo.config.learnt_columns import scales, unscaled
from zoo.config.metadata import About
from zoo.config.options import Count, value_problems
from zoo.config.recipe import word
from zoo.data import Dataset
from zoo.data.canonical import concatenate_graphs
from zoo.data.files.graph_arrays import OF_LABELS
from zoo.data.samples import Samples
from zoo.data.tables.encode import far_from_training
from zoo.encodings import Encoder
from zoo.errors import ZooError
from zoo.nn.readouts import VIRTUAL_NODE
from zoo.registry import Model
from zoo.tasks.labels import BINARY, GRAPH_BINARY, LINKS, NUMBERS, TRANSLATION
from zoo.weights.transfer import shortened

_LOG = logging.getLogger(__name__)


def match_features(model: Model, data: Dataset, context: Dataset | None = None) -> Dataset:
    """Return a data set as the model reads it: features transformed, the encoding beside them.

    Args:
        model: with what is known of its training.
        data: new data.
        context: nodes that the model sees besides; they come first, without edges to the others
            except where the graph is made of the features.

    Raises:
        ZooError: the features are not those that the model was trained on.
    """
    about = model.about
    data = match_columns(model, data)
    if context is not None:
        data = _concatenate(match_columns(model, context), data)
    if about.features is None:
        return data
    data = _with_graph_of_training(data, about)
    data = data.encoded(Encoder(about.encoding))
    virtual = word(model.config.get("readout") or "") == VIRTUAL_NODE
    return data.with_virtual_nodes() if virtual else data


def match_graph(model: Model, data: Dataset) -> Dataset:
    """Return a data set as `match_features` does, without the encoding."""
    data = match_columns(model, data)
    return data if model.about.features is None else _with_graph_of_training(data, model.about)


def match_columns(model: Model, data: Dataset) -> Dataset:
    """Return a data set with the features of training, in their order, transformed."""
    about = model.about
    _check_task(model, data)
    if data.tokenizer is not None:
        data = _tokenize(model, data)
    if about.features is None:
        _check_width(data, model.config["in_dim"], "")
        _warn_of_order(model, data)
        return data
    if about.columns is not None and data.columns is not None:
        warn_of_unseen(data, about.columns)
        if not _is_as_learnt(about, data):
            data = data.with_columns(about.columns)
    else:
        if about.columns is None and data.columns is not None:
            data = data.with_columns(unscaled(data.columns.fit()))
        _check_scales(about, data)
    data = _reorder_features(data, about.feature_names)
    data = _reorder_edge_features(data, about.edge_feature_names)
    data = match_relations(data, about.relation_names)
    encoding = word(about.encoding)
    remark = "" if encoding == "none" else f" (it adds the encoding {encoding} itself)"
    _check_width(data, about.features, remark)
    if data.transform != about.transform:
        if data.transform != "raw":
            raise ZooError(
                f"{data.name}: its features were transformed by {data.transform!r}, those that the "
                f"model was trained on by {about.transform!r}; load the graph without `features`."
            )
        if about.moments is not None:
            names = data.feature_names or [f"column {place}" for place in range(about.features)]
            scale = np.array(about.moments)
            _warn_of_far(data, far_from_training(names, data.x.numpy(), *scale))
        return data.transformed(about.transform, _moments(about, data))
    if about.moments and data.moments is not None and data.moments.tolist() != about.moments:
        _LOG.warning(
            "%s is standardised by its own means and deviations, not by those of training; leave "
            "`features` out.", data.name,
        )  # fmt: skip
    return data


def warn_of_unseen(data: Dataset | Samples, learnt: Sequence[Any]) -> None:
    """Name categories, and numbers of another size, in columns of data that training had not."""
    nothing = lambda learnt: []  # noqa: E731
    for unseen in getattr(data.columns, "unseen", nothing)(learnt):
        _LOG.warning("%s: %s.", data.name, unseen)
    _warn_of_far(data, getattr(data.columns, "far_from_training", nothing)(learnt))


def _warn_of_far(data: Dataset | Samples, phrases: list[str]) -> None:
    """Say which numbers lie so far from those of training that their unit may have changed."""
    if phrases:
        more = f"; and {len(phrases) - 3:,} more" if len(phrases) > 3 else ""
        _LOG.warning(
            f"{data.name}: numbers lie far from those of training, as in another unit: "
            f"{'; '.join(phrases[:3])}{more}."
        )


def _check_task(model: Model, data: Dataset) -> None:
    """Refuse data that the model, or its weights, are not for."""
    if data.task == TRANSLATION:
        raise ZooError(
            f"{data.name} is no graph, whose nodes could be answered for. Texts are translated by "
            "`zoo predict WEIGHTS --text FILE`, and scored by `zoo evaluate WEIGHTS`."
        )
    if data.task not in model.tasks:
        raise ZooError(
            f"the weights are of a model of {', '.join(model.tasks)}, and {data.name} is for "
            f"{data.task}; a model of text reads `zoo predict WEIGHTS --text FILE`."
        )
    trained_for = model.about.task
    if trained_for == LINKS and data.task.startswith("node"):
        return
    if trained_for and trained_for.partition("-")[0] != data.task.partition("-")[0]:
        raise ZooError(f"the weights are of {trained_for}, and {data.name} is for {data.task}.")


def _warn_of_order(model: Model, data: Dataset) -> None:
    """Say what is taken in its order because weights that were loaded know no names."""
    names = {"columns": data.feature_names, "classes": data.labels}
    named = [f"{what} ({shortened(list(each), 3)})" for what, each in names.items() if each]
    if model.folder is not None and named:
        _LOG.warning(
            "%s does not say of which columns and classes its weights are: those of %s are taken "
            "in their order, %s, which may be wrong; save weights with the data set that they were "
            "trained on, zoo.save(model, FOLDER, data).",
            model.folder, data.name, " and ".join(named),
        )  # fmt: skip


def _tokenize(model: Model, data: Samples) -> Samples:
    """Return texts in the tokens of training."""
    if model.tokenizer is None:
        raise ZooError(
            f"{data.name} is texts, and the weights have no `tokenizer.json`, without which none "
            "can be read; take the folder that training has written."
        )
    from zoo.sequences.data.texts import LONGEST, retokenize
    from zoo.sequences.data.tokenizer import Tokenizer

    recipe = (model.about.recipe or {}).get("dataset")
    longest = recipe.get("longest") if isinstance(recipe, dict) else None
    longest = LONGEST if value_problems(Count, longest, ()) else longest
    return retokenize(data, Tokenizer(model.tokenizer), longest)


def _is_as_learnt(about: About, data: Dataset) -> bool:
    """Return whether the features of a table are already those that training has learnt of it."""
    same = list(data.feature_names or ()) == about.feature_names
    return same and list(data.learnt or data.columns.fit()) == about.columns


def _check_scales(about: About, data: Dataset) -> None:
    """Refuse numbers in another scale than the one that training has learnt."""
    wanted, present = scales(about.columns), scales(getattr(data, "learnt", None))
    if wanted == present:
        return
    if wanted:
        scale = "by a scale of its own" if present else "as they are"
        raise ZooError(
            f"{data.name} holds its features {scale}, and the model reads "
            f"{shortened([column.name for column in wanted])} by the scale that it has learnt of a "
            "table; name the table itself, such as --data TABLE.csv, and it is read by that."
        )
    if data.columns is None:
        _LOG.warning(
            "%s was written with numbers in a scale of their own (%s), and the weights say of "
            "none; name the table itself if they read it as it is.",
            data.name, shortened([column.name for column in present]),
        )  # fmt: skip


def _check_width(data: Dataset, width: int, remark: str) -> None:
    if data.inputs != width:
        raise ZooError(
            f"{data.name} has {data.inputs} features per node and the model reads {width}{remark}. "
            "Give the graph the features that the model was trained on; `zoo finetune` adapts the "
            "model to others."
        )


def _moments(about: About, data: Dataset) -> Tensor | None:
    """Return the means and deviations of training, None where the weights do not have them."""
    if about.moments is not None:
        return torch.tensor(about.moments, dtype=torch.float64)
    if word(about.transform) == "standard":
        _LOG.warning(
            "the weights do not hold the means and deviations of their training; those of %s "
            "stand in for them.", data.name,
        )  # fmt: skip
    return None


def _concatenate(context: Dataset, data: Dataset) -> Dataset:
    """Return the nodes of a context and those of a data set, in this order, as one data set."""
    x = torch.cat([context.x.float(), data.x.float()])
    unknown = torch.nan if data.y.is_floating_point() else -1
    y = torch.cat([data.y.new_full((len(context.y), *data.y.shape[1:]), unknown), data.y])
    graph = concatenate_graphs([context.graph, data.graph])
    return dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)


def _with_graph_of_training(data: Dataset, about: About) -> Dataset:
    """Return a data set with the kind of graph that the weights were trained on, such as k-NN."""
    dataset, kind = (about.recipe or {}).get("dataset"), word(about.graph)
    edges_named = isinstance(dataset, Mapping) and dataset.get("edges") is not None
    from_file = kind == "file" or (kind == "own" and edges_named)
    if from_file and isinstance(data, Dataset) and data.graph.num_edges() == len(data.x):
        raise ZooError(
            f"the weights were trained on the edges of a file, and {data.name} has none; name "
            "them, such as --data '{name: samples.csv, edges: edges.csv}'."
        )
    return data if kind == "file" else data.with_graph(about.graph)


def match_labels(model: Model, data: Dataset) -> Tensor:
    """Return the labels of a data set as class numbers of the model, matched by name where known.

    Labels of classes that the model does not know are -1.

    Raises:
        ZooError: the data set has targets that the model does not know, or no class that it knows.
    """
    ours, theirs = model.about.labels, data.labels
    classes = model.config["out_dim"] if data.task not in (BINARY, GRAPH_BINARY) else 2
    targets = data.y.shape[1] if data.y.ndim == 2 else 1
    if (data.y.ndim == 2 or data.task in NUMBERS) and targets != classes:
        raise ZooError(f"{data.name} has {targets} targets and the model {classes}.")
    if not ours or not theirs or list(theirs) == ours:
        _check_class_numbers(model.about, data, classes)
        return data.y
    if data.y.ndim == 2:
        raise ZooError(
            f"{data.name} has the targets {shortened(list(theirs))}; not {shortened(ours)}."
        )
    numbers = torch.tensor([ours.index(name) if name in ours else -1 for name in (*theirs, "")])
    y = numbers[data.y]  # -1, unknown, is the last
    if (data.y >= 0).any() and not (y >= 0).any():
        used = [theirs[number] for number in data.y.unique().tolist() if number >= 0]
        raise ZooError(
            f"{data.name} has only classes that the model was not trained on: {shortened(used)}; "
            f"it knows {shortened(ours)}. Fine-tune it with `zoo finetune`."
        )
    return y


def warn_of_other_classes(model: Model, data: Dataset, y: Tensor) -> None:
    """Say how many labels of data are of classes that a model does not know.

    Args:
        model: which reads the data.
        data: with its own labels.
        y: what `match_labels` makes of these.
    """
    if y.ndim == 2 or y.is_floating_point() or not len(others := data.y[(data.y >= 0) & (y < 0)]):
        return
    unknown = shortened([data.labels[number] for number in others.unique().tolist()])
    _LOG.warning(
        f"{data.name}: {len(others):,} {data.unit} are of classes that the model was not trained "
        f"on, and are left out: {unknown}; it knows {shortened(model.about.labels)}."
    )


def _check_class_numbers(about: About, data: Dataset, classes: int) -> None:
    """Refuse numbers of classes that a model does not have; warn where only the data name them."""
    if data.y.ndim == 2 or data.y.is_floating_point():
        return
    if (largest := int(data.y.max())) >= classes:
        raise ZooError(f"{data.name} has the class {largest}; the model knows {classes}.")
    if data.labels and class_names(about, data) is None:
        _LOG.warning(
            f"the classes of {data.name} have names and those that the model knows have none: "
            f"{data.labels[0]} is taken for its class 0, and so on in this order."
        )


def class_names(about: About, data: Dataset) -> list[str] | None:
    """Return the names of classes, or targets: those of training, or of the data of training."""
    if about.labels is not None:
        return about.labels
    return list(data.labels) if data.labels and about.data in (None, data.name) else None


def whole_numbers(names: Sequence[str]) -> list[str] | list[int]:
    """Return names of classes, as whole numbers where all are; 007 is a code and no number.

    >>> whole_numbers(["-1", "1"]), whole_numbers(["0", "other"]), whole_numbers(["007", "8"])
    ([-1, 1], ['0', 'other'], ['007', '8'])
    """
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in names)
    return [int(name) for name in names] if whole else list(names)


def known_labels(data: Dataset, names: Sequence[str] | None) -> list[Any] | None:
    """Return the true label of each row, None where it is not known or none of a model's classes.

    Of several targets or numbers it is an array (T,) of them, in the order of the model.

    Args:
        data: what has labels; without any it is None.
        names: of the classes, or targets, of the model; None: those of the data, or their numbers.
    """
    y = data.y[:, 0] if data.y.shape[1:] == (1,) else data.y
    if y.dim() > 1:
        own = [*(data.labels or names or range(y.shape[1]))]
        places = [own.index(name) if name in own else -1 for name in names or own]
        rows = np.pad(y.float().numpy(), ((0, 0), (0, 1)), constant_values=np.nan)[:, places]
        known = [None if np.isnan(row).all() else row for row in rows]
    elif y.is_floating_point():
        known = [None if math.isnan(number) else float(str(number)) for number in y.numpy()]
    else:
        own = data.labels or names or [str(number) for number in range(int(y.max()) + 1)]
        named = [own[number] if 0 <= number < len(own) else None for number in y.tolist()]
        unknown = {name for name in named if names and name is not None} - {*(names or ())}
        if unknown:
            count = sum(name in unknown for name in named)
            _LOG.warning(
                f"{data.name}: {count:,} labels are none of the classes that the model knows, and "
                f"count as not known: {shortened(sorted(unknown))}; it knows {shortened(names)}."
            )
        shown = dict(zip(names or own, whole_numbers(names or own), strict=True))
        known = [None if name in unknown else shown.get(name) for name in named]
    return None if all(each is None for each in known) else known


def match_relations(data: Dataset, names: list[str] | None) -> Dataset:
    """Return a data set whose relations, kinds of edges kept apart, are in the order of training.

    Args:
        data: what is read.
        names: of the relations of training, in order; None: they are not known.

    Raises:
        ZooError: the relations are others.
    """
    present = getattr(data, "relation_names", None)
    if names is None or present is None or list(present) == names:
        return data
    columns = _column_indices(data, "kinds of edges", present, names)
    graph = data.graph.local_var()
    graph.edata[WEIGHT] = graph.edata[WEIGHT][:, columns]
    return dataclasses.replace(data, graph=derived(graph, data.graph), relation_names=tuple(names))


def _reorder_features(data: Dataset, names: list[str] | None) -> Dataset:
    """Return a data set with its named features in the order of training."""
    present = data.feature_names
    if names is None or present is None or list(present) == names:
        return data
    columns = _column_indices(data, "features", present, names)
    x = _select_columns(data.x, columns)
    return dataclasses.replace(data, x=x, feature_names=tuple(names))


def _reorder_edge_features(data: Dataset | Samples, names: list[str] | None) -> Dataset | Samples:
    """Return many graphs with the named features of their edges in the order of training."""
    present = data.edge_feature_names
    if names is None or present is None or list(present) == names:
        return data
    if isinstance(data, Dataset):
        raise ZooError(
            f"{data.name} has the features of edges {', '.join(present)}, and the model reads "
            f"{', '.join(names)}; write `edge_features: [{', '.join(names)}]`."
        )
    columns = _column_indices(data, "features of edges", present, names)
    graphs = data.graphs.with_features(lambda features: _select_columns(features, columns))
    return dataclasses.replace(data, graphs=graphs, edge_feature_names=tuple(names))


def _column_indices(data: Dataset, kind: str, present: Sequence[str], names: list[str]) -> list:
    """Return where each name of training is; -1 for a label of nodes that none of many graphs has.

    Raises:
        ZooError: names are missing, or are not known to the model.
    """
    one_hot = isinstance(data, Samples) and any(name.startswith(OF_LABELS) for name in present)
    optional = OF_LABELS if one_hot else ()
    missing = [name for name in names if name not in present and not name.startswith(optional)]
    extra = [name for name in present if name not in names]
    if missing or extra:
        raise ZooError(
            f"{data.name} has {len(present)} {kind} and the model reads {len(names)}: "
            f"missing: {shortened(missing)}; not known to the model: {shortened(extra)}. Give the "
            f"graph the {kind} that the model was trained on."
        )
    return [present.index(name) if name in present else -1 for name in names]


def _select_columns(x: Tensor, columns: list[int]) -> Tensor:
    """Return columns of x (N, F); -1 is a column of zeros."""
    return (functional.pad(x, (0, 1)) if -1 in columns else x)[:, columns]
