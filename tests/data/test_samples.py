"""Many graphs with one label each: rows of a batch, encodings, readouts."""

import pytest
import torch

from zoo.data.samples import Samples
from zoo.encodings import laplacian
from zoo.errors import ZooError
from zoo.graphs.examples import short_path, tiny_graph
from zoo.graphs.graph_sets import SequenceGraphs, StoredGraphs

SIZES = torch.tensor([3, 12, 3, 12])


def samples(**changes):
    """Four graphs of two kinds, whose features are the numbers of the rows."""
    given = {
        "name": "four",
        "graphs": StoredGraphs([tiny_graph(), short_path()], torch.tensor([1, 0, 1, 0])),
        "x": torch.arange(30.0).unsqueeze(1).expand(30, 2).contiguous(),
        "y": torch.tensor([0, 1, 1, 0]),
        "task": "graph-classification",
        "metric": "accuracy",
        "split": "ratio-50-25-25",
        "masks": None,
        "classes": 2,
    }
    return Samples(**{**given, **changes})


def sentences():
    return samples(
        graphs=SequenceGraphs(SIZES, window=1, skip=0),
        x=torch.arange(30) % 7,
        tokens=7,
        task="sequence-classification",
    )


def test_a_batch_has_the_rows_of_its_samples():
    graph, x = samples().batch(torch.tensor([3, 0]))
    assert graph.batch_num_nodes().tolist() == [12, 3]
    assert x[:, 0].tolist() == [*range(18, 30), *range(3)]
    assert samples().inputs == 2
    graph, x = sentences().batch(torch.tensor([1, 2]))
    assert x.tolist() == [each % 7 for each in range(3, 18)] and x.dtype == torch.int64
    assert sentences().inputs == 7


def test_an_encoding_is_computed_once_for_each_graph_that_differs():
    asked = []

    def encode(graph):
        asked.append(graph.num_nodes())
        return laplacian(graph, k=2)

    found = samples().encoded(encode)
    assert asked == [12, 3] and found.inputs == 4
    graph, x = found.batch(torch.tensor([2, 1]))
    alone = [laplacian(each, k=2) for each in (short_path(), tiny_graph())]
    torch.testing.assert_close(x[:, 2:], torch.cat(alone))
    assert graph.num_nodes() == 15


def test_tokens_take_no_encoding_but_none():
    assert sentences().encoded(lambda graph: torch.zeros(graph.num_nodes(), 0)).inputs == 7
    with pytest.raises(ZooError, match="token has none.*rotary"):
        sentences().encoded(lambda graph: torch.zeros(graph.num_nodes(), 2))


def test_it_is_not_one_graph():
    with pytest.raises(ZooError, match="four is 4 graphs.*train.batching=samples"):
        _ = samples().graph
