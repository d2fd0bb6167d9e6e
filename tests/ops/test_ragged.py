"""Sets of several sizes in one call, beside one after the other."""

from functools import partial

import pytest
import torch
from twins import assert_twins

from zoo.config.options import pick
from zoo.graphs.examples import edgeless
from zoo.nn import (
    ATTENTIONS,
    Attend,
    RandomBatchAttention,
    gumbel_attention,
    linear,
    linear_attention,
    per_graph,
    performer,
    random_directions,
    sine_attention,
    softmax,
)
from zoo.ops import naive
from zoo.ops.ragged import BLOCK, Ragged, _bucket_shapes

SIZES = (3, 1, 2 * BLOCK + 5, 3, 40, BLOCK, 1, 7)
N = sum(SIZES)

W = random_directions(6, 4, seed=3)
WEIGHTED = partial(linear_attention, qk_norm="none", base="none")

ATTENDS = {
    "softmax": softmax,
    "linear, row": partial(linear, qk_norm="row"),
    "linear, frobenius": partial(linear, qk_norm="frobenius"),
    "linear, all": partial(linear, qk_norm="frobenius", base="all"),
    "weighted": WEIGHTED,
    "performer": partial(performer, w=W),
    "sine": partial(sine_attention, w=W),
    "gumbel": partial(gumbel_attention, w=W, epsilon=1e-6),
    "rba": RandomBatchAttention(softmax, 9).eval(),
    "rba, linear": RandomBatchAttention(linear, 9, inference="mean", draws=3).eval(),
    "rba, full": RandomBatchAttention(linear, 9, inference="full").eval(),
    "rba, rba": RandomBatchAttention(RandomBatchAttention(softmax, 3), 9).eval(),
}


def rows(count=3, width=4):
    made = [torch.randn(N, 2, width, dtype=torch.double) for _ in range(count)]
    return [x.requires_grad_() for x in made]


def positive(word, qkv):
    return [*(x.sigmoid() for x in qkv[:2]), qkv[2]] if word == "weighted" else qkv


@pytest.mark.parametrize("word", ATTENDS)
def test_sets_at_once_equal_one_after_the_other(word):
    attend, qkv = ATTENDS[word], rows()
    ragged = Ragged(SIZES, torch.device("cpu"))
    assert_twins(
        lambda: attend(*positive(word, qkv), ragged=ragged),
        lambda: naive.attend_to_sets(attend, *positive(word, qkv), SIZES),
        qkv,
        second=word in ("linear, row", "performer", "sine"),
    )


@pytest.mark.parametrize("word", ATTENDS)
def test_rows_in_another_order(word):
    attend, qkv, order = ATTENDS[word], rows(), torch.randperm(N)
    qkv = positive(word, qkv)
    found = attend(*qkv, ragged=Ragged(SIZES, torch.device("cpu"), order))
    sets = naive.attend_to_sets(attend, *(x[order] for x in qkv), SIZES)
    torch.testing.assert_close(found[order], sets)


def test_values_of_another_width():
    (q, k), (v,) = rows(2), rows(1, width=6)
    for attend in (softmax, linear, WEIGHTED):
        keys = k.sigmoid()
        found = attend(q.sigmoid(), keys, v, ragged=Ragged(SIZES, torch.device("cpu")))
        torch.testing.assert_close(found, naive.attend_to_sets(attend, q.sigmoid(), keys, v, SIZES))


@pytest.mark.parametrize("inner", ["softmax", "linear"])
def test_random_batches_in_training_are_those_of_a_loop_over_sizes(inner):
    attend, qkv = pick(ATTENTIONS, {"name": "rba", "size": 9, "inner": inner}, linear, 0), rows()
    graph, states = edgeless(SIZES), []

    def seeded(attend):
        torch.manual_seed(3)
        out = attend()
        states.append(torch.get_rng_state())
        return out

    assert_twins(
        lambda: seeded(lambda: Attend(attend)(graph, *qkv)),
        lambda: seeded(lambda: per_graph(attend, graph, *qkv)),
        qkv,
    )
    assert torch.equal(*states)


def test_noises_are_those_of_their_nodes():
    qkv, noise = rows(), torch.randn(5, N, 2, dtype=torch.double)
    starts = [sum(SIZES[:number]) for number in range(len(SIZES))]
    slices = [slice(start, start + size) for start, size in zip(starts, SIZES, strict=True)]

    def slow():
        parts = [[x[own] for x in qkv] for own in slices]
        noises = [noise[:, own] for own in slices]
        return torch.cat(
            [gumbel_attention(*part, W, u) for part, u in zip(parts, noises, strict=True)]
        )

    fast = partial(gumbel_attention, *qkv, W, noise, ragged=Ragged(SIZES, torch.device("cpu")))
    assert_twins(fast, slow, qkv)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("word", ATTENDS)
def test_values_of_1_give_1_whatever_the_queries_and_keys(word, scale):
    q, k = ((scale * torch.randn(N, 2, 4)).requires_grad_() for _ in range(2))
    v = torch.ones(N, 2, 4, requires_grad=True)
    if word == "weighted":  # its weights are to be numbers above 0
        q, k = (x / max(1, scale) for x in (q, k))
    ragged = Ragged(SIZES, torch.device("cpu"))
    out = ATTENDS[word](*positive(word, (q, k, v)), ragged=ragged)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=1e-4, atol=1e-4)
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_buckets_hold_all_sets_and_few_zeros():
    sizes = tuple(
        torch.randint(4, 200, (128,), generator=torch.Generator().manual_seed(0)).tolist()
    )
    shapes = _bucket_shapes(sizes)
    assert sum(sets for sets, _ in shapes) == len(sizes) and len(shapes) < 20
    assert sum(sets * rows for sets, rows in shapes) < 1.2 * sum(sizes)
    assert _bucket_shapes((5,) * 7) == ((7, 5),)
