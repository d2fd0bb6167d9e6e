"""A plan's data, ready to train on: the graph read once, its encoding, a split per seed."""

import contextlib
import dataclasses
import functools
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.canonical_form import WEIGHT
from zoo.config.learnt_columns import scaled_numbers, unscaled
from zoo.config.metadata import About, path_name
from zoo.config.options import Spec, pick
from zoo.config.recipe import word
from zoo.config.scores import declared_direction, lower_is_better
from zoo.data import Dataset
from zoo.data.features import far_from_standard
from zoo.data.links import LinkData, warn_of_few_links
from zoo.data.load import load_data, own_files, usual_structure
from zoo.data.snapshots import with_columns
from zoo.data.splits import (
    Split,
    check_parts,
    log_kept_nodes,
    split_files,
    split_of,
    warn_of_small_classes,
)
from zoo.encodings import Encoder, flip_signs
from zoo.errors import ZooError
from zoo.inference.matching import match_relations
from zoo.inference.training_data import split_from_start
from zoo.nn.readouts import VIRTUAL_NODE
from zoo.registry import MODELS, Model
from zoo.runs.resolve import Plan
from zoo.system.environment import PACKAGES, installed_version
from zoo.system.files import user_path
from zoo.tasks.labels import BLEU, CLASSIFICATION, GRAPHS, OF_GRAPHS, SEQUENCES, TRANSLATION
from zoo.tasks.links import OF_RECIPES
from zoo.tasks.losses import OWN, class_weights
from zoo.tasks.metrics import METRICS_OF
from zoo.tasks.task import TASKS, Task, with_loss, with_metric
from zoo.training.batches import BUILT_IN, TrainingData, identity
from zoo.training.links import check_tables
from zoo.training.trainer import Hooks
from zoo.weights.create import create_model, reads_edge_features, with_edge_dim, with_encoding
from zoo.weights.files import CONFIG, WEIGHTS, read_config, read_folder, sha256_of
from zoo.weights.finetune import Start, layered, same_columns
from zoo.weights.finetune import start as start_from
from zoo.weights.index import locate
from zoo.weights.save_and_load import describe_data, features_of
from zoo.weights.transfer import shortened


class Prepared(NamedTuple):
    """A plan's data, ready to train on: features with the encoding, and a split per seed."""

    plan: Plan
    data: Dataset
    task: Task
    splits: list[Split]
    augment: Callable[[Tensor], Tensor]
    about: About

    def fit_columns(self, split: Split) -> "Prepared":
        """Return it with the columns of a table encoded by the training nodes of a split."""
        data = self.data.trained_on(split.train)
        if data is self.data:
            return self
        if data.learnt is None:
            return self._replace(data=data)
        return self._replace(data=data, about=self.about.model_copy(update=features_of(data)))

    def training_data(self, split: Split) -> TrainingData:
        """Return what `fit` takes for one of the splits."""
        return TrainingData(self.data, split, self.task, self.augment)

    def hooks(self, model: Model, start: Start | None) -> Hooks:
        """Return the hooks of `fit` for what `build` returns; with trained weights layers differ.

        Weights that are loaded in part say nothing yet: chance would score well on few nodes.
        """
        if start is None:
            return Hooks()
        decay = self.plan.recipe.start_from.lr_decay
        return Hooks(parameter_groups=layered(model, decay), pretrained=not start.fresh)


