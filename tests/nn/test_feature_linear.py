"""The sparse first product equals the dense one, values and gradients, and forgets its tensors."""

import gc
import weakref

import pytest
import torch
from torch import nn

from zoo.nn import feature_linear
from zoo.nn.feature_linear import WIDE, FeatureDropout, FeatureLinear, sparse_form
from zoo.ops.dropout import dropout


def bags(nodes=9, words=WIDE, dtype=torch.double):
    x = torch.zeros(nodes, words, dtype=dtype)
    x[torch.arange(nodes), torch.arange(nodes) * 7 % words] = 1.0
    x[:, 3] = torch.arange(nodes, dtype=dtype) / 3
    return x


def both(x, bias=True, **options):
    ours = FeatureLinear(x.shape[1], 4, bias=bias, **options).to(x.dtype)
    dense = nn.Linear(x.shape[1], 4, bias=bias).to(x.dtype)
    dense.load_state_dict(ours.state_dict())
    return ours, dense


def assert_same(ours, dense, x, y):
    weights = torch.randn(len(x), 4, dtype=y.dtype)
    outs = [ours(x), dense(y)]
    torch.testing.assert_close(*outs, rtol=1e-9, atol=1e-9)
    for out in outs:
        (out.sin() * weights).sum().backward()
    for mine, theirs in zip(ours.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_the_dense_product(bias):
    x = bags()
    assert sparse_form(x) is not None
    assert_same(*both(x, bias), x, x)


def test_dropout_drops_the_same_numbers_forward_and_backward(monkeypatch):
    x = bags()
    kept = []

    def drop(values, rate, training=True):
        kept.append(values * (torch.arange(len(values)) % 3 > 0) / (1 - rate))
        return kept[-1]

    monkeypatch.setattr(feature_linear, "dropout", drop)
    ours, dense = both(x, dropout=1 / 3)
    dropped = torch.zeros_like(x)
    dropped[tuple(x.nonzero().T)] = x[tuple(x.nonzero().T)]
    places = tuple(x.nonzero().T)
    dropped[places] = x[places] * (torch.arange(len(places[0])) % 3 > 0) / (2 / 3)
    assert_same(ours, dense, x, dropped)
    assert kept


def test_dropout_is_for_training():
    x = bags()
    ours, dense = both(x, dropout=0.5)
    assert not torch.allclose(ours(x), dense(x))
    assert torch.allclose(ours.eval()(x), dense(x))


def test_dropout_of_dense_features():
    x = torch.randn(50, 300)
    ours, dense = both(x, dropout=0.5)
    torch.manual_seed(0)
    out = ours(x)
    torch.manual_seed(0)
    torch.testing.assert_close(out, dense(dropout(x, 0.5)))


def test_what_is_left_of_sparse_features_is_not_searched(monkeypatch):
    torch.manual_seed(0)
    x, drop = bags(nodes=100), FeatureDropout(0.25)
    sparse_form(x)
    monkeypatch.setattr(feature_linear, "_found", None)
    left = drop(x)
    kept = left != 0
    torch.testing.assert_close(left[kept], x[kept] / 0.75)
    assert 0.6 < kept.sum() / (x != 0).sum() < 0.9
    assert_same(*both(left), left, left)
    assert not torch.equal(drop(x), left) and drop.eval()(x) is x
    with torch.inference_mode():
        assert drop.train()(x).shape == x.shape


@pytest.mark.parametrize("x", [torch.randn(9, WIDE), bags().requires_grad_()])
def test_of_other_features_it_is_any_dropout(x):
    torch.manual_seed(0)
    found = FeatureDropout(0.5)(x)
    torch.manual_seed(0)
    assert torch.equal(found, dropout(x, 0.5))


def test_the_transposed_form_is_that_of_the_transposed_features():
    x = bags()
    form = sparse_form(x)
    wanted = x.T.contiguous().to_sparse_csr()
    for part in ("crow_indices", "col_indices", "values"):
        assert torch.equal(getattr(form.transposed, part)(), getattr(wanted, part)())


def test_a_change_in_place_is_seen():
    x = bags()
    ours, dense = both(x)
    ours(x)
    x[2, 5] = 9.0
    assert_same(ours, dense, x, x)


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(9, WIDE),
        bags(words=WIDE - 1),
        bags().requires_grad_(),
        bags().to(torch.bfloat16),
        bags()[0],
    ],
    ids=["dense", "narrow", "learned", "half", "one row"],
)
def test_when_the_dense_product_is_taken(x):
    assert sparse_form(x) is None


def test_autocast_takes_the_dense_product():
    x = bags(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert FeatureLinear(WIDE, 4)(x).dtype == torch.bfloat16


def test_the_form_is_found_once_and_forgotten_with_its_tensor():
    x = bags()
    form = sparse_form(x)
    assert sparse_form(x) is form
    gone = weakref.ref(form.matrix)
    del x, form
    gc.collect()
    assert gone() is None


def test_equal_tensors_are_not_confused():
    x, y = bags(), bags()
    assert sparse_form(x) is not sparse_form(y)


def test_no_nodes():
    assert FeatureLinear(WIDE, 4)(torch.zeros(0, WIDE)).shape == (0, 4)


def test_a_saved_linear_map_fits():
    FeatureLinear(WIDE, 4).load_state_dict(nn.Linear(WIDE, 4).state_dict())


@pytest.mark.parametrize("bias", [True, False])
def test_tokens_are_their_one_hot_rows(bias):
    tokens = torch.tensor([3, 0, 3, 6, 1])
    rows = nn.functional.one_hot(tokens, 7).double()
    assert_same(*both(rows, bias), tokens, rows)


def test_dropout_of_tokens_drops_whole_rows_at_the_rate():
    torch.manual_seed(0)
    ours = FeatureLinear(7, 4, bias=False, dropout=0.25)
    tokens = torch.randint(7, (4000,))
    kept = ours(tokens) / ours.weight.T[tokens]
    torch.testing.assert_close(kept, kept[:, :1].expand(-1, 4))
    assert set((3 * kept[:, 0]).round().tolist()) == {0.0, 4.0}  # 4 / 3 where kept
    assert abs(kept[:, 0].ne(0).double().mean() - 0.75) < 0.03
    torch.testing.assert_close(ours.eval()(tokens), ours.weight.T[tokens])
