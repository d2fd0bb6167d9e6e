"""Ridge regression on features and their propagations: a baseline that nobody has to train."""

from typing import Literal

import torch
from torch import Tensor, nn

from zoo.nn import as_logits, gcn, labels_of, ridge, squared_errors
from zoo.registry import Model, Positive, register_model


@register_model("ridge")
class Ridge(Model):
    """The mean of three ridge regressions, on X, A X and A² X, of the labels that it is given.

    A = D^-1/2 (A + I) D^-1/2 is the propagation of GCN (arXiv 1609.02907), X has rows of norm 1,
    and the regressions are solved in closed form. Scores of classes are divided by the mean squared
    error that they have without each node itself, so that their softmax are probabilities of a
    Gaussian around each class. "Linear" models of this kind are the least that few labels are
    worth: see "Simplifying graph convolutional networks" (arXiv 1902.07153) and GraphAny
    (arXiv 2405.20445).

    Args:
        in_dim: node features F; any number does.
        out_dim: logits C.
        penalty: `leave-one-out` chooses the penalty among four by the answers for the labelled
            nodes without themselves; `trace` takes the mean squared norm of a labelled row.
        scale: factor of that penalty, with `trace`.
    """

    paper = ""
    context = True
    any_graph = True
    tasks = ("node-classification", "node-binary", "node-regression")

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        penalty: Literal["trace", "leave-one-out"] = "trace",
        scale: Positive = 1.0,
    ):
        super().__init__()
        self.out_dim, self.penalty = out_dim, None if penalty == "leave-one-out" else scale
        self.head = nn.Identity()

    def features(self, graph, x: Tensor, context: Tensor) -> Tensor:
        """Return the logits themselves, (N, out_dim): nothing lies before them."""
        with torch.autocast(x.device.type, enabled=False):
            labels = labels_of(self.in_own_units(context), self.out_dim)
            fits = ridge(graph, x.float(), labels, propagate=gcn, penalty=self.penalty)
            scores, held_out = fits.values.mean(0), fits.held_out.mean(0)
            if context.is_floating_point():
                return scores
            errors = squared_errors(graph, labels, held_out).clamp(min=LEAST_ERROR)
            return as_logits(scores / errors, self.out_dim)


LEAST_ERROR = 0.01
"""Of the answers for labelled nodes: a few that are all right do not say that none is wrong."""