def prepare(plan: Plan, data: Dataset | None = None) -> Prepared:
    """Read a plan's graph, compute its encoding and draw one split per seed.

    The `plan` of what is returned names the split that was taken.

    Args:
        plan: the plan.
        data: what is read, where it is known already.

    Raises:
        ZooError: the graph cannot be had, or cannot be split, or has no features; or what the plan
            imports was not run.
    """
    if plan.code is None:
        raise ZooError(
            f"{plan.recipe.name} imports code, {', '.join(plan.imports)}, which was not run; write "
            "`resolve(recipe, trust=True)`."
        )
    data = load_data(plan.dataset) if data is None else data
    data = _in_terms_of_weights(plan, data).with_graph(plan.graph)
    if plan.task is not None:
        data = LinkData.of(data, pick(OF_RECIPES, plan.task), plan.split)
    check_batching(plan, data)
    _warn(plan, data)
    _warn_of_structure(plan)
    plan = dataclasses.replace(plan, split=plan.split or _usual_split(plan, data))
    task = task_of(plan, data)
    check_task(plan, task)
    _say_which_way(task)
    seeds = plan.recipe.seeds
    try:
        splits = [split_of(data, plan.split, seed) for seed in seeds]
        check_parts(task, data, dict(zip(seeds, splits, strict=True)))
        for split in splits:
            class_weights(plan.train["class_weights"], task.kind, data.y[split.train], data.classes)
        warn_of_small_classes(data, plan.split)
        if plan.task:
            warn_of_few_links(data, splits[0])
            check_tables(TrainingData(data, splits[0], task))
        log_kept_nodes(plan.split, data)
    except ZooError as error:
        raise ZooError(f"dataset {plan.dataset['name']}: {error}") from None
    data = data.trained_on(splits[0].train)
    _warn_of_scales(plan, data)
    encoded = data.encoded(Encoder(plan.encoding))
    encoded_columns = encoded.inputs - data.inputs
    if encoded.inputs == 0:
        raise ZooError(
            f"{data.name} has no features to learn from; give its nodes some, or add an encoding, "
            "such as `encoding: {name: laplacian, k: 8}`."
        )
    augment = functools.partial(flip_signs, columns=encoded_columns)
    augment = augment if plan.flip_signs else identity
    if plan.readout and plan.readout["name"] == VIRTUAL_NODE:
        encoded = encoded.with_virtual_nodes()
    return Prepared(plan, encoded, task, splits, augment, _about(plan, data, task))


def _has_edges(graph) -> bool:
    """Return whether a canonical graph, of one self-loop per node, has any other edge."""
    return graph.num_edges() > graph.num_nodes()


def _usual_split(plan: Plan, data: Dataset) -> Spec:
    """Return the split of a plan that names none: of what weights know, that of these."""
    weights = plan.start_from and plan.start_from["weights"]
    return (weights and split_from_start(weights, plan.dataset, data)) or data.split


def _warn(plan: Plan, data: Dataset) -> None:
    """Say what makes a training less than it seems."""
    warn, name = logging.getLogger(__name__).warning, plan.model["name"]
    if data.edge_dim and not reads_edge_features(plan.model):
        warn(f"{name} ignores the features of edges of {data.name}; gat, gine and htgn read them.")
    graph = vars(getattr(data, "nodes", data)).get("graph")  # samples raise
    weighted = WEIGHT in getattr(graph, "edata", {})
    if weighted and not MODELS[name].edge_weights:
        warn(f"{name} ignores the weights and directions of edges of {data.name}; gcn counts them.")
    joined = word(plan.model.get("propagation") or "own") != "none" and not MODELS[name].alone
    if graph is not None and joined and plan.graph["name"] == "own" and not _has_edges(graph):
        warn(
            f"{data.name} has no edges, so that {name} has nothing to pass between nodes: see that "
            "they were read (`zoo data check`), or make some of the features, "
            "'graph={name: knn, k: 10}'."
        )
    if data.task in (CLASSIFICATION, GRAPHS, SEQUENCES) and data.classes == 1:
        warn(f"all labels of {data.name} are of one class, so that every model is right.")
    if plan.start_from is not None and getattr(data, "moments", None) is not None:
        weights = plan.start_from["weights"]
        moments = read_config(locate(weights).folder / CONFIG)["about"].moments
        if moments is not None and moments != data.moments.tolist():
            warn(
                f"`features: standard` is by the means and deviations of {data.name}, not those "
                f"of {weights}, which as loaded scores otherwise than by `zoo evaluate`."
            )


def _say_which_way(task: Task) -> None:
    """Say of a metric that is not the zoo's own whether more or less of it is better."""
    name, own = task.metric_name, {*task.own, BLEU}.union(*METRICS_OF.values())
    if name not in own:
        better = "less of it is better" if lower_is_better(name) else (
            "more of it is better; where less is, write "
            f"`METRICS[{name!r}].lower_is_better = True` beside it"
        )  # fmt: skip
        logging.getLogger(__name__).warning(f"{name} is a metric of your own: {better}.")


def _warn_of_structure(plan: Plan) -> None:
    """Say which encoding and which readout a set of graphs has unasked."""
    recipe, usual = plan.recipe, usual_structure(plan.dataset)
    unasked = [key for key in usual if getattr(recipe, key) is None]
    if unasked:
        words = [f"`{key}: {word(getattr(plan, key))}`" for key in unasked]
        logging.getLogger(__name__).warning(
            f"{plan.dataset['name']} is a set of graphs and has {' and '.join(words)} by default, "
            "so that models see the structure; name others, or none, to change that."
        )


