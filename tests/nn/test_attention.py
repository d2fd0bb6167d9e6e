"""Promises of every attention, and each one beside its naive twin."""

import math
from functools import partial

import pytest
import torch
from quick import every
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from twins import assert_twins

import zoo
from zoo.cli.describe import CATALOGUE
from zoo.config.options import pick
from zoo.errors import ZooError
from zoo.nn import naive
from zoo.nn.attention import ATTENTIONS, linear, softmax
from zoo.nn.random_batch_attention import RandomBatchAttention, random_batches
from zoo.nn.random_features import performer, random_directions, sine_attention
from zoo.ops import chunked_attention
from zoo.ops.chunked_attention import attend_in_batches
from zoo.ops.linear_attention import linear_mean
from zoo.ops.naive import attend_in_batches as one_by_one
from zoo.ops.naive import linear_attention as dense_linear
from zoo.ops.random_order import random_order
from zoo.system.context import using
from zoo.testing.attentions import peak_bytes

SPECS = [
    *ATTENTIONS,
    {"name": "rba", "size": 7, "inference": "mean", "draws": 3},
    {"name": "rba", "size": 7, "inference": "full"},
]


def build(spec, layer=0):
    attend = pick(ATTENTIONS, spec, linear, layer)
    return attend.eval() if isinstance(attend, torch.nn.Module) else attend


def tensors(*shape, count=3, dtype=torch.double):
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(count)]


@pytest.mark.parametrize("n", [2, 5, 11])
def test_softmax_equals_its_twin(n):
    qkv = tensors(n, 2, 4)
    assert_twins(partial(softmax, *qkv), partial(naive.softmax, *qkv), qkv)


@pytest.mark.parametrize("spec", [each for each in SPECS if each != "native"], ids=str)
def test_the_identity_for_v_gives_the_weights(spec):
    """As `docs/python.md` says."""
    q, k, v = tensors(11, 2, 4)
    attend = build({"name": spec, "size": 4} if spec in ("rba", "clusters") else spec)
    weights = attend(q, k, torch.eye(11, dtype=torch.double).unsqueeze(1).expand(-1, 2, -1))
    torch.testing.assert_close(torch.einsum("nhm,mhd->nhd", weights, v), attend(q, k, v))
    torch.testing.assert_close(weights.sum(-1), torch.ones(11, 2, dtype=torch.double))
    if spec == "rba":
        assert weights.count_nonzero(-1).max() == 4


@pytest.mark.parametrize("width", [1, 16])
def test_softmax_of_columns_apart_stores_no_scores(width):
    x = torch.randn(width, 30, 4).permute(1, 2, 0)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # which takes rows of numbers side by side
        found = softmax(x, x, x)
    torch.testing.assert_close(found, softmax(*[x.contiguous().clone()] * 3))


@pytest.mark.parametrize("qk_norm", ["frobenius", "row"])
@pytest.mark.parametrize("n", [2, 3, 9])  # below and above the width: both orders of the product
def test_linear_equals_its_twin(n, qk_norm):
    qkv, options = tensors(n, 2, 4), {"qk_norm": qk_norm, "base": "own"}
    twins = (partial(each, *qkv, **options) for each in (linear, dense_linear))
    assert_twins(*twins, qkv)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("features", [1, 6, 11])  # below and above the width, whole blocks or not
def test_random_features_equal_their_twins(n, features):
    w = random_directions(features, 4, seed=3)
    for kernel, twin in (
        (performer, naive.performer),
        (sine_attention, naive.sine_attention),
    ):
        qkv = tensors(n, 2, 4)
        assert_twins(partial(kernel, *qkv, w), partial(twin, *qkv, w), qkv, second=True)


def test_directions_are_gaussian_and_orthogonal_in_blocks():
    w = torch.stack([random_directions(6, 4, seed) for seed in range(4000)])
    products = w @ w.mT
    inside = products[:, :4, :4] - torch.diag_embed(products[:, :4, :4].diagonal(dim1=1, dim2=2))
    assert inside.abs().max() < 1e-12 and products[:, 4, 5].abs().max() < 1e-12
    assert products[:, 0, 4].abs().mean() > 0.5  # blocks know nothing of each other
    error = 4 / math.sqrt(len(w))
    for row in w.unbind(1):  # moments of order 1, 2 and 4 of a standard Gaussian
        assert row.mean(0).abs().max() < error
        assert (row.T @ row / len(w) - torch.eye(4)).abs().max() < 2 * error
        assert (row.square().sum(1).square().mean() - 24).abs() < 30 * error


