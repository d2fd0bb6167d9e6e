"""The links of a graph as what is predicted: `LinkData`, what `Dataset` is for its nodes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec
from zoo.config.recipe import word
from zoo.data.dataset import Dataset, part_numbers
from zoo.data.files.graph_arrays import PARTS
from zoo.data.splits import KEPT, PAIRS, SPLITS, TIME_SPLITS, Split, split_files, split_problems
from zoo.data.summary import summary
from zoo.data.tables.nodes_and_edges import edge_parts
from zoo.data.tables.read import (
    CsvFormat,
    guess_separator,
    is_index,
    parse_texts,
    read_header,
    read_table,
)
from zoo.dgl import DGLGraph
from zoo.errors import ZooError, suggestion
from zoo.graphs.pairs import (
    Known,
    LinkRows,
    Links,
    Negatives,
    links_of,
    numbers_of,
    with_links,
    with_pairs,
)
from zoo.system.files import user_path
from zoo.tasks.labels import LINKS
from zoo.tasks.links import LinkTask

RANDOM = tuple(word for word in SPLITS if word.startswith(("ratio", "folds", KEPT)))
"""The splits that any links have."""

SPLIT = "ratio-85-5-10"
"""The usual split of links, that of the GAE (arXiv 1611.07308)."""

_LOG = logging.getLogger(__name__)

FEW = 100
"""Links of validation below which a warning is due."""

FEWEST = 10
"""Links that a graph has at least."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LinkData:
    """The links of a graph, each a row of what is learnt; its nodes are what a model reads.

    What a model sees is the message graph: the links of training alone, and degrees and encodings
    of these. No link of validation or test is ever in it. What is not listed here is that of the
    nodes: features and their names, encodings, columns of a table.

    Attributes:
        nodes: the data set of the nodes, with the message graph.
        whole: the graph with every link.
        links: its links, (M, 2), and which of them each edge is.
        how: the task, with its decoder and negatives.
        split: word of the split where none is named.
        splits: words of those that it takes.
        masks: `train`, `val` and `test`, each (1, M) bool, where something says them.
        times: (M,) when each link came first; None: not said.
        y: (M,) int64, all 0: in a row of candidates the link stands first.
        batching: the mini-batch strategies that it may be trained by.
        unit: what has a label, in words.
    """

    batching: ClassVar[tuple[str, ...]] = ("links",)
    unit: ClassVar[str] = "links"
    overlap: ClassVar[int] = 0
    task: ClassVar[str] = LINKS
    metric: ClassVar[str] = "roc-auc"
    classes: ClassVar[int] = 1
    published: ClassVar[None] = None
    labels: ClassVar[None] = None
    groups: ClassVar[None] = None
    kinds: ClassVar[None] = None

    __repr__ = summary

    nodes: Dataset
    whole: DGLGraph
    links: Links
    how: LinkTask
    split: str = SPLIT
    splits: tuple[str, ...] = RANDOM
    masks: dict[str, Tensor] | None = None
    times: np.ndarray | None = None

    @classmethod
    def of(cls, data: Any, how: LinkTask, split: Spec | None = None) -> LinkData:
        """Return the links of a data set of nodes.

        Args:
            data: the graph.
            how: the task.
            split: of links; what its tables say is read, and pairs in there that are no edges are
                links too, which no model sees.

        Raises:
            ZooError: it is no graph, or has few links, or a link is in two parts.
        """
        if not isinstance(data, Dataset):
            raise ZooError(
                f"{data.name} is {data.unit}, and `task: {LINKS}` is of one graph; leave `task` "
                "out, or name another data set."
            )
        links, rows = links_of(data.graph), data.link_rows
        if split is not None and word(split) == PAIRS:
            rows = _rows_of_files(split, data)
            links = with_pairs(links, rows.pairs, len(data.x))
        if len(links.pairs) < FEWEST:
            raise ZooError(
                f"{data.name} has {len(links.pairs)} links, too few to learn from and to be "
                f"measured by; `task: {LINKS}` takes at least {FEWEST}."
            )
        nodes = dataclasses.replace(data, made=(), masks=None)
        return cls(nodes, data.graph, links, how, **_known_of(rows, links, data, split))

    def __getattr__(self, name: str) -> Any:
        """Return what is known of the nodes."""
        if name.startswith("__") or name == "nodes":
            raise AttributeError(name)
        return getattr(self.nodes, name)

    @cached_property
    def y(self) -> Tensor:
        """(M,) int64, all 0."""
        return torch.zeros(len(self.links.pairs), dtype=torch.int64)

    @cached_property
    def ids(self) -> np.ndarray:
        """(M,) text: the ids of both ends of a link, the same whichever way it leads."""
        first, second = np.sort(self.names(self.links.pairs).astype(str), axis=1).T
        return np.char.add(np.char.add(first, "\t"), second)

    def with_graph(self, spec: Spec) -> LinkData:
        """Return the data set as it is: its links are those of its graph."""
        return self

    def trained_on(self, train: Tensor) -> LinkData:
        """Return the data set with a message graph of some links (m,), and what is made of it."""
        everything = torch.arange(len(self.nodes.x))
        nodes = self.nodes.trained_on(everything).with_structure(self.message(train))
        return dataclasses.replace(self, nodes=nodes)

    def encoded(self, encode) -> LinkData:
        """Return the data set with the encoding of the message graph beside the features."""
        return dataclasses.replace(self, nodes=self.nodes.encoded(encode))

    def message(self, links: Tensor) -> DGLGraph:
        """Return the graph of some links (m,) alone."""
        kept = torch.zeros(len(self.links.pairs), dtype=torch.bool)
        kept[links] = True
        return with_links(self.whole, self.links, kept)

    def candidates(
        self, rows: Tensor, negatives: Negatives, count: int | None, seed: int
    ) -> Tensor:
        """Return some links (m,), each with pairs that are none behind it, (m, 1 + count, 2).

        Which of its ends comes first is drawn. Where a table has more for one link than for
        another, -1 fills up.

        Args:
            rows: which links.
            negatives: what gives them.
            count: pairs without a link for each; None: all that a table has.
            seed: of what is drawn.
        """
        generator = torch.Generator().manual_seed(seed)
        pairs = self.links.pairs[rows]
        turned = torch.rand(len(pairs), generator=generator) < 0.5
        pairs = torch.where(turned.unsqueeze(1), pairs.flip(1), pairs)
        others = negatives(pairs, count, generator)
        return torch.cat([pairs.unsqueeze(1), others], dim=1)

    def known(self, links: Tensor | None = None, part: str | None = None) -> Known:
        """Return some links (m,), or all, to be asked whether pairs are among them.

        Args:
            links: which.
            part: of the split, of which tables of pairs are read.
        """
        pairs = self.links.pairs if links is None else self.links.pairs[links]
        return Known(pairs, self.whole.num_nodes(), part, self._read)

    def _read(self, path: str, ends: tuple[str, ...], known: Known) -> Tensor:
        """Return the nodes of the rows of a table of pairs, of a part where it says any, (Q, k)."""
        nodes, parts = read_node_pairs(user_path(path), self.nodes, ends=ends, split="split")
        part = known.part
        if parts is not None and part is not None:
            own = parts == part
            if not own.any() and part == "train":  # which is told beside the others
                own = parts == "val"
            if not own.any():
                raise ZooError(f"{path} has no rows of {part} in its column 'split'; write some.")
            nodes = nodes[torch.from_numpy(own)]
        pairs = nodes[:, [0, -1]]
        linked = known.has(pairs).nonzero().flatten()
        if len(linked):
            first, second = self.names(pairs[linked[0]]).tolist()
            raise ZooError(
                f"{path}: {first} and {second} are linked, or one node, and should be a pair "
                f"without a link ({len(linked):,} such); leave these out."
            )
        return nodes

    def names(self, pairs: Tensor) -> np.ndarray:
        """Return what the user calls both nodes of pairs (P, 2)."""
        return pairs.numpy() if self.nodes.ids is None else self.nodes.ids[pairs.numpy()]


