"""A step or an evaluation that a GPU has recorded is that: the same losses and scores, whatever is
drawn or changes.

Without a GPU it is a pretended one, whose recordings keep what the host decided as a real one does.
"""

import dataclasses
import functools
import gc
import weakref
from typing import NamedTuple

import pretended_recording
import pytest
from cuda_cases import NODES, OF_BATCHES, ORDERS, RBA, RECORDED, Case, without_dropout
from pretended_cuda import pretended_cuda
from quick import every

from zoo.errors import ZooError
from zoo.registry import MODELS
from zoo.training.captured import WARM_UP, Captured, can_record
from zoo.training.checkpoint import Checkpoint
from zoo.training.trainer import Hooks, fit

EPOCHS = 10


class Trained(NamedTuple):
    """What is seen of a training: of each recording how often it was replayed."""

    losses: list
    scores: list
    replays: list
    waits: int


def trained(case, epochs=EPOCHS, checkpoint=None, capture=True, device="cuda", **options):
    """Train, and evaluate every second epoch, by all logits, at a rate exact in 32 bits."""
    losses, scores, waits, model = [], [], [], case.build()
    pretended_recording.Recording.made.clear()

    def watch(epoch):
        losses.append(epoch.loss)
        scores.append((epoch.train, epoch.val))
        waits.append(gpu.take().total())

    data = case.data()
    task = dataclasses.replace(data.task, metric=lambda logits, y: logits.square().sum().item())
    train = {"lr": 2**-6, "evaluate_every": 2, **case.train, **options}
    with pretended_cuda() as gpu:
        hooks = Hooks(after_epoch=watch, checkpoint=checkpoint)
        fit(model, data._replace(task=task), hooks, device, epochs=epochs, capture=capture, **train)
    replays = [each.replays for each in pretended_recording.Recording.made]
    return Trained(losses, scores, replays, waits[-2])


def is_the_same(found, expected):
    return (found.losses, found.scores) == (expected.losses, expected.scores)


