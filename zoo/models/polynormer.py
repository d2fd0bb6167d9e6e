"""Polynormer: gated layers over the neighbours, then gated linear attention over all nodes.

"Polynormer: Polynomial-Expressive Graph Transformer in Linear Time" (arXiv 2403.01232), the
program for medium graphs. Where it departs from the authors' program, and where it only seems to:

- Whether attention over all nodes has begun is a buffer, saved and loaded with the weights. In the
  original it is not: a model loaded again answers with its local layers alone, unasked.
- The best local weights, from which the global phase begins, are kept in memory by the training
  loop (see `phase_starts`), not in a file whose name two runs may share.
- `global_dropout: 0.0` is no dropout; the original takes it for a value that was left out.
- `dim` is the full width D = heads * width per head: the published "64 x 8" is `dim: 512,
  heads: 8`, and the local layers' own heads are `propagation: {name: gat, heads: 8}`.
- A head is a slice of the columns. The original deals the columns out to the heads in turn; the
  two differ by one fixed permutation of the weights.
- The heads need not divide `dim`: the last of them are then filled up with zeros.
- As in the original no epsilon enters the weighted mean, whose weights are positive. Only a sum
  below the smallest number of its precision, zero that is, is replaced by that number.
- Initial gates b are Xavier-normal, as a matrix of one row per layer. Given ones are a first value
  that is trained and may leave 0 to 1, as published.
- Of the program for large graphs the batch norm is here, `norm: batch`; that it has no linear
  stem and one fixed gate is not. None of its three published commands reaches the global phase.
- PyG's model of the same name is another one: no learned gates, a W_o per layer, keys of its own.
"""

from functools import partial
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from zoo.nn import (
    ATTENTIONS,
    PROPAGATIONS,
    Convolution,
    Dropout,
    FeatureLinear,
    Linear,
    Norm,
    ReluDropout,
    build_attend,
    build_norm,
    build_propagation,
    lerp,
    linear_attention,
    merge_heads,
    split_heads,
)
from zoo.registry import Count, Few, Model, NonNegative, Number, Rate, Spec, register_model


@register_model("polynormer")
class Polynormer(Model):
    """A polynomial of the features: local layers first, global layers on top of them.

    x = Drop(W Drop(x)). Local layers, which gather from neighbours:
    y = Drop(ReLU(propagate(V x) + U x)), x = (1 - b) * LN(ReLU(T x) * y) + b * y; the features of
    the local phase are the sum of all these x. The global phase goes on from x = LN(sum):
    Q, K = sigmoid(W_q x), sigmoid(W_k x), a = Q (K^T W_v x) / (Q . K^T 1) in each head, and
    x = Drop(ReLU(W_o (LN(a) * (T x + b)))), W_o shared by the layers. Each phase has its own head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: full width D, that of all heads together.
        local_layers: layers over the neighbours.
        global_layers: layers over all nodes.
        local_epochs: epochs before the global phase, which then starts from the best local weights
            and optimiser; 0 begins with it, and the model has no local head.
        heads: attention heads of the global layers, each of width D / heads.
        attention: `native` is the authors' linear attention. Every attention is given sigmoids of
            queries and keys.
        qk_shared: the queries are the keys, as published.
        propagation: how the local layers gather neighbours; published `gat`, with as many heads.
        beta: first value of all gates b; when left out, b is a sigmoid of learned numbers.
        activation: the ReLUs, "Polynormer-r" in the paper; without them it is "Polynormer".
        norm_first: also apply a layer norm to what each local layer reads.
        norm: norm before the ReLU of y in each local layer, `batch` on large graphs.
        input_dropout: dropout of the raw features.
        dropout: dropout of the stem and of the local layers.
        global_dropout: dropout of the global layers; that of the local ones when left out.
    """

    paper = "Polynormer: Polynomial-Expressive Graph Transformer (arXiv 2403.01232)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "local_layers": {"low": 1, "high": 7},
        "global_layers": {"low": 1, "high": 3},
        "heads": [1, 4, 8],
        "norm": ["none", "batch", "layer"],
        "input_dropout": {"low": 0.0, "high": 0.5},
        "dropout": {"low": 0.0, "high": 0.7},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        local_layers: Few = 3,
        global_layers: Few = 1,
        local_epochs: Number = 0,
        heads: Few = 1,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        qk_shared: bool = True,
        propagation: Annotated[Spec, PROPAGATIONS] = "gat",
        beta: NonNegative | None = None,
        activation: bool = True,
        norm_first: bool = False,
        norm: Norm = "batch",
        input_dropout: Rate = 0.2,
        dropout: Rate = 0.3,
        global_dropout: Rate | None = None,
    ):
        super().__init__()
        finish = ReluDropout if activation else Dropout
        self.dropout = Dropout(dropout)
        global_dropout = dropout if global_dropout is None else global_dropout
        self.stem = FeatureLinear(in_dim, dim, dropout=input_dropout)
        self.local_layers = nn.ModuleList(
            LocalLayer(
                dim,
                build_propagation(propagation, dim),
                activation=activation,
                finish=finish(dropout),
                norm_first=norm_first,
                norm=norm,
            )
            for _ in range(local_layers)
        )
        self.local_gates = Gates(local_layers, dim, beta)
        self.norm = nn.LayerNorm(dim)
        self.global_layers = nn.ModuleList(
            GlobalLayer(dim, heads, build_attend(attention, weighted, layer), qk_shared=qk_shared)
            for layer in range(global_layers)
        )
        self.global_gates = Gates(global_layers, dim, beta)
        self.output = nn.Sequential(Linear(dim, dim), finish(global_dropout))
        self.local_epochs = local_epochs
        self.head_local = Linear(dim, out_dim) if local_epochs else None
        self.head_global = Linear(dim, out_dim)
        self.register_buffer("global_phase", torch.tensor(local_epochs == 0))
        self._begun = local_epochs == 0
        self.register_load_state_dict_post_hook(_read_phase)

    @property
    def head(self) -> nn.Module:
        """The head of the phase that the model is in."""
        return self.head_global if self._in_global_phase() else self.head_local

    def features(self, graph, x: Tensor) -> Tensor:
        """Return what the head of the present phase reads, (N, dim), for x (N, in_dim)."""
        x = self._local(graph, x)
        if not self._in_global_phase():
            return x
        x = self.norm(x)
        for layer, gate in zip(self.global_layers, self.global_gates(), strict=True):
            x = self.output(layer(graph, x, gate))
        return x

    def phase_starts(self) -> tuple[int, ...]:
        """Return the epoch in which the global phase begins, unless it has begun."""
        return () if self._in_global_phase() else (self.local_epochs,)

    def begin_epoch(self, epoch: int) -> None:
        """Begin the global phase when its time has come; it never ends, not on a new graph."""
        if epoch >= self.local_epochs and not self._in_global_phase():
            self.global_phase.fill_(True)
            _read_phase(self)

    def _in_global_phase(self) -> bool:
        if not (torch.compiler.is_compiling() or self.global_phase.is_meta):
            _read_phase(self)
        # Without a local head there is no local phase, whatever weights were loaded.
        return self.head_local is None or self._begun

    def _local(self, graph, x: Tensor) -> Tensor:
        x = self.dropout(self.stem(x))
        total = None
        for layer, gate in zip(self.local_layers, self.local_gates(), strict=True):
            x = layer(graph, x, gate)
            total = x if total is None else total + x
        return total


