"""The data that weights were trained on, and other data read in the same way."""

import contextlib
import dataclasses
import logging
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zoo.canonical_form import WEIGHT, derived
from zoo.config.learnt_columns import as_options, scales, unscaled
from zoo.config.metadata import About, path_name
from zoo.config.options import Count, Spec, options_of, pick, value_problems
from zoo.config.recipe import divide, read_recipe, word
from zoo.data import Dataset
from zoo.data.canonical import side_by_side
from zoo.data.files.graph_set_arrays import OF_LABELS
from zoo.data.files.text_lines import Texts
from zoo.data.known_nodes import (
    DAMAGE,
    LEFT_OUT,
    NODES,
    UNLABELLED,
    KnownNodes,
    read_known,
    said_of_nodes,
)
from zoo.data.load import DATASETS, load_data, own_files, resolved_dataset
from zoo.data.load.by_name import common_options, whole_reader
from zoo.data.load.images import OF_PATCHES
from zoo.data.load.obtain import path_of
from zoo.data.load.readers import reader_of
from zoo.data.samples import Samples
from zoo.data.splits import (
    KEPT,
    PARTS,
    Split,
    labelled,
    parts_then,
    split_files,
    split_of,
)
from zoo.data.tables.columns import OF_NODES, OF_TEXT, listed
from zoo.data.tables.read import Written
from zoo.data.tables.tables import kinds_of, node_columns, read_tables
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.tasks.labels import REGRESSION, TRANSLATION
from zoo.weights.folder import CONFIG, changed_files, read_config, sha256_of
from zoo.weights.index import locate
from zoo.weights.transfer import shortened

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
        known = read_known(folder)
    except DAMAGE:
        raise ZooError(
            f"{path} is damaged, so that no node is known as new; leave out --only-new."
        ) from None
    places = known.places(data.ids, getattr(data, "kinds", None), len(data.y))
    return np.arange(len(data.y)) >= known.count if places is None else places < 0


def known_to(folder: Path) -> KnownNodes | None:
    """Return the nodes that weights in the folder of their run know; None if it is not said."""
    with contextlib.suppress(*DAMAGE):
        return read_known(folder)
    return None


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
        made = {"texts": ("longest", "window", "skip"), "images": OF_PATCHES}.get(name, ())
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


MOST_NODES = 1_000_000
"""Nodes of a graph up to which a run notes which they were."""

_PATHS = ("nodes", "edges", "terms_of", "path")
"""Options that are files, which are known by their checksums wherever they lie."""

_LISTS = ("label", "columns", *OF_TEXT, "edge_features")
"""Options that are names of columns, as a list or as a text with commas."""


class Training(NamedTuple):
    """What is known of a training.

    Attributes:
        about: of the weights.
        spec: of the data, with their split; None: not known.
        folder: of the weights, in that of their run; None: not known.
    """

    about: About
    spec: Spec | None
    folder: Path | None


def own_split(spec: Spec, trained_on: Spec | None, about: About) -> dict[str, Any] | None:
    """Return the `split` of training, if it says one, where data are those of training; else None.

    They are by their options and, of files, by their content, wherever these lie now.

    Args:
        spec: of the data, without a split.
        trained_on: of the data of training, with its split.
        about: of the weights, with the checksums of the files then.
    """
    own = _split_then(spec, trained_on)
    if own is None or changed_files(split_files(own.get("split")), about):
        return None
    if word(own.get("split", "")) == KEPT and known_to(Path(own["split"]["run"])) is None:
        return None  # they have not come with the weights
    if _same_place(spec, trained_on):
        return None if other_files(spec, about) else own
    return own if _files_are_known(spec, about, all) else None


def changed_since(spec: Spec, trained_on: Spec | None, about: About) -> bool:
    """Return whether data, or their split, are the files of training with another content.

    For the arguments of `own_split`.
    """
    own = _split_then(spec, trained_on)
    if own is None:
        return False
    of_data = _same_place(spec, trained_on) and other_files(spec, about)
    return bool(of_data or changed_files(split_files(own.get("split")), about))


def trained_nodes(about: About, split: dict[str, Any] | None, data: Dataset) -> Tensor | None:
    """Return the nodes (n,) that weights were trained on; None of other data, or if it is lost.

    Args:
        about: of the weights.
        split: what `own_split` says.
        data: what they are nodes of.
    """
    if split is None:
        return None
    try:
        return split_of(data, split.get("split", data.split), about.seed or 0).train
    except ZooError:  # the files of the split have not come with the weights
        return None


