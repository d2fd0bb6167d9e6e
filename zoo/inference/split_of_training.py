"""How the data of a training were divided, and whether data are the very ones."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Spec
from zoo.config.recipe import divide
from zoo.datasets import Dataset
from zoo.datasets.load import DATASETS, resolved_dataset
from zoo.datasets.load.obtain import path_of
from zoo.datasets.splits import Split, split_of
from zoo.errors import ZooError
from zoo.inference.data_of_training import other_files, training_spec
from zoo.weights.folder import CONFIG, read_config
from zoo.weights.index import locate


def own_split(spec: Spec, trained_on: Spec | None, about: About) -> dict[str, Any] | None:
    """Return the `split` of training, if it says one, where data are those of training; else None.

    Args:
        spec: of the data, without a split.
        trained_on: of the data of training, with its split.
        about: of the weights, with the checksums of the files then.
    """
    own = _split_then(spec, trained_on)
    return None if own is None or other_files(spec, about) else own


def changed_since(spec: Spec, trained_on: Spec | None, about: About) -> bool:
    """Return whether data are the files of training with another content; for `own_split`'s."""
    return _split_then(spec, trained_on) is not None and bool(other_files(spec, about))


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


def warn_of_seen(weights: str, spec: Spec, data: Dataset, splits: Sequence[Split]) -> None:
    """Warn where weights were trained, or may be, on what a fine-tuning from them is measured on.

    Args:
        weights: which the fine-tuning starts from.
        spec: of its data, without a split.
        data: which the spec is of.
        splits: of each seed.
    """
    folder = locate(weights).folder
    about, trained_on = read_config(folder / CONFIG)["about"], training_spec(folder)
    if changed_since(spec, trained_on, about):
        warn_of_change(data)
    train = trained_nodes(about, own_split(spec, trained_on, about), data)
    if train is None:
        return
    measured = [torch.cat([split.val, split.test]) for split in splits]
    if seen := sum(int(torch.isin(each, train).sum()) for each in measured):
        logging.getLogger(__name__).warning(
            f"{weights} was trained on {seen:,} of the {sum(map(len, measured)):,} {data.unit} of "
            "validation and test, whose scores are too good; with the split of that training and "
            f"`seeds=[{about.seed or 0}]` none of them was."
        )


def warn_of_change(data: Dataset) -> None:
    """Warn that a file of training has another content, and its split of then is lost."""
    logging.getLogger(__name__).warning(
        f"{data.name} has changed since the weights were trained on it, and is divided anew: some "
        f"of the {data.unit} that are measured may have been trained on, whose scores are too good."
    )


def _split_then(spec: Spec, trained_on: Spec | None) -> dict[str, Any] | None:
    """Return the split of training where data are, by place and options, those of training."""
    if not isinstance(trained_on, str | Mapping):
        return None
    theirs, own = divide(trained_on, ("split",))
    try:
        return own if _told(theirs) == _told(spec) else None
    except ZooError:  # the data of training are not here
        return None


def _told(spec: Spec) -> dict[str, Any]:
    """Return every option of a data set, but what weights know of it, and where its files lie."""
    found = resolved_dataset(spec)
    found.pop("features", None)
    name = found["name"]
    own = name not in DATASETS and path_of(name).exists()
    return {**found, "name": str(path_of(name).resolve()) if own else name}
