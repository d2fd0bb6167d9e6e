"""Attention to a codebook equals its equations, and what is kept moves in training alone."""

import copy

import pytest
import torch
from twins import assert_twins

import zoo
from zoo.config.options import pick
from zoo.errors import ZooError
from zoo.graphs.examples import preferential_attachment
from zoo.nn import ATTENTIONS, naive, softmax
from zoo.nn.codebook_attention import CodebookAttention, means

SPEC = {"name": "codebook", "codes": 5, "decay": 0.7}


def rows(*shape):
    return [x.requires_grad_() for x in torch.randn(3, *shape).double()]


def kept(attend):
    return tuple(getattr(attend, name) for name in attend.names)


def test_its_first_step_and_the_next_equal_their_equations():
    first, second = rows(20, 2, 3), rows(17, 2, 3)
    began = CodebookAttention(5, decay=0.7, seed=1)
    centres = began._first(first[1])
    assert_twins(
        lambda: copy.deepcopy(began)(*first), lambda: naive.codebook(*first, centres)[0], first
    )
    began(*first)
    sums = naive.codebook(*first, centres)[1]
    for one, other in zip(kept(began), sums, strict=True):
        torch.testing.assert_close(one, other)
    before, centres = [x.detach() for x in sums], means(*kept(began)[:2])
    assert_twins(
        lambda: copy.deepcopy(began)(*second),
        lambda: naive.codebook(*second, centres, before, 0.7)[0],
        second,
    )


def test_a_group_for_each_key_is_softmax():
    """Log counts are what makes it so: three keys, each of several nodes."""
    keys = torch.randn(3, 1, 4).double()
    k = keys[torch.tensor([0, 0, 0, 1, 1, 2])]
    q, v = torch.randn(2, 6, 1, 4).double()
    attend = CodebookAttention(3, decay=0.9, seed=0)
    attend._first = lambda k: keys.transpose(0, 1)
    torch.testing.assert_close(attend(q, k, v), softmax(q, k, v))


def test_evaluation_attends_to_what_training_kept_and_moves_nothing():
    attend, (q, k, v) = pick(ATTENTIONS, SPEC, softmax, 0), torch.randn(3, 40, 2, 4)
    alone = attend.eval()(q, k, v)
    assert attend.counts.numel() == 0  # nothing is kept yet
    torch.testing.assert_close(attend.train()(q, k, v), alone)
    before = [x.clone() for x in kept(attend.eval())]
    others = torch.randn(2, 40, 2, 4)
    torch.testing.assert_close(attend(q, *others), alone)
    assert all(map(torch.equal, kept(attend), before))
    attend.train()(q, *others)
    assert not any(map(torch.equal, kept(attend), before))
    torch.testing.assert_close(attend.counts.sum(-1), torch.full((2,), 40.0))


def test_seeds_and_layers_begin_with_other_centres():
    q, k, v = torch.randn(3, 40, 2, 4)
    outs = [
        pick(ATTENTIONS, {**SPEC, "seed": seed}, softmax, layer).eval()(q, k, v)
        for seed, layer in ((0, 0), (0, 0), (1, 0), (0, 1))
    ]
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2]) and not torch.equal(outs[0], outs[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_kept_is_saved_and_loaded(tmp_path, dtype):
    graph, x = preferential_attachment(60, 2), torch.randn(60, 5)
    model = zoo.create_model("transformer", 5, 3, attention=SPEC)
    model.train()(graph, x)
    model(graph, -x)
    zoo.save(model.to(dtype), tmp_path / "weights")
    loaded = zoo.load(tmp_path / "weights").to(dtype)
    assert loaded.layers[0].attend.attention.keys.shape == (4, 5, 16)
    with torch.no_grad():
        outs = [each.eval()(graph, x.to(dtype)).logits for each in (model, loaded)]
    assert torch.equal(*outs)
    fresh = zoo.create_model("transformer", 5, 3, attention=SPEC)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.layers[1].attend.attention.counts.to(dtype),
                       model.layers[1].attend.attention.counts)  # fmt: skip


def test_training_stops_and_goes_on_with_what_was_kept(tmp_path):
    recipe = {
        "dataset": "karate",
        "model": {"name": "transformer", "dim": 8, "heads": 2, "attention": SPEC},
        "train": {"epochs": 4, "patience": 2},
        "seeds": [0],
    }
    runs = [zoo.run_recipe(recipe, runs=tmp_path / name) for name in "ab"]
    assert runs[0]["seeds"][0]["val"] == runs[1]["seeds"][0]["val"]
    model = zoo.load(runs[0]["folder"])
    assert model.layers[0].attend.attention.counts.sum() > 0


def test_dead_groups_stay_finite():
    attend = CodebookAttention(8, decay=0.0, seed=0)
    for scale in (1.0, 1e-3, 50.0):
        q, k, v = (x.requires_grad_() for x in scale * torch.randn(3, 2, 2, 4))
        out = attend(q, k, v)
        out.sum().backward()
        assert out.isfinite().all() and k.grad.isfinite().all() and v.grad.isfinite().all()


def test_it_is_not_for_the_sets_of_another_attention():
    with pytest.raises(ZooError, match="`codebook` has to be given .* inside of `rba`"):
        pick(ATTENTIONS, {"name": "rba", "inner": "codebook"}, softmax, 0)
