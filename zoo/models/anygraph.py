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
    regressions, the model `ridge`, as which it begins; m a sum of all predictors and a number of
    the class, by logistic regression on what they say of the labelled nodes without themselves,
    whose few weights are drawn towards exp(skill / 0.05); h = body(GELU(W t_ic)). The token t_ic
    holds what twelve predictors say: ridge regressions on X, A X, A² X with two penalties, on their
    walk and on what A leaves of X, on degrees, on principal components that have walked, the last
    one taught by its own confident answers too; a kernel ridge regression on each node and its
    surroundings; and walks of the labels; each by itself and times its skill, the accuracy for
    labelled nodes without themselves. Where no class has two labels, so that nothing says what
    predictors are worth, h is 0 and both b and m are the mean of three of them. Numbers to be
    predicted have weights w of their own; as the weights `anygraph` come they are answered m, the
    mean of the predictors by skill.

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
        """Return b, m, h and whether it is a number, of each class or number, (N, C (dim + 3))."""
        with torch.autocast(x.device.type, enabled=False):
            labels = labels_of(self.in_own_units(context), self.out_dim)
            classes = not context.is_floating_point()
            found = label_tokens(graph, x.float(), labels, classes=classes)
        return self.read(graph, found, classes=classes)

    def read(self, graph, found: LabelTokens, *, classes: bool = True) -> Tensor:
        """Return the features (N, C (dim + 3)) of what the predictors say."""
        hidden = self.stem(found.tokens)  # (N, C, D)
        if self.body is not None:
            of_classes = [self.body.features(graph, each) for each in hidden.unbind(1)]
            hidden = torch.stack(of_classes, dim=1)
        hidden = hidden * found.judged[:, None, None]
        base = torch.where(found.judged[:, None], found.base, found.mix)
        numbers = torch.full_like(found.mix, 0.0 if classes else 1.0)
        said = [each.unsqueeze(2).to(hidden.dtype) for each in (base, found.mix, numbers)]
        return torch.cat([*said[:2], hidden, said[2]], dim=2).flatten(1)


class SharedHead(nn.Module):
    """A linear map for the states of each class, and one for those of numbers; at first of b alone.

    Pretraining on classes leaves the second as it is.
    """

    def __init__(self, dim: int, out_dim: int):
        super().__init__()
        self.out_dim, self.width = out_dim, dim + 3
        self.weight = nn.Parameter(torch.eye(1, dim + 2).repeat(2, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Return (N, out_dim) for (N, C (dim + 3))."""
        states = features.view(len(features), features.shape[1] // self.width, self.width)
        states, are_numbers = states[..., :-1], states[..., -1] > 0
        of_class, of_number = (states @ self.weight.to(features.dtype).mT).unbind(-1)
        return as_logits(torch.where(are_numbers, of_number, of_class), self.out_dim)
