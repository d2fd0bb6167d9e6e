"""Molecules: SMILES of a table, or in memory, as a set of graphs with a label each."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from zoo.data.files.graph_arrays import (
    check_graph_set,
    check_ids,
)
from zoo.data.files.objects import check_order, wrong_object
from zoo.data.samples import Samples
from zoo.data.tables.columns import Columns, Names
from zoo.data.tables.nodes_and_edges import (
    label_words,
    read_node_table,
)
from zoo.data.tables.read import (
    CsvFormat,
    Decimal,
    Separator,
    check_columns,
    is_index,
    kind_of,
    parse_texts,
    read_header,
    read_table,
)
from zoo.data.tables.smiles import molecules_of
from zoo.errors import ZooError, reading
from zoo.tasks.labels import (
    GRAPH_BINARY,
    GRAPH_MULTILABEL,
    GRAPH_REGRESSION,
    GRAPHS,
    GraphTask,
    Labels,
    check_fit,
    check_labels,
)

_LOG = logging.getLogger(__name__)


def read_molecules(
    path: Path,
    *,
    smiles: str | None = None,
    id: str = "id",
    label: Names | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    unknown: str | int | None = None,
    separator: Separator | None = None,
    decimal: Decimal = "point",
    task: GraphTask | None = None,
) -> Samples:
    """Read a table with a column of SMILES: molecules, graphs of atoms and bonds, by RDKit.

    Molecules that cannot be read are told, and have an empty row in predictions.

    Args:
        path: a CSV or Parquet table.
        smiles: column of SMILES; left out, that which is called so, in whatever case.
        id: column of what each molecule is called; left out, `id`, or the number of its row from 0.
        label: column, or several, of what is predicted; left out, `label`, or the other columns
            of numbers where they can be nothing else.
        labels: `ignore` reads molecules that are to be predicted: this column is not looked at.
        split_column: column of train, val, test, or nothing. Left out, `split`, or a mask for each
            part, such as `train_mask`.
        unknown: what stands for a label that is not known, beside an empty cell.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
        task: what the labels are for; left out, as these say.
    """
    csv_format = CsvFormat(separator, decimal)
    choice = Columns(id, label, split_column, [], unknown=unknown, task=task,
                     csv_format=csv_format, unlabelled=labels == "ignore")  # fmt: skip
    with reading(path, "a table of molecules"):
        names = read_header(path, csv_format)
        smiles = smiles or smiles_column(names) or "smiles"
        check_columns([smiles], names, path.name, "smiles")
        cells = read_table(path, {smiles}, [smiles], csv_format)[smiles]
        if len(cells) == 0:
            raise ZooError(f"{path.name} has no rows; write one for each molecule.")
        wanted, task = _choose_labels(path, smiles, choice)
        rows = read_node_table(path, dataclasses.replace(choice, label=wanted, task=task))
        texts = parse_texts(cells, None)
        graphs, read = molecules_of(texts.tolist(), path.name)
        count = len(texts)
        y, task = check_labels(rows.labels, task), task or GRAPHS
        check_fit(y, task)
        ids = np.arange(count) if rows.ids is None else check_ids(rows.ids, count)
        arrays = graphs._replace(
            labels=y[read], label_names=rows.label_names, task=task,
            ids=None if rows.ids is None else ids[read],
            masks=rows.masks and {part: mask[:, read] for part, mask in rows.masks.items()},
        )  # fmt: skip
        data = Samples.of_graphs(path.stem, check_graph_set(arrays))
    unread = {row: ids[row].item() for row in np.flatnonzero(~read).tolist()}
    return dataclasses.replace(data, smiles=tuple(texts[read].tolist()), unread=unread)


def from_smiles(
    smiles: Iterable[str],
    labels: Any = None,
    *,
    ids: Iterable[Any] | None = None,
    task: GraphTask | None = None,
    name: str = "molecules",
) -> Samples:
    """Return molecules in memory as `read_molecules` reads a table of them."""
    from pandas import DataFrame

    if isinstance(smiles, str | bytes | Mapping) or hasattr(smiles, "columns"):
        raise wrong_object("from_smiles reads a list of SMILES, or a column of a table", smiles)
    check_order(smiles=smiles, labels=labels, ids=ids)
    table, wanted = DataFrame({"smiles": [*smiles]}), DataFrame()
    if labels is not None:
        several = hasattr(labels, "columns") or np.ndim(labels) > 1
        wanted = DataFrame(labels if several else {"label": labels}).reset_index(drop=True)
        wanted.columns = [str(column) for column in wanted.columns]
    if ids is not None:
        table["id"] = [*ids]
    if len(wanted.columns) and len(wanted) != len(table):
        raise ZooError(f"there are {len(table):,} SMILES and labels of {len(wanted):,}.")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "molecules.parquet"
        table.join(wanted).to_parquet(path, index=False)
        unlabelled = "use" if len(wanted.columns) else "ignore"
        data = read_molecules(path, label=[*wanted.columns] or None, labels=unlabelled, task=task)
    return dataclasses.replace(data, name=name)


def smiles_column(names: Sequence[str]) -> str | None:
    """Return the column called smiles in whatever case, or the only one with this in its name.

    None if there is none.

    >>> smiles_column(["id", "Canonical_SMILES", "logP"])
    'Canonical_SMILES'
    """
    called = [name for name in names if "smiles" in name.lower()]
    exact = [name for name in called if name.strip().lower() == "smiles"]
    return exact[0] if exact else called[0] if len(called) == 1 else None


def has_smiles(path: Path, csv_format: CsvFormat) -> bool:
    """Return whether a file is a table with a column called smiles."""
    try:
        return smiles_column(read_header(path, csv_format)) is not None
    except (ZooError, OSError):  # which is told where the file is read
        return False


def _choose_labels(path: Path, smiles: str, choice: Columns) -> tuple[list[str], str | None]:
    """Return the columns of labels of a table of molecules, and the task; what is guessed is told.

    Where no column is named and none is called `label`, it is the only other column of numbers, or
    all of them where these hold nothing but 0 and 1. Where no task is named, one column of 0 and 1
    is binary, several are many targets, fractions are numbers to predict and words are classes.

    Raises:
        ZooError: there are several columns of numbers, or whole numbers that may be classes.
    """
    roles = choice.roles(names := read_header(path, choice.csv_format))
    if choice.unlabelled:
        return [], choice.task
    columns = roles.labels
    check_columns(columns, names, path.name, "label")
    others = {smiles, choice.id, roles.split, *roles.masks}
    wanted = columns or [name for name in names if not (name in others or is_index(name))]
    table = read_table(path, {*columns}, wanted, choice.csv_format)
    if not columns:
        wanted = [name for name in wanted if kind_of(table[name]) == "number"]
    words = {name: np.unique(label_words(table[name], choice)) for name in wanted}
    values = {name: own[np.char.strip(own) != ""] for name, own in words.items()}
    if not columns and len(wanted) > 1 and not all(map(_is_binary, values.values())):
        shown = ", ".join(map(repr, wanted[:5])) + (", ..." if len(wanted) > 5 else "")
        raise ZooError(
            f"{path.name}: several columns hold numbers, {shown}; say which is to be predicted, "
            f"`label: {wanted[-1]}`, or several, `label: [{wanted[-2]}, {wanted[-1]}]`."
        )
    task = choice.task or _infer_task(values, path.name, choice.csv_format.decimal)
    if task and (not columns or not choice.task):
        shown = ", ".join(wanted[:3]) + (f" and {len(wanted) - 3} more" if len(wanted) > 3 else "")
        _LOG.warning(f"{path.name}: what is predicted is {shown}, task {task}.")
    return wanted, task


def _is_binary(values: np.ndarray) -> bool:
    words = np.char.strip(np.char.lower(values))
    return {*words.tolist()} <= {"0", "1", "0.0", "1.0", "false", "true"}


def _infer_task(values: Mapping[str, np.ndarray], where: str, decimal: Decimal) -> str | None:
    """Return the task of labels (name to their different values); None where nothing is known."""
    if not any(map(len, values.values())):
        return None
    if all(map(_is_binary, values.values())):
        return GRAPH_BINARY if len(values) == 1 else GRAPH_MULTILABEL
    words = np.concatenate([*values.values()])
    words = np.char.replace(words, ",", ".") if decimal == "comma" else words
    try:
        numbers = words.astype(float)
    except ValueError:
        return GRAPHS
    if (numbers[np.isfinite(numbers)] % 1 != 0).any():
        return GRAPH_REGRESSION
    raise ZooError(
        f"{where}: {', '.join(map(repr, values))} holds whole numbers, such as {numbers[0]:g}, "
        f"which may be classes or amounts; write `task: {GRAPHS}` or `task: {GRAPH_REGRESSION}`."
    )
