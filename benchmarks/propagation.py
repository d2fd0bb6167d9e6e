"""Sums over neighbours (SpMM) against DGL, torch and PyTorch Geometric, and the memory bound.

A power-law graph of 169,343 nodes and 2.3 million directed edges, forward and backward; unweighted
sums, as in a graph convolution, and sums with learned edge weights, as in graph attention. The
memory bound of the former is a random gather of the same bytes: a row for each edge, twice.

    python benchmarks/propagation.py [--full]
"""

import warnings

import torch
from contest import Aim, conclude, contest, full_asked
from graphs import canonical, power_law

from zoo.dgl import dgl
from zoo.graphs.adjacency import matrices
from zoo.graphs.spmm import neighbour_sum, weighted_sum
from zoo.system.allocator import keep_freed_memory

BLOCK = 2**10


def gathered(graph, x):
    """Return a step that gathers a row of x for each edge, twice, into one buffer."""
    _, src, _ = graph.adj_tensors("csc")
    blocks, into = src.long().split(BLOCK), x.new_empty(BLOCK, x.shape[1])

    def call():
        for _ in range(2):
            for block in blocks:
                torch.index_select(x, 0, block, out=into[: len(block)])

    return call


def step(product, *given):
    """Return a step of a product, forward and backward; it returns output and gradients."""
    given = [each.clone().requires_grad_() for each in given]
    gradient = torch.ones_like(given[0])

    def call():
        out = product(*given)
        return [out, *torch.autograd.grad(out, given, gradient)]

    return call


def peers(graph) -> dict:
    """Return the unweighted sums of the zoo and its peers, by name."""
    from torch_geometric.nn import SimpleConv
    from torch_geometric.utils import to_torch_csr_tensor

    ends = torch.stack(graph.edges())
    matrix, _ = matrices(graph, torch.device("cpu"), torch.float32)
    simple = SimpleConv(aggr="sum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = to_torch_csr_tensor(ends.flip(0), size=(graph.num_nodes(),) * 2)
    return {
        "zoo": lambda x: neighbour_sum(graph, x),
        "DGL": lambda x: dgl.ops.copy_u_sum(graph, x),
        "torch CSR": lambda x: matrix @ x,
        "PyG, edges": lambda x: simple(x, ends),
        "PyG, CSR": lambda x: simple(x, stored),
    }


def weighted(graph) -> dict:
    """Return the weighted sums of the zoo and its peers, by name."""
    from torch_geometric.nn import SimpleConv

    ends, simple = torch.stack(graph.edges()), SimpleConv(aggr="sum")
    return {
        "zoo": lambda x, w: weighted_sum(graph, x.unsqueeze(1), w.unsqueeze(1)).squeeze(1),
        "DGL": lambda x, w: dgl.ops.u_mul_e_sum(graph, x, w.unsqueeze(1)),
        "PyG, edges": lambda x, w: simple(x, ends, w),
    }


def measured(steps: dict, more: dict) -> dict[str, float]:
    """Check that the steps agree; return the medians of these and of `more`."""
    found = [each() for each in steps.values()]
    for each in found[1:]:
        for one, other in zip(found[0], each, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    return contest({**steps, **more}, rounds=5)


def main():
    """Check, measure, and write the results."""
    full = full_asked(__doc__)
    keep_freed_memory()
    nodes, edges = (169_343, 1_166_000) if full else (40_000, 275_000)
    graph, table, aims = canonical(power_law(nodes, edges), nodes), [], []
    weights = torch.rand(graph.num_edges())
    for width in (64, 256):
        x = torch.randn(nodes, width)
        for sums, products, given in (
            ("of neighbours", peers(graph), (x,)),
            ("with weights", weighted(graph), (x, weights)),
        ):
            steps = {name: step(product, *given) for name, product in products.items()}
            bound = {"bound": gathered(graph, x)} if len(given) == 1 else {}
            medians = measured(steps, bound)
            zoo = medians["zoo"]
            table += [
                {
                    "width": str(width),
                    "sums": sums,
                    "product": name,
                    "ms": f"{1000 * each:.0f}",
                    "ratio": f"{each / zoo:.2f}",
                }
                for name, each in medians.items()
            ]
            if bound:
                share = zoo / medians.pop("bound")
                aims.append(Aim(f"zoo by bound, width {width}", share, 1.3))
            best = min(each for name, each in medians.items() if name != "zoo")
            aims.append(Aim(f"best peer by zoo, {sums}, width {width}", best / zoo, 1, least=True))
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