def _warn_of_scales(plan: Plan, data: Dataset) -> None:
    """Say which numbers of a table are standardised unasked, or that a matrix ought to be."""
    warn, spec = logging.getLogger(__name__).warning, plan.recipe.dataset
    options = spec if isinstance(spec, dict) else {}
    columns = getattr(data, "columns", None)
    scaled = scaled_numbers(data.learnt) if columns else []
    of_nodes = "all nodes" if plan.task else "the training nodes"
    if scaled and "numbers" not in options:
        warn(
            f"numbers of {data.name} are standardised by {of_nodes} "
            f"({shortened(scaled, 4)}); `dataset.numbers=raw` leaves them as they are."
        )
    x = getattr(data, "x", None)
    raw = columns is None and plan.dataset.get("features") == "raw" and own_files(plan.dataset)
    if raw and isinstance(x, Tensor) and x.is_floating_point() and far_from_standard(x):
        warn(
            f"features of {data.name} lie apart in scale, or far from 0 and 1, and are taken as "
            "they are; `dataset.features=standard` standardises them."
        )


def reads_other_columns(plan: Plan, data: Dataset) -> bool:
    """Return whether the data of a plan have other features than the weights it starts from.

    For weights that know no features, none are others.
    """
    if MODELS[plan.model["name"]].any_graph:
        return False
    found = features_of(_in_terms_of_weights(plan, data))
    weights = read_config(locate(plan.start_from["weights"]).folder / CONFIG)["about"]
    return not same_columns(weights, About(**found))


def _in_terms_of_weights(plan: Plan, data: Dataset) -> Dataset:
    """Return data in the tokens, columns, kinds of edges of the weights to begin with, if any.

    What weights have learnt of columns is kept where the data have these columns, else forgotten.
    """
    if plan.start_from is None or MODELS[plan.model["name"]].any_graph:
        return data
    folder = locate(plan.start_from["weights"]).folder
    data = match_relations(data, read_config(folder / CONFIG)["about"].relation_names)
    if data.tokenizer is data.columns is None:
        return data
    stored = read_folder(folder, unverified=plan.start_from["unverified"])
    if data.tokenizer is None:
        learnt = stored.about.columns
        if learnt is None and data.feature_names == tuple(stored.about.feature_names or ()):
            learnt = unscaled(data.columns.fit())
        with contextlib.suppress(ZooError):
            if learnt is not None:
                return dataclasses.replace(data.with_columns(learnt), columns=None)
        return data
    if stored.tokenizer is None:
        return data
    from zoo.sequences.data import pairs, texts
    from zoo.sequences.data.tokenizer import Tokenizer

    retokenize = {TRANSLATION: pairs.retokenize, SEQUENCES: texts.retokenize}[data.task]
    return retokenize(data, Tokenizer(stored.tokenizer), plan.dataset["longest"])


def check_task(plan: Plan, task: Task) -> None:
    """Refuse a model that does not do what the data is for, and options that the task has not."""
    name = plan.model["name"]
    if plan.readout is not None and task.name not in OF_GRAPHS:
        raise ZooError(
            f"{plan.dataset['name']} has answers for nodes or links, and a readout makes one for "
            "each graph of a set; leave `readout` out."
        )
    if task.name not in MODELS[name].tasks:
        others = [other for other, model in MODELS.items() if task.name in model.tasks]
        raise ZooError(
            f"{name} is no model of the task {task.name}, which {plan.dataset['name']} is for; "
            f"choose from {', '.join(sorted(others))}."
        )
    if task.metric_name == "mrr" and word(plan.task["compared"]) == "file":
        raise ZooError(
            "mrr is the rank of a link among pairs of its own, and `compared: file` has the same "
            "for all; write `file-per-link`, or `train.metric=hits@50`."
        )
    if MODELS[name].alone and plan.dataset.get("readout") == "class-token":
        raise ZooError(
            f"{name} looks at each node by itself, and a class token has no features of its own, "
            "so that nothing would be learnt; write `readout: mean`."
        )


def task_of(plan: Plan, data: Dataset) -> Task:
    """Return the task of data, with the loss and the metric of a plan.

    Raises:
        ZooError: they are none of such labels.
    """
    train = plan.train
    task = data.how if plan.task else pick(TASKS, data.task)
    task = with_loss(task, train["loss"], train["label_smoothing"])
    published = not plan.task and train["metric"] == OWN
    return with_metric(task, data.metric if published else train["metric"])