def is_seen(
    then: Training,
    spec: Spec,
    split: dict[str, Any] | None,
    data: Dataset,
    nodes: Tensor,
    part: str,
) -> bool:
    """Return whether weights were, or may have been, trained on some nodes; warn of a change.

    Args:
        then: the training.
        spec: of the data, without a split.
        split: what `own_split` says.
        data: what they are nodes of.
        nodes: which are asked about, (n,).
        part: which part of the data they are.
    """
    train = _trained_then(then, _known(then, spec, split, data), split, data)
    seen = None if train is None else bool(torch.isin(nodes, train).any())
    if split is None and seen is not False and changed_since(spec, then.spec, then.about):
        warn_of_change(data)
        return True
    return part in ("all", "train") and _may_be_known(then, spec, data) if seen is None else seen


def whole_is_seen(then: Training, spec: Spec, data: Any, part: str) -> bool:
    """Return whether weights were, or may have been, trained on a part of series or of pairs."""
    named = data.name == then.about.data
    return part in ("all", "train") and (named or _may_be_known(then, spec, data))


def _may_be_known(then: Training, spec: Spec, data: Any) -> bool:
    """Return whether data may be those of training, by their files or, of named data, by name."""
    named = data.name == then.about.data
    theirs = {"name": then.spec} if isinstance(then.spec, str) else then.spec or {}
    if not own_files(spec) or not then.about.files:
        return named
    if theirs.get("name") in DATASETS and not theirs.get("path"):
        return named
    return _files_are_known(spec, then.about, any)


def warn_of_seen(weights: str, spec: Spec, data: Dataset, splits: Sequence[Split]) -> int:
    """Warn where weights were trained, or may be, on what a fine-tuning from them is measured on.

    Returns how many nodes of validation and test that are, as far as is known.

    Args:
        weights: which the fine-tuning starts from.
        spec: of its data, without a split.
        data: which the spec is of.
        splits: of each seed.
    """
    then = _training_of(weights)
    own = own_split(spec, then.spec, then.about)
    own = split_of_same_rows(spec, then.spec, data) if own is None else own
    known, changed = _known(then, spec, own, data), changed_since(spec, then.spec, then.about)
    noted = known is not None and known[0].trained is not None
    train = _trained_then(then, known, own, data)
    if train is None or (changed and not noted):
        if changed:
            warn_of_change(data)
        elif known is None and _is_own(then.spec) and data.name == then.about.data:
            logging.getLogger(__name__).warning(
                f"{data.name} is called like the data that {weights} was trained on, and nothing "
                f"says which of its {data.unit} these were: scores are too good where some of them "
                "are measured. Give the data a column of the split in which these are train."
            )
        return 0
    measured = torch.cat([torch.cat([split.val, split.test]) for split in splits]).unique()
    if seen := int(torch.isin(measured, train).sum()):
        which = f"{seen:,} of the {len(measured):,} {data.unit} of validation and test"
        if own is not None:
            said = (
                f"was trained on {which}, whose scores are too good; with the split of that "
                f"training and `seeds=[{then.about.seed or 0}]` none of them was."
            )
        elif noted:
            said = (
                f"had {which} in its training, whose scores are too good; with `dataset.split="
                f"{{name: {KEPT}, run: {then.folder}}}` all keep the part that they had there."
            )
        else:
            said = (
                f"had {which} in its training, by their ids, so that their scores may be too good; "
                "give the data a column of the split, `dataset.split_column=COLUMN`, in which they "
                "are of the part train."
            )
        logging.getLogger(__name__).warning(f"{weights} {said}")
    return seen


def split_from_start(weights: str, spec: Spec, data: Any) -> Spec | None:
    """Return the split in which nodes that weights know keep their parts; None where none is known.

    Of the very data of training, and of data with a split of their own, it is None.

    Args:
        weights: which a fine-tuning starts from.
        spec: of its data, without a split.
        data: which the spec is of.

    Raises:
        ZooError: what the run has noted of its nodes is damaged.
    """
    then = _training_of(weights)
    if data.masks is not None or own_split(spec, then.spec, then.about) is not None:
        return None
    if known_to(then.folder) is None and (noted := then.folder.parent / NODES).is_file():
        raise ZooError(
            f"{noted} is damaged, so that nobody knows which nodes {weights} was trained on; put "
            "back a copy, or write which `split` is to be taken."
        )
    known = _known(then, spec, None, data)
    if known is None or known[0].parts is None or not (known[1] >= 0).any():
        return None
    return {"name": KEPT, "run": str(then.folder.resolve()), "new": _for_new(then, data)}


