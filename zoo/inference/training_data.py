"""The data that weights were trained on: their options, their split, and which nodes were seen."""

import contextlib
import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.learnt_columns import as_options
from zoo.config.metadata import About
from zoo.config.options import Spec, options_of
from zoo.config.recipe import divide, read_recipe, word
from zoo.data import Dataset
from zoo.data.files.graph_arrays import OF_DEGREE
from zoo.data.files.text_lines import Texts
from zoo.data.known_nodes import (
    DAMAGE,
    LEFT_OUT,
    NODES,
    KnownNodes,
    describe_nodes,
    read_known,
    read_known_or_none,
)
from zoo.data.load import DATASETS, load_data, own_files, resolved_dataset
from zoo.data.load.by_name import common_options
from zoo.data.load.images import OF_PATCHES
from zoo.data.load.named import path_of
from zoo.data.load.readers import dataset_reader, graph_reader
from zoo.data.splits import KEPT, PARTS, Split, labelled_nodes, split_files, split_of
from zoo.data.tables.columns import OF_NODES, OF_TEXT, list_names
from zoo.data.tables.nodes_and_edges import (
    has_graph_table,
    kinds_of,
    node_columns,
    read_tables,
)
from zoo.data.tables.read import CsvFormat
from zoo.errors import ZooError
from zoo.inference.matching import class_names, known_labels
from zoo.registry import Model
from zoo.tasks.labels import GRAPH_METRICS, GRAPHS, LINKS
from zoo.weights.files import CONFIG, changed_files, read_config, read_json, sha256_of
from zoo.weights.index import locate

_LOG = logging.getLogger(__name__)

MOST_NODES = 1_000_000
"""Nodes of a graph up to which a run notes which they were."""

_OF_ONE_FILE = {"name", "nodes", "edges", "path", "features", "split"}
"""Options of the files of training alone, or known to the weights."""

_OF_EDGES = ("weight", "weights", "edge_features", "source", "target")
_OF_COLUMNS = ("id", "label", "columns", *OF_NODES, *OF_TEXT)
_PATHS = ("nodes", "edges", "terms_of", "path")
_LISTS = ("label", "columns", *OF_TEXT, "edge_features")
_OPTION_OF_KIND = {"category": "one_hot", "hashed": "one_hot", "text": "text", "date": "dates"}


class Training(NamedTuple):
    """What is known of a training.

    Attributes:
        about: of its weights.
        spec: of the data, with their split; None: not known.
        folder: of the weights, in that of their run; None: not known.
    """

    about: About
    spec: Spec | None
    folder: Path | None


def training_of(weights: str) -> Training:
    """Return what is known of the training of weights, by their name or folder."""
    folder = locate(weights).folder
    return Training(read_config(folder / CONFIG)["about"], training_spec(folder), folder)


def training_spec(folder: Path) -> Spec | None:
    """Return the data that weights were trained on as a recipe names them; None if not known."""
    recipe = read_config(folder / CONFIG)["about"].recipe or {}
    return dataset_of_run(folder) or recipe.get("dataset")


def dataset_of_run(folder: Path) -> Spec | None:
    """Return the data of a run as its own recipe names them; None for weights outside of a run.

    A split that keeps the parts of another run is that of this run, which has noted them: the other
    may be gone.
    """
    path = folder.parent / "recipe.yaml"
    if not folder.name.startswith("seed-") or not path.is_file():
        return None
    spec = read_recipe(path).dataset
    split = spec.get("split") if isinstance(spec, Mapping) else None
    if not isinstance(split, Mapping) or word(split) != KEPT:
        return spec
    known = read_known_or_none(folder)
    if known is None or known.parts is None:
        return spec
    return {**spec, "split": {**split, "run": str(folder.resolve())}}


