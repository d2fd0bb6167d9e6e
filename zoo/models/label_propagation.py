"""Label propagation: what the labels of neighbours alone are worth, without any feature."""

import torch
from torch import Tensor, nn

from zoo.nn import Labels, as_logits, gcn, graph_means, label_walks, labels_of
from zoo.registry import Count, Fraction, Model, register_model


@register_model("label-propagation")
class LabelPropagation(Model):
    """Labels that walk along edges and now and then begin anew: nothing is trained, nor x read.

    S = sum_k r (1 - r)^k A^k Y for the labels Y that it is given, "Learning with local and global
    consistency" (Zhou et al. 2004); A = D^-1/2 (A + I) D^-1/2. The share of each class in what
    arrives at a node, beside a little of its share among all labels, is its probability.

    Args:
        in_dim: node features F; any number does.
        out_dim: logits C.
        restart: r, the chance that a walk ends at each node.
        steps: the longest walk.
    """

    paper = "Learning with Local and Global Consistency (NIPS 2004)"
    context = True
    any_graph = True
    tasks = ("node-classification", "node-binary", "node-regression")

    def __init__(self, in_dim: int, out_dim: int, *, restart: Fraction = 0.1, steps: Count = 20):
        super().__init__()
        self.out_dim, self.restart, self.steps = out_dim, restart, steps
        self.head = nn.Identity()

    def features(self, graph, x: Tensor, context: Tensor) -> Tensor:
        """Return the logits themselves, (N, out_dim): nothing lies before them."""
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            labels = labels_of(self.in_own_units(context), self.out_dim)
            ones = labels.known[:, None].float()
            both = Labels(torch.cat([labels.targets, ones], dim=1), labels.known)
            walked = label_walks(graph, both, steps=self.steps, restart=self.restart, propagate=gcn)
            arrived = walked + LITTLE * graph_means(graph, both)
            scores = arrived[:, :-1] / arrived[:, -1:].clamp(min=1e-12)
            if context.is_floating_point():
                return scores
            return as_logits(scores.clamp(min=1e-6).log(), self.out_dim)


LITTLE = 1e-3
"""Of the mean of all labels, beside what arrives at a node: all of it where nothing does."""