def _for_new(then: Training, data: Any) -> Spec:
    """Return the split of a training, where it is one for any nodes; else that of the data."""
    split = then.spec.get("split") if isinstance(then.spec, Mapping) else None
    if isinstance(split, Mapping) and word(split) == KEPT:
        split = split.get("new")
    kind = split and re.match(r"ratio|stratified|folds|group|time", word(split))
    needed = {"group": data.groups, "time": data.times}
    return split if kind and needed.get(kind[0], ()) is not None else data.split


def tell_of_kept(split: Spec, data: Any) -> None:
    """Say how many nodes keep the part that they had in a run, and how many are dealt."""
    if word(split) != KEPT:
        return
    then = parts_then(split["run"], data.ids, getattr(data, "kinds", None), len(data.y))
    then = then[labelled(data.y.numpy())]
    old, out, new = (int(each.sum()) for each in
                     (then < len(PARTS), then == LEFT_OUT, then == UNLABELLED))  # fmt: skip
    said = f"{old:,} {data.unit} keep their part of {path_name(split['run'])}"
    said += ", by their rows" if data.ids is None else ""
    said += f", {out:,} are in none, as there" if out else ""
    said += f", {new:,} new {'one is' if new == 1 else 'ones are'} dealt"
    logging.getLogger(__name__).warning(f"{said}.")


def nodes_of(
    spec: Spec, data: Any, splits: Mapping[int, Split], weights: str | None
) -> dict[str, Any] | None:
    """Return what `nodes.json` of a run says of its nodes, None where it is not written.

    It is of graphs, and of sets of graphs, of one's own, of `MOST_NODES` at most.

    Args:
        spec: of the data, without a split.
        data: which the spec is of.
        splits: of each seed.
        weights: which the run starts from, or None.
    """
    if data.unit not in ("nodes", "samples") or len(data.y) > MOST_NODES or not own_files(spec):
        return None
    parts = {
        seed: {part: getattr(split, part).numpy() for part in PARTS}
        for seed, split in splits.items()
    }
    known = np.zeros(len(data.y), bool)
    known[labelled(data.y.numpy())] = True
    before = None
    if weights is not None:
        then = _training_of(weights)
        before = _known(then, spec, own_split(spec, then.spec, then.about), data)
    return said_of_nodes(known, data.ids, getattr(data, "kinds", None), parts, before)


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
    theirs, own = divide(trained_on, ("split",))
    names = {each if isinstance(each, str) else each["name"] for each in (theirs, spec)}
    if len(names) > 1 or names.isdisjoint(DATASETS):
        return None
    with contextlib.suppress(ZooError):  # its files are not here
        data = load_data(spec) if data is None else data
        return own if torch.equal(load_data(theirs).y, data.y) else None
    return None


def _training_of(weights: str) -> Training:
    folder = locate(weights).folder
    return Training(read_config(folder / CONFIG)["about"], training_spec(folder), folder)


def _is_own(spec: Spec | None) -> bool:
    """Return whether data are of files of one's own, whether or not these are here."""
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    return isinstance(name, str) and name not in DATASETS


def _known(
    then: Training, spec: Spec, split: dict[str, Any] | None, data: Any
) -> tuple[KnownNodes, np.ndarray] | None:
    """Return the nodes that weights know, and which of them each node is (N,), -1 where none.

    By their numbers alone nodes are known where the data are those of training, or lie where these
    lay. None where it is not known.

    Args:
        then: the training.
        spec: of the data, without a split.
        split: that of training, where the data are those of training.
        data: which the spec is of.
    """
    known = None if then.folder is None else known_to(then.folder)
    if known is None or (known.ids is None and split is None and not _same_place(spec, then.spec)):
        return None
    places = known.places(data.ids, getattr(data, "kinds", None), len(data.y))
    return None if places is None else (known, places)


def _trained_then(
    then: Training,
    known: tuple[KnownNodes, np.ndarray] | None,
    split: dict[str, Any] | None,
    data: Any,
) -> Tensor | None:
    """Return the nodes (n,) that weights, or those they started from, were trained on, if known."""
    if known is not None and known[0].trained is not None:
        return torch.from_numpy(np.flatnonzero((known[1] >= 0) & known[0].trained[known[1]]))
    train = trained_nodes(then.about, split, data)
    return _nodes_by_id(then, known, data) if train is None else train


def warn_of_change(data: Dataset) -> None:
    """Warn that a file of training has another content, and its split of then is lost."""
    logging.getLogger(__name__).warning(
        f"{data.name}, or its split, has changed since the weights were trained on it, and is "
        f"divided anew: some of the {data.unit} that are measured may have been trained on, whose "
        "scores are too good."
    )


