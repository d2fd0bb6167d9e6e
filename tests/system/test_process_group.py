"""Two real processes, over gloo, do together what one does; this very file is what they run."""

import dataclasses
import json
import os
import subprocess
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
from needs_dgl import BACKENDS

from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.data.splits import make_split
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs import spmm
from zoo.graphs.adjacency import ends
from zoo.graphs.shard import Shard, whole
from zoo.graphs.spmm import neighbour_sum
from zoo.nn.attention import linear, softmax
from zoo.nn.propagation import GraphAttention, gcn, mean, relation
from zoo.nn.random_batch_attention import RandomBatchAttention
from zoo.ops.random_order import random_order
from zoo.system import process_group
from zoo.tasks.task import TASKS
from zoo.training.batches import BATCHING, ShardedBatches, TrainingData
from zoo.training.trainer import Hooks, Trainer, fit
from zoo.weights.create import create_model, list_models

LOCAL = {"name": "rba", "size": 10, "shard": "local", "redeal": 2}


def inputs(n, *sets, dtype=torch.float32):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(3, *sets, n, 2, 8, generator=generator, dtype=dtype)
    return [each.clone().requires_grad_() for each in x]


def attended(attend, shard, n, sets):
    """The output and the gradients of random batches in one training step."""
    torch.manual_seed(3)
    q, k, v = inputs(n, *sets)
    out = RandomBatchAttention(attend, 10, shard=shard)(q, k, v)
    out.square().sum().backward()
    return out.detach(), q.grad, k.grad, v.grad


def check_shared_batches_are_those_of_one_process():
    for attend in (softmax, linear):
        for n, sets in ((103, ()), (11, ()), (12, (3,)), (400, (2, 2))):
            alone = attended(attend, "none", n, sets)
            together = attended(attend, "replicated", n, sets)
            for one, other in zip(alone, together, strict=True):
                assert torch.equal(one, other)


def draws_numbers(q, k, v):
    return softmax(q + torch.randn_like(q), k, v)


def check_a_process_without_a_gradient_adds_zeros():
    given = [torch.nn.Parameter(torch.zeros(each)) for each in (3, 2, 4)]
    given[0].grad = torch.full((3,), 1.0 + process_group.rank())
    if process_group.rank() == 1:
        given[1].grad = torch.tensor([5.0, 6.0])
    process_group.sum_gradients(given)
    assert given[0].grad.tolist() == [3, 3, 3] and given[1].grad.tolist() == [5, 6]
    assert given[2].grad is None


def check_processes_draw_alike_after_an_attention_that_draws():
    attended(draws_numbers, "replicated", 31, ())  # four batches, of two sizes
    drawn = torch.randn(3)
    assert torch.allclose(process_group.total(drawn), 2 * drawn)


def check_shared_batches_are_those_of_one_process_in_evaluation():
    q, k, v = inputs(57)
    for evaluate in ("fixed", "full", "mean"):
        batched = (RandomBatchAttention(softmax, 9, shard=each, inference=evaluate).eval()
                   for each in ("none", "replicated"))  # fmt: skip
        assert torch.equal(*(each(q, k, v) for each in batched))


def tiny_data():
    return load_graph({"name": "sbm", "nodes": 121, "classes": 3, "dim": 6, "seed": 2})


def a_shard(graph):
    return Shard(graph, random_order(graph.num_nodes(), 5))


def check_propagation_in_shares():
    graph, n = tiny_data().graph, 121
    gat = GraphAttention(8, 2, 0.2).double()
    ways = (gcn, mean, gat, relation, lambda graph, x: relation(graph, x, 1))
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(n, 8, generator=generator, dtype=torch.double)
    weights = torch.randn(n, 8, generator=generator, dtype=torch.double)
    for name in BACKENDS:
        backend = getattr(spmm, name)
        spmm._backend = lambda graph, x, backend=backend: backend
        for propagate in ways:
            shard = a_shard(graph)
            x, own = (values.clone().requires_grad_() for _ in range(2))
            (weights * propagate(graph, x)).sum().backward()
            out = propagate(shard, own[shard.nodes])
            assert torch.allclose(out, propagate(graph, x)[shard.nodes], atol=1e-12)
            (weights[shard.nodes] * out).sum().backward()
            assert torch.allclose(own.grad[shard.nodes], x.grad[shard.nodes], atol=1e-12)
            assert torch.allclose(shard.in_place(out), propagate(graph, x), atol=1e-12)


