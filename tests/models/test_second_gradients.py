"""Gradients of gradients, as of a penalty on gradients, equal differences, of every model."""

import pytest
import torch

import zoo
from zoo.graphs import spmm
from zoo.ops.losses import cross_entropy
from zoo.ops.second_gradients import second_gradients
from zoo.weights.create import list_models

STEP = 1e-8
"""In double precision; seldom does a ReLU change its side within it."""

OF_TORCH = {"transformer", "graphgps", "nagphormer", "nsa"}
"""Their softmax is torch's, which refuses second gradients itself."""

BATCHES = {"attention": {"name": "rba", "size": 8}}

NAMES = list_models(task="node-classification", context=False)  # closed forms have none

CASES = [
    *((name, {}) for name in NAMES if name not in OF_TORCH),
    *((name, BATCHES) for name in list_models(task="node-classification", attention="rba")),
]


@pytest.mark.parametrize("name, options", CASES)
def test_of_a_penalty_on_gradients(name, options):
    data = zoo.load_graph("karate")
    torch.manual_seed(0)
    model = zoo.create_model(name, data.x.shape[1], data.classes, **options).double().eval()
    inputs = [data.x.double().requires_grad_(), *model.parameters()]

    def penalty(create):
        out = model(data.graph, inputs[0]).logits[:, 0].sum()
        return torch.autograd.grad(out, inputs[0], create_graph=create)[0].square().sum()

    found = torch.autograd.grad(penalty(True), inputs, allow_unused=True)
    for own in (slice(0, 1), slice(1, None)):
        along_which = [torch.randn_like(each) for each in inputs[own]]

        def moved(step, own=own, along_which=along_which):
            with torch.no_grad():
                for each, other in zip(inputs[own], along_which, strict=True):
                    each.add_(other, alpha=step)
            return penalty(False)

        ends = moved(STEP), moved(-2 * STEP)
        moved(STEP)
        wanted = (ends[0] - ends[1]) / (2 * STEP)
        pairs = zip(found[own], along_which, strict=True)
        given = sum((one * other).sum() for one, other in pairs if one is not None)
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


def test_of_inputs_that_are_the_same_or_made_of_one_another():
    x = torch.randn(5, dtype=torch.double, requires_grad=True)

    def function(a, b, c):
        return (a * b.exp() * c).sin()

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return function(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return second_gradients(function, ctx.saved_tensors, grad)

    assert torch.autograd.gradgradcheck(lambda x: Once.apply(x, x, x.cos()), x)


def test_of_batches_whose_attention_looks_at_values_alone():
    q, k, v = (torch.randn(5, 1, 2, dtype=torch.double, requires_grad=True) for _ in range(3))
    attend = zoo.nn.RandomBatchAttention(lambda q, k, v: v**3, 2)

    def gradients(inputs, *given):
        out = attend(*given).sum()
        return torch.autograd.grad(out, inputs, create_graph=True, allow_unused=True)

    first = gradients((q, k, v), q, k, v)
    second = torch.autograd.grad(first[2].square().sum(), (q, k, v), allow_unused=True)
    assert first[:2] == second[:2] == (None, None)
    torch.testing.assert_close(second[2], 36 * v**3)
    assert gradients((q,), q, k, v.detach()) == (None,)


@pytest.mark.parametrize("weighted", [False, True])
def test_of_messages_with_features_of_edges(weighted):
    src, dst = torch.tensor([0, 1, 2, 2, 3, 0]), torch.tensor([1, 1, 0, 3, 3, 2])
    ends = spmm.EdgeList(src, dst, 4, 4)
    shapes = [(4, 3), (6, 2), (3, 2), (3,), *([(6,)] if weighted else [])]
    given = [torch.randn(each, dtype=torch.double, requires_grad=True) for each in shapes]

    def message_sum(*given):
        return spmm._message_sum(ends, *given, *(() if weighted else (None,))).sin()

    assert torch.autograd.gradgradcheck(message_sum, given)


def test_of_the_loss():
    logits = torch.randn(6, 4, dtype=torch.double, requires_grad=True)
    y = torch.tensor([0, 3, -1, 1, 2, -1])
    assert torch.autograd.gradgradcheck(lambda x: cross_entropy(x, y, 0.1), logits)
