"""Random batches against fused attention on contiguous batches, and against full softmax.

The first comparison shows the cost of permuting nodes and back, the second what batches save.

    python benchmarks/random_batches.py
"""

import torch
from contest import contest, report

from zoo.nn.attention import softmax
from zoo.nn.random_batch_attention import RandomBatchAttention
from zoo.system.allocator import keep_freed_memory

keep_freed_memory()  # as the command does


def step(attend, inputs):
    """Return a step of one attention, forward and backward."""

    def run():
        attend(*inputs).sum().backward()
        for each in inputs:
            each.grad = None

    return run


def in_order(size):
    """Return softmax inside batches of consecutive nodes, without a permutation."""

    def attend(q, k, v):
        return softmax(*(each.unflatten(0, (-1, size)) for each in (q, k, v))).flatten(0, 1)

    return attend


for nodes, heads, dim, size in ((32_768, 4, 16, 256), (131_072, 1, 64, 128)):
    inputs = [torch.randn(nodes, heads, dim, requires_grad=True) for _ in range(3)]
    ways = {
        "contiguous": step(in_order(size), inputs),
        "random batches": step(RandomBatchAttention(softmax, size), inputs),
    }
    report(f"N = {nodes:,}, H = {heads}, D = {dim}, p = {size}", contest(ways, rounds=9))

nodes, size = 8192, 256
inputs = [torch.randn(nodes, 4, 16, requires_grad=True) for _ in range(3)]
ways = {
    "random batches": step(RandomBatchAttention(softmax, size), inputs),
    "softmax": step(softmax, inputs),
}
report(f"N = {nodes:,}, H = 4, D = 16, p = {size}", contest(ways, rounds=5))