def check_a_share_forgets_nothing():
    shard = a_shard(tiny_data().graph)
    assert sum(shard.sizes) == 121 and max(shard.sizes) - min(shard.sizes) == 1
    ones = process_group.total(neighbour_sum(shard, torch.ones(len(shard.nodes), 1)).sum())
    assert int(ones) == shard.graph.num_edges()
    assert process_group.total(torch.tensor(shard.block.num_edges())) == shard.graph.num_edges()
    assert whole(shard)[0] is shard.graph and whole(shard.graph)[0] is shard.graph
    with pytest.raises(ZooError, match="shard: replicated"):
        ends(shard)


def gradients(model, data, split, over=None):
    torch.manual_seed(0)
    steps = Trainer(model, TrainingData(data, split, pick(TASKS, data.task)))
    steps.train_loader = over or steps.train_loader
    loss = steps.train(torch.optim.SGD(model.parameters(), lr=0.0), 0)
    found = {name: each.grad.clone() for name, each in model.named_parameters()}
    return loss, found, steps.evaluate()


def check_a_step_in_shares_is_that_of_one_process():
    data = tiny_data()
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    for name in ("gcn", "gat", "sage", "mlp"):
        torch.manual_seed(1)
        model = create_model(name, 6, 3, dim=8, dropout=0.0)
        alone = gradients(model, data, split)
        together = gradients(model, data, split, ShardedBatches(data, split.train, "cpu", 1))
        assert abs(alone[0] - together[0]) < 1e-5
        for key, each in alone[1].items():
            assert torch.allclose(each, together[1][key], atol=1e-6), (name, key)
        for part in ("train", "val", "test"):
            assert alone[2](part) == together[2](part)


def trained(name, attention, epochs):
    data = tiny_data()
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(1)
    options = {"edge_loss": 0.0} if name == "nodeformer" else {}
    model = create_model(name, 6, 3, attention=attention, **options)
    losses = []
    on = TrainingData(data, split, pick(TASKS, data.task))
    fit(model, on, Hooks(after_epoch=lambda each: losses.append(each.loss)), epochs=epochs, lr=0.01)
    return losses, model


def check_ten_losses_of_shared_batches_are_those_of_one_process():
    for name in ("sgformer", "polynormer"):
        spec = {"name": "rba", "size": 16}
        alone, _ = trained(name, spec, 10)
        together, _ = trained(name, {**spec, "shard": "replicated"}, 10)
        assert all(abs(one - other) < 1e-6 for one, other in zip(alone, together, strict=True))


def check_every_model_trains_in_shares():
    for name in list_models(task="node-classification"):
        try:
            losses, model = trained(name, LOCAL, 12)
        except ZooError:  # a baseline has no attention
            continue
        assert sum(losses[-5:]) / 5 < losses[0], (name, losses)
        for each in (*model.parameters(), *model.buffers()):
            mean = process_group.total(each.detach().double()) / process_group.count()
            assert torch.allclose(mean, each.double()), name


BATCHINGS = (
    {"name": "random-nodes", "size": 31},
    {"name": "clusters", "parts": 8, "per_batch": 2},
    {"name": "neighbours", "fanouts": [3, 2], "size": 10},
    {"name": "neighbours", "fanouts": [3, 2], "size": 10, "features": "sharded"},
)


