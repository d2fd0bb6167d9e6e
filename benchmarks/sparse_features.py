"""`FeatureLinear` against `nn.Linear` on sparse features (bags of words).

Features are random, with the shape and the sparsity of those of the named graphs.

    python benchmarks/sparse_features.py
"""

import torch
from contest import contest, report
from torch import nn

from zoo.nn.feature_linear import FeatureLinear

SIZES = {"cora": (2708, 1433, 0.013), "citeseer": (3327, 3703, 0.009), "actor": (7600, 932, 0.006)}


def step(linear, x):
    """Return a step of one product, forward and backward."""
    return lambda: linear(x).sum().backward()


for name, (nodes, words, density) in SIZES.items():
    x = (torch.rand(nodes, words) < density).float()
    for width in (64, 256):
        ours, peer = FeatureLinear(words, width), nn.Linear(words, width)
        peer.load_state_dict(ours.state_dict())
        torch.testing.assert_close(ours(x), peer(x), rtol=1e-4, atol=1e-4)
        medians = contest({"zoo": step(ours, x), "torch": step(peer, x)})
        report(f"{name}, width {width}", medians)