def _rows_of_files(split: Spec, data: Dataset) -> LinkRows:
    """Return the links of the tables of a split, and the part of each.

    Raises:
        ZooError: a table is missing, has no parts, or has a pair that none can be.
    """
    if wrong := split_problems(split, ()):
        raise ZooError(f"split {split!r}: {wrong[0].message}.")
    pairs, parts = [], []
    for option, path in split_files(split).items():
        nodes, own = read_node_pairs(path, data, split="split" if option == "path" else None)
        if option == "path" and own is None:
            raise ZooError(
                f"{path} has no column 'split' that says train, val or test of each link; add "
                "one, or write a table for each part: {name: pairs, val: ..., test: ...}."
            )
        words = np.full(len(nodes), option) if own is None else own
        alone = (nodes[:, 0] == nodes[:, 1]).nonzero().flatten()
        if len(alone):
            raise ZooError(
                f"{path}: data row {int(alone[0]) + 1} links a node with itself ({len(alone):,} "
                "such); leave these out."
            )
        pairs.append(nodes)
        parts.append(part_numbers(words))
    return LinkRows(torch.cat(pairs), None, torch.cat(parts))


def _known_of(
    rows: LinkRows | None, links: Links, data: Dataset, split: Spec | None
) -> dict[str, Any]:
    """Return `masks`, `times`, `split` and `splits` of links, as far as rows say them.

    Raises:
        ZooError: a link is in two parts.
    """
    if rows is None:
        return {}
    known: dict[str, Any] = {"splits": RANDOM}
    numbers, count = numbers_of(links, rows.pairs, len(data.x)), len(links.pairs)
    own = (numbers >= 0) & (rows.pairs[:, 0] != rows.pairs[:, 1])
    numbers = numbers[own]
    if rows.times is not None:
        first = torch.full((count,), torch.inf, dtype=torch.double)
        first = first.scatter_reduce(0, numbers, rows.times[own], "amin")
        known |= {"times": first.numpy(), "split": "time", "splits": (*RANDOM, *TIME_SPLITS)}
    if rows.parts is not None:
        part = _parts(rows.parts[own], numbers, links, data)
        if by_files := split is not None and word(split) == PAIRS:
            part = _rest(part, split, links, data)
        elif missing := int((part < 0).sum()):
            _warn_of_unused(missing, data)
        known["masks"] = {name: (part == number)[None] for number, name in enumerate(PARTS)}
        known["split"] = PAIRS if by_files else "benchmark"
        known["splits"] = (*known["splits"], known["split"])
    return known


