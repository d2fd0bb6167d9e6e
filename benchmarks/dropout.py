"""The dropout of `zoo.ops` against torch's, forward and backward, on a CPU.

python benchmarks/dropout.py
"""

import torch
from contest import contest, report
from torch.nn import functional

from zoo.ops.dropout import dropout


def step(drop, x):
    """Return a step of one dropout, forward and backward."""
    return lambda: drop(x, 0.5, True).sum().backward()


for nodes, width in ((2708, 64), (2708, 256), (169_343, 64)):
    x = torch.ones(nodes, width, requires_grad=True)
    for drop in (dropout, functional.dropout):  # both keep half and scale it by 2
        assert set(drop(x, 0.5).unique().tolist()) == {0.0, 2.0}
        assert abs(drop(x, 0.5).mean().item() - 1) < 0.02
    medians = contest({"zoo": step(dropout, x), "torch": step(functional.dropout, x)})
    report(f"dropout of {nodes} x {width}", medians)
