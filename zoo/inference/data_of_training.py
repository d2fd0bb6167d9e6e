"""The data that weights were trained on, and other data read in the same way."""

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.config.learnt_columns import as_options
from zoo.config.metadata import About
from zoo.config.options import Spec, options_of
from zoo.config.recipe import divide, read_recipe, word
from zoo.datasets import Dataset
from zoo.datasets.files.text_lines import Texts
from zoo.datasets.known_nodes import DAMAGE, NODES, KnownNodes, known_nodes
from zoo.datasets.load import DATASETS, load_data, own_files
from zoo.datasets.load.by_name import common_options, whole_reader
from zoo.datasets.load.images import OF_PATCHES
from zoo.datasets.load.obtain import path_of
from zoo.datasets.load.readers import reader_of
from zoo.datasets.splits import KEPT, split_files, split_of
from zoo.datasets.tables.columns import OF_NODES, OF_TEXT
from zoo.datasets.tables.frames import Written
from zoo.datasets.tables.tables import node_columns, read_tables
from zoo.datasets.tables.typed_tables import kinds_of
from zoo.datasets.texts import OF_SEQUENCES
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.training.checksums import unsealed_json
from zoo.weights.folder import CONFIG, changed_files, read_config

_OF_A_FILE = ("name", "nodes", "edges", "path", "features", "split")
"""Options of training that are of its own files, or known to the weights."""

_OF_EDGES = ("weight", "weights", "edge_features", "source", "target")
"""Options of a table of edges, which a table of nodes alone has not."""

_OF_COLUMNS = ("id", "label", "columns", *OF_NODES, *OF_TEXT)


def dataset_of_run(folder: Path) -> Spec | None:
    """Return the data of a run's seed as the run's own recipe names it, None outside of a run."""
    own = folder.parent / "recipe.yaml"
    if not folder.name.startswith("seed-") or not own.is_file():
        return None
    return _with_own_parts(read_recipe(own).dataset, folder)


def _with_own_parts(spec: Spec, folder: Path) -> Spec:
    """Return the data of a run whose nodes keep the parts of another as those that it has noted.

    The run of the weights that it started from need not be there any more.
    """
    split = spec.get("split") if isinstance(spec, Mapping) else None
    known = known_to(folder) if isinstance(split, Mapping) and word(split) == KEPT else None
    if known is None or known.parts is None:
        return spec
    return {**spec, "split": {**split, "run": str(folder.resolve())}}


def training_spec(folder: Path) -> Spec | None:
    """Return the data that weights were trained on as a recipe names them, None if none does."""
    known = read_config(folder / CONFIG)["about"].recipe or {}
    return dataset_of_run(folder) or known.get("dataset")


def read_as_trained(model: Model, folder: Path, spec: Spec) -> tuple[Dataset, Dataset | None]:
    """Return data read with the options of training, and what the model sees besides, or None.

    Args:
        model: as `zoo.load` gives it.
        folder: of its weights.
        spec: of the data.
    """
    about = model.about
    known = with_columns_of(about, training_spec(folder))
    asked, _ = divide(as_trained(spec, known, columns_read(about), about.step), ("split",))
    data, known = load_data(asked), training_part(model, dataset_of_run(folder))
    if known is None or same_nodes(data, known[0]):
        return data, None
    whole, train = known
    return data, whole.part(train)


def new_nodes(folder: Path, data: Dataset) -> np.ndarray:
    """Return which nodes of a data set were not there at the training, (N,) bool.

    They are known by their ids, and their kinds if there are several; without ids by their numbers.

    Args:
        folder: of weights in the folder of their run.
        data: what has grown since.

    Raises:
        ZooError: the run does not say which nodes it had.
    """
    path = folder.parent / NODES
    if not path.is_file():
        raise ZooError(
            f"--only-new needs {NODES}, which the run of a graph of your own has in its folder; "
            "name a seed of this run as it was written."
        )
    try:
        known = _noted(folder)
    except DAMAGE:
        raise ZooError(
            f"{path} is damaged, so that no node is known as new; leave out --only-new."
        ) from None
    places = known.places(data.ids, getattr(data, "kinds", None), len(data.y))
    return np.arange(len(data.y)) >= known.count if places is None else places < 0


def known_to(folder: Path) -> KnownNodes | None:
    """Return the nodes that weights in the folder of their run know; None if it is not said."""
    with contextlib.suppress(*DAMAGE):
        return _noted(folder)
    return None


def _noted(folder: Path) -> KnownNodes:
    told = unsealed_json((folder.parent / NODES).read_bytes())
    return known_nodes(told, int(folder.name.removeprefix("seed-")))


