"""A step that a GPU has recorded is the step: the same losses, whatever is drawn or changes.

Without a GPU it is a pretended one, whose recordings keep what the host decided as a real one does.
"""

import functools
import gc
import weakref

import pretended_recording
import pytest
from cuda_cases import NODES, OF_BATCHES, ORDERS, RBA, RECORDED, Case, without_dropout
from pretended_cuda import pretended_cuda

from zoo.errors import ZooError
from zoo.registry import MODELS
from zoo.training.captured import WARM, CapturedStep, can_record
from zoo.training.checkpoint import Checkpoint
from zoo.training.fit import Hooks, fit

EPOCHS = 8


def trained(case, epochs=EPOCHS, checkpoint=None, capture=True, device="cuda", **options):
    """Train; return the losses, how often each recording was replayed, and the last step's waits.

    A rate that is a power of two is the same in 32 bits, in which a recording keeps it.
    """
    losses, waits, model = [], [], case.build()
    pretended_recording.Recording.made.clear()
    hooks = Hooks(
        watch=lambda epoch: (losses.append(epoch.loss), waits.append(gpu.take().total())),
        checkpoint=checkpoint,
    )
    train = {"lr": 2**-6, "evaluate_every": 2, **case.train, **options}
    with pretended_cuda() as gpu:
        fit(model, case.data(), hooks, device, epochs=epochs, capture=capture, **train)
    return losses, [each.replays for each in pretended_recording.Recording.made], waits[-2]


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_a_recorded_step_is_the_step(case):
    case = without_dropout(case)
    losses, replays, waits = trained(case)
    assert losses == trained(case, capture=False)[0] and waits <= 1
    assert replays == [EPOCHS - WARM - (case.model == "polynormer")]  # whose second phase is new


def test_masks_are_drawn_anew_and_weights_that_come_back_are_recorded_anew():
    dropped = Case("sgformer", {"dropout": 0.5, "norm": "layer"})
    assert trained(dropped)[0] == trained(dropped, capture=False)[0]
    phases = Case("polynormer", {"local_epochs": 5, "dropout": 0.5})
    losses, replays, _ = trained(phases, epochs=12)
    assert losses == trained(phases, epochs=12, capture=False)[0] and replays == [2, 4]


def test_rates_change_after_the_recording():
    case, schedule = without_dropout(Case("gcn")), {"name": "cosine", "warmup": 0.3}
    found = trained(case, epochs=12, schedule=schedule)[0]
    expected = trained(case, epochs=12, schedule=schedule, capture=False)[0]
    assert found == pytest.approx(expected, rel=1e-5)
    assert found != pytest.approx(trained(case, epochs=12)[0], rel=1e-3)


def test_it_goes_on_from_a_checkpoint(tmp_path):
    case = without_dropout(Case("transformer", ORDERS))
    whole = trained(case)[0]
    for capture in (True, False):
        file = tmp_path / f"{capture}.pt"
        before = trained(case, 5, Checkpoint(file, every=0))[0]
        assert before + trained(case, EPOCHS, Checkpoint(file, every=0), capture)[0] == whole


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
    losses, replays, _ = trained(case, epochs=11)
    assert losses == trained(case, epochs=11, capture=False)[0] and replays == [2, 3]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("transformer", {"attention": {**RBA, "inner": "performer"}}), "cannot be drawn"),
        (Case("gcn", train={"optimizer": "lamb"}), "`optimizer: adam`"),
        (Case("gcn", train=OF_BATCHES), "whole graph on one GPU"),
    ],
    ids=str,
)
def test_what_cannot_be_recorded_is_said(case, said):
    with pytest.raises(ZooError, match=said):
        trained(case)
    losses, replays, _ = trained(case, capture=None)
    assert len(losses) == EPOCHS and not any(replays)


@pytest.mark.parametrize("model", ["sgformer", "difformer"])
def test_attention_of_many_nodes_is_recorded(model, monkeypatch):
    for number in ("LARGE", "ROWS"):
        monkeypatch.setattr(f"zoo.ops.gram_attention.{number}", 0)
    case = without_dropout(Case(model))
    losses, replays, _ = trained(case)
    assert any(replays) and losses == trained(case, capture=False)[0]


def test_what_was_recorded_is_let_go_of(monkeypatch):
    kept = []

    class Seen(CapturedStep):
        def __init__(self, *given):
            super().__init__(*given)
            kept.append(weakref.ref(self))

    monkeypatch.setattr("zoo.training.epoch.CapturedStep", Seen)
    gc.disable()
    try:
        trained(Case("gcn"))
        assert len(kept) == 1 and kept[0]() is None
    finally:
        gc.enable()


def test_a_small_graph_is_recorded_unasked(monkeypatch):
    for case in RECORDED:
        model = case.build()
        assert can_record(model, case.data().task.loss, case.data().augment), case
    assert any(trained(Case("gcn"), capture=None)[1])
    monkeypatch.setattr("zoo.training.epoch.RECORDED", NODES - 1)
    assert not trained(Case("gcn"), capture=None)[1]


def test_code_from_elsewhere_is_recorded_when_asked_for(monkeypatch):
    class Own(MODELS["gcn"]):
        pass

    with monkeypatch.context() as patch:
        patch.setitem(MODELS, "own", Own)
        assert not trained(Case("own"), capture=None)[1] and any(trained(Case("own"))[1])
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


def test_a_cpu_records_nothing():
    case = Case("gcn", {"dropout": 0.5})
    losses, replays, _ = trained(case, device="cpu")
    assert losses == trained(case, device="cpu", capture=False)[0] and not replays