def _parts(parts: Tensor, numbers: Tensor, links: Links, data: Dataset) -> Tensor:
    """Return the part of each link, (M,), -1 of those in none, for rows (R,) of these links."""
    said = parts >= 0
    parts, numbers = parts[said], numbers[said]
    empty = torch.full((len(links.pairs),), -1)
    least = empty.scatter_reduce(0, numbers, parts, "amin", include_self=False)
    most = empty.scatter_reduce(0, numbers, parts, "amax", include_self=False)
    twice = (least != most).nonzero().flatten()
    if len(twice):
        pair = links.pairs[twice[0]]
        first, second = pair.tolist() if data.ids is None else data.ids[pair.numpy()].tolist()
        raise ZooError(
            f"{data.name}: the link of {first} and {second} is of {PARTS[least[twice[0]]]} and of "
            f"{PARTS[most[twice[0]]]} ({len(twice):,} such); a link has one part, whichever way "
            "its edges lead: leave it in one."
        )
    return least


def _rest(part: Tensor, split: Spec, links: Links, data: Dataset) -> Tensor:
    """Return parts where links that no table has are of training if no table says which are."""
    own = torch.zeros(len(part), dtype=torch.bool)
    own[links.of_edge[links.of_edge >= 0]] = True
    if beyond := int((~own).sum()):
        _LOG.warning(
            f"{data.name}: links in tables that are no edges of it are predicted, and no model "
            f"sees them ({beyond:,} such)."
        )
    if "path" not in split and "train" not in split:
        return torch.where(part < 0, 0, part)
    if missing := int((part < 0).sum()):
        _warn_of_unused(missing, data)
    return part


