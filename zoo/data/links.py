"""The links of a graph as what is predicted: `LinkData`, what `Dataset` is for its nodes."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec, pick
from zoo.data.dataset import Dataset
from zoo.data.splits import SPLITS
from zoo.dgl import DGLGraph
from zoo.errors import ZooError
from zoo.graphs.pairs import NEGATIVES, Known, Links, links_of, with_links
from zoo.tasks.labels import LINKS
from zoo.tasks.links import LinkTask

SPLIT = "ratio-85-5-10"
"""The usual split of links, that of the GAE (arXiv 1611.07308)."""

FEWEST = 10
"""Links that a graph has at least."""


@dataclasses.dataclass(frozen=True, eq=False)
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
        y: (M,) int64, all 0: in a row of candidates the link stands first.
        batching: the mini-batch strategies that it may be trained by.
        unit: what has a label, in words.
    """

    batching: ClassVar[tuple[str, ...]] = ("links",)
    unit: ClassVar[str] = "links"
    splits: ClassVar[tuple[str, ...]] = tuple(w for w in SPLITS if w.startswith(("ratio", "folds")))
    overlap: ClassVar[int] = 0
    task: ClassVar[str] = LINKS
    metric: ClassVar[str] = "roc-auc"
    split: ClassVar[str] = SPLIT
    classes: ClassVar[int] = 1
    masks: ClassVar[None] = None
    published: ClassVar[None] = None
    labels: ClassVar[None] = None
    ids: ClassVar[None] = None
    times: ClassVar[None] = None
    groups: ClassVar[None] = None
    kinds: ClassVar[None] = None

    nodes: Dataset
    whole: DGLGraph
    links: Links
    how: LinkTask

    @classmethod
    def of(cls, data: Any, how: LinkTask) -> LinkData:
        """Return the links of a data set of nodes.

        Raises:
            ZooError: it is no graph, or has few links.
        """
        if not isinstance(data, Dataset):
            raise ZooError(
                f"{data.name} is {data.unit}, and `task: {LINKS}` is of one graph; leave `task` "
                "out, or name another data set."
            )
        links = links_of(data.graph)
        if len(links.pairs) < FEWEST:
            raise ZooError(
                f"{data.name} has {len(links.pairs)} links, too few to learn from and to be "
                f"measured by; `task: {LINKS}` takes at least {FEWEST}."
            )
        return cls(dataclasses.replace(data, made=(), masks=None), data.graph, links, how)

    def __getattr__(self, name: str) -> Any:
        """Return what is known of the nodes."""
        if name.startswith("__") or name == "nodes":
            raise AttributeError(name)
        return getattr(self.nodes, name)

    @cached_property
    def y(self) -> Tensor:
        """(M,) int64, all 0."""
        return torch.zeros(len(self.links.pairs), dtype=torch.int64)

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

    def candidates(self, rows: Tensor, spec: Spec, count: int, known: Known, seed: int) -> Tensor:
        """Return some links (m,), each with pairs that are none behind it, (m, 1 + count, 2).

        Which of its ends comes first is drawn.

        Args:
            rows: which links.
            spec: a word of `NEGATIVES`.
            count: pairs without a link for each.
            known: the links that no drawn pair may be.
            seed: of what is drawn.
        """
        generator = torch.Generator().manual_seed(seed)
        pairs = self.links.pairs[rows]
        turned = torch.rand(len(pairs), generator=generator) < 0.5
        pairs = torch.where(turned.unsqueeze(1), pairs.flip(1), pairs)
        others = pick(NEGATIVES, spec, known)(pairs, count, generator)
        return torch.cat([pairs.unsqueeze(1), others], dim=1)

    def known(self, links: Tensor | None = None) -> Known:
        """Return some links (m,), or all, to be asked whether pairs are among them."""
        pairs = self.links.pairs if links is None else self.links.pairs[links]
        return Known(pairs, self.whole.num_nodes())

    def names(self, pairs: Tensor) -> np.ndarray:
        """Return what the user calls both nodes of pairs (P, 2)."""
        return pairs.numpy() if self.nodes.ids is None else self.nodes.ids[pairs.numpy()]
