"""Training and inference on a GPU: nothing mixed, few waits, the numbers of the CPU.

Without a GPU it is a pretended one. `make slow` takes every model, attention and propagation.
"""

import dataclasses
import weakref
from collections import Counter
from contextlib import nullcontext
from unittest import mock

import pretended_cuda as pretended
import pytest
import torch
from cuda_cases import (
    COMBINATIONS,
    GRAPH,
    MEAN,
    MODELS_TRIED,
    MODES_TRIED,
    OF_BATCHES,
    RBA,
    Case,
    compare,
)
from pretended_cuda import CUDA, Mixed, OnCuda, bare, pretended_cuda
from quick import every
from torch.nn import functional

import zoo
from zoo.errors import ZooError
from zoo.graphs.adjacency import degrees, matrices
from zoo.graphs.per_graph import cached_structure
from zoo.nn.attention import softmax
from zoo.nn.propagation import PROPAGATIONS
from zoo.ops.chunked_attention import private_draws
from zoo.ops.random_order import random_order, seed_of
from zoo.testing.cases import attention_specs
from zoo.training.batches import FullBatch, RandomNodes, moved
from zoo.training.checkpoint import Checkpoint
from zoo.training.trainer import Hooks, fit
from zoo.weights.create import list_models


def waits_of(case, model, checkpoint=None, epochs=4):
    """Train on the pretended GPU; return the waits of a steady step and of an evaluation."""
    told = []
    hooks = Hooks(after_epoch=lambda epoch: told.append(gpu.take()), checkpoint=checkpoint)
    with pretended_cuda() as gpu:
        fit(model, case.data(), hooks, "cuda", epochs=epochs, evaluate_every=2, **case.train)
    step, both = told[-2:]
    return step, both - step


def hold(case):
    """Train, count and return the model."""
    model = case.build()
    step, evaluation = waits_of(case, model)
    assert step.total() <= case.step, f"in a step the host waits at {dict(step)}"
    assert evaluation.total() <= case.evaluation, f"in an evaluation it waits at {dict(evaluation)}"
    with pretended_cuda():
        return model.to("cpu")