def spec_of_training(about: About, spec: Spec | None) -> Spec:
    """Return the spec of the data that weights were trained on.

    Raises:
        ZooError: nothing is known of them, or other files lie in their place.
    """
    if word(about.graph) == "file":
        raise ZooError(
            "the weights were trained on the edges of a file, which are not with them; write "
            "--data with these edges, such as '{name: samples.csv, edges: edges.csv}'."
        )
    spec = spec or (about.recipe or {}).get("dataset")
    if not isinstance(spec, str | dict):
        raise ZooError("what the weights were trained on is not known; write --data GRAPH, which "
                       "`zoo evaluate` takes.")  # fmt: skip
    name = spec if isinstance(spec, str) else spec.get("path") or spec.get("name")
    if name in DATASETS:
        return spec
    lost = f"the weights were trained on {name!r}, and where it lies is not said with them"
    if not own_files(spec):
        raise ZooError(f"{lost}; write --data GRAPH, as of `zoo evaluate`, or put {name} back.")
    if changed := _changed_data(spec, about):
        raise ZooError(
            f"{lost}: {changed[0]} is another file, its SHA-256 differs. Write --data PATH, or put "
            f"the former file back; `--data {shlex.quote(str(name))}` if it is to be that one."
        )
    return spec


def _changed_data(spec: Spec, about: About) -> list[Path]:
    """Return the files of data, and of their split, that were others at the training."""
    split = spec.get("split") if isinstance(spec, Mapping) else None
    return changed_files([*own_files(spec), *split_files(split).values()], about)


# New data, read with the options of training


def read_as_trained(model: Model, folder: Path, spec: Spec) -> tuple[Dataset, Dataset | None]:
    """Return data read with the options of training, and what the model sees besides, or None.

    Args:
        model: as `zoo.load` gives it.
        folder: of its weights.
        spec: of the data.
    """
    trained_on = training_spec(folder) or {}  # of a loop of one's own it is not known
    spec, _ = divide(as_trained(spec, trained_on, model.about), ("split",))
    data, inductive = load_data(spec), training_part(model, dataset_of_run(folder))
    if inductive is None or same_nodes(data, inductive[0]):
        return data, None
    whole, train = inductive
    return data, whole.part(train)


def given_nodes(model: Model, folder: Path, spec: Spec, data: Dataset) -> Tensor | None:
    """Return the training nodes (n,) if data are those of training and the model is given labels.

    None where it is given none, and on other data, where it is given all that there are.
    """
    if not model.context:
        return None
    training = Training(model.about, training_spec(folder), folder)
    spec, _ = divide(as_trained(spec, training.spec), ("split",))
    split = training_split(spec, training)
    if split is None:
        return None
    return split_of(data, split.get("split", data.split), model.about.seed or 0).train


def as_trained(
    spec: Spec, trained_on: Spec | None, about: About | None = None, *, same_columns: bool = True
) -> Spec:
    """Return the spec of a user's files with the options of the data of training.

    What the spec says itself counts first, then the data of training, then the weights, which know
    how a table is read that `zoo data prepare` has written elsewhere. Columns that a table does not
    have are left out. Of `texts` and `images` it is how sequences and patches are made.

    Args:
        spec: of the data.
        trained_on: of the data of training.
        about: of the weights; None: only what `trained_on` says.
        same_columns: take the columns that the weights read as the features of a table, and the
            step of their series; False: new columns are features too.

    Raises:
        ZooError: there is no such file.
    """
    name = spec["name"] if isinstance(spec, Mapping) else spec
    of_sets = about is not None and about.task in GRAPH_METRICS  # which know of degrees
    trained_on = {"name": trained_on} if isinstance(trained_on, str) and of_sets else trained_on
    if not isinstance(trained_on, Mapping) or not isinstance(name, str):
        return spec
    own = dict(spec) if isinstance(spec, Mapping) else {}
    if name in DATASETS:
        options = {"texts": ("longest", "window", "skip"), "images": OF_PATCHES}.get(name, ())
        kept = {key: trained_on[key] for key in options if key in trained_on}
        return {"name": name, **kept, **own} if kept else spec
    path = path_of(name)
    if not path.exists():
        return spec
    if about is not None:
        trained_on = {**_options_of_columns(about), **trained_on}
    read = about if same_columns else None
    columns, step = (None, None) if read is None else (columns_read(read), read.step)
    if reader := dataset_reader(path, trained_on):
        kept = _options_of_whole(trained_on, own, options_of(reader), step)
        if kept is not None and "degrees" in options_of(reader):
            kept = _options_of_set(path, kept, own, columns, read and read.feature_names)
        return spec if kept is None else {**kept, **own, "name": name}
    reader = graph_reader(path)
    options = {*options_of(reader), *options_of(common_options)} - _OF_ONE_FILE
    kept = {key: value for key, value in trained_on.items() if key in options}
    if "nodes" in options_of(reader) and "nodes" not in own:  # a table, whose column it is
        kept.pop("label", None)
    if reader is read_tables:
        kept = _options_of_table(path, kept, own, columns)
    if columns == [Texts.name]:  # whose terms the weights hold
        kept.pop("terms_of", None)
    return {**kept, **own, "name": name}


