"""Losses are their formulas, written out, in values and gradients; unknown labels count nothing."""

import math

import pytest
import torch
from torch.nn import functional

from zoo.config.options import pick
from zoo.errors import ZooError
from zoo.tasks import LOSSES, TASKS
from zoo.tasks.losses import LOSSES_OF, class_weights
from zoo.tasks.task import with_loss

TASK_OF = {
    "classes": "node-classification",
    "binary": "node-binary",
    "targets": "node-multilabel",
    "numbers": "node-regression",
    "tokens": "translation",
    "links": "link-prediction",
}
CASES = [(kind, loss) for kind, losses in LOSSES_OF.items() for loss in losses]


def example(kind, loss, nodes=24):
    """Logits of the width that the loss takes, and labels of which some are unknown."""
    generator = torch.Generator().manual_seed(3)
    if kind in ("targets", "numbers"):
        y = torch.rand(nodes, 3, generator=generator)
        y = (y > 0.5).float() if kind == "targets" else 2 * y
        y[::5, 1] = math.nan
        classes = 3
    elif kind == "links":  # of four candidates the link is the first
        y = torch.zeros(nodes, dtype=torch.int64)
        classes = 4
    else:
        classes = 2 if kind == "binary" else 4
        y = torch.randint(classes, (nodes,), generator=generator)
        y[::5] = -1
    task = with_loss(pick(TASKS, TASK_OF[kind]), loss)
    width = 4 if kind == "links" else task.outputs(classes)
    logits = torch.randn(nodes, width, generator=generator)
    return task, logits.requires_grad_(), y


def of_a_class(row, label, loss):
    """The loss of one row of logits, one operation after the other."""
    if loss == "binary-cross-entropy" and len(row) > 1:  # a link and its candidates
        loss = "one-hot"
    p = None if loss == "binary-cross-entropy" else row.softmax(0)[label]
    if loss == "cross-entropy":
        return -p.log()
    if loss == "focal":
        return -((1 - p) ** 2) * p.log()
    if loss == "margin":
        others = [each for each in range(len(row)) if each != label]
        return sum((1 - row[label] + row[each]).clamp(min=0) for each in others) / len(row)
    if loss == "one-hot":
        signs = [1 if each == label else -1 for each in range(len(row))]
        return sum(-torch.sigmoid(s * z).log() for s, z in zip(signs, row, strict=True)) / len(row)
    assert loss == "binary-cross-entropy"
    return -torch.sigmoid(row[0] if label else -row[0]).log()


def of_a_number(z, t, loss):
    apart = abs(z - t)
    return {
        "mse": lambda: apart**2,
        "mae": lambda: apart,
        "huber": lambda: apart**2 / 2 if apart < 1 else apart - 0.5,
        "binary-cross-entropy": lambda: -torch.sigmoid(z if t else -z).log(),
    }[loss]()


def slow(kind, loss, logits, y, weights=None):
    if kind in ("targets", "numbers"):
        pairs = zip(logits.flatten(), y.flatten(), strict=True)
        each = [of_a_number(z, t, loss) for z, t in pairs if not t.isnan()]
        return sum(each) / len(each)
    known = [(row, int(label)) for row, label in zip(logits, y, strict=True) if label >= 0]
    shares = [1.0 if weights is None else weights[label] for _, label in known]
    each = [w * of_a_class(*pair, loss) for w, pair in zip(shares, known, strict=True)]
    return sum(each) / len(each)


@pytest.mark.parametrize(("kind", "loss"), CASES)
def test_a_loss_is_its_formula_with_its_gradients(kind, loss):
    task, logits, y = example(kind, loss)
    found = [task.loss(logits, y), slow(kind, loss, logits, y)]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in found))
    assert task.loss(logits.bfloat16(), y).dtype == torch.float32
    assert task.loss_name == loss


@pytest.mark.parametrize(
    ("kind", "loss"), [each for each in CASES if each[0] in ("classes", "binary")]
)
def test_rows_count_as_the_weight_of_their_class_says(kind, loss):
    task, logits, y = example(kind, loss)
    classes = 2 if kind == "binary" else 4
    weights = class_weights("balanced", kind, y, classes)
    known = y[y >= 0]
    assert weights[known].mean().item() == pytest.approx(1)
    sums = torch.bincount(known, weights[known].double(), classes)
    assert torch.allclose(sums, sums[:1].expand(classes))  # each class as much as any other
    weighted = with_loss(pick(TASKS, TASK_OF[kind]), loss, weights=weights)
    found = [weighted.loss(logits, y), slow(kind, loss, logits, y, weights)]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in found))
    even = with_loss(task, loss, weights=class_weights([2.0] * classes, kind, y, classes))
    torch.testing.assert_close(even.loss(logits, y), task.loss(logits, y))


def test_weighted_cross_entropy_is_that_of_torch():
    task, logits, y = example("classes", "cross-entropy")
    weights = [1.0, 0.5, 3.0, 2.0]
    own = class_weights(weights, "classes", y, 4)
    given = {"weight": torch.tensor(weights), "ignore_index": -1}
    for smoothing in (0.0, 0.2):
        found = with_loss(task, "task", smoothing, own).loss(logits, y)
        known = y >= 0
        rows = functional.cross_entropy(
            logits[known], y[known], label_smoothing=smoothing, reduction="none"
        )
        mean = (own[y[known]] * rows).mean()
        torch.testing.assert_close(found, mean)
        if not smoothing:
            torch.testing.assert_close(found, functional.cross_entropy(logits, y, **given))


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        ([1.0, 2.0], "classes", "2 weights, and there are 4 classes"),
        ([0.0] * 4, "classes", "the weight 0"),
        ("balanced", "numbers", "for labels that are classes"),
    ],
)
def test_weights_that_are_none(asked, kind, said):
    with pytest.raises(ZooError, match=said):
        class_weights(asked, kind, torch.tensor([0, 1, 2, 3]), 4)


def test_options_hold_though_the_word_is_the_same():
    task, logits, y = example("classes", "focal")
    plain = with_loss(task, {"name": "focal", "gamma": 0.0}).loss(logits, y)
    entropy = with_loss(task, "cross-entropy").loss(logits, y)
    torch.testing.assert_close(plain, entropy)
    assert with_loss(task, "focal") is task


def test_a_loss_of_other_labels_is_refused():
    with pytest.raises(ZooError, match="the loss huber is of other labels .* choose from cross-"):
        with_loss(pick(TASKS, "node-classification"), "huber")
    with pytest.raises(ZooError, match="'focal' has no option|focal has no option"):
        with_loss(pick(TASKS, "node-classification"), {"name": "focal", "alpha": 1})


def test_a_loss_of_ones_own(monkeypatch):
    """It is given all that is known, and returns no mean; one that does is refused."""
    monkeypatch.setitem(LOSSES, "brier", lambda: brier)
    monkeypatch.setitem(LOSSES, "wrong", lambda: functional.cross_entropy)
    task, logits, y = example("classes", "brier")
    known = y >= 0
    right = functional.one_hot(y[known], 4)
    slow = ((logits.softmax(1)[known] - right) ** 2).sum(1).mean()
    torch.testing.assert_close(task.loss(logits, y), slow)
    with pytest.raises(ZooError, match="'wrong' returns the shape .* and no mean"):
        with_loss(task, "wrong").loss(logits, y)


def brier(logits, y):
    return ((logits.softmax(1) - functional.one_hot(y, logits.shape[1])) ** 2).sum(1)
