"""Graphs in time: numbers at nodes at many times, of which the next ones are to be predicted.

A sample is the snapshot at one time: a graph, and of each of its nodes the last values. Any model
of nodes reads it as features, and its logits are the next values. Neither inputs nor what scales
them are of a later time than the training samples.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import options_of
from zoo.config.scores import MSE
from zoo.data.canonical import canonical
from zoo.data.files.graph_arrays import Direction, Duplicates
from zoo.data.samples import Encodings, Separate, encodings_of
from zoo.data.splits import TIME_SPLITS
from zoo.data.summary import summary
from zoo.dgl import DGLGraph
from zoo.errors import ZooError
from zoo.graphs.graph_sets import StoredGraphs, stretches
from zoo.registry import MODELS
from zoo.tasks.labels import FORECASTING

Scale = Literal["none", "standard"]


PERIODS = {
    "h": 24, "D": 7, "B": 5, "W": 52, "SM": 24, "M": 12, "BM": 12, "CBM": 12, "WOM": 12, "LWOM": 12,
    "Q": 4, "BQ": 4,
}  # fmt: skip
"""Steps after which a season comes again, by how pandas abbreviates the length of one.

It may add S or E, the start or the end, and after a line a day or a month.
"""


class Steps(NamedTuple):
    """How times go on.

    Attributes:
        size: of whole numbers their difference; of dates what pandas calls a frequency.
    """

    size: Any

    def after(self, last: Any, count: int) -> np.ndarray:
        """Return the next times after the last one, (count,)."""
        if isinstance(self.size, int):
            return int(last) + self.size * np.arange(1, count + 1)
        import pandas

        return pandas.date_range(last, periods=count + 1, freq=self.size)[1:].to_numpy()

    @property
    def period(self) -> int | None:
        """Steps to the next year, week or day, where they are months, days or hours, or the like.

        >>> Steps("MS").period, Steps("BQE-DEC").period, Steps("W-MON").period, Steps(1).period
        (12, 4, 52, None)
        """
        size = str(self.size).partition("-")[0]
        return PERIODS.get(size) or PERIODS.get(size.removesuffix("S").removesuffix("E"))


class NodeSeries(NamedTuple):
    """Numbers of N nodes at T times, and the graph at each of these.

    Attributes:
        times: whole numbers, or dates as datetime64, (T,), in order and equal steps.
        steps: between them.
        values: (T, N, F) fp32, NaN where unknown; the first of the F is what is predicted.
        names: what the F are called.
        ids: what the nodes are called (N,), int64 or text; None: by their numbers.
        edges: those of each graph that differs, (E, 2) each.
        graph_of: which of these is there at each time, (T,).
        weights: of the edges of each graph, (E,) each; None: all count alike.
    """

    times: np.ndarray
    steps: Steps
    values: np.ndarray
    names: tuple[str, ...]
    ids: np.ndarray | None
    edges: list[np.ndarray]
    graph_of: np.ndarray
    weights: list[np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Snapshots(Separate):
    """Series at N nodes, cut into S samples: the last values of each node, and the next ones.

    Sample s reads the times s, ..., s + lags - 1 on the graph of the last of them, and predicts the
    `horizon` times that follow. An unknown value counts in no loss and no score; where it is read,
    the last one before stands for it, and 0, the mean of what is scaled, where there is none.

    Attributes:
        name: the word that names it, or the stem of its file.
        series: the values as they are.
        graphs: canonical graphs, one of which each sample has.
        lags: values of each feature that are read.
        horizon: values that are predicted at once.
        y: the next values of each node, node by node, (S, N * horizon), NaN where unknown.
        x: values as they are read, (T, N, F): scaled, and none unknown.
        scale: `standard`: by the mean and the deviation of each; `none`: as it is.
        shift: what is subtracted of each feature of each node, (N, F).
        spread: what it is then divided by.
        period: times after which a season comes again, or None.
        encodings: what stands to the right of the values, graph by graph, or None.
        split: word of the split that is used when a recipe names none.
    """

    batching: ClassVar[tuple[str, ...]] = ("snapshots",)
    unit: ClassVar[str] = "snapshots"
    splits: ClassVar[tuple[str, ...]] = TIME_SPLITS
    task: ClassVar[str] = FORECASTING
    metric: ClassVar[str] = MSE
    tokenizer = masks = tokens = None

    __repr__ = summary

    name: str
    series: NodeSeries
    graphs: StoredGraphs
    lags: int
    horizon: int
    y: Tensor
    x: Tensor
    scale: Scale
    shift: Tensor
    spread: Tensor
    period: int | None = None
    encodings: Encodings | None = None
    split: str = "time-70-10-20"

    @classmethod
    def of(
        cls,
        name: str,
        series: NodeSeries,
        *,
        lags: int,
        horizon: int,
        scale: Scale = "none",
        period: int | None = None,
        direction: Direction = "both",
        duplicates: Duplicates = "mean",
    ) -> Snapshots:
        """Cut series into samples, unscaled yet; raise ZooError where there are too few times.

        From as many as are read a forecast may go on; `need_samples` asks for what is learnt from.
        """
        times, nodes, features = series.values.shape
        if times < lags:
            raise ZooError(
                f"{name} has {times:,} times, and {lags} lags are read; give {lags} at least, or, "
                "where a model is to be trained, write smaller `lags`."
            )
        count = max(0, times - lags - horizon + 1)
        raw = torch.from_numpy(series.values)
        y = raw.new_zeros(0, nodes, horizon)
        if count:
            y = raw[lags:, :, 0].unfold(0, horizon, 1)  # (S, N, horizon)
        graphs = [
            canonical(edges, nodes=nodes, weights=w, direction=direction, duplicates=duplicates)
            for edges, w in zip(series.edges, series.weights or repeat(None), strict=False)
        ]
        kinds = torch.from_numpy(series.graph_of)[lags - 1 : lags - 1 + count]
        return cls(
            name=name,
            series=series,
            graphs=StoredGraphs(graphs, kinds),
            lags=lags,
            horizon=horizon,
            y=y.reshape(count, nodes * horizon).contiguous(),
            x=filled(raw),
            scale=scale,
            shift=torch.zeros(nodes, features),
            spread=torch.ones(nodes, features),
            period=period or series.steps.period,
        )

    def need_samples(self) -> None:
        """Raise ZooError where there is no snapshot each for training, validation and test."""
        if len(self.y) < 3:
            raise ZooError(
                f"{self.name} has {len(self.x):,} times, and {self.lags} lags with a horizon of "
                f"{self.horizon} need {self.lags + self.horizon + 2} at least: a snapshot each for "
                "training, validation and test. Write smaller `lags`, or another `horizon`."
            )

    @property
    def inputs(self) -> int:
        """The number of features that a model reads of a node, encodings included."""
        return self.lags * self.x.shape[2] + (self.encodings.rows.shape[1] if self.encodings else 0)

    @property
    def classes(self) -> int:
        """How many values are predicted of each node."""
        return self.horizon

    @property
    def ids(self) -> np.ndarray | None:
        """What the user calls each node (N,); None: by their numbers."""
        return self.series.ids

    @property
    def scaling(self) -> dict[str, list[list[float]]] | None:
        """By the name of each node, what its features are scaled by, (2, F); None if by nothing."""
        if self.scale == "none":
            return None
        names = map(str, range(len(self.shift)) if self.ids is None else self.ids)
        return dict(zip(names, torch.stack([self.shift, self.spread], dim=1).tolist(), strict=True))

    @property
    def told(self) -> dict[str, Any]:
        """What weights have to say of the series they learn from, in the words of `About`."""
        names, size = self.series.names, self.series.steps.size
        return {"step": str(size), "series": list(names), "lags": self.lags}

    @property
    def overlap(self) -> int:
        """Samples after one that have some of its targets too."""
        return self.horizon - 1

    @property
    def graph(self) -> DGLGraph:
        """Refuse what is for one graph, by a ZooError."""
        raise ZooError(
            f"{self.name} is {len(self.y):,} snapshots in time, and this is for one graph. It is "
            "trained by `zoo train` with `train.batching=snapshots`."
        )

    def trained_on(self, train: Tensor) -> Snapshots:
        """Return the data scaled by what is known at the times of training samples (m,).

        A node of which nothing is known there is scaled by the values of all others.
        """
        if self.scale == "none":
            return self
        end = int(train.max()) + self.lags + self.horizon  # of the last one's targets
        known = torch.from_numpy(self.series.values[:end]).double()
        unknown = known.isnan().all(dim=0)  # (N, F)
        shift, spread = (
            torch.where(unknown, of_all, own).float()
            for own, of_all in zip(_moments(known), _moments(known.flatten(0, 1)), strict=True)
        )
        if torch.equal(shift, self.shift) and torch.equal(spread, self.spread):
            return self
        if nodes := unknown.any(dim=1).nonzero().flatten().tolist():
            first = nodes[0] if self.ids is None else str(self.ids[nodes[0]])
            logging.getLogger(__name__).warning(
                "%s: in training a column has no known value at %d of %d nodes, the first of them "
                "%r; it is scaled there by the mean and deviation of the other nodes.",
                self.name, len(nodes), len(self.shift), first,
            )  # fmt: skip
        return self.scaled(shift, spread)

    def scaled(self, shift: Tensor, spread: Tensor) -> Snapshots:
        """Return the data with each feature of each node scaled by these, (N, F) each."""
        x = filled((torch.from_numpy(self.series.values) - shift) / spread)
        return dataclasses.replace(self, x=x, shift=shift, spread=spread)

    def in_order(self, names: Sequence[str]) -> Snapshots:
        """Return the data with its columns, whose names these are, in this order."""
        order = [self.series.names.index(name) for name in names]
        values = self.series.values[:, :, order]
        return dataclasses.replace(
            self,
            series=self.series._replace(values=values, names=(*names,)),
            x=self.x[:, :, order],
            shift=self.shift[:, order],
            spread=self.spread[:, order],
        )

    def encoded(self, encode: Callable[[DGLGraph], Tensor]) -> Snapshots:
        """Return the data with the encoding of each graph, a function of it, beside the values."""
        return dataclasses.replace(self, encodings=encodings_of(self.graphs.graphs, encode))

    def batch(self, chosen: Tensor) -> tuple[DGLGraph, Tensor]:
        """Return some samples (B,) as one graph, and the last values of its nodes, time by time."""
        windows = self.x[chosen.unsqueeze(1) + torch.arange(self.lags)]  # (B, lags, N, F)
        return self.graphs.batch(chosen), self.read(windows, self.graphs.kinds[chosen])

    def read(self, windows: Tensor, kinds: Tensor) -> Tensor:
        """Return what a model reads, (n, lags * F + k), of windows (B, lags, N, F) of graphs."""
        x = windows.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)
        if self.encodings is None:
            return x
        rows = stretches(self.encodings.starts[kinds], torch.full_like(kinds, windows.shape[2]))
        return torch.cat([x, self.encodings.rows[rows]], dim=1)

    def pool(self, chosen: Tensor, rows: Tensor, model: Any = None) -> Tensor:
        """Return values (B, N * horizon) in their unit, for the rows of some samples (B,)."""
        return self.values_of(rows)

    def values_of(self, rows: Tensor) -> Tensor:
        """Return values (B, N * horizon) in their unit of a model's rows (B * N, horizon)."""
        shift, spread = self.shift[:, :1].to(rows.device), self.spread[:, :1].to(rows.device)
        scaled = rows.float().unflatten(0, (-1, len(shift)))
        return (scaled * spread + shift).flatten(1)

    def scaled_targets(self, chosen: Tensor) -> Tensor:
        """Return the targets of some samples (B,), as they are scaled, (B, N * horizon)."""
        y = self.y[chosen].unflatten(1, (len(self.shift), -1))
        return ((y - self.shift[:, :1]) / self.spread[:, :1]).flatten(1)