def _options_of_whole(
    trained_on: Mapping[str, Any], own: Mapping[str, Any], options: Iterable[str], step: str | None
) -> dict[str, Any] | None:
    """Return the options of training of what is no single graph; None where they do not fit."""
    kept = dict(trained_on)
    if word(kept.get("split", "")) == KEPT:  # of these nodes, and of no others
        del kept["split"]
    if not {*kept, *own} <= {"name", "split", *options}:
        return None
    return {**kept, "step": step} if step and "step" in options else kept


def _options_of_set(
    path: Path,
    options: dict[str, Any],
    own: Mapping[str, Any],
    columns: Sequence[str] | None,
    features: Sequence[str] | None,
) -> dict[str, Any]:
    """Return those of the options of training that other graphs can have.

    Columns of degrees are those that the weights read, whatever the features of these graphs, and
    the weights know what is done to features.
    """
    tables = has_graph_table(path)
    options = {key: value for key, value in options.items() if key != "features"}
    options = _options_of_table(path, options, own, columns) if tables else options
    if features is None:
        return options
    degrees = sum(name.startswith(OF_DEGREE) for name in features)
    no_others = {"columns": []} if tables and degrees == len(features) else {}
    return {**options, **no_others, "degrees": max(degrees - 1, 0)}


def _options_of_columns(about: About) -> dict[str, Any]:
    """Return the options of a table that is read as the columns of weights were learnt."""
    if not about.columns:
        return {}
    kinds = [f"{name.removeprefix('kind=')}." for name in about.feature_names or ()
             if name.startswith("kind=")]  # fmt: skip
    options: dict[str, Any] = {}
    for column in about.columns:
        prefix = next((kind for kind in kinds if column.name.startswith(kind)), "")
        if option := _OPTION_OF_KIND.get(column.kind):
            options.setdefault(option, []).append(column.name.removeprefix(prefix))
    return {**options, **as_options(about.columns)}


def _options_of_table(
    path: Path, options: dict[str, Any], own: Mapping[str, Any], columns: Sequence[str] | None
) -> dict[str, Any]:
    """Return those of the options of training that another table can have."""
    if not path.is_dir() and "edges" not in own:
        options = {key: value for key, value in options.items() if key not in _OF_EDGES}
    csv_format = CsvFormat({**options, **own}.get("separator"))
    present = {*node_columns(path, csv_format)}
    options = {key: _present_columns(key, value, present) for key, value in options.items()}
    several_kinds = path.is_dir() and kinds_of(path)
    if columns and not options.get("columns") and {*columns} <= present and not several_kinds:
        options["columns"] = [*columns]
    return {key: value for key, value in options.items() if value not in (None, [])}


def _present_columns(option: str, value: Any, present: set[str]) -> Any:
    """Return the columns of an option that a table has; of labels all of them, or None."""
    if option not in _OF_COLUMNS or value is None:
        return value
    names = list_names(value)
    if option == "label":  # of one of several kinds of nodes it is `kind.column`
        plain = {name if name in present else name.partition(".")[2] for name in names}
        return value if plain <= present else None
    names = [name for name in names if name in present]
    return names[0] if names and option in ("id", *OF_NODES) else names