def test_performer_comes_nearer_to_softmax_with_more_features():
    """One draw errs by O(1/sqrt(M)), the mean over draws by the bias of the ratio, O(1/M)."""
    q, k, v = (x.detach() for x in tensors(20, 2, 4))
    q, k = 0.3 * q, 0.3 * k  # the variance grows as the exponential of their squares
    exact = softmax(q, k, v)
    one_draw, mean_of_draws = [], []
    for features in (4, 32, 256):
        draws = [performer(q, k, v, random_directions(features, 4, seed)) for seed in range(400)]
        errors = torch.stack(draws) - exact
        one_draw.append(errors.square().mean().sqrt() / v.std())
        mean_of_draws.append(errors.mean(0).square().mean().sqrt() / v.std())
    assert one_draw[1] < one_draw[0] / 2.2 and one_draw[2] < one_draw[1] / 2.2
    assert mean_of_draws[1] < mean_of_draws[0] / 3 and mean_of_draws[2] < 0.001


def test_performer_draws_anew_in_training_and_once_for_all_sets_and_heads():
    q, k, v = (x.detach().expand(3, 20, 2, 4) for x in tensors(1, 20, 1, 4))
    attend = build("performer").train()
    torch.manual_seed(3)
    out = attend(q, k, v)
    torch.testing.assert_close(out, out[:1, :, :1].expand_as(out))
    other = attend(q, k, v)
    torch.manual_seed(3)
    assert torch.equal(attend(q, k, v), out) and not torch.equal(other, out)
    torch.manual_seed(3)
    attend(q, k, v)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), after)  # one draw of the global generator


def test_performer_layers_and_seeds_differ_in_evaluation_which_draws_nothing():
    q, k, v = tensors(20, 2, 4)
    before = torch.get_rng_state()
    first = build("performer")(q, k, v)
    assert torch.equal(build("performer")(q, k, v), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(build("performer", layer=1)(q, k, v), first)
    assert not torch.equal(build({"name": "performer", "seed": 1})(q, k, v), first)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e2, 1e6])
def test_performer_survives_queries_and_keys_of_any_length(scale):
    q, k, v = ((scale * torch.randn(50, 2, 4)).requires_grad_() for _ in range(3))
    attend = build("performer")
    torch.testing.assert_close(attend(q, k, torch.ones_like(v)), torch.ones_like(v))
    out = attend(q, k, v)
    assert (out <= v.amax(0) + 1e-3 * scale).all() and (out >= v.amin(0) - 1e-3 * scale).all()
    assert all(each.isfinite().all() for each in torch.autograd.grad(out.sum(), (q, k, v)))


