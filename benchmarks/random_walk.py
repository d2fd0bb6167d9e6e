"""Random-walk encodings (RWSE) against the transforms of PyTorch Geometric and DGL, 16 steps.

Return probabilities of 1 to 16 steps, checked to be equal. The peers multiply sparse N x N
matrices, which fill in. Graphs: a mesh, one of Cora's size, and a power law.

    python benchmarks/random_walk.py [--full]
"""

import functools
import os
import tempfile

import torch
from contest import Aim, conclude, contest, full_asked
from graphs import canonical, connected, mesh, power_law, uniform

from zoo.dgl import dgl
from zoo.encodings import random_walk

STEPS = 16


def zoo_way(graph):
    """Return the zoo's encoding, not from the cache."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ["ZOO_DATA"] = empty
        return random_walk(graph, steps=STEPS)


def peer_way(graph):
    """Return what PyTorch Geometric's transform adds."""
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE

    ends = torch.stack(dgl.remove_self_loop(graph).edges())
    data = Data(edge_index=ends, num_nodes=graph.num_nodes())
    return AddRandomWalkPE(STEPS)(data).random_walk_pe


def dgl_way(graph):
    """Return DGL's encoding."""
    return dgl.random_walk_pe(dgl.remove_self_loop(graph), STEPS)


def main():
    """Check, measure, and write the results."""
    full = full_asked(__doc__)
    cases = {"mesh": mesh(100 if full else 50), "like Cora": uniform(2708, 5278)}
    if full:
        cases["power law"] = connected(power_law(3000, 15_000))
    table, aims = [], []
    for kind, edges in cases.items():
        count = int(edges.max()) + 1
        graph = canonical(edges, count)
        ways = {"zoo": zoo_way, "PyG": peer_way}
        if full and count < 5000:  # it takes minutes for the large mesh
            ways["DGL"] = dgl_way
        found = [way(graph) for way in ways.values()]
        for each in found[1:]:
            torch.testing.assert_close(found[0], each.float(), rtol=1e-4, atol=1e-5)
        steps = {name: functools.partial(way, graph) for name, way in ways.items()}
        medians = contest(steps, rounds=5)
        for name, seconds in medians.items():
            ratio = seconds / medians["zoo"]
            cells = {"graph": kind, "nodes": f"{count:,}", "way": name, "s": f"{seconds:.2f}"}
            table.append({**cells, "ratio": f"{ratio:.1f}"})
            if name != "zoo":
                aims.append(Aim(f"{name} by zoo, {kind}", ratio, 3, least=True))
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
