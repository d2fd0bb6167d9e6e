"""GraphAny (arXiv 2405.20445): closed-form regressions, mixed for each node by how they differ.

Zhao et al., "Fully-inductive node classification on arbitrary graphs". Departures: labelled nodes
are asked about in folds, with the labels of the others, and not 128 at a time with five labels of
each class; the pseudo-inverse is the limit of a small penalty.
"""

import math

import torch
from torch import Tensor, nn

from zoo.nn import as_logits, labels_of, neighbour_mean, ridge
from zoo.registry import Count, Few, Model, Positive, register_model

FILTERS = (1.0,), (0.0, 1.0), (0.0, 0.0, 1.0), (1.0, -1.0), (1.0, -2.0, 1.0)
"""X, A X, A² X, (I - A) X and (I - A)² X, A the mean of the neighbours."""

MIXED = 3
"""The first of the filters, whose answers are mixed; the others only say how they differ."""

SMALL = 1e-4
"""A penalty under which ridge regression is the least-squares fit of least norm."""


@register_model("graphany")
class GraphAny(Model):
    """Attention over least-squares answers, (arXiv 2405.20445), section 3: for any graph.

    P_c = F_c F_c[L]^+ Y_L for five filters F_c of the features and the labelled nodes L; the mix of
    the first three is sum_c a_c P_c, a = softmax(MLP(q) / T), where q are the 20 distances between
    the answers of a node, as probabilities of a given entropy (equation 6). Nothing in it knows
    the number of features, nor of classes.

    Args:
        in_dim: node features F; any number does.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: of the MLP.
        entropy: of the distances of an answer to the four others, in bits.
        temperature: T.
    """

    paper = "Fully-inductive Node Classification on Arbitrary Graphs (arXiv 2405.20445)"
    context = True
    any_graph = True
    tasks = ("node-classification", "node-binary")
    search = {"dim": [32, 64, 128], "entropy": [1.0, 1.5, 2.0]}

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        entropy: Positive = 1.0,
        temperature: Positive = 5.0,
    ):
        super().__init__()
        self.out_dim, self.entropy, self.temperature = out_dim, entropy, temperature
        count = len(FILTERS)
        widths = [count * (count - 1), *[dim] * (layers - 1)]
        hidden = [
            part
            for before, after in zip(widths, widths[1:], strict=False)
            for part in (nn.Linear(before, after), nn.ReLU())
        ]
        self.mix = nn.Sequential(*hidden, nn.Linear(widths[-1], MIXED))
        self.head = nn.Identity()

    def features(self, graph, x: Tensor, context: Tensor) -> Tensor:
        """Return the logits themselves, (N, out_dim): nothing lies before them."""
        with torch.autocast(x.device.type, enabled=False):
            labels = labels_of(context, self.out_dim)
            fits = ridge(
                graph, x.float(), labels, propagate=neighbour_mean, filters=FILTERS,
                penalty=SMALL, unit_rows=False,
                centred=False,
            )  # fmt: skip
            answers = fits.values.transpose(0, 1)  # (N, K, C)
            near = distances(answers, self.entropy)  # (N, K (K - 1))
            weights = (self.mix(near) / self.temperature).softmax(dim=1)  # (N, MIXED)
            mixed = torch.einsum("nk,nkc->nc", weights, answers[:, :MIXED])
        return as_logits(mixed, self.out_dim)


def distances(answers: Tensor, entropy: float, steps: int = 30) -> Tensor:
    """Return for each answer of a node how near the others are, (N, K (K - 1)), equation 6.

    exp(-|p_c - p_d|² / s_c) over d other than c, as a share of their sum, with the scale s_c at
    which these shares have the given entropy; found by bisection.

    Args:
        answers: (N, K, C).
        entropy: in bits, below log2(K - 1).
        steps: of the bisection, in which the logarithm of 1 / s_c is halved.
    """
    count = answers.shape[1]
    squares = (answers[:, :, None] - answers[:, None]).square().sum(-1)  # (N, K, K)
    others = ~torch.eye(count, dtype=torch.bool, device=answers.device)
    squares = squares[:, others].view(-1, count, count - 1)
    squares = squares / squares.mean(-1, keepdim=True).clamp(min=1e-12)
    low = squares.new_full((*squares.shape[:2], 1), math.log(1e-4))
    high = squares.new_full((*squares.shape[:2], 1), math.log(1e4))
    for _ in range(steps):
        middle = (low + high) / 2
        shares = (-squares * middle.exp()).softmax(dim=-1)
        bits = torch.special.entr(shares).sum(-1, keepdim=True) / math.log(2)
        wide = bits > entropy  # the distances have to count for more
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    return (-squares * ((low + high) / 2).exp()).softmax(dim=-1).flatten(1)