def check_batching(plan: Plan, data: Dataset) -> None:
    """Refuse a mini-batch strategy that is not one for this kind of data."""
    batching = word(plan.train["batching"])
    if batching in BUILT_IN and batching not in data.batching:
        first, *others = data.batching
        more = f", or one of {', '.join(others)}" if others else ""
        raise ZooError(
            f"{data.name} is not trained by `batching: {batching}`; write `train.batching={first}`"
            f"{more}."
        )
    if plan.train["evaluate"] == "layerwise" and "full" not in data.batching:
        raise ZooError(
            f"{data.name} is not evaluated layer by layer, which is for one large graph; leave "
            "`evaluate` out."
        )


def _about(plan: Plan, data: Dataset, task: Task) -> About:
    """Return what the weights of a plan's runs will have to say of themselves."""
    return About(
        **describe_data(data, plan.model),
        metric=task.metric_name,
        lower_is_better=declared_direction(task.metric_name),
        graph=plan.graph,
        encoding=plan.encoding,
        recipe=plan.plain(),
        files={
            **{path_name(path): sha256 for path, sha256 in plan.code.items()},
            **hash_files(plan),
        }
        or None,
        versions={name: installed_version(name) for name in PACKAGES},
    )


def hash_files(plan: Plan) -> dict[str, str]:
    """Return the SHA-256 of one's own data, and of weights to start from, by their names."""
    paths = [user_path(plan.graph["path"])] if "path" in plan.graph else []
    paths += [*split_files(plan.split).values(), *_files_of_negatives(plan)]
    paths = [*own_files(plan.dataset), *(path for path in paths if path.is_file())]
    names = [path.name for path in paths]
    digests = {
        name if names.count(name) == 1 else f"{path.parent.name}/{name}": sha256_of(path)
        for name, path in zip(names, paths, strict=True)
    }
    if plan.start_from is not None:
        weights = plan.start_from["weights"]
        digests[path_name(weights)] = sha256_of(locate(weights).folder / WEIGHTS)
    return digests


def _files_of_negatives(plan: Plan) -> list[Path]:
    specs = [plan.task[key] for key in ("negatives", "compared")] if plan.task else []
    return [user_path(spec["path"]) for spec in specs if isinstance(spec, dict) and "path" in spec]


def hash_data_files(plan: Plan, recorded: dict[str, str] | None = None) -> dict[str, str]:
    """Return the SHA-256 of a plan's own data alone, as a run has recorded them or as now."""
    if recorded is None:
        return hash_files(dataclasses.replace(plan, split=None, task=None, start_from=None))
    others = [*plan.imports, *([plan.start_from["weights"]] if plan.start_from else [])]
    others += [*split_files(plan.split).values(), *_files_of_negatives(plan)]
    names = {path_name(path) for path in others}
    return {name: recorded[name] for name in recorded.keys() - names}


def check_same_files(recorded: dict[str, str] | None, plan: Plan) -> dict[str, str]:
    """Return the SHA-256 of a plan's files of data.

    Args:
        recorded: those of the beginning; None where that is now.
        plan: what is trained.

    Raises:
        ZooError: one is not as it was in the beginning.
    """
    now = hash_files(dataclasses.replace(plan, start_from=None))  # of weights `write_start` tells
    if other := sorted(
        name for name, sha256 in now.items() if (recorded or now).get(name) != sha256
    ):
        raise ZooError(
            f"{other[0]} is not as it was when this was begun, and its scores would be of "
            "different data. Put the former file back, or begin anew."
        )
    return now


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def build(prepared: Prepared) -> tuple[Model, Start | None]:
    """Return a new model of a plan, and what it starts from where that is other weights."""
    recipe, outputs = prepared.plan.recipe, prepared.task.outputs(prepared.data.classes)
    options = dict(recipe.model) if isinstance(recipe.model, dict) else {"name": recipe.model}
    name = options.pop("name")
    options = with_edge_dim(name, options, prepared.data.edge_dim)
    options = with_encoding(options, prepared.plan.encoding)
    options = with_columns(name, options, prepared.data)
    if prepared.task.kind == "links":
        options["decoder"] = prepared.data.how.decoder
    if prepared.plan.readout is not None:
        options["readout"] = prepared.plan.readout
    model = create_model(name, prepared.data.inputs, outputs, **options)
    if recipe.start_from is None:
        return model, None
    return model, start_from(model, name, recipe.start_from, prepared.about)