def filled(x: Tensor) -> Tensor:
    """Return values (T, N, F) with the last one before in the place of each unknown one, or 0."""
    known = ~x.isnan()
    times = torch.arange(len(x))[:, None, None].expand(x.shape)
    last = torch.where(known, times, -1).cummax(dim=0).values
    return torch.where(last >= 0, x.gather(0, last.clamp(min=0)), 0.0).nan_to_num(0)


def _moments(known: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviation over the first axis, 0 and 1 where there is none."""
    shift = known.nanmean(dim=0).nan_to_num(0)
    spread = (known - shift).square().nanmean(dim=0).sqrt().nan_to_num(0)
    return shift, torch.where(spread > 1e-6 * shift.abs().clamp(min=1e-30), spread, 1.0)


def check_columns(model: str, in_dim: int, columns: int, times: int | None = None) -> None:
    """Refuse features of nodes that are not so many numbers at each of some times.

    Raises:
        ZooError: they are not.
    """
    if in_dim % columns if times is None else in_dim != columns * times:
        raise ZooError(
            f"{model}: {in_dim} features of a node are not {columns} at each of {times or 'some'} "
            "times; write `columns`, those of one time: 1, and one for each further column that is "
            "read. An encoding is none of them; leave it out."
        )


def with_columns(name: str, options: dict[str, Any], data: Any) -> dict[str, Any]:
    """Return the options of a model with how many numbers a node has at one time, if it reads them.

    Raises:
        ZooError: the options say another number, or an encoding stands beside these numbers.
    """
    option = options_of(MODELS[name]).get("columns")
    if option is None or option.default is not None or not isinstance(data, Snapshots):
        return options
    columns = options.get("columns") or data.x.shape[2]
    check_columns(name, data.inputs, columns, data.lags)
    return {**options, "columns": columns}
