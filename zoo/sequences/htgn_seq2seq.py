"""HTGN from sequence to sequence: the design note's encoder and decoder, for translation.

A public design note, not a paper; `zoo.models.htgn` says how its gaps are filled on graphs. On
sequences, besides:

- The encoder's graph is a window of neighbours and sparse global skip nodes (`sequence_graph`).
- The token-relative part of the positional encoding (HRPE), a table of sinusoids of i - j that is
  N x N x D, is a rotation of queries and keys, which makes their products functions of i - j. The
  graph-node part P is eigenvectors of a path, known in closed form, projected to `dim`. It is added
  inside the attention as the note has it, to what queries and keys are made of and not to the
  values, or at the `input`. The decoder does not know its length: it takes the source's path.
- The decoder's own attention is causal, a sum over the places before that is carried along, so that
  a token costs the same however many came before it. Its graph convolution gathers from all source
  tokens, those `near` the diagonal, or the `top` of the cross attention's scores.
- Cross attention and cross-graph convolution have a residual and a norm each.
- Source, target and output share one embedding, times sqrt(dim) at the input.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from zoo.models.htgn import AttentionEdges, LearnedEdges, Residual, smoothness
from zoo.nn import (
    ATTENTIONS,
    Dropout,
    FeedForward,
    Linear,
    Pairs,
    TiedHead,
    build_attend,
    path_eigenvectors,
    rotation,
    seed_of,
    sequence_graph,
    sinusoids,
    token_owners,
    token_positions,
)
from zoo.registry import (
    Count,
    Few,
    Model,
    NonNegative,
    Number,
    Output,
    Rate,
    Seed,
    Spec,
    ZooError,
    register_model,
)
from zoo.sequences.cross_attention import CrossSpec, KernelCross, build_cross
from zoo.sequences.htgn_decoder import Attending, DecoderLayer, Places, State
from zoo.sequences.kernel_attention import Kernel, KernelName
from zoo.sequences.tiles import Tiles, alike


@register_model("htgn-seq2seq")
class HTGNSeq2Seq(Model):
    """Encoder and decoder of linear attention and graph convolution, with tied embeddings.

    Encoder, per layer: z = norm(z + Path(Attention(z))), z = norm(z + Path(Drop(ReLU(sum_{u in
    N(v)} alpha_vu W z_u)))), z = norm(z + Path(MLP(z))). Decoder, per layer: causal attention,
    cross attention to the encoder, the convolution from encoder to decoder, MLP, each added in the
    same way. Attention(z) = W [attend(Q, K, V) of each head]; Q and K are R (W (z + P) + b), V is
    W z + b, R the rotation by a token's position. Then E z + b with the embedding E. The penalty is
    the mean of KL(alpha_v || uniform over N(v)) over layers, heads and tokens, times `smoothness`.

    Args:
        in_dim: words V of the vocabulary, which both languages share.
        out_dim: the same number.
        dim: width of the layers.
        layers: number of layers of the encoder, and of the decoder.
        heads: attention heads, which share the width; of the convolutions too.
        rank: columns of the queries and keys of each head; low against dim / heads.
        attention: of the encoder; `native` is by the kernel.
        cross: from the decoder to the encoder: `native` by the kernel, `softmax`, or `rba`.
        kernel: of the native attentions and of the decoder's own: `softmax` of q_i k_j / sqrt(rank)
            by random features, the Gaussian kernel by `sine` and cosine, or `elu` + 1.
        random_features: number M of random directions.
        window: how many neighbours to either side the encoder's convolution gathers from.
        global_every: every which token is a global skip node, linked with the others; 0 for none.
            None: about the square root of each source's length, so that edges are linear in it.
        edges: weights of the convolutions: `learned` scores of their own, those of the layer's
            `attention`, or `none`, which leaves both convolutions out.
        cross_edges: which source tokens a target's convolution gathers from: `all`, those `near`
            the diagonal, or the `top` of the cross attention's scores.
        cross_size: how far from the diagonal, or how many at the top.
        decoder_window: from how many tokens before it a target token gathers by a causal
            convolution, behind the causal attention; 0, as in the note: no such convolution.
        positions: `hrpe`, the `absolute` sinusoids at the input, or `none`.
        inject: where the graph-node part of the encoding is added: inside each `attention`, or
            once at the `input`.
        eigenvectors: of the path, the columns of the graph-node part.
        expansion: width of the feed-forward, as a multiple of `dim`.
        drop_path: rate of dropped branches per token in the last layer; linear in the layer.
        dropout: of the embeddings, of the convolutions, and inside the feed-forward.
        smoothness: weight of the penalty that keeps the convolutions' weights near uniform.
        seed: of the random directions used in evaluation.
    """

    paper = "HTGN, a public design note"
    tasks = ("translation",)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 128,
        layers: Few = 3,
        heads: Few = 4,
        rank: Count = 16,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        cross: CrossSpec = "native",
        kernel: KernelName = "softmax",
        random_features: Count = 32,
        window: Number = 2,
        global_every: Number | None = 8,
        edges: Literal["learned", "attention", "none"] = "learned",
        cross_edges: Literal["all", "near", "top"] = "all",
        cross_size: Count = 4,
        decoder_window: Number = 0,
        positions: Literal["hrpe", "absolute", "none"] = "hrpe",
        inject: Literal["attention", "input"] = "attention",
        eigenvectors: Count = 8,
        expansion: Few = 4,
        drop_path: Rate = 0.3,
        dropout: Rate = 0.1,
        smoothness: NonNegative = 0.01,
        seed: Seed = 0,
    ):
        super().__init__()
        if in_dim != out_dim:
            raise ZooError(
                f"htgn-seq2seq reads and writes one vocabulary: in_dim is {in_dim} and out_dim "
                f"{out_dim}; write the same number."
            )
        self.stem, self.dropout = nn.Embedding(in_dim, dim), Dropout(dropout)
        nn.init.normal_(self.stem.weight, std=dim**-0.5)
        self.window, self.every, self.smoothness = window, global_every, smoothness
        self.positions, self.inject, self.rank = positions, inject, rank
        graph_node = Linear(eigenvectors, dim, bias=False) if positions == "hrpe" else None
        self.graph_node, self.eigenvectors = graph_node, eigenvectors
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for layer in range(layers):
            rate, layer_seed = drop_path * (layer + 1) / layers, seed_of((seed, layer))
            shape = {"dim": dim, "heads": heads, "rank": rank, "edges": edges}
            rest = {"expansion": expansion, "dropout": dropout, "rate": rate}
            across = {"which": cross_edges, "size": cross_size, "window": decoder_window}
            encoder_kernel, decoder_kernel, cross_kernel = (
                Kernel(kernel, random_features, seed=seed_of((layer_seed, n))) for n in range(3)
            )
            native = KernelCross(encoder_kernel)
            attend = build_attend(attention, native.within, layer)
            self.encoder.append(EncoderLayer(native, attend, **shape, **rest))
            crossing = build_cross(cross, cross_kernel)
            self.decoder.append(DecoderLayer(decoder_kernel, crossing, **across, **shape, **rest))
        self.head = TiedHead(out_dim)

    def rows(self, graph: Pairs, x: Tensor) -> int:
        """Return the number of rows of logits: one for each target token."""
        return sum(graph.targets)

    def forward(self, graph: Pairs, x: Tensor) -> Output:
        """Return the logits (T, V) of the token after each target token.

        Args:
            graph: the lengths of pairs of sequences.
            x: the tokens of the sources, then those of the targets, (S + T,) int64.
        """
        z, weights = self._states(graph, x)
        logits = self.head(z, self.stem.weight)
        if not self.smoothness or not weights:
            return Output(logits)
        terms = [smoothness(graph, alpha) for graph, alpha in weights]
        return Output(logits, self.smoothness * torch.stack(terms).mean())

    def features(self, graph: Pairs, x: Tensor) -> Tensor:
        """Return (T, dim), see `forward`."""
        return self._states(graph, x)[0]

    def begin(self, sources: tuple[int, ...], tokens: Tensor) -> State:
        """Return the state of R targets before their first token, one for each source.

        Args:
            sources: the lengths of R sources.
            tokens: theirs, (S,) int64.
        """
        memory, at, _ = self._encode(sources, tokens)
        tiles = Tiles(sources, [torch.arange(len(sources))])
        layers = tuple(layer.begin(memory, at, tiles) for layer in self.decoder)
        return State(layers, 0, torch.tensor(sources, device=tokens.device))

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Return log-probabilities (R, V) of the token after each of R, and the next state."""
        place = torch.full_like(state.sources, state.place)
        z, at = self._embed(tokens, place, state.sources)
        layers = []
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            z, layer_state = layer.step(z, at, layer_state, state)
            layers.append(layer_state)
        logits = self.head(z, self.stem.weight)
        return logits.float().log_softmax(-1), State(tuple(layers), state.place + 1, state.sources)

    def _states(self, graph: Pairs, x: Tensor) -> tuple[Tensor, list]:
        """Return what the head reads, and the graph and weights of each convolution."""
        sources, targets = graph.divide(x)
        memory, from_, weights = self._encode(graph.sources, sources)
        lengths = torch.tensor(graph.sources, device=x.device)
        owners = token_owners(graph.targets).to(x.device)
        z, at = self._embed(targets, token_positions(graph.targets).to(x.device), lengths[owners])
        groups = alike(graph.sources, graph.targets)
        tiles = Tiles(graph.targets), Tiles(graph.targets, groups), Tiles(graph.sources, groups)
        for layer in self.decoder:
            z, more = layer(z, memory, at, from_, tiles, graph)
            weights += more
        return z, weights

    def _encode(self, sources: tuple[int, ...], tokens: Tensor) -> tuple[Tensor, Places, list]:
        """Return the encoder's states (S, dim), its tokens' places, and the graph and weights."""
        lengths = torch.tensor(sources, device=tokens.device)
        owners = token_owners(sources).to(tokens.device)
        z, at = self._embed(tokens, token_positions(sources).to(tokens.device), lengths[owners])
        graph, weights = sequence_graph(sources, window=self.window, skip=self.every), []
        tiles = Tiles(sources)
        for layer in self.encoder:
            z, more = layer(graph, tiles, z, at)
            weights += [(graph, alpha) for alpha in more]
        return z, at, weights

    def _embed(self, tokens: Tensor, place: Tensor, lengths: Tensor) -> tuple[Tensor, Places]:
        """Return the embeddings of tokens (N,), and the encoding of their places for the layers.

        Args:
            tokens: (N,) int64.
            place: of each in its sequence, (N,).
            lengths: of the source of each, (N,).
        """
        z = self.stem(tokens) * self.stem.embedding_dim**0.5
        if self.positions == "absolute":
            z = z + sinusoids(place, z.shape[1], dtype=z.dtype)
        if self.positions != "hrpe":
            return self.dropout(z), Places(None, None)
        waves = path_eigenvectors(place, lengths, self.eigenvectors, dtype=z.dtype)
        added, turn = self.graph_node(waves), rotation(place, self.rank, dtype=z.dtype)
        if self.inject == "input":
            return self.dropout(z + added), Places(turn, None)
        return self.dropout(z), Places(turn, added)


