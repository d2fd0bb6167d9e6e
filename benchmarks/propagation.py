"""The sum over neighbours beside DGL, torch and PyTorch Geometric, and beside what memory allows.

A power-law graph of 169,343 nodes and 2.3 million directed edges, forward and backward. The bound
is a copy of the same bytes, gathered at random: a row for each edge, twice.

    python benchmarks/propagation.py [--full]
"""

import warnings

import dgl
import torch
from contest import Aim, conclude, contest, full_asked
from graphs import canonical, power_law

from zoo.allocator import keep_freed_memory
from zoo.kernels import neighbour_sum
from zoo.structure import matrices

BLOCK = 2**10


def gathered(graph, x):
    """Return the call that copies a row of x for each edge, twice, into a block that stays."""
    _, tails, _ = graph.adj_tensors("csc")
    blocks, into = tails.long().split(BLOCK), x.new_empty(BLOCK, x.shape[1])

    def call():
        for _ in range(2):
            for block in blocks:
                torch.index_select(x, 0, block, out=into[: len(block)])

    return call


def step(product, x):
    """Return the call of a product forward and backward."""
    x = x.clone().requires_grad_()
    gradient = torch.ones_like(x)

    def call():
        out = product(x)
        out.backward(gradient)
        x.grad = None
        return out

    return call


def peers(graph) -> dict:
    """Return the products by name."""
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


def main():
    """Check, time and conclude."""
    full = full_asked(__doc__)
    keep_freed_memory()
    nodes, edges = (169_343, 1_166_000) if full else (40_000, 275_000)
    graph, table, aims = canonical(power_law(nodes, edges), nodes), [], []
    products = peers(graph)
    for width in (64, 256):
        x = torch.randn(nodes, width)
        steps = {name: step(product, x) for name, product in products.items()}
        found = [each() for each in steps.values()]
        for each in found[1:]:
            torch.testing.assert_close(found[0], each, rtol=1e-3, atol=1e-3)
        medians = contest({**steps, "bound": gathered(graph, x)}, rounds=9)
        table += [
            {
                "width": str(width),
                "product": name,
                "ms": f"{1000 * each:.0f}",
                "ratio": f"{each / medians['zoo']:.2f}",
            }
            for name, each in medians.items()
        ]
        best = min(each for name, each in medians.items() if name not in ("zoo", "bound"))
        aims += [
            Aim(f"zoo by bound, width {width}", medians["zoo"] / medians["bound"], 1.3),
            Aim(f"best peer by zoo, width {width}", best / medians["zoo"], 1, least=True),
        ]
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
