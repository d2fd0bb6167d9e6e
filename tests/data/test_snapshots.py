"""Snapshots: what a model reads and has to say, and that nothing of it is of a later time."""

import dataclasses

import numpy as np
import pytest
import torch

from zoo.data.load.check import check
from zoo.data.snapshots import NodeSeries, Snapshots, Steps
from zoo.data.splits import make_split, split_of
from zoo.encodings import laplacian
from zoo.errors import ZooError
from zoo.graphs.examples import tiny_graph

NAN = float("nan")


def snapshots(times=30, nodes=4, features=2, lags=3, horizon=2, seed=0, graphs=1, **changes):
    """Random series on a path of nodes; of several graphs each has an edge less than the last."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(times, nodes, features)).astype(np.float32)
    path = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    names = tuple(f"f{each}" for each in range(features))
    given = {"values": values, "edges": [path[each:] for each in range(graphs)],
             "graph_of": np.arange(times) % graphs}  # fmt: skip
    given |= {key: changes.pop(key) for key in given if key in changes}
    series = NodeSeries(np.arange(times), Steps(1), names=names, ids=None, **given)
    return Snapshots.of("random", series, lags=lags, horizon=horizon, **changes)


def slow_inputs(data, sample):
    """Node by node: all features at the first time that is read, then at the next."""
    rows = []
    for node in range(data.x.shape[1]):
        row = []
        for time in range(sample, sample + data.lags):
            row += data.x[time, node].tolist()
        rows.append(row)
    return torch.tensor(rows)


def slow_targets(data, sample):
    values = data.series.values
    return torch.tensor([
        values[sample + data.lags + step, node, 0]
        for node in range(values.shape[1]) for step in range(data.horizon)
    ])  # fmt: skip


def test_rows_and_targets_are_those_of_their_times():
    data = snapshots()
    assert (data.inputs, data.classes, data.overlap, len(data.y)) == (6, 2, 1, 30 - 3 - 2 + 1)
    chosen = torch.tensor([7, 0, 25])
    graph, x = data.batch(chosen)
    assert graph.batch_num_nodes().tolist() == [4, 4, 4]
    assert torch.equal(x, torch.cat([slow_inputs(data, int(each)) for each in chosen]))
    for each in chosen.tolist():
        assert torch.equal(data.y[each], slow_targets(data, each))
    rows = torch.arange(24.0).reshape(12, 2)
    assert data.pool(chosen, rows).tolist() == rows.reshape(3, 8).tolist()


def test_each_snapshot_has_the_graph_of_its_last_time():
    data = snapshots(graphs=3)
    for sample in range(5):
        graph, _ = data.batch(torch.tensor([sample]))
        edges = 3 - (sample + data.lags - 1) % 3
        assert graph.num_edges() == 4 + 2 * edges


def test_an_encoding_is_that_of_each_graph():
    data = snapshots(graphs=2).encoded(lambda graph: laplacian(graph, k=2))
    graph, x = data.batch(torch.tensor([3, 4]))
    assert data.inputs == 8 and x.shape == (8, 8)
    for number, sample in enumerate((3, 4)):
        alone = data.graphs.graphs[(sample + 2) % 2]
        torch.testing.assert_close(x[4 * number : 4 * number + 4, 6:], laplacian(alone, k=2))
    assert snapshots().encoded(lambda graph: torch.zeros(4, 0)).encodings is None


@pytest.mark.parametrize("scale", ["none", "standard"])
@pytest.mark.parametrize("horizon", [1, 3])
def test_what_is_later_changes_nothing_that_is_read_before(scale, horizon):
    """From a time on all values change: what is read, targets and scale of training stay."""
    values = snapshots().series.values
    first = 20
    other = values.copy()
    other[first:] = 100 * other[first:] + 7
    found = []
    for each in (values, other):
        data = snapshots(values=each, scale=scale, horizon=horizon)
        split = split_of(data, {"name": "time", "train": 50, "val": 25, "test": 25}, 0)
        found.append((data.trained_on(split.train), split))
    (one, split), (two, _) = found
    assert int(split.train.max()) + one.lags + horizon <= first, "training is before the change"
    before = torch.arange(first - one.lags + 1)
    assert torch.equal(one.batch(before)[1], two.batch(before)[1])
    assert torch.equal(one.shift, two.shift) and torch.equal(one.spread, two.spread)
    assert torch.equal(one.scaled_targets(split.train), two.scaled_targets(split.train))
    after = before + first - 2
    assert not torch.equal(one.batch(after[:3])[1], two.batch(after[:3])[1]), "it would be seen"


def test_the_scale_is_that_of_what_is_known_in_training():
    values = snapshots().series.values.copy()
    values[4, 2, 0] = NAN
    values[:, 3, 0] = 5.0
    data = snapshots(values=values, scale="standard")
    train = torch.arange(10)
    scaled = data.trained_on(train)
    known = values[: 9 + data.lags + data.horizon].astype(np.float64)
    shift, spread = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
    spread[3, 0] = 1.0  # constant
    np.testing.assert_allclose(scaled.shift, shift, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled.spread, spread, rtol=1e-5)
    wanted = (values - shift) / spread
    wanted[4, 2, 0] = wanted[3, 2, 0]
    np.testing.assert_allclose(scaled.x, wanted, rtol=1e-4, atol=1e-5)
    rows = torch.randn(2 * 4, 2)
    back = scaled.pool(torch.arange(2), rows).reshape(2, 4, 2)
    by_hand = rows.reshape(2, 4, 2) * spread[None, :, :1] + shift[None, :, :1]
    torch.testing.assert_close(back, by_hand.float(), rtol=1e-5, atol=1e-5)
    chosen = torch.arange(5)
    again = scaled.pool(chosen, scaled.scaled_targets(chosen).reshape(-1, 2))
    torch.testing.assert_close(again, data.y[chosen], rtol=1e-5, atol=1e-5, equal_nan=True)
    assert snapshots().trained_on(train).spread.eq(1).all() and snapshots().scaling is None
    assert scaled.scaling["3"][1][0] == 1.0


def test_what_is_unknown_in_training_is_scaled_as_the_others_are(caplog):
    values = 50 + 20 * snapshots().series.values
    values[:20, 1, 0] = values[:20, 3, 1] = NAN
    data = snapshots(values=values, scale="standard")
    scaled = data.trained_on(torch.arange(10))
    known = values[: 9 + data.lags + data.horizon].astype(np.float64)
    for node, column in ((1, 0), (3, 1)):
        others = np.delete(known[:, :, column], node, axis=1)
        assert scaled.shift[node, column] == pytest.approx(others.mean(), rel=1e-5)
        assert scaled.spread[node, column] == pytest.approx(others.std(), rel=1e-5)
    assert scaled.shift[1, 1] == pytest.approx(known[:, 1, 1].mean(), rel=1e-5)
    assert scaled.trained_on(torch.arange(10)) is scaled  # a second seed
    [record] = caplog.records
    assert "no known value at 2 of 4 nodes, the first of them 1;" in record.getMessage()
    values[:20] = NAN
    nothing = snapshots(values=values, scale="standard").trained_on(torch.arange(10))
    assert nothing.shift.eq(0).all() and nothing.spread.eq(1).all()


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("gap", [0, 2])
def test_targets_of_two_parts_never_overlap(horizon, gap):
    data = snapshots(times=80, horizon=horizon)
    split = split_of(data, {"name": "time", "train": 60, "val": 20, "test": 20, "gap": gap}, 3)

    def times(part):
        starts = getattr(split, part).tolist()
        return {start + data.lags + step for start in starts for step in range(horizon)}

    train, val, test = (times(part) for part in ("train", "val", "test"))
    assert max(train) < min(val) <= max(val) < min(test)
    between = 1 + max(0, gap - (horizon - 1))
    assert min(val) - max(train) == between == min(test) - max(val)
    assert len(split.train) == int(0.6 * len(data.y)) - max(gap, horizon - 1)


def test_a_word_cuts_in_time_and_no_other_will_do():
    data = snapshots(times=104, lags=3, horizon=2)
    split = split_of(data, "time-20-20-60", 0)
    sizes = [len(getattr(split, part)) for part in ("train", "val", "test")]
    assert sizes == [20 - 1, 20 - 1, 60]
    assert torch.equal(split.train, torch.arange(19)) and split.val[0] == 20
    assert data.split == "time-70-10-20"
    for word in ("ratio-60-20-20", "benchmark", {"name": "ratio", "train": 60}):
        with pytest.raises(ZooError, match="is none of snapshots.*time-70-10-20"):
            split_of(data, word, 0)
    with pytest.raises(ZooError, match="is more than 100 percent"):
        split_of(data, {"name": "time", "train": 90}, 0)


def test_a_split_in_time_is_none_of_nodes():
    from zoo.data.load import load_data

    with pytest.raises(ZooError, match="split time is none of nodes.*ratio-60-20-20"):
        split_of(load_data("karate"), "time", 0)


def test_snapshots_of_which_nothing_is_known_are_in_no_part():
    values = snapshots().series.values.copy()
    values[10:13, :, 0] = NAN  # of both times that snapshots 7 and 8 predict
    data = snapshots(values=values)
    split = make_split("time-70-10-20", data.y, None, seed=0, overlap=data.overlap)
    together = torch.cat([split.train, split.val, split.test]).tolist()
    assert not {7, 8} & set(together) and {6, 9} <= set(together)


@pytest.mark.parametrize(("times", "nodes"), [(7, 1), (8, 4)])
def test_the_fewest_times(times, nodes):
    data = snapshots(times=times, nodes=nodes, features=1)
    assert len(data.y) >= 3
    with pytest.raises(ZooError, match="3 lags with a horizon of 2 need 7 at least"):
        split_of(snapshots(times=6, nodes=nodes), "time-70-10-20", 0)
    with pytest.raises(ZooError, match="has 2 times, and 3 lags are read; give 3 at least, or"):
        snapshots(times=2, nodes=nodes)
    assert len(snapshots(times=3, nodes=nodes).y) == 0
    assert check(snapshots(times=6, nodes=nodes))[0].verdict == "fix"


def test_it_is_not_one_graph():
    with pytest.raises(ZooError, match="random is 26 snapshots in time.*train.batching=snapshots"):
        _ = snapshots().graph
    assert tiny_graph().num_nodes() == 12


def verdicts(data):
    return {each.name: each.verdict for each in check(data)}


def test_what_a_check_says():
    assert set(verdicts(snapshots()).values()) == {"good"}
    values = snapshots().series.values.copy()
    values[3, 0, 0], values[:, 1, 0], values[:, 2, 0] = NAN, 4.0, NAN
    values[:, 3, 0] *= 1000
    found = verdicts(snapshots(values=values, edges=[np.zeros((0, 2), np.int64)]))
    assert {key for key, verdict in found.items() if verdict == "look"} == {
        "edges", "unknown", "nodes without a value", "constant nodes", "values"
    }  # fmt: skip
    values[:, :, 0] = NAN
    assert verdicts(snapshots(values=values))["nodes without a value"] == "fix"


def test_a_copy_keeps_its_class():
    data = snapshots()
    assert dataclasses.replace(data, name="other").batch(torch.tensor([1]))[1].shape == (4, 6)
