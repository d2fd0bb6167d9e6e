"""A small graph of our own, under DGL's names, for where there is no DGL: see `zoo.dgl`.

It has what the zoo, its pages and its tests use of `dgl.DGLGraph`: edges in order, degrees, CSR and
CSC, data of nodes and edges, batches, blocks, subgraphs, copies. It gives what DGL 1.1.3 gives, in
the same order. It is tensors, and nothing that computes along edges: sums are those of
`zoo.nn.propagation`.

Left out: several kinds of nodes or edges, files, message functions and `dgl.ops`, samplers, sorting
and transforms beyond those below. Names of DGL that are not here are an `AttributeError` that says
so.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.errors import ZooError

FORMATS = ("coo", "csr", "csc")
ID = "_ID"
"""Where a subgraph notes which nodes and edges of the whole its own are."""

WHERE = "where DGL can be installed (Linux with Python 3.11 or 3.12)"


class DGLError(Exception):
    """What DGL would refuse too."""


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"the zoo's own graph, which stands in for DGL, has no `{name}`; run this {WHERE}"
    )


class _Structure:
    """Edges from M nodes to N, in one to three forms: the others are made when asked for.

    Attributes:
        counts: M and N.
        forms: `coo` the ends of the edges (E,) and (E,); `csr` the targets of each source: where
            they begin (M + 1,), all of them (E,), and the numbers of these edges, none where they
            are in order; `csc` the sources of each target, likewise.
        allowed: the forms that are kept.
    """

    def __init__(
        self,
        counts: tuple[int, int],
        forms: dict[str, tuple[Tensor, ...]],
        allowed: Sequence[str] = FORMATS,
    ):
        self.counts, self.forms, self.allowed = counts, forms, tuple(allowed)

    def form(self, name: str) -> tuple[Tensor, ...]:
        if name in self.forms:
            return self.forms[name]
        made = self._ends() if name == "coo" else self._lists(against=name == "csr")
        if name in self.allowed:
            self.forms[name] = made
        return made

    def map(self, change: Callable[[Tensor], Tensor]) -> _Structure:
        """Return the same edges with every tensor changed."""
        forms = {name: tuple(map(change, parts)) for name, parts in self.forms.items()}
        return _Structure(self.counts, forms, self.allowed)

    def restricted(self, allowed: Sequence[str]) -> _Structure:
        """Return the same edges in these forms alone; those that are there stay, else one."""
        kept = {name: self.forms[name] for name in allowed if name in self.forms}
        return _Structure(self.counts, kept or {allowed[0]: self.form(allowed[0])}, allowed)

    def _ends(self) -> tuple[Tensor, Tensor]:
        name = "csr" if "csr" in self.forms else "csc"
        offsets, others, numbers = self.forms[name]
        own = torch.arange(len(offsets) - 1, dtype=others.dtype, device=others.device)
        own = own.repeat_interleave(offsets.diff())
        if len(numbers):
            places = torch.empty_like(numbers, dtype=torch.int64)
            places[numbers.long()] = torch.arange(len(numbers), device=numbers.device)
            own, others = own[places], others[places]
        return (own, others) if name == "csr" else (others, own)

    def _lists(self, against: bool) -> tuple[Tensor, Tensor, Tensor]:
        src, dst = self.form("coo")
        own, others, count = (src, dst, self.counts[0]) if against else (dst, src, self.counts[1])
        if (own[1:] >= own[:-1]).all():
            order = torch.arange(len(own), device=own.device)
        else:
            own, order = own.sort(stable=True)
        every = torch.arange(count + 1, dtype=own.dtype, device=own.device)
        offsets = torch.searchsorted(own.contiguous(), every).to(own.dtype)
        return offsets, others[order], order.to(own.dtype)


class _Data(MutableMapping):
    """Data of nodes or edges by name, a row for each."""

    def __init__(self, rows: dict[str, Tensor], count: int, what: str, device: torch.device):
        self._rows, self._count, self._what, self._device = rows, count, what, device

    def __getitem__(self, key: str) -> Tensor:
        return self._rows[key]

    def __setitem__(self, key: str, values: Tensor) -> None:
        if len(values) != self._count or values.device != self._device:
            raise DGLError(
                f"Expect number of features to match number of {self._what}, on the device of the "
                f"graph. Got {len(values)} on {values.device} and {self._count} on {self._device}."
            )
        self._rows[key] = values

    def __delitem__(self, key: str) -> None:
        del self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return repr(self._rows)


class _View:
    """`graph.nodes()`, and `graph.nodes["_N"].data` of the one kind that there is; or `edges`."""

    def __init__(self, call: Callable[..., Any], data: _Data, kinds: Sequence[Any]):
        self._call, self.data, self._kinds = call, data, kinds

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._call(*arguments, **options)

    def __getitem__(self, kind: Any) -> _View:
        if kind not in self._kinds:
            raise DGLError(f"the graph has no kind {kind!r}.")
        return self


class DGLGraph:
    """A directed graph, or a block: edges from one set of nodes to another.

    `_graph` is another object when nodes or edges change, as it is in DGL.

    Args:
        structure: the edges.
        is_block: whether sources and targets are different nodes.
    """

    is_homogeneous = property(lambda self: not self.is_block)
    ntypes = property(lambda self: ["_N"] * (1 + self.is_block))
    etypes = property(lambda self: ["_E"])
    canonical_etypes = property(lambda self: [("_N", "_E", "_N")])

    def __init__(self, structure: _Structure, is_block: bool = False):
        self._graph, self.is_block = structure, is_block
        self._src: dict[str, Tensor] = {}
        self._dst: dict[str, Tensor] = {} if is_block else self._src
        self._edges: dict[str, Tensor] = {}
        self._batch_nodes: Tensor | None = None
        self._batch_edges: Tensor | None = None

    # Sizes.

    def num_src_nodes(self, ntype: Any = None) -> int:
        """Return how many nodes edges start from."""
        return self._graph.counts[0]

    def num_dst_nodes(self, ntype: Any = None) -> int:
        """Return how many nodes edges lead to."""
        return self._graph.counts[1]

    def num_nodes(self, ntype: Any = None) -> int:
        """Return how many nodes there are; of a block sources and targets."""
        return sum(self._graph.counts) if self.is_block else self._graph.counts[0]

    def num_edges(self, etype: Any = None) -> int:
        """Return how many edges there are."""
        return len(next(iter(self._graph.forms.values()))[1])

    number_of_nodes, number_of_edges = num_nodes, num_edges
    number_of_src_nodes, number_of_dst_nodes = num_src_nodes, num_dst_nodes

    @property
    def device(self) -> torch.device:
        """Where the graph is."""
        return next(iter(self._graph.forms.values()))[1].device

    @property
    def idtype(self) -> torch.dtype:
        """The type of the numbers of nodes and edges, int32 or int64."""
        return next(iter(self._graph.forms.values()))[1].dtype

    # Edges.

    @property
    def nodes(self) -> _View:
        """All nodes, `nodes()`, and their data."""
        every = torch.arange(self.num_nodes(), dtype=self.idtype, device=self.device)
        return _View(lambda ntype=None: every, self.srcdata, ["_N"])

    @property
    def edges(self) -> _View:
        """The ends of all edges, `edges()`, and their data."""
        return _View(self.all_edges, self.edata, ["_E", ("_N", "_E", "_N")])

    def all_edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        """Return the ends of all edges, their numbers (`eid`) or both (`all`)."""
        src, dst = self._graph.form("coo")
        numbers = self._arange(len(src))
        if order == "srcdst":
            numbers = numbers[_lexicographic(src, dst)]
            src, dst = src[numbers.long()], dst[numbers.long()]
        return _in_form(form, src[:], dst[:], numbers)  # other tensors each time, as DGL's

    def in_edges(self, v: Any, form: str = "uv", etype: Any = None) -> Any:
        """Return the edges that lead to some nodes, node by node."""
        own, others, numbers = self._around("csc", v)
        return _in_form(form, others, own, numbers)

    def out_edges(self, u: Any, form: str = "uv", etype: Any = None) -> Any:
        """Return the edges that start from some nodes, node by node."""
        own, others, numbers = self._around("csr", u)
        return _in_form(form, own, others, numbers)

    def in_degrees(self, v: Any = None, etype: Any = None) -> Any:
        """Return how many edges lead to each node, or to some."""
        return self._degrees("csc", v)

    def out_degrees(self, u: Any = None, etype: Any = None) -> Any:
        """Return how many edges start from each node, or from some."""
        return self._degrees("csr", u)

    def edge_ids(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Return the number of the first edge of each pair.

        Raises:
            DGLError: a pair has none.
        """
        numbers, pairs = self._find(u, v)
        if (numbers < 0).any():
            place = int((numbers < 0).nonzero()[0])
            pair = tuple(int(end[place]) for end in pairs)
            raise DGLError(f"Error: {pair} does not form a valid edge.")
        return int(numbers) if _is_number(u) and _is_number(v) else numbers

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Return which pairs have an edge."""
        there = self._find(u, v)[0] >= 0
        return bool(there) if _is_number(u) and _is_number(v) else there

    def adj_tensors(self, fmt: str, etype: Any = None) -> tuple[Tensor, ...]:
        """Return the edges as `coo`, `csr` or `csc`: see `_Structure`."""
        return self._graph.form(fmt)

    def formats(self, formats: str | Sequence[str] | None = None) -> Any:
        """Return which forms there are, or could be; or the graph in some of them alone."""
        if formats is None:
            there = [name for name in FORMATS if name in self._graph.forms]
            others = [name for name in self._graph.allowed if name not in there]
            return {"created": there, "not created": others}
        allowed = [formats] if isinstance(formats, str) else [*formats]
        return self._with(self._graph.restricted(allowed))

    # Data.

    @property
    def ndata(self) -> _Data:
        """Data of nodes."""
        if self.is_block:
            raise DGLError("a block has `srcdata` and `dstdata`.")
        return self.srcdata

    @property
    def srcdata(self) -> _Data:
        """Data of the nodes that edges start from."""
        return _Data(self._src, self.num_src_nodes(), "nodes", self.device)

    @property
    def dstdata(self) -> _Data:
        """Data of the nodes that edges lead to."""
        return _Data(self._dst, self.num_dst_nodes(), "nodes", self.device)

    @property
    def edata(self) -> _Data:
        """Data of edges."""
        return _Data(self._edges, self.num_edges(), "edges", self.device)

    # Batches.

    @property
    def batch_size(self) -> int:
        """How many graphs are in it."""
        return 1 if self._batch_nodes is None else len(self._batch_nodes)

    def batch_num_nodes(self, ntype: Any = None) -> Tensor:
        """Return the nodes of each graph, (B,)."""
        if self._batch_nodes is None:
            return torch.tensor([self.num_nodes()], device=self.device)
        return self._batch_nodes

    def batch_num_edges(self, etype: Any = None) -> Tensor:
        """Return the edges of each graph, (B,)."""
        if self._batch_edges is None:
            return torch.tensor([self.num_edges()], device=self.device)
        return self._batch_edges

    def set_batch_num_nodes(self, counts: Tensor) -> None:
        """Say how many nodes each graph has."""
        self._batch_nodes = counts

    def set_batch_num_edges(self, counts: Tensor) -> None:
        """Say how many edges each graph has."""
        self._batch_edges = counts

    # Other graphs made of it.

    def local_var(self) -> DGLGraph:
        """Return a graph of the same edges and data, whose data can be changed by itself."""
        return self._with(self._graph)

    @contextlib.contextmanager
    def local_scope(self) -> Iterator[None]:
        """Forget what is done to the data inside."""
        kept = self._src, self._dst, self._edges
        mine = self.local_var()
        self._src, self._dst, self._edges = mine._src, mine._dst, mine._edges
        try:
            yield
        finally:
            self._src, self._dst, self._edges = kept

    def clone(self) -> DGLGraph:
        """Return a copy whose data are copies."""
        return self._with(self._graph.map(lambda part: part), torch.clone)

    def to(self, device: Any, **options: Any) -> DGLGraph:
        """Return the graph on a device, itself where it is there."""
        device = torch.zeros(0, device=device).device  # with its number
        if device == self.device:
            return self

        def move(values: Tensor) -> Tensor:
            return values.to(device, **options)

        made = self._with(self._graph.map(move), move)
        for name in ("_batch_nodes", "_batch_edges"):
            counts = getattr(self, name)
            setattr(made, name, None if counts is None else move(counts))
        return made

    def cpu(self) -> DGLGraph:
        """Return the graph on the CPU."""
        return self.to("cpu")

    def int(self) -> DGLGraph:
        """Return the graph with numbers of 32 bits, itself where it has them."""
        return self.astype(torch.int32)

    def long(self) -> DGLGraph:
        """Return the graph with numbers of 64 bits, itself where it has them."""
        return self.astype(torch.int64)

    def astype(self, idtype: torch.dtype) -> DGLGraph:
        """Return the graph with numbers of this type, itself where it has them."""
        if self.idtype == idtype:
            return self
        return self._with(self._graph.map(lambda part: part.to(idtype)))

    def subgraph(self, nodes: Any, *, store_ids: bool = True) -> DGLGraph:
        """Return the graph of some nodes, in their order, and all edges between them.

        Edges are in order of their sources. `store_ids` notes which they were as `_ID`.
        """
        nodes = self._named(nodes)
        src, dst, numbers = self.out_edges(nodes, form="all")
        places = self._arange(self.num_nodes()).fill_(-1)
        places[nodes.long()] = self._arange(len(nodes))
        src, dst = places[src.long()], places[dst.long()]
        kept = dst >= 0
        numbers = numbers[kept]
        part = _made("coo", (src[kept], dst[kept]), (len(nodes), len(nodes)))
        part._src |= {key: rows[nodes.long()] for key, rows in self._src.items()}
        part._edges |= {key: rows[numbers.long()] for key, rows in self._edges.items()}
        if store_ids:
            part._src[ID], part._edges[ID] = nodes, numbers
        return part

    # Changes in place.

    def add_nodes(self, num: int) -> None:
        """Add nodes, whose data is 0."""
        src, dst = self._graph.form("coo")
        self._change((src, dst), self.num_nodes() + num)
        self._src |= {key: _longer(rows, num) for key, rows in self._src.items()}

    def add_edges(self, u: Any, v: Any, data: dict[str, Tensor] | None = None) -> None:
        """Add edges, and the nodes at their ends; data that is not given is 0."""
        u, v = self._pair(u, v)
        most = max((int(end.max()) for end in (u, v) if len(end)), default=-1)
        if most >= self.num_nodes():
            self.add_nodes(most + 1 - self.num_nodes())
        src, dst = self._graph.form("coo")
        self._change((torch.cat([src, u]), torch.cat([dst, v])), self.num_nodes())
        given = data or {}
        for key, rows in given.items():
            self._edges.setdefault(key, rows.new_zeros(len(src), *rows.shape[1:]))
        for key, rows in self._edges.items():
            more = given.get(key)
            self._edges[key] = _longer(rows, len(u)) if more is None else torch.cat([rows, more])

    def __repr__(self) -> str:
        if self.is_block:
            sizes = (self.num_src_nodes(), self.num_dst_nodes(), self.num_edges())
            return "Block(num_src_nodes={}, num_dst_nodes={}, num_edges={})".format(*sizes)
        data = f"ndata={[*self._src]}, edata={[*self._edges]}"
        return f"Graph(num_nodes={self.num_nodes()}, num_edges={self.num_edges()}, {data})"

    def _with(
        self, structure: _Structure, change: Callable[[Tensor], Tensor] = lambda rows: rows
    ) -> DGLGraph:
        """Return a graph of the same data, and batch, with another structure."""
        made = copy.copy(self)
        made._graph = structure
        made._src = {key: change(rows) for key, rows in self._src.items()}
        made._dst = made._src
        if self.is_block:
            made._dst = {key: change(rows) for key, rows in self._dst.items()}
        made._edges = {key: change(rows) for key, rows in self._edges.items()}
        return made

    def _change(self, ends: tuple[Tensor, Tensor], nodes: int) -> None:
        """Take other edges and nodes; it is one graph from then on."""
        self._graph = _Structure((nodes, nodes), {"coo": ends})
        self._batch_nodes = self._batch_edges = None

    def _arange(self, count: int) -> Tensor:
        return torch.arange(count, dtype=self.idtype, device=self.device)

    def _named(self, nodes: Any) -> Tensor:
        """Return nodes, numbers or one truth value for each node, as numbers."""
        values = torch.atleast_1d(torch.as_tensor(nodes, device=self.device))
        if values.dtype == torch.bool:
            values = values.nonzero().squeeze(1)
        return values.to(self.idtype)

    def _pair(self, u: Any, v: Any) -> tuple[Tensor, ...]:
        return tuple(torch.broadcast_tensors(self._named(u), self._named(v)))

    def _around(self, form: str, nodes: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return own ends, other ends and numbers of the edges of some nodes, node by node."""
        nodes = self._named(nodes)
        offsets, others, numbers = self._graph.form(form)
        if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < len(offsets) - 1:
            raise DGLError(f"nodes are 0 to {len(offsets) - 2}.")
        begins, counts = offsets[nodes.long()], offsets.diff()[nodes.long()]
        shifts = (begins - (counts.cumsum(0) - counts)).repeat_interleave(counts)
        places = (shifts + torch.arange(len(shifts), device=self.device)).long()
        numbers = numbers[places] if len(numbers) else places.to(self.idtype)
        return nodes.repeat_interleave(counts), others[places], numbers

    def _degrees(self, form: str, nodes: Any) -> Any:
        counts = self._graph.form(form)[0].diff()
        if nodes is None:
            return counts
        some = counts[self._named(nodes).long()]
        return int(some) if _is_number(nodes) else some

    def _find(self, u: Any, v: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the number of the first edge of each pair, -1 where there is none, and pairs."""
        pairs = self._pair(u, v)
        src, dst = (end.long() for end in self._graph.form("coo"))
        keys, order = (src * self.num_dst_nodes() + dst).sort(stable=True)
        wanted = pairs[0].long() * self.num_dst_nodes() + pairs[1].long()
        if not len(keys):
            return torch.full_like(pairs[0], -1), pairs
        places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return torch.where(keys[places] == wanted, order[places], -1).to(self.idtype), pairs


def graph(
    data: Any,
    *,
    num_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
    **sorted_already: bool,
) -> DGLGraph:
    """Return a graph of ends `(u, v)`, pairs, or `("csc", (offsets, others, numbers))`.

    What is in `csr` or `csc` form is taken as it is, and not looked at.

    Raises:
        DGLError: the ends are no whole numbers, not as many, or beyond the nodes.
    """
    form, parts = _parts(data, idtype, device)
    if form != "coo":
        count = len(parts[0]) - 1 if num_nodes is None else num_nodes
        return _made(form, parts, (count, count))
    needed = 1 + max((int(end.max()) for end in parts if len(end)), default=-1)
    if num_nodes is not None and num_nodes < needed:
        raise DGLError(
            "The num_nodes argument must be larger than the max ID in the data, but got "
            f"{num_nodes} and {needed - 1}."
        )
    return _made(form, parts, 2 * (needed if num_nodes is None else num_nodes,))


def create_block(
    data: Any,
    num_src_nodes: int | None = None,
    num_dst_nodes: int | None = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
) -> DGLGraph:
    """Return a block: edges from some nodes to others, as `graph` takes them."""
    form, parts = _parts(data, idtype, device)
    counts = []
    for given, place, own in ((num_src_nodes, 0, "csr"), (num_dst_nodes, 1, "csc")):
        if form == "coo":
            needed = 1 + int(parts[place].max()) if len(parts[place]) else 0
        else:
            needed = len(parts[0]) - 1 if form == own else 0
        if given is not None and given < needed:
            end = ("source", "destination")[place]
            raise DGLError(
                f"The given number of nodes of {end} node type _N must be larger than the max ID "
                f"in the data, but got {given} and {needed - 1}."
            )
        counts.append(needed if given is None else given)
    return _made(form, parts, (counts[0], counts[1]), is_block=True)


def batch(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """Return graphs side by side as one, which knows where each begins.

    Raises:
        DGLError: there are none, or they have other data than the first.
    """
    graphs = list(graphs)
    if not graphs:
        raise DGLError("The input list of graphs cannot be empty.")
    if len({(graph.idtype, graph.device) for graph in graphs}) > 1:
        raise DGLError("Expect all graphs to be of one idtype, on one device.")
    src, dst, before = [], [], 0
    for one in graphs:
        ends = one._graph.form("coo")
        src.append(ends[0] + before)
        dst.append(ends[1] + before)
        before += one.num_nodes()
    joined = _made("coo", (torch.cat(src), torch.cat(dst)), (before, before))
    joined._src |= _joined([one._src for one in graphs], "nodes")
    joined._edges |= _joined([one._edges for one in graphs], "edges")
    joined.set_batch_num_nodes(torch.cat([one.batch_num_nodes() for one in graphs]))
    joined.set_batch_num_edges(torch.cat([one.batch_num_edges() for one in graphs]))
    return joined


def unbatch(graph: DGLGraph) -> list[DGLGraph]:
    """Return the graphs of a batch.

    Raises:
        DGLError: its edges do not lie in its graphs.
    """
    nodes, edges = graph.batch_num_nodes().tolist(), graph.batch_num_edges().tolist()
    if sum(nodes) != graph.num_nodes() or sum(edges) != graph.num_edges():
        raise DGLError("the numbers of nodes and edges of the graphs do not add up to the batch's.")
    src, dst = (end.split(edges) for end in graph._graph.form("coo"))
    graphs, before = [], 0
    for u, v, count in zip(src, dst, nodes, strict=True):
        both = torch.cat([u, v])
        if len(both) and not before <= int(both.min()) <= int(both.max()) < before + count:
            raise DGLError("edges of the batch lead from one of its graphs to another.")
        graphs.append(_made("coo", (u - before, v - before), (count, count)))
        before += count
    for name, counts in (("_src", nodes), ("_edges", edges)):
        for key, rows in getattr(graph, name).items():
            for one, own in zip(graphs, rows.split(counts), strict=True):
                getattr(one, name)[key] = own
    return graphs


def add_self_loop(graph: DGLGraph) -> DGLGraph:
    """Return the graph with a self-loop more at each node, after all edges; its data is 1."""
    grown, every = graph.clone(), graph.nodes()
    grown.add_edges(every, every)
    for rows in grown._edges.values():
        rows[graph.num_edges() :] = 1
    return grown


def remove_self_loop(graph: DGLGraph) -> DGLGraph:
    """Return the graph without self-loops."""
    src, dst = graph._graph.form("coo")
    kept = src != dst
    counts = graph.num_nodes(), graph.num_nodes()
    made = graph._with(_Structure(counts, {"coo": (src[kept], dst[kept])}))
    made._edges = {key: rows[kept] for key, rows in graph._edges.items()}
    if graph._batch_edges is not None:
        of_each = torch.arange(graph.batch_size).repeat_interleave(graph._batch_edges)
        made._batch_edges = torch.bincount(of_each[kept], minlength=graph.batch_size)
    return made


def add_reverse_edges(graph: DGLGraph) -> DGLGraph:
    """Return the graph with each edge but self-loops once more, back, after all edges."""
    src, dst = graph._graph.form("coo")
    other = src != dst
    ends = torch.cat([src, dst[other]]), torch.cat([dst, src[other]])
    made = _made("coo", ends, (graph.num_nodes(), graph.num_nodes()))
    made._src |= graph._src
    return made


def to_simple(graph: DGLGraph, return_counts: str | None = "count") -> DGLGraph:
    """Return the graph with each edge once, in order of source and target, and how often it was."""
    src, dst = graph._graph.form("coo")
    pairs, counts = torch.stack([src, dst]).unique(dim=1, return_counts=True)
    made = _made("coo", tuple(pairs), (graph.num_nodes(), graph.num_nodes()))
    made._src |= graph._src
    if return_counts is not None:
        made._edges[return_counts] = counts.to(graph.idtype)
    return made


def node_subgraph(graph: DGLGraph, nodes: Any, *, store_ids: bool = True) -> DGLGraph:
    """Return the graph of some nodes: see `DGLGraph.subgraph`."""
    return graph.subgraph(nodes, store_ids=store_ids)


def load_graphs(filename: str, *arguments: Any) -> Any:
    """Refuse a file of DGL.

    Raises:
        ZooError: always.
    """
    raise ZooError(
        f"files of DGL are read by DGL, which is not here; {WHERE}, run `zoo data prepare FILE "
        "NAME`, and bring the file that it writes."
    )


def _made(
    form: str, parts: tuple[Tensor, ...], counts: tuple[int, int], is_block: bool = False
) -> DGLGraph:
    return DGLGraph(_Structure(counts, {form: parts}), is_block)


def _parts(data: Any, idtype: torch.dtype | None, device: Any) -> tuple[str, tuple[Tensor, ...]]:
    """Return the form of what `graph` is given, and its tensors."""
    named = isinstance(data, tuple) and isinstance(data[0], str)
    form, content = data if named else ("coo", data)
    if isinstance(content, list) and content:  # of pairs
        content = tuple(zip(*content, strict=True))
    if not isinstance(content, tuple | list) or form not in FORMATS:
        raise DGLError(f"Unsupported graph data type: {type(content)}")
    parts = tuple(_numbers(part, idtype, device) for part in content)
    parts = tuple(part if len(part) else part.to(parts[0].dtype) for part in parts)
    if form == "coo" and (len(parts) != 2 or len(parts[0]) != len(parts[1])):
        raise DGLError(f"Input arrays should have the same length, not {[*map(len, parts)]}.")
    if len({part.dtype for part in parts if len(part)}) > 1:
        raise DGLError(f"Expected one type of numbers, not {[part.dtype for part in parts]}.")
    return form, parts


def _numbers(part: Any, idtype: torch.dtype | None, device: Any) -> Tensor:
    values = part if isinstance(part, Tensor) else torch.as_tensor(part)
    if len(values) and (values.is_floating_point() or values.dtype == torch.bool):
        raise DGLError(f"nodes are whole numbers, not {values.dtype}.")
    kept = isinstance(part, Tensor) and values.dtype == torch.int32
    return values.to(device=device, dtype=idtype or (torch.int32 if kept else torch.int64))


def _lexicographic(src: Tensor, dst: Tensor) -> Tensor:
    by_dst = dst.argsort(stable=True)
    return by_dst[src[by_dst].argsort(stable=True)]


def _in_form(form: str, src: Tensor, dst: Tensor, numbers: Tensor) -> Any:
    if form not in ("uv", "eid", "all"):
        raise DGLError(f'Invalid form: {form}. Must be "all", "uv" or "eid".')
    return {"uv": (src, dst), "eid": numbers, "all": (src, dst, numbers)}[form]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, Tensor) and value.dim() == 0)


def _longer(rows: Tensor, more: int) -> Tensor:
    return torch.cat([rows, rows.new_zeros(more, *rows.shape[1:])])


def _joined(data: Sequence[dict[str, Tensor]], what: str) -> dict[str, Tensor]:
    schemes = [{key: (rows.shape[1:], rows.dtype) for key, rows in own.items()} for own in data]
    for number, scheme in enumerate(schemes):
        if scheme != schemes[0]:
            raise DGLError(
                f"Expect all graphs to have the same data of {what}, but graph {number} has "
                f"{[*scheme]}, and the first {[*schemes[0]]}."
            )
    return {key: torch.cat([own[key] for own in data]) for key in data[0]}