def _warn_of_unused(count: int, data: Dataset) -> None:
    _LOG.warning(
        f"{data.name}: links in no part of the split are neither predicted nor seen ({count:,} "
        "such)."
    )


def warn_of_few_links(data: LinkData, split: Split) -> None:
    """Log a warning if validation has so few links that chance tells which epoch is the best."""
    count = len(split.val)
    if count < FEW:
        _LOG.warning(
            f"validation has {count} links of {data.name}, by which chance chooses the best epoch; "
            f"give it {FEW} or more (split: {{name: ratio, train: 60, val: 20, test: 20}}), or "
            "average many seeds."
        )


# Tables of pairs


def node_places(data: Any) -> dict[str, int]:
    """Return the number of each node by its id, as it is written."""
    ids = np.arange(len(data.x)) if data.ids is None else data.ids
    return {str(name): place for place, name in enumerate(ids.tolist())}


def read_node_pairs(
    path: Path, data: Any, *, ends: Sequence[str] = ("source", "target"), split: str | None = None
) -> tuple[Tensor, np.ndarray | None]:
    """Read a table whose first columns are ids of nodes.

    Return the numbers of these (P, k) int64, and the part of each row (P,), train, val, test, or ""
    for none; None where the table has no such column.

    Args:
        path: a CSV or Parquet table.
        data: of whose nodes.
        ends: what the first columns are, for what is said; as many are read.
        split: the column of parts, which need not be there; None: none is looked for.

    Raises:
        ZooError: there is no such table, it has too few columns, no line of names or no pairs, or
            an id is none of a node.
    """
    csv_format = CsvFormat(guess_separator(path) if path.is_file() else None)
    names, shown = read_header(path, csv_format), ",".join(ends)
    if len(names) < len(ends):
        needed = "pairs are two" if len(ends) == 2 else f"its rows are {shown}"
        raise ZooError(
            f"{path} has {len(names)} column{'s' * (len(names) > 1)}; {needed}, an id of a node "
            "each."
        )
    if is_index(names[0].strip()):  # the numbers of rows, which may be ids as well
        raise ZooError(
            f"{path}: its first column has no name, as the index that pandas writes; the first "
            f"{'two' if len(ends) == 2 else len(ends)} columns are to be ids of nodes, such as "
            f"{shown}."
        )
    places = node_places(data)
    first = names[: len(ends)]
    if all(name.strip() in places for name in first):
        raise ZooError(
            f"{path}: its first line is a pair, {','.join(first)}, and it is to name the "
            f"columns; put a line such as {shown} above it."
        )
    table = read_table(path, first, first, csv_format)
    if not len(table):
        raise ZooError(f"{path} has no pairs; write a line with two ids for each.")
    columns = []
    for name in first:
        words = [word.strip() for word in parse_texts(table[name], None, whole=True)]
        columns.append([places.get(word, -1) for word in words])
        unknown = [word for word, place in zip(words, columns[-1], strict=True) if place < 0]
        if unknown:
            raise ZooError(
                f"{path} has {unknown[0]!r}, and no node of {data.name} has this id "
                f"({len(unknown):,} such); {suggestion(unknown[0], places)}"
            )
    has_parts = split is not None and split in names[len(ends) :]
    parts = edge_parts(path, split, csv_format) if has_parts else None
    return torch.tensor(columns).T, parts