def _nodes_by_id(
    then: Training, known: tuple[KnownNodes, np.ndarray] | None, data: Dataset
) -> Tensor | None:
    """Return the nodes (n,) whose ids are those of training nodes; None where ids do not tell.

    Where the data of training are no longer there, all of their ids count.
    """
    if known is None or data.ids is None:
        return None
    old = known[1] >= 0
    if old.any():
        with contextlib.suppress(ZooError):
            theirs = _trained_part(then)
            ids = theirs.ids.astype(str)
            trained = KnownNodes(len(ids), ids, theirs.kinds, None, None)
            old &= trained.places(data.ids, data.kinds, len(data.y)) >= 0
    return torch.from_numpy(np.flatnonzero(old))


def _trained_part(then: Training) -> Dataset:
    """Return the training nodes of a training; raise ZooError where they are not to be had."""
    spec, own = divide(of_training(then.about, then.spec), ("split",))
    data = load_data(spec)
    train = split_of(data, own.get("split", data.split), then.about.seed or 0).train
    if data.ids is None or not then.about.files:
        raise ZooError("nobody says which nodes these are")
    return data.part(train)


def _files_are_known(spec: Spec, about: About, count: Callable[[Iterable[bool]], bool]) -> bool:
    """Return whether all files of data, or any, were read at the training, by their checksums."""
    files, known = own_files(spec), {*(about.files or {}).values()}
    return bool(files) and bool(known) and count(sha256_of(each) in known for each in files)


def _split_then(spec: Spec, trained_on: Spec | None) -> dict[str, Any] | None:
    """Return the split of training where data are, by their options, those of training."""
    if not isinstance(trained_on, str | Mapping):
        return None
    theirs, own = divide(trained_on, ("split",))
    names = [each if isinstance(each, str) else each["name"] for each in (theirs, spec)]
    if names[0] != names[1] and not DATASETS.keys().isdisjoint(names):
        return None
    try:
        return own if _told(theirs, names[1]) == _told(spec, names[1]) else None
    except ZooError:  # the data are not here
        return None


def _same_place(spec: Spec, trained_on: Spec) -> bool:
    """Return whether data and those of training have the same paths, or the same name."""
    try:
        return _places(spec) == _places(trained_on)
    except ZooError:  # no disk here has such a path
        return False


def _places(spec: Spec) -> dict[str, str]:
    """Return where the files of a data set lie; of one of the zoo its name."""
    given = {"name": spec} if isinstance(spec, str) else spec
    told = {key: given[key] for key in ("name", *_PATHS) if isinstance(given.get(key), str)}
    found = {key: path_of(each) for key, each in told.items() if each not in DATASETS}
    real = {key: str(path.resolve()) for key, path in found.items() if path.exists()}
    return {**told, **real}


def _told(spec: Spec, name: str) -> dict[str, Any]:
    """Return every option of a data set, but what weights know of it, and where its files lie.

    Args:
        spec: of the data.
        name: where they are now, which says what reads them.
    """
    found = resolved_dataset({**(spec if isinstance(spec, Mapping) else {}), "name": name})
    found.pop("features", None)
    files = {key: True for key in _PATHS if isinstance(found.get(key), str)}
    return {**found, **files, **{key: listed(found[key]) for key in _LISTS if key in found}}


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
                data.name, shortened([each.name for each in held]),
            )  # fmt: skip
        return
    scale = "by a scale of its own" if held else "as they are"
    raise ZooError(
        f"{data.name} holds its features {scale}, and the model reads "
        f"{shortened([each.name for each in wanted])} by the scale that it has learnt of a table; "
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
        raise ZooError(
            f"{data.name} has the targets {shortened(list(theirs))}; not {shortened(ours)}."
        )
    used = [theirs[each] for each in data.y.unique().tolist() if each >= 0]
    unknown = [name for name in used if name not in ours]
    if unknown:
        raise ZooError(
            f"{data.name} has classes that the model was not trained on: {shortened(unknown)}; it "
            f"knows {shortened(ours)}. Fine-tune it with `zoo finetune`, or leave their labels out."
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
    from zoo.sequences.data.texts import LONGEST, retokenize
    from zoo.sequences.data.tokenizer import Tokenizer

    recipe = (model.about.recipe or {}).get("dataset")
    longest = recipe.get("longest") if isinstance(recipe, dict) else None
    longest = LONGEST if value_problems(Count, longest, ()) else longest
    return retokenize(data, Tokenizer(model.tokenizer), longest)


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
            f"missing: {shortened(missing)}; not known to the model: {shortened(extra)}. Give the "
            f"graph the {what} that the model was trained on."
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
