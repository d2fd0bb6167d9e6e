"""NodeFormer: kernelised Gumbel-softmax attention over all nodes, told of the edges by a bias.

"NodeFormer: A Scalable Graph Structure Learning Transformer for Node Classification"
(arXiv 2306.08385). Where it departs from the authors' program:

- Random features are kept as logarithms, noise included: nothing overflows at a low temperature or
  in half precision, where the program's exp(g / tau) does. The 1e-6 that the program adds to every
  feature is `epsilon`: it is not in the equations, and no denominator vanishes here without it, but
  it outweighs the features of long queries and keys and so changes what is learnt.
- Random directions and noise come from private generators. The program seeds the global one in
  every pass, by a number that overflows as a rule, so that the directions are the same in all of
  them; that much is `redraw: never`, and `step` is what it means to do. Evaluation always uses the
  directions that belong to the weights: a buffer, drawn from `seed`, saved and moved with them.
- Evaluation has the temperature of training; the program for large graphs evaluates with tau = 1.
- Sums over all nodes are over one graph of a batch, or over one random batch. The edge loss keeps
  the exact sum over the graph, as an edge may join two random batches, and stays that of the
  noise-free kernel whichever `attention` gathers the values: queries and keys then serve both.
- The edge loss is subtracted, mean log probability being what should grow. (A re-run by others
  adds that of one layer.) With `edge_loss: 0` the model works; the program does not.
- The walks of each order, and the degrees, are found once per graph; a node without edges gathers
  zeros from them. Orders are those of the program: A, A^2, A^4, not A, A^2, A^3. The N x N weights
  are not offered for inspection.
"""

from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import (
    ATTENTIONS,
    Dropout,
    FeatureLinear,
    Linear,
    Norm,
    Ragged,
    build_attend,
    build_norm,
    drawn,
    edge_ends,
    edge_log_probabilities,
    for_ragged,
    gumbel_attention,
    gumbel_noise,
    in_degrees,
    random_directions,
    relation,
    seed_of,
)
from zoo.registry import (
    Count,
    Few,
    Fraction,
    Model,
    NonNegative,
    Output,
    Positive,
    Rate,
    Seed,
    Spec,
    Within,
    register_model,
)

Samples = Annotated[int, Within("from 0 to 1,000", ge=0, le=1000)]
Orders = Annotated[int, Within("from 0 to 16", ge=0, le=16)]  # 2^16 steps cross any graph