@pytest.mark.parametrize("case", every(MODELS_TRIED + MODES_TRIED, 4), ids=str)
def test_a_step_waits_once(case):
    model = hold(case)
    if case in MODELS_TRIED:
        compare(case, model, pretended_cuda(), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", COMBINATIONS, ids=str)
def test_a_step_of_every_combination_waits_once(case):
    compare(case, hold(case), pretended_cuda(), 1e-4)


def test_every_model_attention_and_propagation_is_tried():
    names = list_models(task="node-classification", context=False)
    assert {case.model for case in MODELS_TRIED} == set(names)
    assert {
        str(case.options["attention"]) for case in COMBINATIONS if "attention" in case.options
    } >= {str(each) for each in attention_specs()}
    assert {case.options.get("propagation") for case in COMBINATIONS} == {None, *PROPAGATIONS}


@pytest.mark.parametrize("name", list_models(task="node-classification", context=True))
def test_models_in_context_are_trained_as_on_the_cpu(name):
    found = []
    for device in ("cpu", "cuda"):
        case, losses = Case(name), []
        hooks = Hooks(after_epoch=lambda epoch, into=losses: into.append(epoch.loss))
        model = case.build()
        with pretended_cuda():
            trained = fit(model, case.data(), hooks, device, epochs=2)
        found.append((losses, trained.train, trained.val, trained.test))
    assert found[0] == found[1]


def test_predictions_and_a_resumed_training(tmp_path):
    case = Case("transformer", {"attention": RBA})
    whole, stopped = case.build(), case.build()
    waits_of(case, whole)
    waits_of(case, stopped, Checkpoint(tmp_path / "state.pt", every=0), epochs=2)
    waits_of(case, stopped, Checkpoint(tmp_path / "state.pt", every=0))
    for one, other in zip(whole.parameters(), stopped.parameters(), strict=True):
        assert torch.equal(bare(one), bare(other))
    data = dataclasses.replace(case.data().data, ids=None)
    with pretended_cuda():
        found = [
            zoo.predict(whole, data, device="cuda", batch_size=size).values for size in (None, 10)
        ]
        whole.to("cpu")
    for size, each in zip((None, 10), found, strict=True):
        torch.testing.assert_close(each, zoo.predict(whole, data, batch_size=size).values)


def test_adam_is_one_kernel_and_fixed_batches_are_drawn_once(tmp_path, monkeypatch):
    """A training that began on a CPU goes on as it began."""
    seeds, kernels = [], []

    def counted(n, seed, **given):
        seeds.append(seed)
        return random_order(n, seed, **given)

    class Seen(Checkpoint):
        def offer(self, state):
            kernels.append([group["fused"] for group in state()["optimiser"]["param_groups"]])
            super().offer(state)

    monkeypatch.setattr("zoo.nn.random_batch_attention.random_order", counted)
    case = Case("transformer", {"attention": MEAN})
    waits_of(case, case.build(), Seen(tmp_path / "gpu.pt"))
    assert kernels == [[True]] * 4
    kept = [seed_of((0, 0, draw)) for draw in range(MEAN["draws"])]
    assert [seed for seed in seeds if seed in kept] == kept

    model = case.build()
    hooks = Hooks(checkpoint=Seen(tmp_path / "cpu.pt", every=0))
    fit(model, case.data(), hooks, epochs=2, evaluate_every=2)
    waits_of(case, model, Seen(tmp_path / "cpu.pt", every=0))
    assert kernels[4:] == [[None]] * 4


def test_what_a_gpu_has_no_room_for_is_evaluated_on_the_cpu(monkeypatch):
    case, asked = Case("gcn", train=OF_BATCHES), []
    own = FullBatch.scores

    def scores(self, *given):
        asked.append(self.device.type)
        if asked.count("cuda") == 2 and self.device.type == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return own(self, *given)

    monkeypatch.setattr(FullBatch, "scores", scores)
    waits_of(case, case.build(), epochs=6)
    assert asked == ["cuda", "cuda", "cpu", "cpu", "cpu"]  # the last for metrics beside


def test_a_loss_that_is_read_late_ends_training_all_the_same():
    for batching in ("full", {"name": "random-nodes", "size": 8}):
        case = Case("gcn", train={"batching": batching, "lr": 1e30, "evaluate_from": 9})
        with pytest.raises(ZooError, match=r"the loss became \w+ in epoch \d at a learning rate"):
            waits_of(case, case.build())


def test_the_pretended_gpu_refuses_and_counts():
    """What the other tests rely on."""
    with pretended_cuda() as gpu:
        x, y = torch.ones(3, device="cuda"), torch.ones(3)
        assert x.device == CUDA and (x + x).is_cuda and (x * torch.tensor(2.0)).device == CUDA
        for mixed in (lambda: x + y, lambda: y[x.long()], lambda: torch.cat([x, y])):
            with pytest.raises(Mixed):
                mixed()
        with pytest.raises(TypeError if not isinstance(x, OnCuda) else Mixed):
            x.numpy()
        assert not gpu.take()
        for wait in (
            x.sum().item,
            x.tolist,
            x.nonzero,
            x.cpu,
            lambda: x[x > 0],
            lambda: bool(x.any()),
            lambda: y.to("cuda"),
            lambda: y.to("cuda", non_blocking=True),
            lambda: x.copy_(y),
            lambda: torch.tensor([1.0], device="cuda"),
        ):
            wait()
            assert gpu.take().total() == 1, wait
        y.pin_memory().to("cuda", non_blocking=True)
        x.to("cpu", non_blocking=True)
        assert gpu.take() == Counter()


def test_draws_are_of_the_gpu_that_the_process_has():
    """Also of the second one: the present device of torch is the first."""
    entered = []
    with (
        pretended_cuda(),
        mock.patch.object(torch.cuda, "device", lambda each: entered.append(each) or nullcontext()),
        mock.patch.object(torch.cuda, "manual_seed", entered.append),
        private_draws(5, 2, torch.device("cuda", 1)),
    ):
        assert entered == [torch.device("cuda", 1), 7]


def test_half_precision_is_widened_on_the_gpu():
    data = dataclasses.replace(Case("gcn").data().data)
    half = dataclasses.replace(data, x=data.x.half())
    copied = []
    with (
        pretended_cuda(),
        mock.patch.object(pretended, "to_cuda", lambda x: copied.append(x.dtype) or OnCuda(x)),
    ):
        there = moved(half, "cuda")
        assert there.x.dtype == torch.float32 and torch.float32 not in copied
    assert torch.float16 in copied and torch.equal(bare(there.x), half.x.float())


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_tf32_is_of_the_training_alone(precision):
    """Of products of matrices and of cuDNN's recurrent networks, which torch rounds by default."""
    seen = []
    case = Case("mlp", train={"precision": precision})

    def look(*_):
        seen.append((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))

    model = case.build()
    model.register_forward_hook(look)
    fit(model, case.data(), Hooks(before_training=look), epochs=1, precision=precision)
    look()
    assert seen[0] == seen[-1] == (False, True) and len(seen) > 3
    assert set(seen[1:-1]) == {(precision == "tf32",) * 2}


def test_what_is_asked_about_a_batch_is_found_by_the_thread_that_makes_it():
    on, known = Case("gcn").data(), []
    with pretended_cuda():
        for part in RandomNodes(on.data, on.split.train, "cuda", size=4).batches(0):
            known.append(len(cached_structure(part.graph)))
            degrees(part.graph, part.x.device)
    assert len(known) > 3 and not known[0] and known[-1] == 1


def test_batches_are_copied_beside_what_is_computed_and_waited_for_on_the_gpu():
    """Each is waited for before it is used, and its memory is not used again before that."""
    on, batches = Case("gcn").data(), 0
    with pretended_cuda() as gpu:
        for part in RandomNodes(on.data, on.split.train, "cuda", size=4).batches(0):
            batches += 1
            gpu.order.append("used")
            weakref.finalize(part.x, gpu.order.append, "free")
        del part
        assert not gpu.take()
    begin, *order = gpu.order
    made, ready, done = "side records", "present waits for side", "side waits for present"
    side = [each for each in order if each in ("side copies", made)]
    copies = side.index(made)
    assert begin == done and copies >= 3 and batches > 2
    assert side == [*["side copies"] * copies, made] * batches
    assert [each for each in order if each in (ready, "used", done)] == [
        ready,
        "used",
        done,
    ] * batches
    for number in range(batches):
        assert nth(order, made, number) < nth(order, ready, number)
        assert nth(order, done, number) < nth(order, "free", number)
    assert "present copies" not in order


def test_what_evaluation_draws_is_copied_to_the_gpu_once():
    case = Case("transformer", {"attention": {**MEAN, "inner": "performer"}})
    data, copied = case.data().data, []
    with pretended_cuda() as gpu, torch.no_grad():
        model = case.build().to("cuda").eval()
        x = data.x.to("cuda")
        for _ in range(3):
            gpu.order.clear()
            model(data.graph, x)
            copied.append(gpu.order.count("present copies"))
    orders, directions = MEAN["draws"], 1
    assert copied == [orders + directions, 0, 0] and not gpu.take()["item"]


def test_a_batch_that_is_not_used_up_is_waited_for_too():
    on = Case("gcn").data()
    with pretended_cuda() as gpu:
        parts = RandomNodes(on.data, on.split.train, "cuda", size=4).batches(0)
        next(parts)
        gpu.order.clear()
        parts.close()
    assert "side waits for present" in gpu.order


def nth(words, word, number):
    """Return where a word is for the n-th time."""
    return [place for place, each in enumerate(words) if each == word][number]


def test_kernels_of_a_gpu_get_widths_that_they_take(monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 12, 2, 5).unbind()
    own, widths = functional.scaled_dot_product_attention, []

    def seen(q, k, v, mask, **options):
        widths.append((q.shape[-1], v.shape[-1]))
        return own(q, k, v, mask, **options)

    monkeypatch.setattr("zoo.nn.attention.functional.scaled_dot_product_attention", seen)
    expected = softmax(q, k, v)
    with pretended_cuda():
        found = bare(softmax(*(each.to(CUDA) for each in (q, k, v))))
    assert widths == [(5, 5), (8, 8)] and torch.allclose(found, expected, atol=1e-6)


def test_numbers_of_edges_on_a_gpu_are_of_32_bits():
    with pretended_cuda():
        for each in matrices(GRAPH, CUDA, torch.float32):
            assert {each.crow_indices().dtype, each.col_indices().dtype} == {torch.int32}
    assert matrices(GRAPH, torch.device("cpu"), torch.float32)[0].col_indices().dtype == torch.int64
