"""How the data of a training were divided, and whether data are the very ones."""

import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.metadata import About, path_name
from zoo.config.options import Spec
from zoo.config.recipe import divide, word
from zoo.datasets import Dataset
from zoo.datasets.known_nodes import LEFT_OUT, NODES, UNLABELLED, KnownNodes, said_of_nodes
from zoo.datasets.load import DATASETS, load_data, own_files, resolved_dataset
from zoo.datasets.load.obtain import path_of
from zoo.datasets.split_words import labelled
from zoo.datasets.splits import (
    KEPT,
    PARTS,
    Split,
    known_of,
    parts_then,
    split_files,
    split_of,
)
from zoo.datasets.tables.columns import OF_TEXT, listed
from zoo.errors import ZooError
from zoo.inference.data_of_training import (
    known_to,
    of_training,
    other_files,
    training_spec,
)
from zoo.weights.folder import CONFIG, changed_files, read_config, sha256_of
from zoo.weights.index import locate

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
    then = parts_then(known_of(data), split["run"])[labelled(data.y.numpy())]
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
