"""Decoders of pairs beside their equations."""

import pytest
import torch

from zoo.config.options import pick
from zoo.tasks.decoders import DECODERS

U, V = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("word", DECODERS)
def test_a_score_for_each_pair_with_gradients_for_all_weights(word):
    decoder = pick(DECODERS, word, 5)
    scores = decoder(U, V)
    assert scores.shape == (7,)
    scores.square().sum().backward()
    assert all(parameter.grad is not None for parameter in decoder.parameters())


@pytest.mark.parametrize("word", ["dot", "distance", "hadamard-mlp"])
def test_order_does_not_matter(word):
    decoder = pick(DECODERS, word, 5)
    torch.testing.assert_close(decoder(U, V), decoder(V, U))


def test_equations():
    torch.testing.assert_close(DECODERS["dot"](5)(U, V), torch.einsum("pd,pd->p", U, V))
    torch.testing.assert_close(DECODERS["distance"](5)(U, V), 1 - torch.norm(U - V, dim=1) ** 2)
    bilinear = DECODERS["bilinear"](5)
    wanted = torch.einsum("pd,de,pe->p", U, bilinear.weight.weight, V)
    torch.testing.assert_close(bilinear(U, V), wanted)
    for word, z in (("hadamard-mlp", U * V), ("concat-mlp", torch.cat([U, V], 1))):
        mlp = pick(DECODERS, {"name": word, "layers": 1}, 5)
        wanted = z @ mlp.layers[0].weight[0] + mlp.layers[0].bias
        torch.testing.assert_close(mlp(U, V), wanted)