class EncoderLayer(nn.Module):
    """Attention, convolution on the edges (or none) and feed-forward, in this order."""

    def __init__(self, native, attend, *, dim, heads, rank, edges, expansion, dropout, rate):
        super().__init__()
        self.attending, self.attend = Attending(dim, heads, rank), attend
        self.native, self.in_tiles = native, attend.attention == native.within
        self.convolution = _EDGES[edges](dim, heads)
        self.feed_forward, self.dropout = FeedForward(dim, expansion, dropout), Dropout(dropout)
        names = ["attention", "feed_forward", *(["convolution"] if self.convolution else [])]
        adds = {name: Residual(nn.LayerNorm(dim), rate) for name in names}
        self.add = nn.ModuleDict(adds)

    def forward(self, graph, tiles: Tiles, z: Tensor, at: Places) -> tuple[Tensor, list[Tensor]]:
        """Return (N, D) for z (N, D), and the weights on the edges, (E, H), if there are any."""
        q, k = self.attending.queries(z, at), self.attending.keys(z, at)
        v = self.attending.values(z)
        if self.in_tiles:
            sets = zip(*map(tiles.pack, (q, k, v)), tiles.present_at(z.device), strict=True)
            gathered = tiles.unpack([self.native(*tile) for tile in sets])
        else:
            gathered = self.attend(graph, q, k, v)
        z, weights = self.add["attention"](z, self.attending.join(gathered)), []
        if self.convolution is not None:
            near, alpha = self.convolution(graph, z, q, k)
            z = self.add["convolution"](z, self.dropout(near.relu()))
            weights.append(alpha)
        return self.add["feed_forward"](z, self.feed_forward(z)), weights


def _no_edges(dim: int, heads: int) -> None:
    """No convolution."""


_EDGES = {"learned": LearnedEdges, "attention": AttentionEdges, "none": _no_edges}
