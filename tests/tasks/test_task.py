import math
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn import functional

from zoo.config.options import pick
from zoo.config.scores import gain, lower_is_better
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.tasks.labels import GRAPH_METRICS, LINKS, NODE_METRICS
from zoo.tasks.metrics import bleu, signature
from zoo.tasks.task import TASKS, with_loss

WORDS = [word for word in TASKS if word not in ("translation", "link-prediction")]
NUMBERS = ("node-regression", "graph-regression", "node-forecasting")
NAN = float("nan")


def example(word, nodes=60):
    """Logits of the width that the task asks for, and labels of which some are unknown."""
    torch.manual_seed(2)
    task = pick(TASKS, word)
    if word.endswith("-multilabel"):
        y = torch.randint(2, (nodes, 3)).float()
        y[::7, 1] = NAN
        classes = 3
    elif word in NUMBERS:
        y = torch.rand(nodes, 3)
        y[::7, 1] = NAN
        classes = 3
    else:
        classes = 2 if word.endswith("-binary") else 4
        y = torch.randint(classes, (nodes,))
        y[::9] = -1
    return task, torch.randn(nodes, task.outputs(classes)), y


def slow_auc(scores, y):
    """The share of pairs of a yes and a no that are in the right order; equal ones count half."""
    pairs = [(a, b) for a in scores[y == 1].tolist() for b in scores[y == 0].tolist()]
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("word", WORDS)
def test_a_perfect_answer_scores_one_and_a_better_one_loses_less(word):
    task, logits, y = example(word)
    if word.endswith("-classification"):
        right = functional.one_hot(y.clamp(0), 4).float()
    else:
        right = y.nan_to_num(0).float().clamp(0).reshape(len(y), -1)
    sure = right if word in NUMBERS else 20 * right - 10
    best = 0 if lower_is_better(task.metric_name) else 1
    assert task.metric(right, y) == best
    assert gain(task.metric_name, task.metric(logits, y)) < gain(task.metric_name, best)
    assert task.loss(sure, y) < 0.01 < task.loss(logits, y)
    assert task.name == word


@pytest.mark.parametrize("word", WORDS)
def test_unknown_labels_count_for_nothing(word):
    task, logits, y = example(word)
    known = ~y.isnan() if y.is_floating_point() else y >= 0
    other = logits.clone()
    other[~known] += 5
    assert not torch.equal(other, logits)
    assert task.metric(other, y) == task.metric(logits, y)
    assert torch.equal(task.loss(other, y), task.loss(logits, y))


@pytest.mark.parametrize("word", WORDS)
def test_losses_are_in_fp32(word):
    task, logits, y = example(word)
    short = logits.bfloat16().requires_grad_()
    loss = task.loss(short, y)
    assert loss.dtype == torch.float32 and loss.shape == ()
    assert torch.allclose(loss, task.loss(short.detach().float(), y))
    loss.backward()
    assert short.grad.isfinite().all() and short.grad.abs().sum() > 0
    large = torch.full_like(logits, 300.0).bfloat16()
    assert task.loss(large, y).isfinite()
    assert gain(task.metric_name, task.metric(short, y)) <= 1


def test_losses_are_their_formulas():
    task, logits, y = example("node-classification")
    rows = [(row, label) for row, label in zip(logits.tolist(), y.tolist(), strict=True)
            if label >= 0]  # fmt: skip
    slow = sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in rows) / len(rows)
    assert task.loss(logits, y).item() == pytest.approx(slow, rel=1e-5)
    task, logits, y = example("node-binary")
    pairs = [(z, label) for z, label in zip(logits[:, 0].tolist(), y.tolist(), strict=True)
             if label >= 0]  # fmt: skip
    slow = sum(math.log1p(math.exp(-z if label else z)) for z, label in pairs) / len(pairs)
    assert task.loss(logits, y).item() == pytest.approx(slow, rel=1e-5)
    task, logits, y = example("node-multilabel")
    pairs = [(z, label) for z, label in zip(logits.flatten().tolist(), y.flatten().tolist(),
             strict=True) if label == label]  # fmt: skip
    slow = sum(math.log1p(math.exp(-z if label else z)) for z, label in pairs) / len(pairs)
    assert task.loss(logits, y).item() == pytest.approx(slow, rel=1e-5)
    task, logits, y = example("node-regression")
    pairs = [(z, t) for z, t in zip(logits.flatten().tolist(), y.flatten().tolist(), strict=True)]
    known = [(z - t) ** 2 for z, t in pairs if t == t]
    assert task.loss(logits, y).item() == pytest.approx(sum(known) / len(known), rel=1e-5)
    assert task.loss(logits[:, :1], y[:, 0]) == task.loss(logits[:, :1], y[:, :1])


