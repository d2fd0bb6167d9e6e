"""The transformer of the paper, from sequence to sequence: the baseline of translation.

Vaswani et al. (arXiv 1706.03762), of torch's own layers. Here source, target and output share one
vocabulary and one embedding. With a `window`, self-attention is local: a token sees as many others
on each side (in the decoder, before it), block by block, so that time and memory are linear in the
length; attention weights are then not dropped, so that no matrix of scores is kept.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as _softmax

from zoo.nn import Dropout, TiedHead, sinusoids
from zoo.registry import Count, Few, Model, Output, Rate, ZooError, register_model


@register_model("transformer-seq2seq")
class TransformerSeq2Seq(Model):
    """Encoder and decoder of softmax attention, sinusoids for places, one embedding.

    x_i = sqrt(D) E[token_i] + sinusoid(i); encoder layer: x = x + Drop(MHA(norm(x), norm(x))), then
    x = x + Drop(MLP(norm(x))); decoder layer: the same of y, causal, and between both
    y = y + Drop(MHA(norm(y), x)); a last norm of x and of y; logits = E y + b.
    MLP(x) = W Drop(ReLU(W x)). With `norm_first: false` the norm is around each sum, and none last.

    Args:
        in_dim: tokens of the vocabulary V.
        out_dim: the same number.
        dim: width D.
        layers: layers of the encoder, and of the decoder.
        heads: attention heads, which share the width.
        expansion: width of the feed-forward, as a multiple of `dim`.
        dropout: of the embedding, of each half of a layer, inside the feed-forward, and of the
            attention weights.
        window: tokens on each side that a token attends to in its own sequence; None: all of them.
        norm_first: norm what each part of a layer reads (pre-norm), and the end of encoder and
            decoder, not what each part gives (post-norm), which is the paper's order.
    """

    paper = "Attention Is All You Need (arXiv 1706.03762)"
    tasks = ("translation",)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 128,
        layers: Few = 4,
        heads: Few = 4,
        expansion: Few = 4,
        dropout: Rate = 0.1,
        window: Count | None = None,
        norm_first: bool = True,
    ):
        super().__init__()
        if in_dim != out_dim:
            raise ZooError(
                f"transformer-seq2seq reads and writes one vocabulary: in_dim is {in_dim} and "
                f"out_dim {out_dim}; write the same number."
            )
        if dim % heads:
            wider = heads * -(-dim // heads)
            raise ZooError(f"{heads} heads do not divide a width of {dim}; write `dim: {wider}`.")
        sizes = (dim, heads, expansion * dim, dropout)
        self.stem, self.dropout = nn.Embedding(in_dim, dim), Dropout(dropout)
        how = {"batch_first": True, "norm_first": norm_first}
        self.encoder, self.decoder = (
            nn.ModuleList(_quicker(kind(*sizes, **how)) for _ in range(layers))
            for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
        )
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(dim) if norm_first else nn.Identity() for _ in range(2)
        )
        self.head = TiedHead(out_dim)
        self.window = window
        for weight in (*self.encoder.parameters(), *self.decoder.parameters()):
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.stem.weight, std=dim**-0.5)

    def forward(self, graph, x: Tensor) -> Output:
        """Return a row of logits per token of the targets, (T, V).

        Args:
            graph: `Pairs` of B sequences.
            x: tokens of the sources, then of the targets, (S + T,) int64.
        """
        sources, targets = graph.divide(x)
        memory, seen = self.encode(graph.sources, sources)
        there = _there(graph.targets, x.device)
        y = self.embed(_padded(targets, there))  # (B, T', D)
        for layer in self.decoder:
            y = _decode(layer, y, there, memory, seen, self.window)
        return Output(self.head(self.decoder_norm(y[there]), self.stem.weight))

    def rows(self, graph, x: Tensor) -> int:
        """Return how many rows of logits there are: one per token of the targets."""
        return sum(graph.targets)

    def encode(self, sources: Sequence[int], tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the decoder reads of B sources, (B, S', D), and where they are, (B, S')."""
        x = self.embed(_padded(tokens, there := _there(sources, tokens.device)))
        for layer in self.encoder:
            x = _encode(layer, x, there, self.window)
        return self.encoder_norm(x), there

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Return (B, L, D) for tokens (B, L) of which the first is at a place."""
        x = self.stem(tokens) * math.sqrt(self.stem.embedding_dim)
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        return self.dropout(x + sinusoids(places, x.shape[-1], dtype=x.dtype))

    def begin(self, sources: Sequence[int], tokens: Tensor) -> "Growing":
        """Return the state of B hypotheses without a token, one per source.

        Args:
            sources: tokens of each.
            tokens: those of all of them, (S,) int64.
        """
        memory, seen = self.encode(sources, tokens)
        read = [_keys_values(layer.multihead_attn, memory) for layer in self.decoder]
        grown = [(keys[:, :, :0], values[:, :, :0]) for keys, values in read]
        return Growing(grown, read, seen, 0)

    def step(self, state: "Growing", tokens: Tensor) -> tuple[Tensor, "Growing"]:
        """Return log-probabilities of the next tokens (R, V), and the state with the last ones.

        Args:
            state: of R hypotheses.
            tokens: the last of each, (R,) int64.
        """
        y, grown = self.embed(tokens[:, None], state.length), []
        for layer, own, read in zip(self.decoder, state.grown, state.read, strict=True):
            y = _added(layer, layer.norm1, y, partial(self._grow, layer.self_attn, own, grown))
            y = _added(layer, layer.norm2, y, partial(_cross, layer, read, state.seen))
            y = _added(layer, layer.norm3, y, partial(_mlp, layer))
        logits = self.head(self.decoder_norm(y[:, 0]), self.stem.weight)
        state = dataclasses.replace(state, grown=grown, length=state.length + 1)
        return logits.float().log_softmax(dim=1), state

    def _grow(self, part: nn.MultiheadAttention, own, grown: list, y: Tensor) -> Tensor:
        """Attend to what there is and the token itself, (R, 1, D); its key and value are kept."""
        first = 0 if self.window is None else -self.window - 1
        both = zip(own, _keys_values(part, y), strict=True)
        grown.append(tuple(torch.cat(pair, 2)[:, :, first:] for pair in both))
        return _merged(part, _softmax(_queries(part, y), *grown[-1]))


@dataclasses.dataclass(frozen=True)
class Growing:
    """R hypotheses that grow: keys and values of each layer of the decoder.

    Attributes:
        grown: of their own tokens, (R, H, length, D / H) both; the last of them with a window.
        read: of their sources, (R, H, S', D / H) both.
        seen: where these are, (R, S') bool.
        length: how many tokens they have.
    """

    grown: list[tuple[Tensor, ...]]
    read: list[tuple[Tensor, ...]]
    seen: Tensor
    length: int

    def select(self, rows: Tensor) -> "Growing":
        """Return the state of the hypotheses of these numbers, (R',) int64."""
        grown, read = (
            [(keys[rows], values[rows]) for keys, values in pairs]
            for pairs in (self.grown, self.read)
        )
        return Growing(grown, read, self.seen[rows], self.length)


def _quicker(layer: nn.Module) -> nn.Module:
    """Return a layer of torch with the zoo's dropout, which draws its masks quicker on a CPU."""
    for name, part in layer.named_children():
        if isinstance(part, nn.Dropout):
            setattr(layer, name, Dropout(part.p))
    return layer


def _encode(layer: nn.TransformerEncoderLayer, x, there, window: int | None) -> Tensor:
    """Return (B, L, D) for x (B, L, D), of which rows are `there`, (B, L)."""
    near = partial(_self_attention, layer.self_attn, there, window, False)
    x = _added(layer, layer.norm1, x, lambda y: layer.dropout1(near(y)))
    return _added(layer, layer.norm2, x, lambda y: layer.dropout2(_mlp(layer, y)))


def _decode(layer: nn.TransformerDecoderLayer, y, there, memory, seen, window) -> Tensor:
    """Return (B, T, D) for y (B, T, D) and what is read, (B, S, D), of which rows are `seen`."""
    near = partial(_self_attention, layer.self_attn, there, window, True)
    y = _added(layer, layer.norm1, y, lambda y: layer.dropout1(near(y)))
    read, rate = _keys_values(layer.multihead_attn, memory), _rate(layer.multihead_attn, window)
    far = partial(_cross, layer, read, seen, rate=rate)
    y = _added(layer, layer.norm2, y, lambda y: layer.dropout2(far(y)))
    return _added(layer, layer.norm3, y, lambda y: layer.dropout3(_mlp(layer, y)))


def _added(layer: nn.Module, norm: nn.Module, y: Tensor, part: Callable[[Tensor], Tensor]):
    """Return y (B, L, D) with what a part of the layer makes of it, normed before or after."""
    return y + part(norm(y)) if layer.norm_first else norm(y + part(y))


def _cross(layer: nn.TransformerDecoderLayer, read, seen: Tensor, y: Tensor, rate=0.0) -> Tensor:
    """Attend from y (B, T, D) to keys and values of the source, of which rows are `seen`."""
    part = layer.multihead_attn
    return _merged(part, _softmax(_queries(part, y), *read, seen[:, None, None], rate))


def _mlp(layer, x: Tensor) -> Tensor:
    """Return the feed-forward of a layer, without its last dropout."""
    return layer.linear2(layer.dropout(functional.relu(layer.linear1(x))))


def _self_attention(part: nn.MultiheadAttention, there, window: int | None, causal: bool, x):
    """Return (B, L, D) for x (B, L, D): each row attends to rows that are there, near it."""
    q, (k, v) = _queries(part, x), _keys_values(part, x)
    if window is None:
        mask, rate = there[:, None, None], _rate(part, window)
        if causal:
            mask = mask & mask.new_ones(x.shape[1], x.shape[1]).tril()
        out = _softmax(q, k, v, mask, rate)
    else:
        out = local_attention(q, k, v, there, window=window, causal=causal)
    return _merged(part, out)


def local_attention(q, k, v, there: Tensor, *, window: int, causal: bool) -> Tensor:
    """Return softmax attention inside a window, (B, H, L, C) for q, k, v of that shape.

    Blocks of `window` queries attend to their own block and the one before, and the one after
    unless it is causal: O(L window).

    Args:
        there: which rows there are (B, L) bool; the others are not attended to.
        window: rows before, and after, that a row attends to.
        causal: to those before alone.
    """
    length = q.shape[2]
    window = max(1, min(window, length))
    blocks = -(-length // window)
    after = blocks * window - length
    beside = 1 if causal else 2  # blocks
    pad = (0, 0, window, after + (beside - 1) * window)
    q = functional.pad(q, (0, 0, 0, after)).unflatten(2, (blocks, window))  # (B, H, n, w, C)
    k, v = (
        functional.pad(x, pad).unfold(2, (1 + beside) * window, window).transpose(-1, -2)
        for x in (k, v)
    )  # (B, H, n, 2 w or 3 w, C)
    near = functional.pad(there, pad[2:]).unfold(1, (1 + beside) * window, window)  # (B, n, 3 w)
    row = torch.arange(window, device=q.device)[:, None] + window
    column = torch.arange((1 + beside) * window, device=q.device)
    band = (row - column).abs() <= window
    band = band & (column <= row) if causal else band
    mask = near[:, None, :, None] & band  # (B, 1, n, w, 3 w)
    mask = mask | ~mask.any(dim=-1, keepdim=True)  # of rows that are not there, whatever is finite
    out = _softmax(q, k, v, mask.expand(-1, q.shape[1], -1, -1, -1))
    return out.flatten(2, 3)[:, :, :length]


def _rate(part: nn.MultiheadAttention, window: int | None) -> float:
    return part.dropout if part.training and window is None else 0.0


def _queries(part: nn.MultiheadAttention, x: Tensor) -> Tensor:
    """Return (B, H, L, D / H) for x (B, L, D)."""
    width = x.shape[-1]
    q = functional.linear(x, part.in_proj_weight[:width], part.in_proj_bias[:width])
    return q.unflatten(-1, (part.num_heads, -1)).transpose(1, 2)


def _keys_values(part: nn.MultiheadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, H, L, D / H) twice for x (B, L, D)."""
    width = x.shape[-1]
    both = functional.linear(x, part.in_proj_weight[width:], part.in_proj_bias[width:])
    k, v = both.unflatten(-1, (2, part.num_heads, -1)).permute(2, 0, 3, 1, 4)
    return k, v


def _merged(part: nn.MultiheadAttention, out: Tensor) -> Tensor:
    """Return (B, L, D) for the outputs of the heads, (B, H, L, D / H)."""
    return part.out_proj(out.transpose(1, 2).flatten(-2))


def _there(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Return where sequences are in a padded batch, (B, longest) bool."""
    sizes = torch.tensor(lengths, device=device)
    return torch.arange(max(lengths, default=0), device=device) < sizes[:, None]


def _padded(rows: Tensor, there: Tensor) -> Tensor:
    """Return tokens (S,), one sequence after the other, as (B, longest), with zeros behind them."""
    return rows.new_zeros(there.shape).masked_scatter(there, rows)
