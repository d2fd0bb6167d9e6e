"""A graph of papers, their authors and subjects, as tables and as graphs of other libraries."""

import numpy as np
import pandas
import pytest
import torch
from needs_dgl import NO_DGL

from zoo.dgl import HAS_DGL, dgl

PAPERS, AUTHORS, SUBJECTS = 240, 80, 6


def acm(seed=0):
    """Papers of three fields, like those of ACM: their words, authors and subjects tell some."""
    rng = np.random.default_rng(seed)
    field = rng.integers(3, size=PAPERS)
    author_field = rng.integers(3, size=AUTHORS)
    words = [
        ["data", "index", "query"],
        ["node", "packet", "route"],
        ["mining", "learn", "cluster"],
    ]
    noisy = np.where(rng.random(PAPERS) < 0.6, field, rng.integers(3, size=PAPERS))
    about = [" ".join(rng.choice(words[each], 3)) for each in noisy]
    papers = pandas.DataFrame(
        {
            "id": [f"p{each}" for each in range(PAPERS)],
            "year": rng.integers(1990, 2020, PAPERS),
            "about": about,
            "field": np.array(["database", "wireless", "mining"])[field],
        }
    )
    authors = pandas.DataFrame(
        {"id": [f"a{each}" for each in range(AUTHORS)], "works": rng.integers(1, 50, AUTHORS)}
    )
    subjects = pandas.DataFrame({"id": [f"s{each}" for each in range(SUBJECTS)]})
    same = [np.flatnonzero(author_field == each) for each in range(3)]
    writes = [(rng.choice(same[field[p]]), p) for p in range(PAPERS) for _ in range(3)]
    on = [(p, field[p] + 3 * rng.integers(2)) for p in range(PAPERS)]
    return papers, authors, subjects, np.array(writes), np.array(on)


def heterograph():
    """The same graph of DGL, with counts of words; without DGL the test is skipped."""
    if not HAS_DGL:
        pytest.skip(NO_DGL)
    papers, authors, subjects, writes, on = acm()
    graph = dgl.heterograph(
        {
            ("author", "writes", "paper"): (torch.tensor(writes[:, 0]), torch.tensor(writes[:, 1])),
            ("paper", "on", "subject"): (torch.tensor(on[:, 0]), torch.tensor(on[:, 1])),
        },
        num_nodes_dict={"paper": PAPERS, "author": AUTHORS, "subject": SUBJECTS},
    )
    words = papers["about"].str.get_dummies(" ").to_numpy(np.float32)
    graph.nodes["paper"].data["x"] = torch.tensor(words)
    graph.nodes["paper"].data["label"] = torch.tensor(
        papers["field"].astype("category").cat.codes.to_numpy(), dtype=torch.int64
    )
    graph.nodes["author"].data["x"] = torch.tensor(authors[["works"]].to_numpy(np.float32))
    return graph


def pyg_dict(graph):
    """What `HeteroData.to_dict()` gives."""
    found = {kind: {"num_nodes": graph.num_nodes(kind)} for kind in graph.ntypes}
    for kind in graph.ntypes:
        data = dict(graph.nodes[kind].data)
        found[kind] |= {"y" if key == "label" else key: each for key, each in data.items()}
    for kind in graph.canonical_etypes:
        found[kind] = {"edge_index": torch.stack(graph.edges(etype=kind))}
    return found
