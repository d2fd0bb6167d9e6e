"""Positional encodings of the nodes of a graph, cached on disk.

An encoding is a function of the undirected adjacency of a graph, or of a data set's graph: edges in
both directions, without self-loops and duplicates. It is deterministic, and cached on disk.
Eigenvectors are unique up to sign (and up to rotation where an eigenvalue is multiple): in the
cache signs are canonical, and `flip_signs` draws random ones for training. `signnet` and `spe` are
what networks of `zoo.nn.learned_encodings`, parts of a model, read: eigenvectors and eigenvalues.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from zoo.config.options import Count, Few, Spec, Table, pick, value_problems
from zoo.encodings.chebyshev import csr_tensor
from zoo.encodings.laplacian_solvers import first_pairs, quality
from zoo.errors import ZooError
from zoo.system.cache import cached
from zoo.system.environment import on_one_thread
from zoo.system.memory import available_memory

VERSION = 7  # part of the key of every cached file: raise it when the numbers change

_BYTES = 76  # peak memory per edge of `_pattern`, measured by `peak_during` on 31 million edges
_DENSE = 512  # components of up to this many nodes use a dense eigensolver
_ROWS = 4096  # rows of S^t per chunk while they are sparse
_FULL = 1 / 32, 4096  # density, and mean entries per row, above which rows count as dense
_PATHS = 2**26  # multiplications above which sparse rows are given up: hubs fill them in
_WIDTH = 64  # columns of S^t per chunk: more of them do not fit the cache


def none(graph) -> Tensor:
    """Return an encoding without columns, (N, 0)."""
    return torch.zeros(getattr(graph, "graph", graph).num_nodes(), 0)


def laplacian(graph, *, k: Few = 16) -> Tensor:
    """Return the first k non-trivial eigenvectors of the graph Laplacian, (N, k) fp32 on CPU.

    L = I - D^-1/2 A D^-1/2 without self-loops (Dwivedi et al., arXiv 2003.00982). Each
    connected component has one trivial eigenvector, of eigenvalue 0, which is left out. Of the
    others of all components, the k of smallest eigenvalue are kept, ascending; ties (to 1e-9) are
    broken by the first node of the component. Each has norm 1 and is zero outside its component;
    where fewer than k exist, they are padded with zero columns on the right. Signs: the first entry
    whose magnitude is within 1e-4 (relative) of the largest is positive.

    Args:
        graph: canonical, on the CPU.
        k: columns: eigenvectors that are kept.

    Raises:
        ZooError: k is not from 1 to 1,000, or no solver gave eigenvectors that pass the checks.
    """
    return torch.from_numpy(_laplacian(graph, k)["encoding"])


def laplacian_report(graph, *, k: Few = 16) -> dict:
    """Return the accuracy of `laplacian(graph, k=k)`, as measured when it was computed.

    Returns:
        `eigenvalues`, ascending, without those of the zero columns; `residual`, the largest
        |L v - lambda v|; `orthogonality`, the largest entry of |V^T V - I|, trivial eigenvectors
        included; `missed`, the amplification of independent vectors, more than 2 where an
        eigenvalue was missed (0 where a dense solver or a factorisation counts them);
        `components`; and `solvers`, one word for each component of more than 512 nodes.
    """
    stored = {**_laplacian(graph, k)}
    del stored["encoding"]
    return {name: value.tolist() for name, value in stored.items()}


def random_walk(graph, *, steps: Few = 16) -> Tensor:
    """Return the return probabilities of random walks of 1 to `steps` steps, (N, steps) fp32.

    RWSE: diag((A D^-1)^t) without self-loops (Dwivedi et al., arXiv 2110.07875), on the CPU, with a
    relative error of about 1e-6, at hubs up to 1e-4; 0 for isolated nodes. With
    S = D^-1/2 A D^-1/2 the diagonal is that of S^t, and S is symmetric: rows of S^(t-1) and S^t
    give steps 2t-1 and 2t. Rows are computed in chunks, sparse while they are: no N x N matrix is
    stored, but time is up to O(N E steps).

    Args:
        graph: canonical, on the CPU.
        steps: columns: the longest walk.

    Raises:
        ZooError: steps is not from 1 to 1,000.
    """
    _check("steps", steps)
    pattern = _pattern(graph)
    stored = _cached("random_walk", pattern, steps, lambda: _return_probabilities(pattern, steps))
    return torch.from_numpy(stored["encoding"])


def degree(graph, *, one_hot: Few | None = None) -> Tensor:
    """Return log(1 + d) of the in-degree and the out-degree of each node, (N, 2) fp32 on CPU.

    Self-loops do not count; where every edge goes both ways, both columns are the same. The walks
    of `random_walk` are another encoding of structure, and the diagonals of what GRIT is told of
    pairs (RRWP).

    Args:
        graph: canonical.
        one_hot: columns 0, 1, ... for each of the two degrees in the place of its logarithm, of
            which the last one is for all larger degrees; left out, logarithms.

    Raises:
        ZooError: one_hot is not from 1 to 1,000.
    """
    graph = getattr(graph, "graph", graph)
    source, target = (end.cpu().long() for end in graph.edges())
    apart, count = source != target, graph.num_nodes()
    both = torch.stack([torch.bincount(end[apart], minlength=count) for end in (target, source)])
    if one_hot is None:
        return both.T.float().log1p()
    _check("one_hot", one_hot)
    return functional.one_hot(both.T.clamp(max=one_hot), one_hot + 1).flatten(1).float()


def signnet(
    graph,
    *,
    k: Few = 16,
    dim: Count = 16,
    eigenvalues: bool = True,
    propagation: Literal["none", "mean"] = "none",
) -> Tensor:
    """Return eigenvectors and eigenvalues for SignNet, whose weights are the model's, (N, 2 k).

    The network, `zoo.nn.SignNet` (arXiv 2202.13013), is a part of the model, which reads `dim`
    columns of its making: rho(phi(v_1) + phi(-v_1), ...), whatever the signs of eigenvectors v are.
    These are the columns of `laplacian` times sqrt(N), so that their mean square is 1 whatever the
    size N of the graph, and after them, at each node, their eigenvalues; 0 for columns of zeros.
    They are fp32, on the CPU.

    Args:
        graph: canonical, on the CPU; or several.
        k: eigenvectors.
        dim: width of the network, and the columns that the model reads.
        eigenvalues: the network also reads the eigenvalues.
        propagation: how its phi looks along the edges: `none`, a perceptron of each entry, or the
            `mean` of the neighbours in each layer.

    Raises:
        ZooError: as `laplacian`.
    """
    return _eigenpairs(graph, k)


def spe(graph, *, k: Few = 16, dim: Count = 16) -> Tensor:
    """Return eigenvectors and eigenvalues for SPE, whose weights are the model's, (N, 2 k).

    The network, `zoo.nn.SPE` (arXiv 2310.02579), is a part of the model, which reads `dim` columns
    of its making: of V diag(phi(lambda)) V^T along the edges, whatever the choice of the basis. The
    columns are those of `signnet`, fp32 on CPU.

    Args:
        graph: canonical, on the CPU; or several.
        k: eigenvectors.
        dim: width of the network, and the columns that the model reads.

    Raises:
        ZooError: as `laplacian`.
    """
    return _eigenpairs(graph, k)


SIGNED = ("laplacian",)
"""Encodings whose columns have an arbitrary sign: those that `flip_signs` is for."""


def flip_signs(x: Tensor, columns: int) -> Tensor:
    """Return x (N, F) with each of its last `columns` columns negated with probability 1/2.

    An augmentation, for training only: the sign of an eigenvector is arbitrary, and the model
    should be invariant to it. One draw per column, from torch's global generator; x is not changed.
    """
    signs = torch.ones(x.shape[-1], dtype=x.dtype)
    signs[x.shape[-1] - columns :] -= 2 * torch.randint(2, (columns,)).to(x.dtype)
    return x * signs.to(x.device)


ENCODINGS = Table(
    "encoding",
    {
        "none": none,
        "degree": degree,
        "laplacian": laplacian,
        "random_walk": random_walk,
        "signnet": signnet,
        "spe": spe,
    },
)


def _laplacian_of_each(graphs: Sequence[Any], *, k: Few = 16) -> Tensor:
    """Return `laplacian` of each graph, (M, k) for M nodes in all."""
    _check("k", k)
    pattern, owners, threads = *_blocks(graphs), torch.get_num_threads()
    return _cached_of_each(
        "laplacian", pattern, owners, k, lambda: _solve_each(pattern, owners, k, threads)
    )


def _random_walk_of_each(graphs: Sequence[Any], *, steps: Few = 16) -> Tensor:
    """Return `random_walk` of each graph, (M, steps): no walk leaves its graph."""
    _check("steps", steps)
    pattern, owners = _blocks(graphs)
    return _cached_of_each(
        "random_walk", pattern, owners, steps, lambda: _return_probabilities(pattern, steps)
    )


_OF_EACH = {
    laplacian: _laplacian_of_each,
    random_walk: _random_walk_of_each,
    signnet: signnet,
    spe: spe,
}
"""Encoding to what computes it of many graphs together, which gives the same numbers."""


def _eigenpairs(graph: Any, k: int) -> Tensor:
    """Return eigenvectors times sqrt(N) and their eigenvalues, (M, 2 k), of a graph or several.

    Eigenvalues are sums of v (v - S v), and so 0 for columns of zeros.
    """
    graphs = graph if isinstance(graph, Sequence) else [graph]
    vectors = Encoder({"name": "laplacian", "k": k}).of_each(graphs)
    pattern, owners = _blocks(graphs)
    wide, owner = vectors.double(), torch.from_numpy(owners)
    parts = wide * (wide - torch.from_numpy(_normalised(pattern) @ wide.numpy()))
    values = torch.zeros(len(graphs), k, dtype=torch.float64).index_add_(0, owner, parts)
    sizes = torch.bincount(owner, minlength=len(graphs))
    scaled = vectors * sizes[owner].sqrt().unsqueeze(1)
    return torch.cat([scaled, values[owner].float()], dim=1)


class Encoder:
    """An encoding of a recipe: `encoder(graph)` is (N, k); `encoder.of_each(graphs)` (M, k).

    Args:
        spec: a word of `ENCODINGS`, with options.
    """

    def __init__(self, spec: Spec):
        self.spec = spec

    def __call__(self, graph) -> Tensor:
        """Return the encoding of a graph, (N, k)."""
        return pick(ENCODINGS, self.spec, graph)

    def of_each(self, graphs: Sequence[Any]) -> Tensor:
        """Return the encodings of many graphs, one after another, (M, k) for M nodes in all.

        Those of the zoo are computed together, and cached in one file.
        """
        name = self.spec if isinstance(self.spec, str) else self.spec["name"]
        together = _OF_EACH.get(ENCODINGS.get(name))
        if together is None or len(graphs) == 1:
            return torch.cat([self(graph) for graph in graphs])
        return pick(Table("encoding", {name: together}), self.spec, graphs)


def _check(name: str, value: object) -> None:
    for problem in value_problems(Few, value, (name,)):
        raise ZooError(f"encoding: {problem}; write a whole number from 1, such as {name}: 16.")


def _pattern(graph) -> sparse.csr_array:
    """Return the binary symmetric adjacency matrix (N, N), canonical CSR, without self-loops."""
    return _blocks([graph])[0]


def _blocks(graphs: Sequence[Any]) -> tuple[sparse.csr_array, np.ndarray]:
    """Return the matrices of graphs as blocks of one, (M, M), and the graph of each node, (M,)."""
    graphs = [getattr(graph, "graph", graph) for graph in graphs]  # a data set holds its graph
    edges = sum(graph.num_edges() for graph in graphs)
    if (size := _BYTES * edges) > available_memory():
        raise ZooError(
            f"encoding: a graph of {edges:,} edges takes {size:,} bytes at least while "
            "it is encoded, more than there is memory; write `encoding: none`."
        )
    counts = np.array([graph.num_nodes() for graph in graphs])
    ends = np.empty((2, edges), dtype=np.int32)
    stop = 0
    for graph, first in zip(graphs, np.cumsum(counts) - counts, strict=True):
        start, stop = stop, stop + graph.num_edges()
        for row, end in zip(ends, graph.edges(), strict=True):
            row[start:stop] = end.cpu().numpy()
            row[start:stop] += first
    source, target = ends[:, ends[0] != ends[1]]
    both = np.concatenate([source, target]), np.concatenate([target, source])
    count = int(counts.sum())
    pattern = sparse.coo_array((np.ones(len(both[0])), both), shape=(count, count)).tocsr()
    pattern.sum_duplicates()
    pattern.data[:] = 1
    return pattern, np.repeat(np.arange(len(graphs)), counts)


def _normalised(pattern: sparse.csr_array) -> sparse.csr_array:
    """Return S = D^-1/2 A D^-1/2, rows of isolated nodes zero."""
    degrees = np.diff(pattern.indptr)
    scale = 1 / np.sqrt(np.maximum(degrees, 1))
    data = np.repeat(scale, degrees) * scale[pattern.indices]
    return sparse.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _cached(kind: str, pattern, columns: int, compute: Callable[[], dict], *more) -> dict:
    """Return what `compute` returns, from the cache if it is there."""
    count = pattern.shape[0]
    if 12 * count * columns > available_memory():  # in single precision, and the solver's
        raise ZooError(f"encoding {kind}: no memory for {columns} columns; write a smaller number.")

    def fits(known: dict) -> bool:
        encoding = known["encoding"]
        return encoding.shape == (count, columns) and np.isfinite(encoding).all()

    def alone() -> dict:
        # One thread: the same bits for any number of them; and thousands of short products on
        # several take twenty times as long when another program uses the same cores.
        with on_one_thread():
            return compute()

    arrays = [array.astype("<i8") for array in (pattern.indptr, pattern.indices, *more)]
    return cached(f"{kind} encoding", [VERSION, count, columns], arrays, alone, fits)


def _cached_of_each(kind: str, pattern, owners: np.ndarray, columns: int, compute) -> Tensor:
    """Return the encodings that `compute` returns, from the cache if they are there."""
    stored = _cached(f"{kind} of graphs", pattern, columns, compute, np.bincount(owners))
    return torch.from_numpy(stored["encoding"])


def _laplacian(graph, k: int) -> dict[str, np.ndarray]:
    _check("k", k)
    pattern, threads = _pattern(graph), torch.get_num_threads()
    return _cached("laplacian", pattern, k, lambda: _solve(pattern, k, threads))


def _solve(pattern: sparse.csr_array, k: int, threads: int) -> dict[str, np.ndarray]:
    """Return the encoding and its report; see `laplacian` and `laplacian_report`."""
    components = _Components.of(pattern, np.zeros(pattern.shape[0], dtype=int))
    pairs, solvers, missed = components.eigenpairs(k, threads)
    encoding = np.zeros((pattern.shape[0], k), np.float32)
    _write(encoding, pairs[:k])
    values = np.array([pair.value for pair in pairs[:k]])
    checked = components.matrix, components.trivial, encoding[:, : len(values)]
    _, residual, orthogonality = quality(*checked)
    return {
        "encoding": encoding,
        "eigenvalues": values,
        "residual": np.float64(residual),
        "orthogonality": np.float64(orthogonality),
        "missed": np.float64(missed),
        "components": np.int64(len(components.sizes)),
        "solvers": np.array(solvers, dtype=np.str_),
    }


def _solve_each(pattern, owners: np.ndarray, k: int, threads: int) -> dict[str, np.ndarray]:
    """Return the encoding of each graph, for the graph of each node (M,)."""
    pairs, _, _ = _Components.of(pattern, owners).eigenpairs(k, threads)
    encoding = np.zeros((pattern.shape[0], k), np.float32)
    for _, own in itertools.groupby(pairs, lambda pair: owners[pair.nodes[0]]):
        _write(encoding, itertools.islice(own, k))
    return {"encoding": encoding}


class _Eigenpair(NamedTuple):
    """An eigenvalue, the nodes of its component (n,), and the eigenvector on them, (n,)."""

    value: float
    nodes: np.ndarray
    vector: np.ndarray


def _write(encoding: np.ndarray, pairs: Iterable[_Eigenpair]) -> None:
    """Write eigenvectors to the columns of an encoding, the largest entry positive."""
    for column, (_, nodes, vector) in enumerate(pairs):
        largest = np.abs(vector) >= (1 - 1e-4) * np.abs(vector).max()
        encoding[nodes, column] = vector * np.sign(vector[largest][0])


class _Components(NamedTuple):
    """The connected components of one graph, or of many.

    Attributes:
        matrix: S of all of them.
        trivial: the sum of their eigenvectors of eigenvalue 0, (M,).
        nodes: (M,) those of one component after those of another.
        sizes: how many each has.
        owners: the graph of each component.
    """

    matrix: sparse.csr_array
    trivial: np.ndarray
    nodes: np.ndarray
    sizes: np.ndarray
    owners: np.ndarray

    @classmethod
    def of(cls, pattern: sparse.csr_array, owners: np.ndarray) -> _Components:
        """Return the components of a pattern, for the graph of each node (M,)."""
        degrees = pattern.sum(axis=1)
        _, label = csgraph.connected_components(pattern, directed=False)
        trivial = np.sqrt(degrees / np.maximum(np.bincount(label, weights=degrees)[label], 1))
        nodes, sizes = np.argsort(label, kind="stable"), np.bincount(label)
        first = nodes[np.cumsum(sizes) - sizes]
        return cls(_normalised(pattern), trivial, nodes, sizes, owners[first])

    def eigenpairs(self, k: int, threads: int) -> tuple[list[_Eigenpair], list[str], float]:
        """Return the first k pairs of each graph at least, solvers, and what they missed.

        They are ordered by graph, eigenvalue and first node.
        """
        start, dense = np.cumsum(self.sizes) - self.sizes, max(_DENSE, 4 * k)
        some = []
        for size in np.unique(self.sizes[(self.sizes > 1) & (self.sizes <= dense)]):
            alike, batch = np.flatnonzero(self.sizes == size), max(1, 2**22 // size**2)
            some += np.split(alike, range(batch, len(alike), batch))

        def solve(alike: np.ndarray) -> list[_Eigenpair]:
            members = self.nodes[start[alike, None] + np.arange(self.sizes[alike[0]])]
            return _dense(self.matrix, members, self.owners[alike], k)

        with ThreadPoolExecutor(threads) as pool:  # LAPACK runs beside others of its kind
            pairs = [*itertools.chain.from_iterable(pool.map(solve, some))]
        solvers, missed = [], [0.0]
        for index in np.flatnonzero(self.sizes > dense):
            members = self.nodes[start[index] : start[index] + self.sizes[index]]
            solver, growth, *found = first_pairs(
                _submatrix(self.matrix, members), self.trivial[members], k, threads
            )
            pairs += [
                _Eigenpair(value, members, vector) for value, vector in zip(*found, strict=True)
            ]
            solvers.append(solver)
            missed.append(growth)
        graph_of = dict(zip(self.nodes[start].tolist(), self.owners.tolist(), strict=True))

        def rank(pair: _Eigenpair) -> tuple:
            return graph_of[pair.nodes[0]], round(pair.value, 9), pair.nodes[0]

        return sorted(pairs, key=rank), solvers, max(missed)


def _submatrix(matrix: sparse.csr_array, members: np.ndarray) -> sparse.csr_array:
    """Return the submatrix of some nodes."""
    return matrix if len(members) == matrix.shape[0] else matrix[members][:, members]


def _dense(
    matrix: sparse.csr_array, members: np.ndarray, owners: np.ndarray, k: int
) -> list[_Eigenpair]:
    """Solve C components of one size, members (C, size), of some graphs (C,): k pairs of each."""
    size = members.shape[1]
    place = np.zeros(matrix.shape[0], dtype=np.int64)
    place[members] = np.arange(size)
    entries = matrix[members.ravel()].tocoo()
    blocks = np.tile(np.eye(size), (len(members), 1, 1))  # (C, size, size)
    blocks[entries.row // size, entries.row % size, place[entries.col]] -= entries.data
    values, vectors = (part.numpy() for part in torch.linalg.eigh(torch.from_numpy(blocks)))
    values, vectors = values[:, 1:], vectors[:, :, 1:]  # the first is trivial: L v = 0
    graphs = np.repeat(owners, size - 1)
    best = np.lexsort((values.round(9).ravel(), graphs))  # stable
    _, first, many = np.unique(graphs[best], return_index=True, return_counts=True)
    best = best[np.arange(len(best)) - np.repeat(first, many) < k]
    rows, columns = np.unravel_index(best, values.shape)
    return [
        _Eigenpair(values[i, j], members[i], vectors[i, :, j])
        for i, j in zip(rows, columns, strict=True)
    ]


def _return_probabilities(pattern: sparse.csr_array, steps: int) -> dict[str, np.ndarray]:
    """Return diag(S^t) for t = 1 to steps as the encoding, (N, steps) fp32; see `random_walk`."""
    matrix, count, half = _normalised(pattern), pattern.shape[0], (steps + 1) // 2
    single = matrix.astype(np.float32)
    result = np.zeros((count, 2 * half), dtype=np.float32)
    # Neighbours in one chunk; Cuthill-McKee refuses an empty graph.
    order = csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True) if count else None
    for begin in tqdm(range(0, count, _ROWS), "random walk", disable=None):
        sources = order[begin : begin + _ROWS]
        rows = _from_sparse_rows(matrix, sources, half)
        if rows is not None:
            result[sources] = rows
            continue
        for few in np.split(sources, range(_WIDTH, len(sources), _WIDTH)):
            result[few] = _from_dense_columns(single, few, half)
    return {"encoding": result[:, :steps]}


def _from_sparse_rows(matrix: sparse.csr_array, nodes: np.ndarray, half: int) -> np.ndarray | None:
    """Return diag(S^t) of some nodes, (nodes, 2 half), from sparse rows of S^t; None on fill-in."""
    parts = np.ones(len(nodes)), nodes, np.arange(len(nodes) + 1)
    before = sparse.csr_array(parts, shape=(len(nodes), matrix.shape[0]))
    rows, most = np.empty((len(nodes), 2 * half)), min(_FULL[0] * matrix.shape[0], _FULL[1])
    degrees = np.diff(matrix.indptr)
    for step in range(half):
        if degrees[before.indices].sum(dtype=np.int64) > _PATHS:
            return None
        after = before @ matrix  # (nodes, N): rows of S^(step + 1)
        if after.nnz > most * len(nodes):
            return None
        rows[:, 2 * step] = before.multiply(after).sum(axis=1)
        rows[:, 2 * step + 1] = after.power(2).sum(axis=1)
        before = after
    return rows


def _from_dense_columns(matrix: sparse.csr_array, nodes: np.ndarray, half: int) -> Tensor:
    """Return the same from dense columns of S^t, fp32, on the nodes within `half` steps."""
    reached = _within(matrix, nodes, half)
    local = csr_tensor(_submatrix(matrix, reached))
    before = torch.zeros(len(reached), len(nodes))
    before[np.searchsorted(reached, nodes), np.arange(len(nodes))] = 1
    columns = []
    for _ in range(half):
        after = local @ before  # (reached, nodes): columns of S^(step + 1)
        columns += [(after * before).sum(dim=0), after.square().sum(dim=0)]
        before = after
    return torch.stack(columns, dim=1)


def _within(matrix: sparse.csr_array, nodes: np.ndarray, steps: int) -> np.ndarray:
    """Return the `steps`-hop neighbourhood of some nodes, ascending."""
    reached = np.unique(nodes)
    for _ in range(steps):
        known, reached = reached, np.union1d(reached, matrix[reached].indices)
        if len(known) == len(reached):
            break
    return reached