def test_errors_of_forecasts_are_their_formulas():
    task, logits, y = example("node-forecasting")
    pairs = zip(logits.flatten().tolist(), y.flatten().tolist(), strict=True)
    errors = [z - t for z, t in pairs if t == t]
    squared = sum(each**2 for each in errors) / len(errors)
    assert task.metric(logits, y) == pytest.approx(squared) == task.loss(logits, y).item()
    absolute = sum(map(abs, errors)) / len(errors)
    assert task.beside["mae"](logits, y) == pytest.approx(absolute)
    with pytest.raises(ZooError, match="none of the values .* is known"):
        task.metric(logits, torch.full_like(y, NAN))
    with pytest.raises(ZooError, match="not finite"):
        task.metric(logits / 0, y)


def slow_r_squared(scores, y):
    pairs = [(z, t) for z, t in zip(scores.tolist(), y.tolist(), strict=True) if t == t]
    mean = sum(t for _, t in pairs) / len(pairs)
    return 1 - sum((z - t) ** 2 for z, t in pairs) / sum((t - mean) ** 2 for _, t in pairs)


def test_r_squared_is_its_slow_twin():
    task, logits, y = example("node-regression")
    scores = [slow_r_squared(logits[:, each], y[:, each]) for each in range(3)]
    assert task.metric(logits, y) == pytest.approx(sum(scores) / 3)
    y[:, 2] = 0.1  # a target without variance is left out
    assert task.metric(logits, y) == pytest.approx(sum(scores[:2]) / 2)
    far = y + 1e6  # what a float32 sum of squares would lose
    moved = logits + 1e6
    slow = sum(slow_r_squared(moved[:, each], far[:, each]) for each in range(2)) / 2
    assert task.metric(moved, far) == pytest.approx(slow)
    constant = y[:, :2].nanmean(dim=0).expand(len(y), 2)
    assert task.metric(constant, y[:, :2]) == pytest.approx(0, abs=1e-6)
    with pytest.raises(ZooError, match="two different numbers"):
        task.metric(logits[:, 2:], y[:, 2:])
    with pytest.raises(ZooError, match="none of the nodes .* has a label"):
        task.metric(logits, y * float("nan"))


def test_metrics_are_their_slow_twins():
    task, logits, y = example("node-classification")
    pairs = [(row.argmax().item(), label) for row, label in zip(logits, y.tolist(), strict=True)]
    known = [(a, b) for a, b in pairs if b >= 0]
    assert task.metric(logits, y) == pytest.approx(sum(a == b for a, b in known) / len(known))
    task, logits, y = example("node-binary")
    logits = logits.round(decimals=1)  # so that some are equal
    assert task.metric(logits, y) == pytest.approx(slow_auc(logits[:, 0], y))
    task, logits, y = example("node-multilabel")
    scores = [slow_auc(logits[:, each], y[:, each]) for each in range(3)]
    assert task.metric(logits, y) == pytest.approx(sum(scores) / 3)
    y[:, 2] = 1  # a target of one class only is left out
    assert task.metric(logits, y) == pytest.approx(sum(scores[:2]) / 2)


def test_heads_have_the_width_of_the_task():
    assert {word: pick(TASKS, word).outputs(7) for word in WORDS} == {
        **dict.fromkeys(WORDS, 7),
        "node-binary": 1,
        "graph-binary": 1,
    }


