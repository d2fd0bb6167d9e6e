"""Losses equal torch's, whatever is unknown, however many rows there are."""

import pytest
import torch
from pretended_cuda import bare, pretended_cuda
from torch.nn import functional

from zoo.ops import chunks, losses
from zoo.ops.losses import cross_entropy
from zoo.testing.attentions import peak_bytes


def given(rows, classes, *, known=0.8, dtype=torch.double):
    logits = (3 * torch.randn(rows, classes, dtype=torch.double)).to(dtype).requires_grad_()
    y = torch.randint(classes, (rows,))
    return logits, y.masked_fill(torch.rand(rows) > known, -1)


def value_and_gradient(loss, logits, y, **options):
    value = loss(logits, y, **options)
    return value, torch.autograd.grad(3 * value, logits)[0]


def of_torch(logits, y, smoothing):
    return functional.cross_entropy(logits, y, ignore_index=-1, label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9, 1.0])
@pytest.mark.parametrize(
    "rows,classes,block", [(7, 5, 5), (40, 11, 100), (3, 1, 1), (64, 9, 2**18)]
)
def test_it_is_torchs(rows, classes, block, smoothing, monkeypatch):
    """A row at a time, some rows with a rest, and all at once."""
    monkeypatch.setattr(chunks, "BLOCK", block)
    logits, y = given(rows, classes)
    y[0] = classes - 1
    ours = value_and_gradient(cross_entropy, logits, y, smoothing=smoothing)
    theirs = value_and_gradient(of_torch, logits, y, smoothing=smoothing)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_it_is_torchs_over_many_chunks_as_they_are():
    logits, y = given(3000, 257)
    assert logits.numel() > 2 * chunks.BLOCK
    ours = value_and_gradient(cross_entropy, logits, y, smoothing=0.1)
    theirs = value_and_gradient(of_torch, logits, y, smoothing=0.1)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_rows_of_unknown_label_count_for_nothing():
    logits, y = given(50, 6)
    assert 0 < (y < 0).sum() < 50
    value, gradient = value_and_gradient(cross_entropy, logits, y, smoothing=0.1)
    assert not gradient[y < 0].any() and gradient[y >= 0].any(dim=1).all()
    torch.testing.assert_close(cross_entropy(logits[y >= 0], y[y >= 0], 0.1), value)


def test_half_precision_is_widened():
    logits, y = given(2000, 300, dtype=torch.bfloat16)
    value, gradient = value_and_gradient(cross_entropy, logits, y, smoothing=0.1)
    assert value.dtype == torch.float32 and gradient.dtype == torch.bfloat16
    wide = logits.detach().double().requires_grad_()
    exact, of_exact = value_and_gradient(of_torch, wide, y, smoothing=0.1)
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), of_exact, rtol=2**-8, atol=1e-9)


def test_large_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0], [3e38, 0.0, 0.0]], requires_grad=True)
    value, gradient = value_and_gradient(cross_entropy, logits, torch.tensor([0, 0]))
    assert value == 0 and gradient.isfinite().all()


def test_one_gradient_of_the_size_of_the_logits_is_all_that_is_held():
    logits, y = given(4096, 1024, dtype=torch.float)
    size = 4 * logits.numel()

    def of(loss):
        return peak_bytes(lambda: torch.autograd.grad(loss(logits, y, 0.1), logits)) / size

    assert of(cross_entropy) < 1.3 < 2 < of(of_torch)


BINARY = functional.binary_cross_entropy_with_logits
OTHERS = {
    losses.squared_error: (functional.mse_loss, lambda y: y, torch.nan),
    losses.multilabel_cross_entropy: (BINARY, lambda y: (y > 0).float(), torch.nan),
    losses.binary_cross_entropy: (BINARY, lambda y: (y[:, 0] > 0).long(), -1),
    losses.one_hot_cross_entropy: (BINARY, lambda y: y.argmax(1), -1),
}


@pytest.mark.parametrize("loss", OTHERS, ids=lambda each: each.__name__)
def test_what_is_unknown_counts_for_nothing_on_either_device(loss):
    """To the bit the loss of the known on a CPU, and without looking for them on a GPU."""
    plain, labels, unknown = OTHERS[loss]
    logits, y = torch.randn(9, 4, requires_grad=True), labels(torch.randn(9, 4))
    y[3] = unknown
    y[5, ...] = unknown
    known = (y == y) & (y != -1)
    if loss is losses.binary_cross_entropy:
        expected = plain(logits[:, 0][known], y[known].float())
        found, rows = loss(logits[:, :1], y), logits[:, :1]
    elif loss is losses.one_hot_cross_entropy:
        expected = plain(logits[known], functional.one_hot(y[known], 4).float())
        found, rows = loss(logits, y), logits
    else:
        expected, found, rows = plain(logits[known], y[known]), loss(logits, y), logits
    gradients = [torch.autograd.grad(each, logits)[0] for each in (found, expected)]
    assert torch.equal(found, expected) and torch.equal(*gradients)
    with pretended_cuda() as gpu:
        there = rows.detach().to("cuda").requires_grad_()
        late = loss(there, y.to("cuda"))
        gpu.take()
        late.backward()
        assert not gpu.take()
    torch.testing.assert_close(bare(late.detach()), expected)
    torch.testing.assert_close(bare(there.grad), gradients[1][:, : rows.shape[1]])