def columns_read(about: About) -> list[str] | None:
    """Return the columns of a table of nodes that weights read; None where they do not know."""
    return [column.name for column in about.columns] if about.columns else about.feature_names


def same_nodes(data: Dataset, other: Dataset) -> bool:
    """Return whether two data sets have the same nodes, by their name and features."""
    same_kind = data.name == other.name and data.x.dtype == other.x.dtype
    return same_kind and torch.equal(data.x, other.x)


def training_part(model: Model, trained_on: Spec | None) -> tuple[Dataset, Tensor] | None:
    """Return the data of a training with `inductive` and its training nodes; None of any other.

    Raises:
        ZooError: the data of training cannot be found.
    """
    train = (model.about.recipe or {}).get("train")
    if not isinstance(train, dict) or train.get("inductive") is not True:
        return None
    try:
        spec, split = divide(spec_of_training(model.about, trained_on), ("split",))
    except ZooError as error:
        raise ZooError(
            "the model was trained with `inductive`, and sees its training nodes beside those that "
            f"it is asked about: {str(error).partition(';')[0]}. Put these data where they were."
        ) from None
    data = load_data(spec)
    return data, split_of(data, split.get("split", data.split), model.about.seed or 0).train


# The split of training


def training_split(spec: Spec, training: Training) -> dict[str, Any] | None:
    """Return the `split` of training if data are those of training, else None; it may be empty.

    They are if their options and the content of their files are the same, wherever these lie now.

    Args:
        spec: of the data, without a split.
        training: with the checksums of the files then.
    """
    split = _split_if_same_options(spec, training.spec)
    if split is None or changed_files(split_files(split.get("split")).values(), training.about):
        return None
    if word(split.get("split", "")) == KEPT and not _is_readable(split["split"]["run"]):
        return None  # the nodes have not come with the weights
    if _same_place(spec, training.spec):
        return None if _changed_data(spec, training.about) else split
    return split if _files_were_read(spec, training.about, all) else None


def split_of_same_rows(
    spec: Spec, trained_on: Spec | None, data: Any = None
) -> dict[str, Any] | None:
    """Return the `split` of training where other options make other data of the same rows.

    Such are named data with other edges or features, whose labels are those of training.

    Args:
        spec: of the data, without a split.
        trained_on: of the data of training, with its split.
        data: which the spec is of; None: it is read where that is needed.
    """
    if not isinstance(trained_on, str | Mapping):
        return None
    theirs, split = divide(trained_on, ("split",))
    names = {_name_of(theirs), _name_of(spec)}
    if len(names) > 1 or names.isdisjoint(DATASETS):
        return None
    with contextlib.suppress(ZooError):  # its files are not here
        data = load_data(spec) if data is None else data
        return split if torch.equal(load_data(theirs).y, data.y) else None
    return None


def split_from_start(weights: str, spec: Spec, data: Any) -> Spec | None:
    """Return the split in which nodes that weights know keep their parts; None if none is known.

    For the very data of training, and for data with a split of their own, it is None.

    Args:
        weights: which a fine-tuning starts from.
        spec: of its data, without a split.
        data: which the spec is of.

    Raises:
        ZooError: what the run has noted of its nodes is damaged.
    """
    training = training_of(weights)
    if data.masks is not None or training_split(spec, training) is not None:
        return None
    path = training.folder.parent / NODES
    if path.is_file() and not _is_readable(training.folder):
        raise ZooError(
            f"{path} is damaged, so that nobody knows which nodes {weights} was trained on; put "
            "back a copy, or write which `split` is to be taken."
        )
    known = _match_known_nodes(training, spec, None, data)
    if known is None or known[0].parts is None or not (known[1] >= 0).any():
        return None
    new = _split_for_new_nodes(training, data)
    return {"name": KEPT, "run": str(training.folder.resolve()), "new": new}