def in_batches(batching, evaluate):
    data = tiny_data()
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(1)
    model = create_model("sgformer", 6, 3, dim=8, graph_dropout=0.5)
    seen = []
    on = TrainingData(data, split, pick(TASKS, data.task))
    fit(model, on, Hooks(after_epoch=seen.append), epochs=6, lr=0.01,
        batching=batching, evaluate=evaluate)  # fmt: skip
    return [each.loss for each in seen], [each.val for each in seen]


def check_batches_of_two_processes_are_two_of_one():
    for batching, evaluate in zip(
        BATCHINGS, ("batches", "full", "batches", "batches"), strict=True
    ):
        together, scores = in_batches(batching, evaluate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process_group, "count", lambda: 1)
            patch.setattr(process_group, "rank", lambda: 0)
            whole = {key: value for key, value in batching.items() if key != "features"}
            alone, same = in_batches({**whole, "per_step": 2}, evaluate)
        assert all(abs(a - b) < 1e-5 for a, b in zip(alone, together, strict=True)), batching
        assert scores == same


def check_rows_are_exchanged():
    sizes = [5, 4]
    for dtype in (torch.float32, torch.float16, torch.float64):
        rows = torch.arange(27).reshape(9, 3).to(dtype)
        own = rows.split(sizes)[process_group.rank()]
        for mine, theirs in (([0, 4, 5, 8], [1]), ([], [2, 3]), ([], []), ([7, 8], [0, 1])):
            wanted = torch.tensor((mine, theirs)[process_group.rank()], dtype=torch.int64)
            assert torch.equal(process_group.exchange_rows(own, sizes, wanted), rows[wanted])


def check_sharded_features_are_those_of_the_whole():
    data = tiny_data()
    train = torch.arange(50)  # five batches: the last step has one of two
    spec = {"name": "neighbours", "fanouts": [3, 2], "size": 10}
    for per_step in (1, 2):
        torch.manual_seed(7)
        one = pick(BATCHING, {**spec, "per_step": per_step}, data, train, "cpu")
        other = pick(
            BATCHING, {**spec, "per_step": per_step, "features": "sharded"}, data, train, "cpu"
        )
        assert len(other.own) == len(data.x) // 2 + (process_group.rank() == 0)
        other.data = dataclasses.replace(data, x=torch.full_like(data.x, torch.nan))
        for part, twin in zip(one.batches(0), other.batches(0), strict=True):
            assert torch.equal(part.x, twin.x) and torch.equal(part.rows, twin.rows)
            assert part.weight == twin.weight and part.seed == twin.seed
        asked = torch.tensor([8, 1, 5])
        answers = [each.logits(lambda graph, x: x, asked) for each in (one, other)]
        assert torch.equal(*answers)


def normed(per_step):
    """Losses, scores, weights and buffers of a model with batch norm after three epochs."""
    data = tiny_data()
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(1)
    model = create_model("gcn", 6, 3, dim=8, norm="batch")
    seen = []
    on = TrainingData(data, split, pick(TASKS, data.task))
    batching = {"name": "random-nodes", "size": 25, "per_step": per_step}  # five in an epoch
    # Adam makes steps of the noise that is the gradient of a bias before a norm: small ones here.
    fit(model, on, Hooks(after_epoch=seen.append), epochs=3, lr=1e-6, batching=batching)
    return [(each.loss, each.val) for each in seen], model.state_dict()


def check_running_statistics_follow_the_batches_of_all():
    for per_step in (1, 2):  # the last step has one batch: a process is idle
        together, weights = normed(per_step)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process_group, "count", lambda: 1)
            patch.setattr(process_group, "rank", lambda: 0)
            alone, wanted = normed(2 * per_step)
        assert together == [pytest.approx(each, abs=1e-5) for each in alone]
        for name, each in wanted.items():
            assert torch.allclose(each, weights[name], rtol=1e-4, atol=1e-4), name