def _read_phase(model: Polynormer, keys: object = None) -> None:
    """Take over the phase of the buffer, and ask a GPU for it only where it may have changed."""
    phase = model.global_phase
    # Tensors of the inference mode do not tell whether they have changed.
    version = object() if phase.is_inference() else phase._version
    known = _known.get(phase)
    if known is None or known[0] != version:
        known = _known[phase] = version, bool(phase)
    model._begun = known[1]


_known: WeakIdKeyDictionary = WeakIdKeyDictionary()


class LocalLayer(nn.Module):
    """y = Drop(ReLU(norm(propagate(V x) + U x))), then (1 - b) * LN(ReLU(T x) * y) + b * y."""

    def __init__(self, dim, propagate, *, activation, finish, norm_first, norm):
        super().__init__()
        self.pre_norm = nn.LayerNorm(dim) if norm_first else nn.Identity()
        self.multiply, self.skip = Linear(dim, dim), Linear(dim, dim)
        self.convolution = Convolution(dim, dim, propagate, bias=False)
        self.between = build_norm(norm, dim)
        self.norm = nn.LayerNorm(dim)
        self.activate, self.finish = nn.ReLU() if activation else nn.Identity(), finish

    def forward(self, graph, x: Tensor, gate: Tensor) -> Tensor:
        """Return (N, D) for x (N, D) and the gate b (D,)."""
        x = self.pre_norm(x)
        y = self.finish(self.between(self.convolution(graph, x) + self.skip(x)))
        return lerp(self.norm(self.activate(self.multiply(x)) * y), y, gate)


class GlobalLayer(nn.Module):
    """LN(attend(sigmoid(W_q x), sigmoid(W_k x), W_v x)) * (T x + b)."""

    def __init__(self, dim, heads, attend, *, qk_shared):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.query = None if qk_shared else Linear(dim, dim)
        self.key, self.value = Linear(dim, dim), Linear(dim, dim)
        self.multiply = Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, graph, x: Tensor, gate: Tensor) -> Tensor:
        """Return (N, D) for x (N, D), nodes attending inside each graph of a batch."""
        k = split_heads(self.key(x).sigmoid(), self.heads)  # (N, H, D)
        q = k if self.query is None else split_heads(self.query(x).sigmoid(), self.heads)
        v = split_heads(self.value(x), self.heads)
        gathered = merge_heads(self.attend(graph, q, k, v), x.shape[-1])  # (N, D)
        return self.norm(gathered) * self.multiply(x, shift=gate)


class Gates(nn.Module):
    """The gates b of all layers of a phase: a sigmoid of learned numbers, or numbers as given."""

    def __init__(self, layers, dim, beta):
        super().__init__()
        self.raw = nn.Parameter(torch.empty(layers, dim))
        if beta is None:
            nn.init.xavier_normal_(self.raw)
        else:
            nn.init.constant_(self.raw, beta)
        self.squash = nn.Sigmoid() if beta is None else nn.Identity()

    def forward(self) -> Tensor:
        """Return one row per layer, (layers, dim)."""
        return self.squash(self.raw)


weighted = partial(linear_attention, qk_norm="none", base="none")
"""The global attention, q (k^T v) / (q . k^T 1): means weighted by q_i . k_j, for q and k above 0.

Linear in N. Polynormer (arXiv 2403.01232).
"""