def known_parts(training: Training, spec: Spec, data: Any) -> dict[str, Tensor]:
    """Return the labelled nodes (n,) of each part of a training that are among other data.

    None, an empty mapping, where nothing says them, and for data with a split of their own.

    Args:
        training: that of the weights.
        spec: of the data, without a split.
        data: which the spec is of.
    """
    known = None if data.masks is not None else _match_known_nodes(training, spec, None, data)
    if known is None or known[0].parts is None or not (known[1] >= 0).any():
        return {}
    nodes = labelled_nodes(data.y.numpy())
    numbers = np.where(known[1] >= 0, known[0].parts[known[1]], LEFT_OUT)[nodes]
    return {part: torch.from_numpy(nodes[numbers == place]) for place, part in enumerate(PARTS)}


def _split_for_new_nodes(training: Training, data: Any) -> Spec:
    """Return the split of a training, where it is one for any nodes; else that of the data."""
    split = training.spec.get("split") if isinstance(training.spec, Mapping) else None
    if isinstance(split, Mapping) and word(split) == KEPT:
        split = split.get("new")
    kind = split and re.match(r"ratio|stratified|folds|group|scaffold|time", word(split))
    needed = {
        "group": data.groups,
        "scaffold": getattr(data, "smiles", None),
        "time": data.times,
    }
    return split if kind and needed.get(kind[0], ()) is not None else data.split


def _split_if_same_options(spec: Spec, trained_on: Spec | None) -> dict[str, Any] | None:
    """Return the split of training where data are, by their options, those of training."""
    if not isinstance(trained_on, str | Mapping):
        return None
    theirs, split = divide(trained_on, ("split",))
    names = [_name_of(theirs), _name_of(spec)]
    if names[0] != names[1] and not DATASETS.keys().isdisjoint(names):
        return None
    try:
        same = _comparable_options(theirs, names[1]) == _comparable_options(spec, names[1])
    except ZooError:  # the data are not here
        return None
    return split if same else None


def _comparable_options(spec: Spec, name: str) -> dict[str, Any]:
    """Return every option of data, except what weights know of it and where its files lie.

    Args:
        spec: of the data.
        name: where they are now, which says what reads them.
    """
    options = resolved_dataset({**(spec if isinstance(spec, Mapping) else {}), "name": name})
    options.pop("features", None)
    if options.get("task") == GRAPHS:  # which was written out where it was the only one
        options["task"] = None
    options |= {key: True for key in _PATHS if isinstance(options.get(key), str)}
    return options | {key: list_names(options[key]) for key in _LISTS if key in options}


def _name_of(spec: Spec) -> str:
    return spec if isinstance(spec, str) else spec["name"]


def _same_place(spec: Spec, trained_on: Spec) -> bool:
    """Return whether data and those of training have the same paths, or the same name."""
    try:
        return _places(spec) == _places(trained_on)
    except ZooError:  # no disk here has such a path
        return False


def _places(spec: Spec) -> dict[str, str]:
    """Return the paths of the files of data; of named data the name."""
    options = {"name": spec} if isinstance(spec, str) else spec
    places = {key: options[key] for key in ("name", *_PATHS) if isinstance(options.get(key), str)}
    for key, place in places.items():
        if place not in DATASETS and (path := path_of(place)).exists():
            places[key] = str(path.resolve())
    return places


def _files_were_read(spec: Spec, about: About, every) -> bool:
    """Return whether all files of data (`every=all`) or any were those of training, by SHA-256."""
    files, known = own_files(spec), {*(about.files or {}).values()}
    return bool(files) and bool(known) and every(sha256_of(path) in known for path in files)


# Which nodes the training has seen


