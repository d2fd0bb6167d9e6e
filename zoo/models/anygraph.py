"""AnyGraph: a network over what closed-form predictors say, that answers for any graph as it is.

Our own, after the idea of GraphAny (arXiv 2405.20445): answers of predictors without training are
read as tokens of nodes and classes. Here they are more, each with what it is worth for the labelled
nodes without themselves, and what reads them may be any transformer of the zoo.
"""

import torch
from torch import Tensor, nn

from zoo.nn import TOKEN, LabelTokens, as_logits, label_tokens, labels_of
from zoo.registry import Count, Model, Rate, Spec, build_body, register_model


@register_model("anygraph")
class AnyGraph(Model):
    """Label tokens, one map for all of them, a body, and one head, the same for each class.

    z_ic = w_0 b_ic + w_1 m_ic + w . h_ic for node i and class c: b is the mean of three ridge
    regressions, the model `ridge`, as which it begins; m the mean of all predictors, weighted by
    exp(skill / 0.05); h = body(GELU(W t_ic)). The token t_ic holds what eleven predictors say:
    ridge regressions on X, A X, A² X, on their walk and on what A leaves of X, on degrees, on
    principal components that have walked, the last one taught by its own confident answers too; a
    kernel ridge regression on each node and its surroundings; and walks of the labels; each by
    itself and times its skill, the accuracy for labelled nodes without themselves.

    Args:
        in_dim: node features F; any number does.
        out_dim: logits C.
        dim: width of the hidden states.
        dropout: of the hidden states.
        body: a model that reads the hidden states of each class as the features of the nodes, such
            as `{name: sgformer, dim: 32, attention: rba}`; left out, they stay as they are.
    """

    paper = ""
    context = True
    any_graph = True
    tasks = ("node-classification", "node-binary", "node-regression")
    search = {"dim": [16, 32, 64], "dropout": [0.0, 0.2]}

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 32,
        dropout: Rate = 0.1,
        body: Spec | None = None,
    ):
        super().__init__()
        self.out_dim = out_dim
        self.stem = nn.Sequential(nn.Linear(TOKEN, dim), nn.GELU(), nn.Dropout(dropout))
        self.body, width = build_body(body, dim)
        self.head = SharedHead(width, out_dim)

    def features(self, graph, x: Tensor, context: Tensor) -> Tensor:
        """Return b, m and h of each class, (N, C (dim + 2))."""
        with torch.autocast(x.device.type, enabled=False):
            labels = labels_of(self.in_own_units(context), self.out_dim)
            classes = not context.is_floating_point()
            found = label_tokens(graph, x.float(), labels, classes=classes)
        return self.read(graph, found)

    def read(self, graph, found: LabelTokens) -> Tensor:
        """Return the features (N, C (dim + 2)) of what the predictors say."""
        hidden = self.stem(found.tokens)  # (N, C, D)
        if self.body is not None:
            of_classes = [self.body.features(graph, each) for each in hidden.unbind(1)]
            hidden = torch.stack(of_classes, dim=1)
        said = torch.stack([found.base, found.mix], dim=2)  # (N, C, 2)
        return torch.cat([said.to(hidden.dtype), hidden], dim=2).flatten(1)


class SharedHead(nn.Module):
    """One linear map for the states of each class; at first its first number alone."""

    def __init__(self, dim: int, out_dim: int):
        super().__init__()
        self.out_dim, self.width = out_dim, dim + 2
        self.weight = nn.Parameter(torch.eye(1, self.width).squeeze(0))

    def forward(self, features: Tensor) -> Tensor:
        """Return (N, out_dim) for (N, C (dim + 2))."""
        scores = features.view(len(features), features.shape[1] // self.width, self.width)
        return as_logits(scores @ self.weight.to(features.dtype), self.out_dim)
