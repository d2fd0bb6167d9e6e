"""Models of sequences on a GPU: every tensor that they make is on it."""

import pytest
import torch
from pretended_cuda import pretended_cuda

import zoo
from zoo.nn import Pairs

SOURCES, TARGETS = [3, 5], [4, 2]
TOKENS = torch.arange(14) % 11

OPTIONS = [
    {},
    {"cross": "softmax"},
    {"cross": {"name": "rba", "size": 2}},
    {"cross_edges": "near"},
    {"cross_edges": "top", "cross_size": 2},
    {"attention": {"name": "rba", "size": 2}, "edges": "attention"},
    {"positions": "absolute", "decoder_window": 2, "edges": "none"},
]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(
            pytest.param(
                "htgn-seq2seq", {"rank": 4, **each}, marks=[pytest.mark.slow] * (place % 2)
            )
            for place, each in enumerate(OPTIONS)
        ),
        ("transformer-seq2seq", {}),
        ("transformer-seq2seq", {"window": 2}),
    ],
    ids=str,
)
def test_training_and_writing_are_on_the_device(name, options):
    torch.manual_seed(0)
    model = zoo.create_model(name, 11, 11, dim=8, heads=2, layers=1, **options)
    with pretended_cuda():
        model, tokens = model.to("cuda"), TOKENS.to("cuda")
        for mode in (True, False):
            output = model.train(mode)(Pairs(SOURCES, TARGETS), tokens)
            (output.logits.square().sum() + output.penalty).backward()
        with torch.no_grad():
            state = model.begin(tuple(SOURCES), tokens[:8])
            _, state = model.step(state, torch.tensor([1, 2]).to("cuda"))
            state = state.select(torch.tensor([0, 0, 1]).to("cuda"))
            logits, _ = model.step(state, torch.tensor([1, 2, 3]).to("cuda"))
        assert logits.shape == (3, 11) and logits.device.type == "cuda"


@pytest.mark.parametrize("name", ["htgn-seq2seq", "transformer-seq2seq"])
def test_whole_models_in_bfloat16(name):
    model = zoo.create_model(name, 11, 11, dim=8, heads=2, layers=1).bfloat16()
    logits = model(Pairs(SOURCES, TARGETS), TOKENS).logits
    assert logits.dtype == torch.bfloat16 and logits.isfinite().all()
