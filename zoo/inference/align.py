"""A graph as a trained model reads it: features in its order, its encoding, its classes."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from zoo.canonical_form import WEIGHT, derived
from zoo.config.learnt_columns import scales, unscaled
from zoo.config.metadata import About
from zoo.config.options import Count, pick, value_problems
from zoo.config.recipe import word
from zoo.datasets import Dataset
from zoo.datasets.canonical import side_by_side
from zoo.datasets.files.graph_set_arrays import OF_LABELS
from zoo.datasets.files.labels import REGRESSION, TRANSLATION
from zoo.datasets.samples import Samples
from zoo.datasets.texts import LONGEST, in_tokens_of
from zoo.datasets.tokenizer import Tokenizer
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.weights.transfer import listed


def fitted(model: Model, data: Dataset, context: Dataset | None = None) -> Dataset:
    """Return a data set as the model reads it: its features transformed, the encoding beside them.

    Args:
        model: with what is known of its training.
        data: what it is asked about.
        context: nodes that it is to see besides; they come first, without edges to the others but
            where the graph is made of the features.

    Raises:
        ZooError: the features are not those that the model was trained on.
    """
    about, width = model.about, model.config["in_dim"]
    data = _read(model, data)
    if about.features is None:
        return data
    data = data if context is None else _joined(_read(model, context), data)
    data = _on_its_graph(data, about)
    data = data.encoded(lambda graph: pick(ENCODINGS, about.encoding, graph))
    if data.inputs != width:
        raise ZooError(
            f"with the encoding {about.encoding} {data.name} has {data.inputs} columns, and "
            f"the model reads {width}: its config.json contradicts itself; copy or train it again."
        )
    return data


def _read(model: Model, data: Dataset) -> Dataset:
    """Return a data set with the features of training, in their order, transformed."""
    about, width = model.about, model.config["in_dim"]
    _check_task(model, data)
    if data.tokenizer is not None:
        data = _in_tokens(model, data)
    if about.features is None:
        _check_width(data, width, "")
        return data
    if about.columns is not None and data.columns is not None:
        for each in getattr(data.columns, "unseen", lambda learnt: ())(about.columns):
            logging.getLogger(__name__).warning("%s: %s.", data.name, each)
        data = data.with_columns(about.columns)
    else:
        if about.columns is None and data.columns is not None:
            data = data.with_columns(unscaled(data.columns.learnt()))
        _check_scales(about, data)
    data = _in_order(data, about.feature_names)
    data = _edges_in_order(data, about.edge_feature_names)
    data = relations_in_order(data, about.relation_names)
    encoding = word(about.encoding)
    adds = "" if encoding == "none" else f" (it adds the encoding {encoding} itself)"
    _check_width(data, about.features, adds)
    if data.transform != about.transform:
        if data.transform != "raw":
            raise ZooError(
                f"{data.name}: its features were transformed by {data.transform!r}, those that the "
                f"model was trained on by {about.transform!r}; load the graph without `features`."
            )
        data = data.transformed(about.transform, _moments(about, data))
    elif about.moments and data.moments is not None and data.moments.tolist() != about.moments:
        logging.getLogger(__name__).warning(
            "%s is standardised by its own means and deviations, not by those of training; leave "
            "`features` out.", data.name,
        )  # fmt: skip
    return data


def _check_task(model: Model, data: Dataset) -> None:
    """Refuse data that the model, or its weights, are not for."""
    about = model.about
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
    if about.task and about.task.partition("-")[0] != data.task.partition("-")[0]:
        raise ZooError(f"the weights are of {about.task}, and {data.name} is for {data.task}.")


def _check_scales(about: About, data: Dataset) -> None:
    """Refuse features that stand as they are, where training has learnt by which scale to read."""
    wanted, held = scales(about.columns), scales(getattr(data, "learnt", None))
    if wanted == held:
        return
    if not wanted:
        if data.columns is None:
            logging.getLogger(__name__).warning(
                "%s was written with numbers in a scale of their own (%s), and the weights say of "
                "none; name the table itself if they read it as it is.",
                data.name, listed([each.name for each in held]),
            )  # fmt: skip
        return
    scale = "by a scale of its own" if held else "as they are"
    raise ZooError(
        f"{data.name} holds its features {scale}, and the model reads "
        f"{listed([each.name for each in wanted])} by the scale that it has learnt of a table; "
        "name the table itself, such as --data TABLE.csv, and it is read by that."
    )


def _moments(about: About, data: Dataset) -> Tensor | None:
    """Return the means and deviations of training, None where the weights do not hold them."""
    if about.moments is not None:
        return torch.tensor(about.moments, dtype=torch.float64)
    if word(about.transform) == "standard":
        logging.getLogger(__name__).warning(
            "the weights do not hold the means and deviations of their training; those of %s "
            "stand in for them.", data.name,
        )  # fmt: skip
    return None


def _joined(context: Dataset, data: Dataset) -> Dataset:
    """Return the nodes of a context and those of a data set, in this order, as one data set."""
    x = torch.cat([context.x.float(), data.x.float()])
    unknown = torch.nan if data.y.is_floating_point() else -1
    y = torch.cat([data.y.new_full((len(context.y), *data.y.shape[1:]), unknown), data.y])
    graph = side_by_side([context.graph, data.graph])
    return dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)


def _on_its_graph(data: Dataset, about: About) -> Dataset:
    """Return a data set with the graph that the weights make; edges of a file it has to bring."""
    trained_on, kind = (about.recipe or {}).get("dataset"), word(about.graph)
    named = isinstance(trained_on, Mapping) and trained_on.get("edges") is not None
    own_file = kind == "file" or (kind == "own" and named)
    if own_file and isinstance(data, Dataset) and data.graph.num_edges() == len(data.x):
        raise ZooError(
            f"the weights were trained on the edges of a file, and {data.name} has none; name "
            "them, such as --data '{name: samples.csv, edges: edges.csv}'."
        )
    return data if kind == "file" else data.with_graph(about.graph)


def numbered(model: Model, data: Dataset) -> Tensor:
    """Return the labels of a data set in the numbers of the model, matched by name where known.

    Raises:
        ZooError: the data set has classes or targets that the model does not know.
    """
    ours, theirs = model.about.labels, data.labels
    classes = model.config["out_dim"] if data.task != "node-binary" else 2
    targets = data.y.shape[1] if data.y.ndim == 2 else 1
    if (data.y.ndim == 2 or data.task == REGRESSION) and targets != classes:
        raise ZooError(f"{data.name} has {targets} targets and the model {classes}.")
    if not ours or not theirs or list(theirs) == ours:
        _check_numbers(model.about, data, classes)
        return data.y
    if data.y.ndim == 2:
        raise ZooError(f"{data.name} has the targets {listed(list(theirs))}; not {listed(ours)}.")
    used = [theirs[each] for each in data.y.unique().tolist() if each >= 0]
    unknown = [name for name in used if name not in ours]
    if unknown:
        raise ZooError(
            f"{data.name} has classes that the model was not trained on: {listed(unknown)}; it "
            f"knows {listed(ours)}. Fine-tune it with `zoo finetune`, or leave their labels out."
        )
    numbers = torch.tensor([ours.index(name) if name in ours else -1 for name in (*theirs, "")])
    return numbers[data.y]  # -1, unknown, is the last


def _check_numbers(about: About, data: Dataset, classes: int) -> None:
    """Refuse numbers of classes that a model does not know; warn where names stand for them."""
    if data.y.ndim == 2 or data.y.is_floating_point():
        return
    if (most := int(data.y.max())) >= classes:
        raise ZooError(f"{data.name} has the class {most}; the model knows {classes}.")
    if data.labels and class_names(about, data) is None:
        logging.getLogger(__name__).warning(
            f"the classes of {data.name} have names and those that the model knows have none: "
            f"{data.labels[0]} is taken for its class 0, and so on in this order."
        )


def class_names(about: About, data: Dataset) -> list[str] | None:
    """Return what classes, or targets, are called: by training, or by the data of training."""
    if about.labels is not None:
        return about.labels
    return list(data.labels) if data.labels and about.data in (None, data.name) else None


def _in_tokens(model: Model, data: Samples) -> Samples:
    """Cut texts into the tokens of training."""
    if model.tokenizer is None:
        raise ZooError(
            f"{data.name} is texts, and the weights have no `tokenizer.json`, without which none "
            "can be read; take the folder that training has written."
        )
    recipe = (model.about.recipe or {}).get("dataset")
    longest = recipe.get("longest") if isinstance(recipe, dict) else None
    longest = LONGEST if value_problems(Count, longest, ()) else longest
    return in_tokens_of(data, Tokenizer(model.tokenizer), longest)


def _in_order(data: Dataset, names: list[str] | None) -> Dataset:
    """Put named features into the order of training."""
    held = data.feature_names
    if names is None or held is None or list(held) == names:
        return data
    columns = _columns(data, "features", held, names)
    return dataclasses.replace(data, x=_chosen(data.x, columns), feature_names=tuple(names))


def _edges_in_order(data: Dataset | Samples, names: list[str] | None) -> Dataset | Samples:
    """Put named features of the edges of many graphs into the order of training.

    Raises:
        ZooError: they are others; or, of one graph, in another order.
    """
    held = data.edge_feature_names
    if names is None or held is None or list(held) == names:
        return data
    if isinstance(data, Dataset):
        raise ZooError(
            f"{data.name} has the features of edges {', '.join(held)}, and the model reads "
            f"{', '.join(names)}; write `edge_features: [{', '.join(names)}]`."
        )
    columns = _columns(data, "features of edges", held, names)
    graphs = data.graphs.with_features(lambda features: _chosen(features, columns))
    return dataclasses.replace(data, graphs=graphs, edge_feature_names=tuple(names))


def relations_in_order(data: Dataset, names: list[str] | None) -> Dataset:
    """Put kinds of edges that are kept apart into the order of training, by their names.

    Args:
        data: what is read.
        names: of the kinds of training, in order; None: they are not known.

    Raises:
        ZooError: the kinds are others.
    """
    held = getattr(data, "relation_names", None)
    if names is None or held is None or list(held) == names:
        return data
    columns = _columns(data, "kinds of edges", held, names)
    graph = data.graph.local_var()
    graph.edata[WEIGHT] = graph.edata[WEIGHT][:, columns]
    return dataclasses.replace(data, graph=derived(graph, data.graph), relation_names=tuple(names))


def _columns(data: Dataset, what: str, held: Sequence[str], names: list[str]) -> list[int]:
    """Return where the features of training are; -1: a label that none of many graphs has."""
    labelled = isinstance(data, Samples) and any(name.startswith(OF_LABELS) for name in held)
    labels = OF_LABELS if labelled else ()
    missing = [name for name in names if name not in held and not name.startswith(labels)]
    extra = [name for name in held if name not in names]
    if missing or extra:
        raise ZooError(
            f"{data.name} has {len(held)} {what} and the model reads {len(names)}: "
            f"missing: {listed(missing)}; not known to the model: {listed(extra)}. Give the graph "
            f"the {what} that the model was trained on."
        )
    return [held.index(name) if name in held else -1 for name in names]


def _chosen(x: Tensor, columns: list[int]) -> Tensor:
    """Return columns of x (N, F); -1 is one of zeros."""
    return (functional.pad(x, (0, 1)) if -1 in columns else x)[:, columns]


def _check_width(data: Dataset, wanted: int, remark: str) -> None:
    if data.inputs != wanted:
        raise ZooError(
            f"{data.name} has {data.inputs} features per node and the model reads {wanted}"
            f"{remark}. Give the graph the features that the model was trained on; `zoo finetune` "
            "adapts the model to others."
        )