@pytest.mark.parametrize("inner", [softmax, linear])
@pytest.mark.parametrize("n,size", [(10, 5), (11, 4), (7, 2), (9, 8), (5, 1)])
def test_random_batches_equal_a_loop_over_batches(inner, n, size):
    attend = RandomBatchAttention(inner, size).eval()
    dealt = []

    def spy(q, k, v):
        dealt.append(v[..., 0, 0].detach().long())
        return inner(q, k, v)

    names = torch.arange(n, dtype=torch.double)[:, None, None].expand(n, 2, 3)
    RandomBatchAttention(spy, size).eval()(names, names, names)
    batches = [row for part in dealt for row in part]

    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    sizes = [len(rows) for rows in batches]
    assert max(sizes) <= size and max(sizes) - min(sizes) <= 1 and len(sizes) == -(-n // size)
    qkv, order = tensors(n, 2, 3), torch.cat(batches)
    assert_twins(partial(attend, *qkv), partial(one_by_one, inner, *qkv, order, size), qkv)


@pytest.mark.parametrize("inner", [softmax, linear])
@pytest.mark.parametrize("shape", [(10, 2, 3), (11, 1, 4), (2, 9, 2, 3)])
@pytest.mark.parametrize("size", [1, 4, 5, 8])
@pytest.mark.parametrize("recompute", [True, False])
def test_random_batches_equal_algorithm_2(inner, shape, size, recompute, monkeypatch):
    """A chunk of batches at a time, and all at once, as one batch after the other."""
    monkeypatch.setitem(chunked_attention.CHUNK_NUMBERS, "cpu", 24)  # a few batches at a time
    order = torch.randperm(shape[-3])

    qkv = tensors(*shape)
    given = inner, *qkv, order, size
    slow = partial(one_by_one, *given)
    assert_twins(partial(attend_in_batches, *given, recompute=recompute), slow, qkv)
    assert_twins(partial(random_batches, *given), slow, qkv)


def test_a_device_without_a_fast_twin_runs_algorithm_2(monkeypatch):
    q, k, v = tensors(11, 2, 3)
    attend = RandomBatchAttention(softmax, 4).eval()
    fast = attend(q, k, v)
    monkeypatch.delitem(chunked_attention.CHUNK_NUMBERS, "cpu")
    torch.testing.assert_close(attend(q, k, v), fast)


@zoo.testing.promises(each for spec in SPECS for each in zoo.testing.attention_promises(spec))
def test_attention(promise):
    promise()


def test_every_attention_of_the_table_is_held_to_its_promises():
    assert set(ATTENTIONS) <= {each for each in SPECS if isinstance(each, str)}


def test_training_deals_anew_and_evaluation_does_not():
    q, k, v = tensors(30, 2, 4)
    attend = RandomBatchAttention(softmax, 5).train()
    assert not torch.equal(attend(q, k, v), attend(q, k, v))
    attend.eval()
    assert torch.equal(attend(q, k, v), attend(q, k, v))


def test_one_seed_gives_one_training_partition():
    q, k, v = tensors(30, 2, 4)
    attend = RandomBatchAttention(softmax, 5).train()
    outs = []
    for _ in range(2):
        torch.manual_seed(3)
        outs.append(attend(q, k, v))
    assert torch.equal(*outs)


def test_layers_and_seeds_differ_in_evaluation():
    q, k, v = tensors(30, 2, 4)
    spec = {"name": "rba", "size": 5, "inner": "softmax"}
    first = build(spec)(q, k, v)
    assert not torch.equal(first, build(spec, layer=1)(q, k, v))
    assert not torch.equal(first, build({**spec, "seed": 1})(q, k, v))


@pytest.mark.parametrize("evaluate", ["fixed", "full", "mean"])
def test_evaluation_leaves_the_global_generator_alone(evaluate):
    q, k, v = tensors(30, 2, 4)
    before = torch.get_rng_state()
    RandomBatchAttention(softmax, 5, inference=evaluate).eval()(q, k, v)
    assert torch.equal(before, torch.get_rng_state())


def test_full_evaluation_is_exact_and_the_mean_comes_nearer():
    q, k, v = tensors(200, 1, 4)
    exact = softmax(q, k, v)
    error = {
        (how, draws): (
            RandomBatchAttention(softmax, 20, inference=how, draws=draws).eval()(q, k, v) - exact
        ).norm()
        for how, draws in [("full", 1), ("fixed", 1), ("mean", 64)]
    }
    assert error["full", 1] < 1e-9
    assert error["mean", 64] < error["fixed", 1] / 2


def test_partitions_are_uniform():
    """Two given nodes share a batch with probability (p - 1) / (N - 1): Lemma 2 of the paper."""
    n, size, draws = 12, 4, 4000
    together = 0
    for seed in range(draws):
        places = torch.empty(n, dtype=torch.long)
        places[random_order(n, seed)] = torch.arange(n) // size
        together += int(places[0] == places[1])
    expected = (size - 1) / (n - 1)
    sigma = math.sqrt(expected * (1 - expected) / draws)
    assert abs(together / draws - expected) < 4 * sigma


def shares_a_batch(q, k, v):
    """Which nodes share a batch, for v the identity matrix."""
    return v.sum(-3, keepdim=True).expand_as(v)


@pytest.mark.parametrize(
    "n,size,expected",
    [
        pytest.param(48, 8, 7 / 47, marks=pytest.mark.slow),
        (43, 8, (5 * 7 * 6 + 8 * 7) / (43 * 42)),
        (10, 4, (4 * 3 + 2 * 3 * 2) / 90),
    ],
)
def test_two_nodes_meet_as_often_as_even_batches_let_them(n, size, expected):
    """Exactly in the mean over all pairs, and for two given nodes within four deviations.

    Where `size` does not divide n that is less than Lemma 2's (p - 1) / (N - 1), and less than
    (p - 1) / (p B - 1) with the padding of the paper.
    """
    batches, eye = -(-n // size), torch.eye(n).unsqueeze(1)
    assert expected <= (size - 1) / (size * batches - 1) <= (size - 1) / (n - 1) + 1e-12
    attend, draws, given = RandomBatchAttention(shares_a_batch, size).train(), 2000, 0
    torch.manual_seed(0)
    for draw in range(draws):
        met = attend(eye, eye, eye).squeeze(1)
        given += int(met[0, 1])
        if draw < 3:
            slow = random_batches(shares_a_batch, eye, eye, eye, random_order(n, draw), size)
            for each in (met, slow.squeeze(1)):
                assert (each.sum() - n).item() / (n * (n - 1)) == pytest.approx(expected)
    sigma = math.sqrt(expected * (1 - expected) / draws)
    assert abs(given / draws - expected) < 4 * sigma


def test_memory_is_measured():
    """The measure of the test above sees an N x N matrix."""

    def step(n):
        return peak_bytes(lambda: torch.ones(n, n).sum())

    assert step(2048) > 3.9 * step(1024)


@pytest.mark.parametrize("qk_norm", ["frobenius", "row"])
def test_linear_attention_survives_degenerate_rows(qk_norm):
    zeros = torch.zeros(4, 2, 3)
    v = torch.randn(4, 2, 3)
    torch.testing.assert_close(linear(zeros, zeros, v, qk_norm=qk_norm), v)
    opposite = torch.ones(1, 1, 1)
    torch.testing.assert_close(
        linear(opposite, -opposite, opposite, qk_norm=qk_norm), opposite
    )  # one node: the formula is 0 / 0
    assert linear(opposite, -opposite.expand(3, 1, 1), v[:3, :1, :1]).isfinite().all()


@pytest.mark.parametrize("spec", ["linear", "performer"])
def test_autocast_leaves_the_sums_in_fp32(spec):
    q, k, v = tensors(50, 2, 4, dtype=torch.float)
    attend = build(spec)
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(q, k, v)
    exact = attend(q.double(), k.double(), v.double())  # autocast leaves double precision alone
    torch.testing.assert_close(out, exact.float())


@pytest.mark.parametrize("spec", ["linear", {"name": "performer", "random_features": 8}], ids=str)
def test_sums_over_many_nodes_stay_finite_in_bfloat16(spec):
    q, k, v = (torch.randn(200_000, 1, 4).bfloat16() for _ in range(3))
    attend = build(spec)
    out = attend(q, k, v)
    assert out.dtype == torch.bfloat16
    wide = attend(q.float(), k.float(), v.float())
    assert out.isfinite().all() and (out.float() - wide).abs().max() < 0.05


PROMISED = {row["name"]: row for row in CATALOGUE["attentions"]()}


def test_every_attention_says_what_it_promises():
    assert set(PROMISED) == set(ATTENTIONS)
    for row in PROMISED.values():
        assert row["result"] in ("exact", "approximate", "as the model"), row
        assert row["evaluation"] in ("deterministic", "random"), row
        for cost in (row["time"], row["memory"]):
            assert cost.split(" * ")[0] in ("N", "N^2", "as the model"), row


@pytest.mark.parametrize("word", PROMISED)
def test_an_attention_keeps_its_promises(word):
    q, k, v = (x.detach() for x in tensors(1024, 2, 4))
    attend = build(word)
    same = torch.equal(attend(q, k, v), attend(q, k, v))
    assert same == (PROMISED[word]["evaluation"] == "deterministic")
    growth = {"N": 2, "N^2": 4, "as the model": 2}[PROMISED[word]["time"].split(" * ")[0]]
    assert flops(attend, q, k, v) == growth * flops(attend, q[:512], k[:512], v[:512])
    if isinstance(attend, torch.nn.Module):
        attend.train()
    drawn = not torch.equal(attend(q, k, v), attend(q, k, v))
    assert drawn == (PROMISED[word]["result"] == "approximate")


def flops(attend, q, k, v):
    """Count the operations of matrix products; the fused kernels would hide theirs."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        attend(q, k, v)
    return counter.get_total_flops()


@pytest.mark.parametrize(
    "spec,words",
    [
        ("softmx", "did you mean 'softmax'"),
        ({"name": "rba", "sise": 3}, "did you mean 'size'"),
        ({"name": "rba", "size": 0}, "greater than or equal to 1"),
        ({"name": "rba", "size": True}, "integer"),
        ({"name": "rba", "inner": "fullsoftmax"}, "softmax"),
        ({"name": "rba", "inference": "best"}, "'fixed', 'full' or 'mean'"),
        ({"size": 3}, "`name` is missing"),
        (7, "does not name"),
    ],
)
def test_wrong_specs_are_answered(spec, words):
    with pytest.raises(ZooError, match=words):
        pick(ATTENTIONS, spec, linear, 0)


@pytest.mark.parametrize(
    "arguments",
    [{"size": 0}, {"size": True}, {"size": 4, "inference": "fixd"}, {"size": 4, "draws": 0}],
    ids=str,
)
def test_random_batch_checks_its_arguments(arguments):
    with pytest.raises(ZooError, match="rba: size="):
        RandomBatchAttention(softmax, **arguments)


def test_the_batch_force_is_unbiased_with_the_variance_of_lemma_3():
    """Mean over the others of the batch: variance (1/(p-1) - 1/(N-1)) Lambda_i, within 5 sigma."""
    n, size, draws = 12, 4, 6000
    v = torch.randn(n, 1, 2, dtype=torch.double)

    def others(q, k, v):
        return (v.sum(-3, keepdim=True) - v) / (v.shape[-3] - 1)

    attend = RandomBatchAttention(others, size).train()
    forces = torch.stack([attend(v, v, v) for _ in range(draws)])[:, :, 0]  # (draws, N, 2)
    exact = others(v, v, v)[:, 0]
    for i in range(n):
        rest = torch.cat([v[:i, 0], v[i + 1 :, 0]])
        spread = (rest - exact[i]).pow(2).sum() / (n - 2)
        expected = (1 / (size - 1) - 1 / (n - 1)) * spread
        errors = (forces[:, i] - exact[i]).pow(2).sum(-1)
        assert abs(errors.mean() - expected) < 5 * errors.std() / draws**0.5
        bias = (forces[:, i].mean(0) - exact[i]).norm()
        assert bias < 5 * (expected / draws) ** 0.5


def test_batches_are_drawn_by_identity_and_not_by_place():
    q, k, v = torch.randn(3, 30, 2, 4)
    order, identities = torch.randperm(30), torch.randint(2**62, (30,))
    for batched in (
        RandomBatchAttention(softmax, 7).eval(),
        RandomBatchAttention(softmax, 7, inference="mean").eval(),
    ):
        with using(identities=identities):
            out = batched(q, k, v)
        with using(identities=identities[order]):
            moved = batched(q[order], k[order], v[order])
        torch.testing.assert_close(moved, out[order])
        assert not torch.allclose(batched(q[order], k[order], v[order]), batched(q, k, v)[order])


def test_identities_deal_every_pair_as_often_as_chance_does():
    draws, met = 2000, 0
    with using(identities=torch.arange(12)):
        for seed in range(draws):
            batch = random_order(12, seed).reshape(3, 4)
            met += int((batch == 0).any(1).eq((batch == 5).any(1)).all())
    # p = (4 - 1) / (12 - 1), Lemma 2 of arXiv 2511.06044; four standard deviations.
    p = 3 / 11
    assert abs(met / draws - p) < 4 * (p * (1 - p) / draws) ** 0.5


def test_identities_of_another_graph_are_refused():
    with using(identities=torch.arange(5)), pytest.raises(ZooError, match="5,.*for 30 nodes"):
        RandomBatchAttention(softmax, 7).eval()(*torch.randn(3, 30, 2, 4))


def draws_numbers(q, k, v):
    return softmax(q + torch.randn_like(q), k, v)


@pytest.mark.parametrize("attend", [softmax, linear, draws_numbers, lambda q, k, v: 2 * v])
@pytest.mark.parametrize("few", [1, 2**19])
def test_attending_again_gives_the_same_gradients(attend, few, monkeypatch):
    monkeypatch.setitem(
        chunked_attention.CHUNK_NUMBERS, "cpu", few
    )  # one batch at a time, or all of them
    found = []
    monkeypatch.setattr(chunked_attention, "_KEPT", 0)
    for recompute in (False, True, "auto"):
        torch.manual_seed(4)
        inputs = [each.requires_grad_() for each in torch.randn(3, 2, 33, 2, 4)]
        out = RandomBatchAttention(attend, 5, recompute=recompute)(*inputs)
        out.square().sum().backward()
        found.append([out, *(each.grad for each in inputs), torch.randn(3)])
    for kept, again, chosen in zip(*found, strict=True):
        assert torch.equal(kept, again) and torch.equal(kept, chosen)


def test_attending_again_is_chosen_where_much_would_be_kept(monkeypatch):
    calls = []

    def attend(q, k, v):
        calls.append(v.requires_grad)
        return softmax(q.exp(), k, v)  # keeps exp q, which is not one of its inputs

    def attended(rows, **more) -> int:
        calls.clear()
        q, k, v = (each.requires_grad_() for each in torch.randn(3, rows, 2, 4))
        RandomBatchAttention(attend, 5, **more)(q, k, v).sum().backward()
        return len(calls)

    monkeypatch.setitem(chunked_attention.CHUNK_NUMBERS, "cpu", 1)  # one batch at a time
    monkeypatch.setattr(
        chunked_attention, "_KEPT", 4 * 2 * 4 * 60 * 4
    )  # about four tensors of 60 rows
    assert attended(50) == attended(50, recompute=False) == 10
    assert attended(500) == attended(50, recompute=True) * 10 == 200
    with using(rows=500):
        assert attended(50) == 20
    assert attended(500, recompute=False) == 100


def test_a_gradient_is_taken_twice_and_its_output_changed_in_place():
    q, k, v = (each.requires_grad_() for each in torch.randn(3, 33, 2, 4))
    out = RandomBatchAttention(draws_numbers, 5).train()(q, k, v)
    out += 1
    first, again = (torch.autograd.grad(out.sum(), v, retain_graph=True)[0] for _ in range(2))
    assert first.abs().sum() > 0 and torch.equal(first, again)


def test_what_an_attention_draws_leaves_the_generator_alone():
    q, k, v = torch.randn(3, 33, 2, 4)
    after = []
    for attend in (softmax, draws_numbers):
        torch.manual_seed(1)
        RandomBatchAttention(attend, 5)(q, k, v)
        after.append(torch.randn(3))
    assert torch.equal(*after)


def test_a_gradient_reaches_what_an_attention_holds():
    scale = torch.ones((), requires_grad=True)
    q, k, v = (each.requires_grad_() for each in torch.randn(3, 33, 2, 4))
    RandomBatchAttention(lambda q, k, v: scale * softmax(q, k, v), 5)(q, k, v).sum().backward()
    torch.manual_seed(0)
    assert scale.grad is not None and scale.grad != 0


@pytest.mark.parametrize("block", [1, 12, 2**18])
def test_rows_of_norm_1_and_their_gradients(block, monkeypatch):
    from zoo.ops.linear_attention import _NormalisedRows

    def _row(x):
        return _NormalisedRows.apply(x)[0]

    monkeypatch.setattr("zoo.ops.chunks.BLOCK", block)
    x = torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(_row(x), torch.nn.functional.normalize(x, dim=-1))
    assert torch.autograd.gradcheck(_row, x) and torch.autograd.gradgradcheck(_row, x)
    zero = torch.zeros(2, 3, requires_grad=True)
    assert torch.equal(_row(zero), zero)


@pytest.mark.parametrize("base", ["own", "all", "none"])
@pytest.mark.parametrize("block", [12, 2**18])
@pytest.mark.parametrize(
    "shape", every([(9, 2, 3), (9, 1, 4), (2, 9, 1, 4), (3, 2, 5), (2, 1, 1, 3)], 2)
)
def test_the_mean_of_linear_attentions_and_its_gradients(base, block, shape, monkeypatch):
    monkeypatch.setattr("zoo.ops.chunks.BLOCK", block)
    torch.manual_seed(0)
    q, k, v = (torch.rand(shape, dtype=torch.double, requires_grad=True) for _ in range(3))
    exact = dense_linear(q, k, v, qk_norm="none", base=base)
    torch.testing.assert_close(linear_mean(q, k, v, base), exact)
    assert torch.autograd.gradcheck(lambda *qkv: linear_mean(*qkv, base), (q, k, v))
    assert torch.autograd.gradgradcheck(
        lambda *qkv: linear_mean(*qkv, base), (q, k, v), fast_mode=True
    )
    assert torch.autograd.gradgradcheck(  # keys that need no gradient
        lambda *qkv: linear_mean(*qkv, base), (q, k.detach(), v), fast_mode=True
    )


@pytest.mark.parametrize("n", [64, 377, 1000, 1024])
def test_a_clamped_divisor_has_no_gradient_in_single_precision(n):
    """Also where one over the least divisor rounds to another number than one over its rounding."""
    torch.manual_seed(0)
    key = torch.nn.functional.normalize(torch.randn(4), dim=0)
    k = key.expand(n, 1, 4).clone()
    q = torch.nn.functional.normalize(torch.randn(n, 1, 4), dim=-1)
    q[0] = -key  # its divisor, N + N q k, vanishes
    v, found = torch.randn(n, 1, 4), []
    for way in ("state", "sums"):
        inputs = [each.clone().requires_grad_() for each in (q, k, v)]
        out = linear_mean(*inputs, "own", way=way)
        found.append(torch.autograd.grad(out.square().sum(), inputs)[0])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3 * float(found[1].abs().max()))


@pytest.mark.parametrize("base", ["own", "all", "none"])
def test_a_divisor_that_vanishes_has_no_gradient(base):
    q = torch.ones(6, 1, 2, dtype=torch.double, requires_grad=True)
    keys = torch.full((6, 1, 2), -0.5, dtype=torch.double)
    k = (torch.zeros_like(keys) if base == "none" else keys).requires_grad_()
    v = torch.rand(6, 1, 2, dtype=torch.double)
    outs = linear_mean(q, k, v, base), linear_mean(q[:2], k[:2], v[:2], base)
    assert all(each.isfinite().all() for each in outs)
    of_q = torch.autograd.grad(outs[0].sum(), q)[0]
    # What is left is the gradient of the numerator over the smallest divisor.
    least = torch.finfo(q.dtype).tiny if base == "none" else 6e-6
    torch.testing.assert_close(of_q, (v.sum() * k / least).expand_as(q) * 1.0)


def test_more_sets_than_a_grid_of_cuda_has_blocks(monkeypatch):
    q, k, v = (torch.randn(7, 3, 2, 4, requires_grad=True) for _ in range(3))

    def found():
        out = softmax(q, k, v)
        return out, *torch.autograd.grad(out.square().sum(), (q, k, v))

    at_once = found()
    monkeypatch.setattr("zoo.nn.attention.MOST_SETS", 3)
    assert all(torch.equal(*each) for each in zip(found(), at_once, strict=True))


@pytest.mark.parametrize("recompute", [False, "auto"])
def test_random_batches_inside_of_a_checkpoint(recompute):
    attend = RandomBatchAttention(softmax, 5, recompute=recompute)
    q = torch.randn(23, 2, 4, dtype=torch.double, requires_grad=True)
    torch.manual_seed(3)
    attend(q, q, q).square().sum().backward()
    wanted, q.grad = q.grad, None
    torch.manual_seed(3)
    inside = torch.utils.checkpoint.checkpoint(lambda q: attend(q, q, q), q, use_reentrant=False)
    inside.square().sum().backward()
    torch.testing.assert_close(q.grad, wanted)


def test_batches_of_no_node():
    none, order = torch.zeros(0, 2, 4), torch.arange(0)
    for attend in (random_batches, attend_in_batches):
        assert attend(softmax, none, none, none, order, 3).shape == none.shape


def test_unknown_words_of_random_batches_are_refused():
    for options in ({"shard": "all"}, {"recompute": "never"}):
        with pytest.raises(ZooError, match=f"rba: {next(iter(options))}"):
            RandomBatchAttention(softmax, 5, **options)