def check_who_has_no_batch_has_no_share_in_the_mean_of_buffers():
    own = torch.full((3,), 1.0 + process_group.rank())
    process_group.average_buffers([own])
    assert own.tolist() == [1.5] * 3
    own = torch.full((3,), 1.0 + process_group.rank())
    process_group.average_buffers([own], process_group.rank() == 0)
    assert own.tolist() == [1.0] * 3


def check_shares_of_two_nodes_and_of_one():
    for n in (2, 3):
        assert len(attended(softmax, "replicated", n, ())[0]) == n
    for n in (1, 2, 3):
        shard = a_shard(dgl.graph((range(n), range(n))))
        ones = torch.ones(len(shard.nodes), 2)
        assert torch.equal(gcn(shard, ones), ones)


def check_nothing_listens_beyond_this_machine():
    found = psutil.Process().net_connections("inet")
    listening = [each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN]
    assert listening and set(listening) == {"127.0.0.1"}, found


def check_an_evaluation_of_the_first_may_take_days():
    backend = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.options._timeout >= timedelta(days=30)


def check_how_to_go_on_with_two_processes():
    words = process_group.resume_command("runs/mine")
    assert words == "zoo train --resume runs/mine --processes 2"


CHECKS = {name: check for name, check in globals().items() if name.startswith("check_")}


def begin(folder, *words):
    """Start this file twice, as a launcher would."""
    call = [sys.executable, "-W", "ignore", __file__, str(folder), *words]
    own = {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    own = {**os.environ, **own, process_group.RENDEZVOUS: str(folder)}
    return [subprocess.Popen(call, env={**own, "RANK": str(rank)}) for rank in range(2)]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What each of two processes says of each check: the traceback, None where there is none."""
    folder = tmp_path_factory.mktemp("processes")
    for each in begin(folder):
        assert each.wait(timeout=300) == 0
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CHECKS, "leave"])
def test_two_processes(report, name):
    for each in report:
        assert each[name] is None, each[name]


@pytest.mark.slow
def test_one_that_is_killed_while_another_waits_is_noticed_at_once(tmp_path):
    started = begin(tmp_path, "wait")
    while len(list(tmp_path.glob("*.met"))) < 2:
        assert all(each.poll() is None for each in started)
        time.sleep(0.05)
    started[1].kill()
    assert started[0].wait(timeout=10) == process_group.LOST
    started[1].wait()


def meet_and_wait(folder):
    """The first waits for the second, which comes never."""
    process_group.wait()
    (folder / f"{process_group.rank()}.met").touch()
    if process_group.rank() == 1:
        time.sleep(60)
    try:
        process_group.of_first(0.0)
    except RuntimeError as error:
        sys.exit(process_group.LOST if process_group.lost(error) else 1)


def threads():
    return [each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")]


def test_one_process_sends_nothing():
    x = torch.randn(4, 2)
    assert process_group.count() == 1 and process_group.rank() == 0
    assert process_group.gather(x, [4]) is x and process_group.total(x) is x
    assert process_group.sum_own(x, [4]) is x


@pytest.mark.parametrize("count", ["2", "x"])
def test_what_another_launcher_has_left_is_told(count, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", count)
    for each in ("RANK", "MASTER_ADDR", process_group.RENDEZVOUS):
        monkeypatch.delenv(each, raising=False)
    with pytest.raises(ZooError, match="unset WORLD_SIZE"):
        process_group.start()


if __name__ == "__main__":
    torch.set_num_threads(1)
    process_group.start()
    if "wait" in sys.argv:
        meet_and_wait(Path(sys.argv[1]))
    found = {}
    for name, check in CHECKS.items():
        try:
            check()
            found[name] = None
        except Exception:
            found[name] = traceback.format_exc()
    path = Path(sys.argv[1]) / f"{process_group.rank()}.json"
    process_group.leave()
    left = [each for each in threads() if "gloo" in each]  # one that outlives Python may abort it
    found["leave"] = f"these threads were left: {left}" if left else None
    path.write_text(json.dumps(found))