@pytest.mark.parametrize("case", every(RECORDED, 4), ids=str)
def test_a_recorded_step_is_the_step(case):
    case = without_dropout(case)
    found = trained(case)
    assert is_the_same(found, trained(case, capture=False)) and found.waits <= 1
    steps = EPOCHS - WARM_UP - (case.model == "polynormer")  # whose second phase is new
    assert found.replays == [steps, EPOCHS // 2 - WARM_UP]


def test_masks_are_drawn_anew_and_weights_that_come_back_are_recorded_anew():
    dropped = Case("sgformer", {"dropout": 0.5, "norm": "layer"})
    assert is_the_same(trained(dropped), trained(dropped, capture=False))
    phases = Case("polynormer", {"local_epochs": 5, "dropout": 0.5})
    found = trained(phases, epochs=12)
    assert is_the_same(found, trained(phases, epochs=12, capture=False))
    assert found.replays == [2, 4, 1]


def test_rates_change_after_the_recording():
    case, schedule = without_dropout(Case("gcn")), {"name": "cosine", "warmup": 0.3}
    found = trained(case, epochs=12, schedule=schedule).losses
    expected = trained(case, epochs=12, schedule=schedule, capture=False).losses
    assert found == pytest.approx(expected, rel=1e-5)
    assert found != pytest.approx(trained(case, epochs=12).losses, rel=1e-3)


def test_it_goes_on_from_a_checkpoint(tmp_path):
    case = without_dropout(Case("transformer", ORDERS))
    whole = trained(case).losses
    for capture in (True, False):
        file = tmp_path / f"{capture}.pt"
        before = trained(case, 5, Checkpoint(file, every=0)).losses
        after = trained(case, EPOCHS, Checkpoint(file, every=0), capture).losses
        assert before + after == whole


def test_a_buffer_that_was_replaced_is_seen(monkeypatch):
    """What `begin_epoch` puts in the place of a tensor is read from then on."""
    kind = MODELS["gcn"]

    def begin_epoch(model, epoch):
        for module in model.modules():
            for name, each in list(module.named_buffers(recurse=False)):
                if epoch == 5:
                    setattr(module, name, each.clone())

    monkeypatch.setattr(kind, "begin_epoch", begin_epoch)
    case = without_dropout(Case("gcn", {"norm": "batch", "layers": 3}))
    found = trained(case, epochs=11)
    assert is_the_same(found, trained(case, epochs=11, capture=False))
    assert found.replays == [2, 3, 3]


@pytest.mark.parametrize(
    ("case", "said", "replays"),
    [
        (Case("transformer", {"attention": {**RBA, "inner": "performer"}}), "cannot be drawn", [1]),
        (Case("gcn", train={"optimizer": "lamb"}), "`optimizer: adam`", [2]),
        (Case("gcn", train=OF_BATCHES), "whole graph on one GPU", []),
    ],
    ids=str,
)
def test_what_cannot_be_recorded_is_said(case, said, replays):
    with pytest.raises(ZooError, match=said):
        trained(case)
    found = trained(case, capture=None)
    assert len(found.losses) == EPOCHS and [each for each in found.replays if each] == replays


@pytest.mark.parametrize("model", ["sgformer", "difformer"])
def test_attention_of_many_nodes_is_recorded(model, monkeypatch):
    for number in ("LARGE", "ROWS"):
        monkeypatch.setattr(f"zoo.ops.gram_attention.{number}", 0)
    case = without_dropout(Case(model))
    found = trained(case)
    assert any(found.replays) and is_the_same(found, trained(case, capture=False))


def test_what_was_recorded_is_let_go_of(monkeypatch):
    kept = []

    def forget(captured):
        kept.append(weakref.ref(captured))
        forgotten(captured)

    forgotten = Captured.forget
    monkeypatch.setattr(Captured, "forget", forget)
    gc.disable()
    try:
        trained(Case("gcn"))
        assert len(kept) == 2 and not any(each() for each in kept)
    finally:
        gc.enable()


def test_a_small_graph_is_recorded_unasked(monkeypatch):
    for case in RECORDED:
        model = case.build()
        assert can_record(model, case.data().task.loss, case.data().augment), case
    assert any(trained(Case("gcn"), capture=None).replays)
    monkeypatch.setattr("zoo.training.trainer.MAX_CAPTURED_NODES", NODES - 1)
    assert not trained(Case("gcn"), capture=None).replays


def test_code_from_elsewhere_is_recorded_when_asked_for(monkeypatch):
    class Own(MODELS["gcn"]):
        pass

    with monkeypatch.context() as patch:
        patch.setitem(MODELS, "own", Own)
        assert not trained(Case("own"), capture=None).replays and any(trained(Case("own")).replays)
    model = Case("sgformer").build()
    assert can_record(model) and not can_record(model, lambda: 0)
    model.extra = functools.partial(lambda: 0)
    assert not can_record(model)
    model = Case("gcn").build()
    model.register_forward_hook(lambda *_: None)
    assert not can_record(model)


def test_what_a_gpu_refuses_in_a_recording_is_said(monkeypatch):
    kind = MODELS["gcn"]
    own = kind.features

    def features(model, graph, x):
        return own(model, graph, x) * float(x.sum().item() != 0)

    monkeypatch.setattr(kind, "features", features)
    with pytest.raises(ZooError, match="cannot be recorded: CUDA error.*Leave `train.capture` out"):
        trained(Case("gcn"))
    trained(Case("gcn", {"dropout": 0.5}), capture=None)


def test_a_cpu_records_nothing():
    case = Case("gcn", {"dropout": 0.5})
    found = trained(case, device="cpu")
    assert is_the_same(found, trained(case, device="cpu", capture=False)) and not found.replays


def test_an_evaluation_that_cannot_be_recorded_is_made_as_it_is(monkeypatch):
    features = MODELS["gcn"].features

    def waiting(model, graph, x):
        found = features(model, graph, x)
        return found if model.training else found * float(found.abs().max() > 0)

    monkeypatch.setattr(MODELS["gcn"], "features", waiting)
    case = without_dropout(Case("gcn"))
    found = trained(case)
    assert is_the_same(found, trained(case, capture=False))
    # The step is let go of at the evaluation that fails, the fourth, of every second epoch.
    assert found.replays == [2 * (WARM_UP + 1) - WARM_UP, 0]
