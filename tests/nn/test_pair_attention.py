"""Attention with a bias of pairs of nodes, beside the naive one that has all N x N of them."""

from functools import partial

import pytest
import torch
from twins import assert_twins

from zoo.errors import ZooError
from zoo.graphs.examples import edgeless
from zoo.nn import RandomBatchAttention, build_attend, naive, softmax
from zoo.nn.attend import Attend, attentions_with_bias
from zoo.ops import naive as loops
from zoo.ops import pair_attention
from zoo.ops.pair_attention import Bias
from zoo.ops.random_order import random_order
from zoo.testing.attentions import peak_bytes

SIZES = (7, 3, 12, 1, 7)
N = sum(SIZES)


def given(n=N, heads=2):
    """q, k, v (n, H, 4) and a table (H, n, n) of the bias of all pairs."""
    qkv = [torch.randn(n, heads, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    return [*qkv, torch.randn(heads, n, n, dtype=torch.double, requires_grad=True)]


def of(table):
    """The function of pairs, rows (S, R) and columns (S, C), that looks a table up."""
    return lambda rows, columns: table[:, rows.unsqueeze(-1), columns.unsqueeze(-2)].movedim(0, -3)


def in_sets(q, k, v, table, sizes):
    """The naive attention inside one set of nodes after the other."""
    rows, outs = torch.arange(len(v)).split(sizes), []
    for own in rows:
        outs.append(naive.softmax(q[own], k[own], v[own], table[:, own][:, :, own]))
    return torch.cat(outs)


@pytest.mark.parametrize(("at_once", "kept"), [(2**22, 2**26), (50, 2**26), (50, 0), (1, 0)])
@pytest.mark.parametrize("sizes", [(N,), SIZES, (10, 10, 10)])
def test_softmax_with_a_bias_equals_its_twin(at_once, kept, sizes, monkeypatch):
    """In one block, in blocks of rows or of sets, and where these are attended to again."""
    monkeypatch.setattr(pair_attention, "AT_ONCE", at_once)
    monkeypatch.setattr(pair_attention, "KEPT", kept)
    *qkv, table = given(sum(sizes))
    assert_twins(
        lambda: Attend(softmax)(edgeless(sizes), *qkv, of(table)),
        lambda: in_sets(*qkv, table, sizes),
        [*qkv, table],
        second=True,
    )


@pytest.mark.parametrize("inference", ["fixed", "mean"])
@pytest.mark.parametrize("sizes", [(N,), SIZES, (10, 10, 10)])
def test_random_batches_equal_a_loop_over_the_same_deal(inference, sizes):
    attend = RandomBatchAttention(softmax, 4, inference=inference, draws=3).eval()
    *qkv, table = given(sum(sizes))

    def dealt(seed):
        outs = []
        for own in torch.arange(sum(sizes)).split(sizes):

            def inside(q, k, v, nodes):
                nodes = nodes.flatten()
                return naive.softmax(q, k, v, table[:, nodes][:, :, nodes])

            deal = random_order(len(own), seed) if len(own) > 4 else torch.arange(len(own))
            parts = deal.tensor_split(-(-len(own) // 4))
            out = [inside(*(x[own[part]] for x in qkv), own[part]) for part in parts]
            outs.append(torch.cat(out)[torch.argsort(torch.cat(parts))])
        return torch.cat(outs)

    assert_twins(
        lambda: Attend(attend)(edgeless(sizes), *qkv, of(table)),
        lambda: torch.stack([*map(dealt, attend.seeds)]).mean(0),
        [*qkv, table],
    )


def test_training_deals_anew_and_one_batch_of_all_is_the_whole():
    *qkv, table = given(12)
    bias = Bias(of(table), torch.arange(12))
    attend = RandomBatchAttention(softmax, 4).train()
    assert not torch.equal(attend(*qkv, bias=bias), attend(*qkv, bias=bias))
    whole = RandomBatchAttention(softmax, 12)(*qkv, bias=bias)
    torch.testing.assert_close(whole, naive.softmax(*qkv, table))


def test_a_bias_of_minus_infinity_leaves_pairs_out():
    """The bias decides who is seen: of two halves that do not see each other each is alone."""
    q, k, v, _ = given(10)
    half = torch.arange(10) // 5

    def apart(rows, columns):
        same = half[rows].unsqueeze(-1) == half[columns].unsqueeze(-2)
        return torch.zeros(same.shape).masked_fill(~same, -torch.inf).unsqueeze(-3)

    found = softmax(q, k, v, bias=Bias(apart, torch.arange(10)))
    torch.testing.assert_close(found, loops.attend_to_sets(softmax, q, k, v, (5, 5)))


def test_no_number_of_all_pairs_is_stored(monkeypatch):
    """Memory grows with the nodes alone, in random batches and, in blocks, in full attention."""
    monkeypatch.setattr(pair_attention, "AT_ONCE", 2**14)
    monkeypatch.setattr(pair_attention, "KEPT", 0)
    weight = torch.randn(4, 2, requires_grad=True)

    def of(rows, columns):
        return weight[(rows.unsqueeze(-1) - columns.unsqueeze(-2)) % 4].movedim(-1, -3)

    def step(attend, n):
        qkv = [torch.randn(n, 2, 8, requires_grad=True) for _ in range(3)]
        bias = Bias(of, torch.arange(n))
        return peak_bytes(lambda: attend(*qkv, bias=bias).sum().backward())

    for attend in (softmax, RandomBatchAttention(softmax, 16)):
        assert step(attend, 1024) < 2.3 * step(attend, 512)


def test_words_that_take_no_bias_are_refused():
    assert attentions_with_bias("scores") == ["native", "softmax", "rba"]
    assert attentions_with_bias("states") == ["native", "rba"]
    build_attend({"name": "rba", "size": 4, "inner": "softmax"}, softmax, pair_bias="scores")
    for spec in ("linear", "performer", {"name": "rba", "inner": "linear"}):
        with pytest.raises(ZooError, match=r"(linear|performer).*adds a bias.*softmax"):
            build_attend(spec, softmax, pair_bias="scores")
    with pytest.raises(ZooError, match="replicated.*not shared"):
        build_attend({"name": "rba", "shard": "replicated"}, softmax, pair_bias="scores")
    with pytest.raises(ZooError, match="softmax: this model's own attention reads a state"):
        build_attend("softmax", softmax, pair_bias="states")


def test_numbers_of_nodes_may_be_any():
    """A bias is of the numbers that the nodes have, not of the places of their rows."""
    q, k, v, table = given(8)
    order = torch.randperm(8)
    told = partial(softmax, q[order], k[order], v[order])
    whole = naive.softmax(q, k, v, table)
    torch.testing.assert_close(told(bias=Bias(of(table), order)), whole[order])
