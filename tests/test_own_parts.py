"""Parts of one's own that are not what their table holds are answered in one paragraph."""

import numpy as np
import pytest
import torch

import zoo
from zoo.dgl import dgl

BATCHES = {"name": "rba", "size": 8, "inner": "own"}

PARTS = [
    ("attention", lambda q, k, v: v, "own", "called as a builder.*argument: 'v'"),
    ("attention", lambda native, layer: None, "own", "builder returned None"),
    ("attention", lambda native, layer: lambda q, k, v: v[..., :3], "own", r"tensor \(34, 1, 3\)"),
    ("attention", lambda native, layer: lambda q, k, v: (v, None), BATCHES, "returned tuple"),
    ("attention", lambda native, layer: lambda q, k, v: v.mean(-3, True), BATCHES, r"\(4, 1, 1,"),
    ("propagation", lambda graph, x: x, "own", "called as a builder.*argument: 'x'"),
    ("propagation", lambda layer: None, "own", "builder returned None"),
    ("encoding", lambda graph: None, "own", "builder returned None"),
    ("encoding", lambda graph: torch.ones(34), "own", r"\(N, k\).*returned \(34,\)"),
    ("encoding", lambda graph: torch.ones(3, 2), "own", r"34 rows.*returned \(3, 2\)"),
    ("encoding", lambda graph: np.ones((34, 2)), "own", "returned ndarray"),
    ("dataset", lambda: None, "own", "builder returned None"),
    ("dataset", lambda: dgl.graph(([0], [1])), "own", "returned a DGLGraph"),
]

TABLES = {
    "attention": zoo.ATTENTIONS,
    "propagation": zoo.PROPAGATIONS,
    "encoding": zoo.ENCODINGS,
    "dataset": zoo.DATASETS,
}


@pytest.mark.parametrize("kind, part, spec, words", PARTS)
def test_what_is_no_such_part_is_answered(kind, part, spec, words, monkeypatch, tmp_path):
    monkeypatch.setitem(TABLES[kind], "own", part)
    of_model = kind in ("attention", "propagation")
    recipe = {
        "dataset": "karate",
        "model": {"name": "sgformer", **({kind: spec} if of_model else {})},
    }
    recipe |= {} if of_model else {kind: spec}
    with pytest.raises(zoo.ZooError, match=words):
        zoo.run_recipe({**recipe, "train": {"epochs": 1}, "seeds": [0]}, runs=tmp_path)
