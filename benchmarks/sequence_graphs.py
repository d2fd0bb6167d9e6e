"""Building the graphs of sequences: a batch of short ones, and one of 1,024 to 65,536 tokens.

A batch has about 4,096 tokens in sequences of 5 to 21, another one in each round, as in training.
The peer has the graph of every length ready beforehand, and joins those of a batch by `dgl.batch`
(which gives the same edges, checked). Window 4, a skip node every max(5, sqrt(length)) tokens. The
time of a graph is that of building it and, in a column of its own, with the CSR form that gradients
ask for.

    python benchmarks/sequence_graphs.py [--full]
"""

import itertools
from collections.abc import Callable

import numpy as np
import torch
from contest import Aim, conclude, contest, full_asked

from zoo.dgl import dgl
from zoo.nn import cross_graph, grid_graph, sequence_graph

WINDOW, TOKENS, SHORTEST, LONGEST = 4, 4096, 5, 21
BATCHES = 8


def batches() -> list[list[int]]:
    """Return the lengths of the sequences of several batches."""
    random = np.random.default_rng(0)
    many = 2 * TOKENS // (SHORTEST + LONGEST)
    return random.integers(SHORTEST, LONGEST + 1, (BATCHES, many)).tolist()


def linked(lengths: list[int], *, causal: bool = False) -> dgl.DGLGraph:
    """Return the zoo's graph of a batch."""
    return sequence_graph(lengths, window=WINDOW, skip=None, causal=causal)


def joined() -> Callable[[list[int]], dgl.DGLGraph]:
    """Return what makes the graph of a batch of graphs that are ready, one for each length."""
    ready = {n: linked([n]) for n in range(SHORTEST, LONGEST + 1)}
    return lambda lengths: dgl.batch([ready[n] for n in lengths])


def short_sequences() -> tuple[dict[str, Callable], list[list[int]]]:
    """Return ways to make a graph of a batch, by name, and the batches; check them."""
    given = batches()
    ways = {
        "zoo": linked,
        "zoo, causal": lambda lengths: linked(lengths, causal=True),
        "dgl.batch": joined(),
        "zoo, pairs of all tokens": lambda lengths: cross_graph(lengths, lengths),
        "zoo, pairs near the diagonal": lambda lengths: cross_graph(lengths, lengths, near=WINDOW),
    }
    for one, other in zip(
        linked(given[0]).edges(), ways["dgl.batch"](given[0]).edges(), strict=True
    ):
        assert torch.equal(one, other)
    return ways, given


def costs(makers: dict[str, Callable[[], dgl.DGLGraph]]) -> dict[str, tuple[float, float]]:
    """Return the median milliseconds of making each graph, without and with its CSR form."""
    turned = {name: lambda make=make: make().adj_tensors("csr") for name, make in makers.items()}
    plain, both = contest(makers), contest(turned)
    return {name: (1000 * plain[name], 1000 * both[name]) for name in makers}


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    ways, given = short_sequences()
    makers = {}
    for name, way in ways.items():
        rounds = itertools.cycle(given)
        makers[name] = lambda way=way, rounds=rounds: way(next(rounds))
    makers["zoo, 64 grids of 8 x 8"] = lambda: grid_graph(8, 8, copies=64, class_token=True)
    found = costs(makers)
    table = [_row("short sequences", name, makers[name](), found[name]) for name in makers]
    aims = [
        Aim("ms of a batch of short sequences", found["zoo"][0], 1),
        Aim("dgl.batch by zoo", found["dgl.batch"][0] / found["zoo"][0], 1, least=True),
    ]
    sizes = [2**each for each in (range(10, 17) if full else range(10, 15))]
    makers = {str(n): lambda n=n: linked([n]) for n in sizes}
    found = costs(makers)
    edges = [makers[str(n)]().num_edges() for n in sizes]
    table += [_row("one sequence", "zoo", makers[str(n)](), found[str(n)]) for n in sizes]
    for name, values in {"edges": edges, "ms": [each for each, _ in found.values()]}.items():
        slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
        aims.append(Aim(f"exponent of {name}, one sequence", float(slope), 1.1))
    conclude(__file__, full, table, aims)


def _row(what: str, way: str, graph: dgl.DGLGraph, spent: tuple[float, float]) -> dict[str, str]:
    return {
        "of": what,
        "way": way,
        "tokens": f"{graph.num_dst_nodes():,}",
        "edges": f"{graph.num_edges():,}",
        "ms": f"{spent[0]:.2f}",
        "ms with CSR": f"{spent[1]:.2f}",
    }


if __name__ == "__main__":
    main()