def new_nodes(folder: Path | None, data: Dataset) -> np.ndarray:
    """Return which nodes of a data set were not there at the training, (N,) bool.

    They are known by their ids, and their kinds if there are several; without ids by their numbers.

    Args:
        folder: of weights in the folder of their run; None of weights that are in none.
        data: what has grown since.

    Raises:
        ZooError: the run does not say which nodes it had.
    """
    path = folder and folder.parent / NODES
    if path is None or not path.is_file():
        raise ZooError(
            f"--only-new needs {NODES}, which the run of a graph of your own has in its folder; "
            "name a seed of this run as it was written."
        )
    try:
        known = read_known(folder)
    except DAMAGE:
        raise ZooError(
            f"{path} is damaged, so that no node is known as new; leave out --only-new."
        ) from None
    places = known.places(data.ids, getattr(data, "kinds", None), len(data.y))
    return np.arange(len(data.y)) >= known.count if places is None else places < 0


def true_labels(model: Model, folder: Path, spec: Spec) -> list[Any] | None:
    """Return the true label of each row of data by its name; None where none can be read.

    To predict, labels need not be there, nor fit, and are not looked at; this reads them.

    Args:
        model: as `zoo.load` gives it.
        folder: of its weights.
        spec: of the data.
    """
    try:
        data, _ = read_as_trained(model, folder, spec)
    except ZooError:
        return None
    return known_labels(data, class_names(model.about, data))


def parts_in_training(model: Model, folder: Path, spec: Spec | None, data: Any) -> list[str] | None:
    """Return of each node (N,) its part in the training of weights, "" where it was in none.

    None where nothing is known of them: the data are others. In another place, as in memory, nodes
    are known by their names, and not by numbers, which others may have as well.

    Args:
        model: as `zoo.load` gives it.
        folder: of the weights, in that of their run.
        spec: of the data, as a recipe names them; None of data in memory: those that are called
            like a data set of the zoo, and have its labels, are that one.
        data: which the spec is of.
    """
    if spec is None and not (folder / CONFIG).is_file():  # which was there when it was loaded
        return None
    training = Training(model.about, training_spec(folder), folder)
    if spec is None:
        known_size = len(data.y) <= MOST_NODES
        split = split_of_same_rows(data.name, training.spec, data) if known_size else None
    else:
        spec, _ = divide(as_trained(spec, training.spec), ("split",))
        split = training_split(spec, training)
    numbers = np.full(len(data.y), LEFT_OUT)
    known = _match_known_nodes(training, spec, split, data)
    named = data.ids is not None and data.ids.dtype.kind not in "iu"
    lies_there = None not in (spec, training.spec) and _same_place(spec, training.spec)
    same = split is not None or lies_there
    if known is not None and known[0].parts is not None and (named or same):
        numbers = np.where(known[1] >= 0, known[0].parts[known[1]], LEFT_OUT)
    elif split is None:
        return None
    else:
        with contextlib.suppress(ZooError):  # the files of the split have not come
            parts = split_of(data, split.get("split", data.split), model.about.seed or 0)
            for number, part in enumerate(PARTS):
                numbers[getattr(parts, part).numpy()] = number
    return [PARTS[number] if number < len(PARTS) else "" for number in numbers.tolist()]


def trained_nodes(about: About, split: dict[str, Any] | None, data: Dataset) -> Tensor | None:
    """Return the nodes (n,) that weights were trained on; None for other data, or if it is lost.

    Args:
        about: of the weights.
        split: what `training_split` says.
        data: what they are nodes of.
    """
    if split is None:
        return None
    try:
        return split_of(data, split.get("split", data.split), about.seed or 0).train
    except ZooError:  # the files of the split have not come with the weights
        return None


def is_seen(
    training: Training,
    spec: Spec,
    split: dict[str, Any] | None,
    data: Dataset,
    nodes: Tensor,
    part: str,
) -> bool | None:
    """Return whether weights were, or may have been, trained on some nodes; warn of a change.

    None where nothing says it: the data may be those of training with other rows.

    Args:
        training: that of the weights.
        spec: of the data, without a split.
        split: what `training_split` says.
        data: what they are nodes of.
        nodes: which are measured, (n,).
        part: which part of the data they are.
    """
    known = _match_known_nodes(training, spec, split, data)
    train = _all_trained_nodes(training, known, split, data)
    seen = None if train is None else bool(torch.isin(nodes, train).any())
    noted = known is not None and known[0].trained is not None
    if split is None and not noted and seen is not False and _has_changed(spec, training):
        _warn_of_change(data)
        return True
    if seen is None:
        seen = may_be_known(training, spec, data)
        return seen and (part in ("all", "train") or None)
    return None if not seen and _starts_unknown(training.folder) else seen


