"""The decoder of `htgn_seq2seq`: a layer for whole targets at once, and one token at a time."""

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.models.htgn import LearnedEdges, Residual
from zoo.nn import (
    Dropout,
    FeedForward,
    GraphAttention,
    Linear,
    Pairs,
    cross_graph,
    edge_dot,
    edge_softmax,
    edge_sum,
    merge_heads,
    rotate,
    sequence_graph,
    split_heads,
    top_edges,
    weighted_sum,
)
from zoo.ops.precision import wide
from zoo.sequences.cross_attention import Cross, KeysAndValues
from zoo.sequences.kernel_attention import Kernel, Memory, causal_attention
from zoo.sequences.tiles import Tiles


class Places(NamedTuple):
    """The positional encoding of tokens, as layers use it; None for none.

    Attributes:
        turn: the rotation of queries and keys, (N, rank // 2) complex.
        added: to the states that they are projected from, (N, dim).
    """

    turn: Tensor | None
    added: Tensor | None


class Attending(nn.Module):
    """The projections of an attention: Q, K = R (W (z + P) + b), V = W z + b, and its output."""

    def __init__(self, dim: int, heads: int, rank: int):
        super().__init__()
        width = -(-dim // heads)
        self.heads = heads
        self.ask, self.answer = Linear(dim, heads * rank), Linear(dim, heads * rank)
        self.value, self.merge = Linear(dim, heads * width), Linear(heads * width, dim)

    def queries(self, z: Tensor, at: Places) -> Tensor:
        """Return the queries (N, H, rank) of z (N, D)."""
        return self._placed(self.ask, z, at)

    def keys(self, z: Tensor, at: Places) -> Tensor:
        """Return the keys (N, H, rank) of z (N, D)."""
        return self._placed(self.answer, z, at)

    def values(self, z: Tensor) -> Tensor:
        """Return the values (N, H, ...) of z (N, D)."""
        return self.value(z).unflatten(-1, (self.heads, -1))

    def join(self, gathered: Tensor) -> Tensor:
        """Return (N, D) for the outputs of the heads, (N, H, ...)."""
        return self.merge(gathered.flatten(-2))

    def _placed(self, linear: Linear, z: Tensor, at: Places) -> Tensor:
        x = linear(z if at.added is None else z + at.added).unflatten(-1, (self.heads, -1))
        return x if at.turn is None else rotate(x, at.turn)


class CrossEdges(nn.Module):
    """sum_{u in N(v)} alpha_vu W m_u over source tokens u, from the encoder's states m.

    alpha_vu is the softmax over u of LeakyReLU(a W m_u + b z_v), or, with `attention`, of the cross
    attention's own q_v k_u / sqrt(rank). N(v) is `all` source tokens, those `near` the diagonal
    (see `cross_graph`), or the `top` of q_v k_u.
    """

    def __init__(self, dim: int, heads: int, edges: str, which: str, size: int):
        super().__init__()
        self.heads, self.learned, self.which, self.size = heads, edges == "learned", which, size
        self.linear = Linear(dim, dim, bias=False)
        if self.learned:
            self.source = nn.Parameter(torch.empty(heads, -(-dim // heads)))
            self.target = Linear(dim, heads, bias=False)
            nn.init.xavier_uniform_(self.source)

    def forward(self, graph: Pairs, z, memory, q, k) -> tuple[Tensor, list]:
        """Return (T, D), and the graph and the weights (E, H), for targets z (T, D)."""
        near = self.size if self.which == "near" else None
        edges = cross_graph(graph.sources, graph.targets, near=near)
        if self.which == "top":
            with torch.no_grad():
                edges, _ = top_edges(edges, edge_dot(edges, k, q), self.size)
        values = split_heads(self.linear(memory), self.heads)
        if self.learned:
            scores = edge_sum(edges, (values * self.source).sum(-1), self.target(z))
            scores = functional.leaky_relu(scores, 0.2)
        else:
            scores = edge_dot(edges, k, q) * q.shape[-1] ** -0.5
        weights = edge_softmax(edges, scores)
        gathered = merge_heads(weighted_sum(edges, values, weights), z.shape[-1])
        return gathered, [(edges, weights)]

    def begin(self, memory: Tensor, k: Tensor, tiles: Tiles) -> KeysAndValues:
        """Return what `step` reads of the encoder's states."""
        values = split_heads(self.linear(memory), self.heads)
        (keys,), (values,), (present,) = (
            tiles.pack(k),
            tiles.pack(values),
            tiles.present_at(k.device),
        )
        return KeysAndValues(keys, values, present)

    def step(self, z: Tensor, q: Tensor, memory: KeysAndValues, place: int) -> Tensor:
        """Return (R, D) for the next token of each target, z (R, D)."""
        products = (wide(q).unsqueeze(1) * wide(memory.keys)).sum(-1)  # not in autocast's bfloat16
        scores = products * q.shape[-1] ** -0.5
        if self.learned:
            source = (memory.values * self.source).sum(-1)
            scores = functional.leaky_relu(source + self.target(z).unsqueeze(1), 0.2)
        there = self._there(memory.present, products.mean(-1), place).unsqueeze(-1)
        weights = scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(1)
        gathered = torch.einsum("rsh,rshd->rhd", weights.to(memory.values), memory.values)
        return merge_heads(gathered, z.shape[-1])

    def _there(self, present: Tensor, products: Tensor, place: int) -> Tensor:
        """Return which sources (R, S) a target at a place has edges from."""
        if self.which == "top":
            best = products.masked_fill(~present, -torch.inf)
            order = best.argsort(dim=1, descending=True, stable=True)
            return present & (order.argsort(dim=1) < self.size)
        if self.which == "near":
            centre = (present.sum(1, keepdim=True) - 1).clamp(max=place)
            places = torch.arange(present.shape[1], device=present.device)
            return present & ((places - centre).abs() <= self.size)
        return present


class Recent(NamedTuple):
    """Values that the causal convolution gathers, of the last tokens, (R, up to window, H, D)."""

    values: Tensor

    def select(self, rows: Tensor) -> Self:
        """Return the values of some hypotheses, any of them more than once."""
        return type(self)(self.values.index_select(0, rows))

    def gather(self, of: GraphAttention, value: Tensor, window: int) -> tuple[Tensor, Self]:
        """Return (R, H, D) for a new token's value (R, H, D), and the last tokens with it."""
        values = torch.cat([self.values, value.unsqueeze(1)], 1)
        scores = (values * of.source).sum(-1) + (value * of.target).sum(-1).unsqueeze(1)
        weights = functional.leaky_relu(scores, of.slope).softmax(1)
        gathered = torch.einsum("rsh,rshd->rhd", weights, values)
        return gathered, type(self)(values[:, max(0, values.shape[1] - window) :])


class LayerState(NamedTuple):
    """The state of a layer: of its own target so far, of the source, and of the edges to it."""

    own: Memory
    recent: Recent | None
    far: Memory | KeysAndValues
    edges: KeysAndValues | None

    def select(self, rows: Tensor) -> Self:
        """Return the state of some hypotheses, any of them more than once."""
        return type(self)(*(part and part.select(rows) for part in self))


class State(NamedTuple):
    """The state of R targets that are being decoded, of as many tokens each.

    Attributes:
        layers: of each layer.
        place: the number of the next token.
        sources: length of the source of each, (R,).
    """

    layers: tuple[LayerState, ...]
    place: int
    sources: Tensor

    def select(self, rows: Tensor) -> Self:
        """Return the state of some of them, (R',) int64, any more than once."""
        layers = tuple(layer.select(rows) for layer in self.layers)
        return type(self)(layers, self.place, self.sources.index_select(0, rows))


class DecoderLayer(nn.Module):
    """Causal attention, cross attention, convolution from encoder to decoder, feed-forward.

    With a `window`, a convolution from the token itself and as many before it comes second.
    """

    def __init__(
        self, kernel: Kernel, cross: Cross, *, which, size, window,
        dim, heads, rank, edges, expansion, dropout, rate,
    ):  # fmt: skip
        super().__init__()
        self.kernel, self.cross = kernel, cross
        self.attending, self.crossing = Attending(dim, heads, rank), Attending(dim, heads, rank)
        none = edges == "none"
        self.convolution = None if none else CrossEdges(dim, heads, edges, which, size)
        self.recent, self.window = LearnedEdges(dim, heads) if window else None, window
        self.feed_forward, self.dropout = FeedForward(dim, expansion, dropout), Dropout(dropout)
        names = ["attention", "cross", "feed_forward", *([] if none else ["convolution"])]
        names += ["recent"] if window else []
        self.add = nn.ModuleDict({name: Residual(nn.LayerNorm(dim), rate) for name in names})

    def forward(self, z, memory, at: Places, from_: Places, tiles, graph: Pairs):
        """Return (T, D) for targets z (T, D), and the graph and weights of the convolution.

        Args:
            z: (T, D).
            memory: the encoder's states (S, D).
            at: the places of the targets.
            from_: those of the sources.
            tiles: of the targets, and of targets and sources of pairs that are alike.
            graph: the pairs.
        """
        q, k = self.attending.queries(z, at), self.attending.keys(z, at)
        own = zip(*map(tiles[0].pack, (q, k, self.attending.values(z))), strict=True)
        gathered = tiles[0].unpack([causal_attention(self.kernel, *tile) for tile in own])
        z, weights = self.add["attention"](z, self.attending.join(gathered)), []
        if self.recent is not None:
            own = sequence_graph(graph.targets, window=self.window, causal=True)
            near, alpha = self.recent(own, z, q, k)
            z, weights = self.add["recent"](z, self.dropout(near.relu())), [(own, alpha)]
        q, k = self.crossing.queries(z, at), self.crossing.keys(memory, from_)
        far = zip(tiles[1].pack(q), tiles[2].pack(k), tiles[2].pack(self.crossing.values(memory)),
                  tiles[2].present_at(z.device), strict=True)  # fmt: skip
        gathered = tiles[1].unpack([self.cross(*tile) for tile in far])
        z = self.add["cross"](z, self.crossing.join(gathered))
        if self.convolution is not None:
            near, more = self.convolution(graph, z, memory, q, k)
            weights += more
            z = self.add["convolution"](z, self.dropout(near.relu()))
        return self.add["feed_forward"](z, self.feed_forward(z)), weights

    def begin(self, memory: Tensor, from_: Places, tiles: Tiles) -> LayerState:
        """Return the state before the first token, of sources in one tile."""
        k, v = self.crossing.keys(memory, from_), self.crossing.values(memory)
        (keys,), (values,), (present,) = tiles.pack(k), tiles.pack(v), tiles.present_at(k.device)
        nothing = torch.zeros_like(present)
        own = Memory.of(self.kernel.keys(keys), wide(values), nothing)
        edges = self.convolution and self.convolution.begin(memory, k, tiles)
        recent = self.recent and Recent(values[:, :0])
        return LayerState(own, recent, self.cross.remember(keys, values, present), edges)

    def step(self, z, at: Places, known: LayerState, state: State) -> tuple[Tensor, LayerState]:
        """Return (R, D) for the next token of R targets, z (R, D), and the state after it."""
        q, k = self.attending.queries(z, at), self.attending.keys(z, at)
        own = known.own.add(self.kernel.keys(k), wide(self.attending.values(z)))
        gathered = own.read(self.kernel.queries(q).unsqueeze(1), self.kernel.floor).squeeze(1)
        z, recent = self.add["attention"](z, self.attending.join(gathered.to(z.dtype))), None
        if self.recent is not None:
            value = split_heads(self.recent.linear(z), self.attending.heads)
            near, recent = known.recent.gather(self.recent.gather, value, self.window)
            z = self.add["recent"](z, merge_heads(near, z.shape[-1]).relu())
        q = self.crossing.queries(z, at)
        gathered = self.cross.read(q.unsqueeze(1), known.far).squeeze(1)
        z = self.add["cross"](z, self.crossing.join(gathered.to(z.dtype)))
        if self.convolution is not None:
            near = self.convolution.step(z, q, known.edges, state.place)
            z = self.add["convolution"](z, near.relu())
        return self.add["feed_forward"](z, self.feed_forward(z)), known._replace(
            own=own, recent=recent
        )