@register_model("nodeformer")
class NodeFormer(Model):
    """Attention by positive random features with Gumbel noise, plus a relational bias.

    z_0 = Drop(ELU(norm(W x))). Per layer Q, K = W z / sqrt(tau), V = W z,
    o = attend(Q, K, V) + sum_r s(b_r) D_in^-1/2 P_r D_out^-1/2 V, P_r the pattern of A^(2^r), and
    z = Drop([ELU](norm(z + W_o o))), the heads of o side by side. The authors' attention is the
    mean over noises u_j = exp(g_j / tau), g_j Gumbel, one per key j, of
    sum_j f(q_i) f(k_j) u_j v_j / sum_j f(q_i) f(k_j) u_j, with
    f(x)_m = exp(w_m x - |x|^2 / 2), x divided by D^(1/4); in evaluation u = 1. The penalty is
    -lambda mean log(p_uv) / d_in(v) over edges u -> v, heads and layers, p_uv = f(q_v) f(k_u) /
    sum_j f(q_v) f(k_j). Head: W z, or W [z_0, ..., z_L].

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        full_heads: attention heads, each of the full width.
        attention: `native` is the authors' kernel. The others are given the same queries and keys,
            divided by sqrt(tau): `softmax` is what the kernel estimates.
        temperature: tau; the lower, the nearer attention is to a choice of single nodes.
        random_features: number M of random directions.
        samples: number K of noises per key that training averages; 0 is without noise.
        epsilon: added to every random feature after its exponent is lowered by the largest
            w_m x, over the features of a query, over nodes and features of the keys; 0 is without.
        redraw: when training draws new random directions: in every `step`, every `epoch` or
            `never`. Evaluation uses those of `seed`.
        seed: of the directions that are saved with the weights.
        orders: number of relational biases: A, A^2, A^4, ...; 0 is without any.
        order_weight: s, `sigmoid` or `identity`; b begins at 0.1 or at 1.
        edge_loss: weight lambda of the penalty.
        norm: norm of the first map and of every layer.
        residual: add the layer's input to its output.
        activation: end each layer with an ELU.
        jumping_knowledge: the head reads all layers instead of the last one.
        dropout: after the first map and every layer.
    """

    edge_weights = False
    paper = "NodeFormer: A Scalable Graph Structure Learning Transformer (arXiv 2306.08385)"
    search: ClassVar = {
        "dim": [32, 64, 128],
        "layers": {"low": 1, "high": 3},
        "orders": {"low": 1, "high": 3},
        "norm": ["none", "layer"],
        "dropout": {"low": 0.0, "high": 0.8},
        "edge_loss": [0.0, 0.01, 0.1, 1.0],
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 32,
        layers: Few = 2,
        full_heads: Few = 1,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        temperature: Positive = 0.25,
        random_features: Count = 30,
        samples: Samples = 10,
        epsilon: Fraction = 1e-6,
        redraw: Literal["step", "epoch", "never"] = "never",
        seed: Seed = 0,
        orders: Orders = 2,
        order_weight: Literal["sigmoid", "identity"] = "sigmoid",
        edge_loss: NonNegative = 0.1,
        norm: Norm = "batch",
        residual: bool = True,
        activation: bool = False,
        jumping_knowledge: bool = False,
        dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem = FeatureLinear(in_dim, dim)
        self.norm, self.dropout = build_norm(norm, dim), Dropout(dropout)
        self.redraw, self.edge_loss = redraw, edge_loss
        kernels = [
            Kernel(dim, random_features, samples, temperature, epsilon, seed_of((seed, layer)))
            for layer in range(layers)
        ]
        self.layers = nn.ModuleList(
            NodeFormerLayer(
                dim,
                full_heads,
                kernel,
                build_attend(attention, kernel.attend, layer),
                orders=orders,
                weigh=order_weight,
                norm=norm,
                residual=residual,
                activation=activation,
                dropout=dropout,
            )
            for layer, kernel in enumerate(kernels)
        )
        self.jumping_knowledge = jumping_knowledge
        self.head = Linear((layers + 1) * dim if jumping_knowledge else dim, out_dim)

    def forward(self, graph, x: Tensor) -> Output:
        """Return the logits, and the edge loss as the penalty, in training and evaluation alike."""
        z, pairs = self._states(graph, x)
        if not self.edge_loss:
            return Output(self.head(z))
        terms = [layer.edge_term(graph, *qk) for layer, qk in zip(self.layers, pairs, strict=True)]
        return Output(self.head(z), -self.edge_loss * torch.stack(terms).mean())

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the last layer, (N, dim), or all of them side by side, for x (N, in_dim)."""
        return self._states(graph, x)[0]

    def begin_epoch(self, epoch: int) -> None:
        """Draw new random directions, if each epoch has its own."""
        if self.redraw == "epoch":
            self._draw(in_place=True)

    def _states(self, graph, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return what the head reads, and the queries and keys of each layer."""
        if self.training and self.redraw == "step":
            self._draw()
        z = functional.elu(self.norm(self.stem(x)))
        states, pairs = [self.dropout(z)], []
        for layer in self.layers:
            z, q, k = layer(graph, states[-1])
            states.append(z)
            pairs.append((q, k))
        return torch.cat(states, dim=-1) if self.jumping_knowledge else states[-1], pairs

    def _draw(self, *, in_place: bool = False) -> None:
        for layer in self.layers:
            layer.kernel.draw(in_place)


class NodeFormerLayer(nn.Module):
    """z -> Drop([ELU](norm(z + W_o (attend(Q, K, V) + sum_r s(b_r) S_r V)))), S_r normalised."""

    def __init__(
        self, dim, heads, kernel, attend, *, orders, weigh, norm, residual, activation, dropout
    ):
        super().__init__()
        self.heads, self.kernel, self.attend = heads, kernel, attend
        self.query, self.key = Linear(dim, heads * dim), Linear(dim, heads * dim)
        self.value, self.output = Linear(dim, heads * dim), Linear(heads * dim, dim)
        first, self.squash = _ORDER_WEIGHTS[weigh]
        self.strengths = nn.ParameterList(torch.full((heads,), first) for _ in range(orders))
        self.norm, self.residual = build_norm(norm, dim), residual
        self.activate = nn.ELU() if activation else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, graph, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (N, D) for z (N, D), and the queries and keys, W z / sqrt(tau), (N, H, D)."""
        scale = self.kernel.temperature**-0.5
        q, k = (scale * self._split(projection(z)) for projection in (self.query, self.key))
        v = self._split(self.value(z))
        out = self.attend(graph, q, k, v)  # (N, H, D)
        for order, strength in enumerate(self.strengths):
            out = out + self.squash(strength).unsqueeze(-1) * relation(graph, v, order)
        out = self.output(out.flatten(-2))
        out = self.activate(self.norm(z + out if self.residual else out))
        return self.dropout(out), q, k

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def edge_term(self, graph, q: Tensor, k: Tensor) -> Tensor:
        """Return the mean of log p_uv / d_in(v) over heads and edges; 0 where there are none."""
        w, epsilon = self.kernel.present(), self.kernel.epsilon
        logs = edge_log_probabilities(graph, q, k, w, epsilon=epsilon)  # (E, H)
        into = in_degrees(graph, q.device)[edge_ends(graph, q.device)[1]]
        weighted = logs / into.unsqueeze(-1)
        return weighted.sum() / max(1, weighted.numel())


_ORDER_WEIGHTS = {"sigmoid": (0.1, nn.Sigmoid()), "identity": (1.0, nn.Identity())}


class Kernel(nn.Module):
    """The random features of a layer: its attention, and the directions that they are made of.

    It has no weights. All sets of nodes see the same directions, whatever calls `attend`.
    """

    def __init__(self, dim, count, samples, temperature, epsilon, seed):
        super().__init__()
        self.samples, self.temperature, self.epsilon = samples, temperature, epsilon
        self.register_buffer("directions", random_directions(count, dim, seed).float())
        self.drawn: Tensor | None = None

    def draw(self, in_place: bool = False) -> None:
        """Draw the directions of training anew; the global generator seeds them, by one draw.

        Args:
            in_place: where the last ones are, which a recorded step reads; no gradient that is
                still to be computed may need these.
        """
        draw = partial(random_directions, *self.directions.shape, device=self.directions.device)
        directions, _ = drawn(draw)
        kept = in_place and self.drawn is not None and self.drawn.device == directions.device
        self.drawn = self.drawn.copy_(directions) if kept else directions

    def present(self) -> Tensor:
        """Return the directions of the present mode, (M, D)."""
        return self.drawn if self.training and self.drawn is not None else self.directions

    @for_ragged
    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, ragged: Ragged | None = None) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D), with new noise for each key in training."""
        noise = None
        if self.training and self.samples:
            shape, device = (self.samples, *k.shape[:-1]), k.device
            noise = drawn(lambda seed: gumbel_noise(shape, seed, device))[0] / self.temperature
        return gumbel_attention(q, k, v, self.present(), noise, epsilon=self.epsilon, ragged=ragged)