def part_is_seen(training: Training, spec: Spec, data: Any, part: str) -> bool | None:
    """Return whether weights were, or may have been, trained on a part of series or of pairs.

    None where nothing says it.
    """
    known = data.name == training.about.data or may_be_known(training, spec, data)
    return known and part in ("all", "train")


def warn_of_seen(weights: str, spec: Spec, data: Dataset, splits: Sequence[Split]) -> int | None:
    """Warn where weights were trained, or may be, on what a fine-tuning from them is measured on.

    Returns how many nodes, or links, of validation and test that are, as far as is known; None
    where nothing says it.

    Args:
        weights: which the fine-tuning starts from.
        spec: of its data, without a split.
        data: which the spec is of.
        splits: of each seed.
    """
    training = training_of(weights)
    split = training_split(spec, training)
    if (data.task == LINKS) != (training.about.task == LINKS):
        if data.task == LINKS and split is not None:
            _LOG.warning(
                f"{weights} was trained on the graph of {data.name} with all of its links, those "
                "of validation and test among them, so that scores may be too good; compare with "
                "a training that begins without `start_from`."
            )
        return 0
    split = split_of_same_rows(spec, training.spec, data) if split is None else split
    known, changed = _match_known_nodes(training, spec, split, data), _has_changed(spec, training)
    noted = known is not None and known[0].trained is not None
    train = _all_trained_nodes(training, known, split, data)
    if train is None or (changed and not noted):
        if changed:
            _warn_of_change(data)
            return None
        return 0 if known is not None else _warn_of_unknown(weights, training, spec, data)
    measured = torch.cat([torch.cat([split.val, split.test]) for split in splits]).unique()
    if seen := int(torch.isin(measured, train).sum()):
        which = f"{seen:,} of the {len(measured):,} {data.unit} of validation and test"
        if split is not None:
            fix = (
                f"was trained on {which}, whose scores are too good; with the split of that "
                f"training and `seeds=[{training.about.seed or 0}]` none of them was."
            )
        elif noted:
            fix = (
                f"had {which} in its training, whose scores are too good; with `dataset.split="
                f"{{name: {KEPT}, run: {training.folder}}}` all keep the part that they had there."
            )
        else:
            fix = (
                f"had {which} in its training, by their ids, so that their scores may be too good; "
                "give the data a column of the split, `dataset.split_column=COLUMN`, in which they "
                "are of the part train."
            )
        _LOG.warning(f"{weights} {fix}")
    return seen


def _warn_of_unknown(weights: str, training: Training, spec: Spec, data: Dataset) -> int | None:
    """Warn where nothing says if weights were trained on some of the data, and return None; or 0.

    Those that answer for any graph have learnt of no such data.
    """
    is_file = training.spec is not None and _name_of(training.spec) not in DATASETS
    if is_file and data.name == training.about.data:
        _LOG.warning(
            f"{data.name} is called like the data that {weights} was trained on, and nothing "
            f"says which of its {data.unit} these were: scores are too good where some of them "
            "are measured. Give the data a column of the split in which these are train."
        )
        return None
    any_graph = training.about.features is None
    if any_graph or may_be_known(training, spec, data) is False:
        return 0
    _LOG.warning(
        f"nothing says whether {weights} was trained on some of the {data.unit} of {data.name}; "
        "scores are too good where some of them are measured."
    )
    return None