def test_what_cannot_be_measured_is_answered():
    binary, many = pick(TASKS, "node-binary"), pick(TASKS, "node-multilabel")
    with pytest.raises(ZooError, match="all 5 rows.*class 1.*another split"):
        binary.metric(torch.randn(6, 1), torch.tensor([1, 1, 1, -1, 1, 1]))
    with pytest.raises(ZooError, match="no target has both"):
        many.metric(torch.randn(3, 2), torch.tensor([[1, 0], [1, 0], [NAN, NAN]]))
    with pytest.raises(ZooError, match="has a label"):
        binary.metric(torch.randn(2, 1), torch.tensor([-1, -1]))
    for word in WORDS:
        task, logits, y = example(word)
        logits[5] = NAN
        with pytest.raises(ZooError, match=r"not finite.*train\.lr"):
            task.metric(logits, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-products", "ogbn-proteins"])
def test_metrics_are_those_of_ogb(name):
    """OGB's evaluator is not used in training: importing it asks the network for its version."""
    from ogb.nodeproppred import Evaluator

    random = np.random.default_rng(0)
    if name == "ogbn-proteins":
        y = random.integers(2, size=(500, 112)).astype(np.float32)
        y[:, 3] = 0
        y[random.random(y.shape) < 0.1] = NAN
        logits = random.standard_normal((500, 112)).astype(np.float32)
        wanted = Evaluator(name).eval({"y_true": y, "y_pred": logits})["rocauc"]
        word = "node-multilabel"
    else:
        y, logits = random.integers(40, size=500), random.standard_normal((500, 40))
        answer = {"y_true": y[:, None], "y_pred": logits.argmax(1)[:, None]}
        wanted = Evaluator(name).eval(answer)["acc"]
        word = "node-classification"
    task = pick(TASKS, word)
    assert task.metric(torch.tensor(logits), torch.tensor(y)) == pytest.approx(wanted)


def test_every_room_knows_the_same_tasks():
    of_many = {**GRAPH_METRICS, "sequence-classification": "accuracy", "node-forecasting": "mse"}
    assert list(Model.tasks) == [*WORDS, LINKS] == [*NODE_METRICS, *of_many, LINKS]
    assert {word: pick(TASKS, word).metric_name for word in WORDS} == {**NODE_METRICS, **of_many}
    assert list(TASKS) == [*WORDS, "translation", LINKS]


# Labels that are smoothed


@pytest.mark.parametrize("word", ["node-classification", "translation"])
def test_a_smoothed_label_is_a_share_of_every_class(word):
    """The loss is the cross entropy of (1 - a) one-hot + a / C, written out."""
    torch.manual_seed(0)
    logits, y = torch.randn(9, 5, requires_grad=True), torch.randint(5, (9,))
    y[3] = -1
    targets = 0.7 * functional.one_hot(y.clamp(min=0), 5) + 0.3 / 5
    slow = -(targets * logits.log_softmax(1)).sum(1)[y >= 0].mean()
    fast = with_loss(pick(TASKS, word), "task", 0.3).loss(logits, y)
    assert fast.item() == pytest.approx(slow.item(), abs=1e-6)
    gradients = [torch.autograd.grad(each, logits)[0] for each in (fast, slow)]
    torch.testing.assert_close(*gradients)


def test_nothing_is_smoothed_by_nothing():
    for word in TASKS:
        task = pick(TASKS, word)
        assert with_loss(task, "task", 0.0) is task


@pytest.mark.parametrize("word", ["node-binary", "node-multilabel", "node-regression"])
def test_what_has_no_classes_is_not_smoothed(word):
    with pytest.raises(ZooError, match=f"{word}; leave `label_smoothing` out"):
        with_loss(pick(TASKS, word), "task", 0.1)


def test_one_hot_labels_are_not_smoothed():
    with pytest.raises(ZooError, match="leave `label_smoothing` out, or write `loss: cross-ent"):
        with_loss(pick(TASKS, "node-classification"), "one-hot", 0.1)


# BLEU


def slow_bleu(texts, references):
    """Papineni et al. (2002) of words that are cut at spaces already: all four orders are there."""
    logs, lengths = [], [sum(len(each.split()) for each in side) for side in (texts, references)]
    for order in range(1, 5):
        found = total = 0
        for text, reference in zip(texts, references, strict=True):
            grams = [
                Counter(zip(*(words[i:] for i in range(order)), strict=False))
                for words in (text.split(), reference.split())
            ]
            found += sum((grams[0] & grams[1]).values())
            total += sum(grams[0].values())
        logs.append(math.log(found / total))
    brevity = min(0.0, 1 - lengths[1] / lengths[0])
    return math.exp(brevity + sum(logs) / 4)


def test_bleu_is_that_of_its_paper():
    texts = ["a b c d e f", "the cat sat on the mat today", "x y z w v"]
    references = ["a b c d f g h", "the cat sat on a mat", "x y z w v u"]
    found = bleu(texts, references)
    assert found == pytest.approx(slow_bleu(texts, references)) and 0.3 < found < 0.8
    assert bleu(references, references) == 1.0
    assert bleu(["", "", ""], references) == 0.0


def test_bleu_says_what_it_is():
    assert signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ZooError, match=r"graph-transformer-zoo\[text\]"):
        bleu(["a"], ["a"])


@pytest.mark.parametrize("word", ["node-classification", "node-binary", "graph-classification"])
def test_another_loss_of_classes(word):
    task, _, y = example(word)
    classes = 2 if word.endswith("-binary") else 4
    assert with_loss(task, "task") is task
    logits = torch.randn(len(y), classes, dtype=torch.double)
    known = (y >= 0).nonzero().flatten().tolist()
    softmax, one_hot = with_loss(task, "cross-entropy"), with_loss(task, "one-hot")
    assert softmax.outputs(classes) == one_hot.outputs(classes) == classes
    slow = [-logits[i].log_softmax(0)[y[i]] for i in known]
    torch.testing.assert_close(softmax.loss(logits, y).double(), sum(slow) / len(slow))
    each = [
        functional.softplus(-logits[i, c] if y[i] == c else logits[i, c])
        for i in known
        for c in range(classes)
    ]
    torch.testing.assert_close(one_hot.loss(logits, y).double(), sum(each) / len(each))


def test_the_score_of_two_logits_is_that_of_their_difference():
    task, one, y = example("node-binary")
    shift = torch.randn(len(y), 1)
    assert task.metric(torch.cat([shift, one + shift], 1), y) == pytest.approx(task.metric(one, y))


@pytest.mark.parametrize("word", ["node-regression", "node-multilabel"])
def test_another_loss_is_for_classes(word):
    with pytest.raises(
        ZooError, match=f"the loss one-hot is of other labels than those of {word}; ch"
    ):
        with_loss(pick(TASKS, word), "one-hot")
