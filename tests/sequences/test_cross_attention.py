"""Every cross attention of the table, and each beside a twin of its own."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from zoo.errors import ZooError
from zoo.sequences.cross_attention import CROSS_ATTENTIONS, RandomBatchCross, build_cross
from zoo.sequences.kernel_attention import Kernel

SPECS = [
    "native",
    "softmax",
    {"name": "rba", "size": 4},
    {"name": "rba", "size": 4, "inner": "native"},
]

each_word = pytest.mark.parametrize("spec", SPECS, ids=str)


def build(spec, name="softmax"):
    return build_cross(spec, Kernel(name, 8, seed=1)).eval()


def tensors(sets=2, asked=5, known=9, heads=2, dtype=torch.double):
    shapes = (sets, asked, heads, 4), (sets, known, heads, 4), (sets, known, heads, 3)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


def presence(sets=2, known=9):
    present = torch.ones(sets, known, dtype=torch.bool)
    present[0, -3:] = False
    return present


def test_every_word_is_tried():
    assert {each if isinstance(each, str) else each["name"] for each in SPECS} == set(
        CROSS_ATTENTIONS
    )


def test_softmax_is_torchs():
    inputs, present = tensors(), presence()
    mask = present[:, None, None, :]
    ours = build("softmax")(*inputs, present)
    theirs = scaled_dot_product_attention(*(each.transpose(1, 2) for each in inputs), mask)
    theirs = theirs.transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn_like(ours)
    grads = [torch.autograd.grad((each * weight).sum(), inputs) for each in (ours, theirs)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_softmax_of_no_keys_is_nothing():
    q, k, v = inputs = tensors()
    present = presence()
    present[1] = False
    out = build("softmax")(q, k, v, present)
    assert not out[1].any() and out[0].any()
    assert all(each.isfinite().all() for each in torch.autograd.grad(out.sum(), inputs))


@each_word
def test_values_of_one_give_one(spec):
    q, k, v = tensors()
    attend = build(spec)
    out = attend(q, k, torch.ones_like(v), presence())
    torch.testing.assert_close(out, torch.ones(2, 5, 2, 3).double())
    for _ in range(5):
        out = attend.train()(q, k, torch.ones_like(v), presence())
        torch.testing.assert_close(out, torch.ones_like(out))


@each_word
def test_sequences_do_not_see_each_other(spec):
    given = *tensors(), presence()
    attend = build(spec)
    together = attend(*given)
    for row in range(2):
        alone = attend(*(each[row : row + 1] for each in given))
        torch.testing.assert_close(alone, together[row : row + 1])


@each_word
@pytest.mark.parametrize("training", [True, False])
def test_absent_keys_have_no_influence(spec, training):
    q, k, v = (each.detach() for each in tensors())
    present, attend = presence(), build(spec).train(training)
    others = (torch.where(present[..., None, None], each, 5.0) for each in (k, v))
    outs = []
    for given in ((k, v), others):
        torch.manual_seed(0)
        outs.append(attend(q, *given, present))
    assert torch.equal(*outs)


@each_word
def test_queries_one_place_at_a_time(spec):
    q, k, v = tensors()
    attend, present = build(spec), presence()
    known = attend.remember(k, v, present)
    rows = [attend.read(q[:, place : place + 1], known) for place in range(q.shape[1])]
    torch.testing.assert_close(torch.cat(rows, 1), attend(q, k, v, present))


@each_word
def test_what_is_remembered_selects_rows(spec):
    q, k, v = tensors(3)
    attend, present, rows = build(spec), presence(3), torch.tensor([2, 0, 0, 1])
    found = attend.read(q[rows], attend.remember(k, v, present).select(rows))
    torch.testing.assert_close(found, attend(q, k, v, present)[rows])


@each_word
def test_evaluation_is_the_same_each_time_and_draws_nothing(spec):
    given = *tensors(), presence()
    attend, before = build(spec), torch.get_rng_state()
    assert torch.equal(attend(*given), attend(*given))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("inner", ["native", "softmax"])
def test_one_batch_of_all_is_the_inner_attention(inner):
    given = *tensors(), presence()
    attend = build({"name": "rba", "size": 9, "inner": inner}, "elu").train()
    assert torch.equal(attend(*given), build(inner, "elu").train()(*given))


@pytest.mark.parametrize("inner", ["native", "softmax"])
def test_in_evaluation_it_is_the_inner_attention(inner):
    given = *tensors(), presence()
    attend = build({"name": "rba", "size": 2, "inner": inner})
    assert torch.equal(attend(*given), build(inner)(*given))


def dealt_to(attend, q, k, v, present):
    """The queries, keys and which keys there are, of each batch."""
    dealt = []

    def spy(q, k, v, present):
        assert torch.equal(k[..., :1], v[..., :1])
        dealt.append((q[:, :, 0, 0], k[:, :, 0, 0], present))
        return q[..., :1]

    attend.inner = torch.nn.Module()
    attend.inner.forward = spy
    out = attend.train()(q, k, v, present)
    assert torch.equal(out, q[..., :1])  # queries come back in their places
    return dealt


def numbered(sets, count):
    return torch.arange(count).float().expand(sets, count)[:, :, None, None]


SIZES = [(5, 9, 4), (9, 5, 4), (12, 12, 3), (1, 7, 2), (9, 7, 2), (8, 8, 1)]


@pytest.mark.parametrize("asked,known,size", SIZES)
def test_batches_deal_each_query_and_key_once(asked, known, size):
    q, k = numbered(3, asked), numbered(3, known)
    lengths = torch.tensor([known, max(1, known // 2), known - 1])
    present = torch.arange(known) < lengths[:, None]
    dealt = dealt_to(RandomBatchCross(torch.nn.Identity(), size), q, k, k, present)
    assert len(dealt) == -(-max(asked, known) // size)
    for row in range(3):
        queries = [each.item() for own, _, _ in dealt for each in own[row]]
        keys = [each.item() for _, own, there in dealt for each in own[row][there[row]]]
        assert sorted(queries) == list(range(asked))
        assert set(keys) == set(range(lengths[row]))
        assert len(keys) == max(len(dealt), lengths[row])  # once, but where there are too few
        many = [int(there[row].sum()) for _, _, there in dealt]
        assert min(many) >= 1 and max(many) - min(many) <= 1
    assert max(each.shape[1] for own in dealt for each in own[:2]) <= size


def test_any_query_may_meet_any_key():
    """With probability 1 / 3 in three batches; four standard deviations."""
    torch.manual_seed(0)
    q, k, draws = numbered(2, 6), numbered(2, 6), 600
    met = torch.zeros(2, 6, 6)
    for _ in range(draws):
        for queries, keys, _ in dealt_to(RandomBatchCross(torch.nn.Identity(), 2), q, k, k,
                                         torch.ones(2, 6, dtype=torch.bool)):  # fmt: skip
            for row in range(2):
                met[row, queries[row].long()[:, None], keys[row].long()] += 1
    assert (met / draws - 1 / 3).abs().max() < 4 * (2 / 9 / draws) ** 0.5
    assert not torch.equal(met[0], met[1])


@pytest.mark.parametrize("inner", ["native", "softmax"])
def test_random_batches_equal_a_loop_over_queries(inner):
    """Each query hears the keys of its own batch, as the draws of the generator deal them."""
    inputs, attend = tensors(2, 8, 11), build({"name": "rba", "size": 4, "inner": inner}, "elu")
    present, (q, k, v), rows = presence(2, 11), inputs, {}
    torch.manual_seed(7)
    out = attend.train()(*inputs, present)
    torch.manual_seed(7)
    for queries, keys, there in dealt_to(
        RandomBatchCross(torch.nn.Identity(), 4), numbered(2, 8), *2 * [numbered(2, 11)], present
    ):
        for row in range(2):
            near = keys[row][there[row]].long()
            for query in queries[row].long().tolist():
                one = q[row, query][None, None], k[row, near][None], v[row, near][None]
                every = torch.ones(1, len(near), dtype=torch.bool)
                rows[row, query] = build(inner, "elu")(*one, every)[0, 0]
    slow = torch.stack([rows[each] for each in sorted(rows)]).reshape(out.shape)
    torch.testing.assert_close(out, slow)
    grads = [torch.autograd.grad(each.sin().sum(), inputs) for each in (out, slow)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.equal(attend(*inputs, present), out)


def test_unknown_words_are_answered():
    kernel = Kernel("elu", 8, seed=1)
    with pytest.raises(ZooError, match="did you mean 'softmax'"):
        build_cross("softmx", kernel)
    with pytest.raises(ZooError, match="size"):
        build_cross({"name": "rba", "size": 0}, kernel)