def nodes_of(
    spec: Spec, data: Any, splits: Mapping[int, Split], weights: str | None
) -> dict[str, Any] | None:
    """Return the content of `nodes.json` of a run, None where it is not written.

    It is written for a user's own graphs, their links, and sets of graphs, of `MOST_NODES` at most.

    Args:
        spec: of the data, without a split.
        data: which the spec is of.
        splits: of each seed.
        weights: which the run starts from, or None.
    """
    if (
        data.unit not in ("nodes", "samples", "links")
        or len(data.y) > MOST_NODES
        or not own_files(spec)
    ):
        return None
    parts = {
        seed: {part: getattr(split, part).numpy() for part in PARTS}
        for seed, split in splits.items()
    }
    is_labelled = np.zeros(len(data.y), bool)
    is_labelled[labelled_nodes(data.y.numpy())] = True
    before = None
    if weights is not None:
        training = training_of(weights)
        before = _match_known_nodes(training, spec, training_split(spec, training), data)
    return describe_nodes(is_labelled, data.ids, getattr(data, "kinds", None), parts, before)


def _match_known_nodes(
    training: Training, spec: Spec | None, split: dict[str, Any] | None, data: Any
) -> tuple[KnownNodes, np.ndarray] | None:
    """Return the nodes that weights know, and which of them each node is (N,), -1 where none.

    By their numbers alone nodes are known where the data are those of training, or lie where these
    lay. None where it is not known, as of nodes where links were learnt. Arguments as those of
    `is_seen`.
    """
    known = None if training.folder is None else read_known_or_none(training.folder)
    if known is None or (training.about.task == LINKS) != (data.unit == "links"):
        return None
    unnamed = getattr(data, "nodes", data).ids is None  # ids of links are those of their nodes
    if unnamed and split is None and (spec is None or not _same_place(spec, training.spec)):
        return None
    places = known.places(data.ids, getattr(data, "kinds", None), len(data.y))
    return None if places is None else (known, places)


def _all_trained_nodes(
    training: Training,
    known: tuple[KnownNodes, np.ndarray] | None,
    split: dict[str, Any] | None,
    data: Any,
) -> Tensor | None:
    """Return the nodes (n,) that weights, or those they started from, were trained on, if known.

    Where a run has noted no parts, all nodes count whose ids it has.
    """
    if known is not None and known[0].trained is not None:
        return torch.from_numpy(np.flatnonzero((known[1] >= 0) & known[0].trained[known[1]]))
    train = trained_nodes(training.about, split, data)
    if train is None and known is not None and data.ids is not None:
        return torch.from_numpy(np.flatnonzero(known[1] >= 0))
    return train


def may_be_known(training: Training, spec: Spec | None, data: Any) -> bool | None:
    """Return whether data may be those of training: by their files, or named data by their name.

    None where nothing tells a user's own data from those of training with other rows.

    Args:
        training: that of the weights.
        spec: of the data, without a split; None: they are in memory.
        data: which the spec is of.
    """
    about = training.about
    theirs = {"name": training.spec} if isinstance(training.spec, str) else training.spec or {}
    named = theirs.get("name") in DATASETS and not theirs.get("path")
    own = spec is None or bool(own_files(spec))
    if about.data is not None and (named or not own or about.data in DATASETS):
        return data.name == about.data
    if own and spec is not None and about.files and _files_were_read(spec, about, any):
        return True
    return (about.data is not None and data.name == about.data and not about.files) or None


def _starts_unknown(folder: Path | None) -> bool:
    """Return whether a run began with weights of which nothing says what they were trained on."""
    path = folder and folder.parent / "start_from.json"
    return bool(path and path.is_file()) and read_json(path).get("seen", 0) is None


def _has_changed(spec: Spec, training: Training) -> bool:
    """Return whether data, or their split, are the files of training with another content."""
    split = _split_if_same_options(spec, training.spec)
    if split is None:
        return False
    of_data = _same_place(spec, training.spec) and _changed_data(spec, training.about)
    return bool(of_data or changed_files(split_files(split.get("split")).values(), training.about))


def _warn_of_change(data: Dataset) -> None:
    _LOG.warning(
        f"{data.name}, or its split, has changed since the weights were trained on it, and is "
        f"divided anew: some of the {data.unit} that are measured may have been trained on, whose "
        "scores are too good."
    )


def _is_readable(run: str | Path) -> bool:
    return read_known_or_none(Path(run)) is not None