def as_trained(
    spec: Spec,
    trained_on: Spec | None,
    read: Sequence[str] | None = None,
    step: str | None = None,
) -> Spec:
    """Return a spec of files of one's own with the options of the data of training.

    What it says itself counts first. Columns that a table does not have are left out. Of `texts`
    and `images` it is how sequences and patches are made.

    Args:
        spec: of the data.
        trained_on: of the data of training.
        read: the columns of a table that the weights read; others are none of its features.
        step: of the times of training, which a few rows would not tell.

    Raises:
        ZooError: there is no such file.
    """
    name = spec["name"] if isinstance(spec, Mapping) else spec
    if not isinstance(trained_on, Mapping) or not isinstance(name, str):
        return spec
    own = dict(spec) if isinstance(spec, Mapping) else {}
    if name in DATASETS:
        made = {"texts": OF_SEQUENCES, "images": OF_PATCHES}.get(name, ())
        told = {key: trained_on[key] for key in made if key in trained_on}
        return {"name": name, **told, **own} if told else spec
    path = path_of(name)
    if not path.exists():
        return spec
    if whole := whole_reader(path, trained_on):
        return _whole_as_trained(name, own, trained_on, whole, step) or spec
    reader = reader_of(path)
    known = {*options_of(reader), *options_of(common_options)} - {*_OF_A_FILE}
    kept = {key: each for key, each in trained_on.items() if key in known}
    if "nodes" in options_of(reader) and "nodes" not in own:  # a table, whose column it is
        kept.pop("label", None)
    if reader is read_tables:
        if not path.is_dir() and "edges" not in own:
            kept = {key: each for key, each in kept.items() if key not in _OF_EDGES}
        held = set(node_columns(path, Written({**kept, **own}.get("separator"))))
        kept = {key: _present(key, each, held) for key, each in kept.items()}
        of_kinds = path.is_dir() and kinds_of(path)
        if read and not kept.get("columns") and set(read) <= held and not of_kinds:
            kept["columns"] = [*read]
        kept = {key: each for key, each in kept.items() if each not in (None, [])}
    if read == [Texts.name]:  # whose terms the weights hold
        kept.pop("terms_of", None)
    return {**kept, **own, "name": name}


def _whole_as_trained(
    name: str, own: Spec, trained_on: Spec, whole: Callable, step: str | None
) -> dict[str, Any] | None:
    """Return a spec of what is no single graph with the options of training, if these fit."""
    if word(trained_on.get("split", "")) == KEPT:  # of these nodes, and of no others
        trained_on = {key: each for key, each in trained_on.items() if key != "split"}
    if not {*trained_on, *own} <= {"name", "split", *options_of(whole)}:
        return None
    told = {"step": step} if step and "step" in options_of(whole) else {}
    return {**trained_on, **told, **own, "name": name}


def with_columns_of(about: About, trained_on: Spec | None) -> Spec | None:
    """Return the data of training with how a table is read as the weights have learnt to read it.

    What the data of training say themselves counts first: those that were written by `zoo data
    prepare` say nothing of the table that they were written from.
    """
    if not isinstance(trained_on, Mapping) or not about.columns:
        return trained_on
    kinds = [f"{name.removeprefix('kind=')}." for name in about.feature_names or ()
             if name.startswith("kind=")]  # fmt: skip
    told: dict[str, Any] = {}
    for column in about.columns:
        own = next((kind for kind in kinds if column.name.startswith(kind)), "")
        if option := _READ_AS.get(column.kind):
            told.setdefault(option, []).append(column.name.removeprefix(own))
    return {**told, **as_options(about.columns), **trained_on}


_READ_AS = {"category": "one_hot", "hashed": "one_hot", "text": "text", "date": "dates"}


def _present(option: str, given: Any, held: set[str]) -> Any:
    """Return what an option of tables names that a table has; of labels all, or nothing."""
    if option not in _OF_COLUMNS or given is None:
        return given
    names = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    if option == "label":  # of one of several kinds of nodes it is `kind.column`
        return given if {n if n in held else n.partition(".")[2] for n in names} <= held else None
    found = [each for each in names if each in held]
    return found[0] if found and option in ("id", *OF_NODES) else found


def columns_read(about: About) -> list[str] | None:
    """Return the columns of a table of nodes that weights read, None where they do not know."""
    return [each.name for each in about.columns] if about.columns else about.feature_names


def of_training(about: About, spec: Spec | None) -> Spec:
    """Return the graph that weights were trained on: the very one, as far as that is known."""
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
    if other := other_files(spec, about):
        raise ZooError(
            f"{lost}: {other[0]} is another file, its SHA-256 differs. Write --data PATH, or put "
            f"the former file back; `--data {shlex.quote(str(name))}` if it is to be that one."
        )
    return spec


def other_files(spec: Spec, about: About) -> list[Path]:
    """Return the files of data, and of their split, that were others at the training."""
    split = spec.get("split") if isinstance(spec, Mapping) else None
    return changed_files([*own_files(spec), *split_files(split)], about)


def same_nodes(data: Dataset, other: Dataset) -> bool:
    """Return whether two data sets are the same nodes, by their name and features."""
    alike = data.name == other.name and data.x.dtype == other.x.dtype
    return alike and torch.equal(data.x, other.x)


def training_part(model: Model, trained_on: Spec | None) -> tuple[Dataset, Tensor] | None:
    """Return the data of a training with `inductive`, and which nodes were its own; else None.

    Raises:
        ZooError: the data of training cannot be found.
    """
    recipe = model.about.recipe or {}
    train = recipe.get("train")
    if not isinstance(train, dict) or train.get("inductive") is not True:
        return None
    try:
        spec, own = divide(of_training(model.about, trained_on), ("split",))
    except ZooError as error:
        raise ZooError(
            "the model was trained with `inductive`, and sees its training nodes beside those that "
            f"it is asked about: {str(error).partition(';')[0]}. Put these data where they were."
        ) from None
    data = load_data(spec)
    return data, split_of(data, own.get("split", data.split), model.about.seed or 0).train
