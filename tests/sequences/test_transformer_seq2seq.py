"""The transformer from sequence to sequence: held against torch's own layers, token by token."""

import math

import pytest
import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.graphs.graph_sets import Pairs
from zoo.sequences.transformer_seq2seq import local_attention
from zoo.weights.create import create_model
from zoo.weights.save_and_load import load, save

WORDS = 40
SOURCES, TARGETS = [5, 9, 1, 3], [4, 11, 7, 1]
WINDOWS = [None, 1, 3, 20]

each_order = pytest.mark.parametrize("norm_first", [True, False])
each_window = pytest.mark.parametrize("window", WINDOWS)


def made(**options):
    torch.manual_seed(3)
    options = {"dim": 16, "layers": 2, "heads": 2, "dropout": 0.0, **options}
    return create_model("transformer-seq2seq", WORDS, WORDS, **options)


def batch(sources=SOURCES, targets=TARGETS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(WORDS, (sum(sources) + sum(targets),), generator=generator)
    return Pairs(sources, targets), x


def padded(rows: Tensor, lengths) -> Tensor:
    return nn.utils.rnn.pad_sequence(rows.split(list(lengths)), batch_first=True)


def twin(model, pairs, x):
    """Torch's own layers called as they are, with masks of what may be seen."""
    sources, targets = pairs.divide(x)

    def embedded(tokens):
        width = model.stem.embedding_dim
        places = torch.tensor(
            [
                [
                    (math.sin if i % 2 == 0 else math.cos)(place / 10_000 ** ((i - i % 2) / width))
                    for i in range(width)
                ]
                for place in range(tokens.shape[1])
            ]
        )
        return math.sqrt(width) * model.stem.weight[tokens] + places

    def hidden(lengths):
        return torch.tensor([[i >= n for i in range(max(lengths))] for n in lengths])

    def outside(length, causal):
        far = [
            [
                (model.window is not None and abs(i - j) > model.window) or (causal and j > i)
                for j in range(length)
            ]
            for i in range(length)
        ]
        return torch.tensor(far)

    memory, y = embedded(padded(sources, pairs.sources)), embedded(padded(targets, pairs.targets))
    for layer in model.encoder:
        memory = layer(memory, outside(memory.shape[1], False), hidden(pairs.sources))
        # Rows of which the window is all padding have no number; nobody looks at them.
        memory = memory.masked_fill(hidden(pairs.sources)[:, :, None], 0.0)
    memory = model.encoder_norm(memory)
    for layer in model.decoder:
        y = layer(
            y,
            memory,
            tgt_mask=outside(y.shape[1], True),
            tgt_key_padding_mask=hidden(pairs.targets),
            memory_key_padding_mask=hidden(pairs.sources),
        )
        y = y.masked_fill(hidden(pairs.targets)[:, :, None], 0.0)
    y = torch.cat([row[:n] for row, n in zip(y, pairs.targets, strict=True)])
    y = model.decoder_norm(y)
    return y @ model.stem.weight.T + model.head.bias


@each_order
@each_window
def test_it_is_torchs_own_layers(window, norm_first):
    """Values and gradients, in training mode without dropout: torch has no other kernel then."""
    model, (pairs, x) = made(window=window, norm_first=norm_first), batch()
    nn.init.normal_(model.head.bias)
    weights = torch.randn(sum(TARGETS), WORDS)
    found = {}
    for name, logits in (("ours", model(pairs, x).logits), ("theirs", twin(model, pairs, x))):
        model.zero_grad()
        (logits * weights).sum().backward()
        gradients = {key: each.grad.clone() for key, each in model.named_parameters()}
        found[name] = logits.detach(), gradients
    (ours, own), (theirs, other) = found["ours"], found["theirs"]
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)
    for key in own:
        torch.testing.assert_close(own[key], other[key], atol=2e-3, rtol=1e-3, msg=key)


@each_order
@each_window
def test_token_by_token_it_says_the_same(window, norm_first):
    model, (pairs, x) = made(window=window, norm_first=norm_first).eval(), batch()
    sources, targets = pairs.divide(x)
    inputs = padded(targets, TARGETS)
    with torch.no_grad():
        whole = model(pairs, x).logits.log_softmax(1).split(TARGETS)
        state = model.begin(SOURCES, sources)
        for place in range(max(TARGETS)):
            found, state = model.step(state, inputs[:, place])
            for row, length in enumerate(TARGETS):
                if place < length:
                    torch.testing.assert_close(found[row], whole[row][place], atol=1e-5, rtol=1e-4)


@each_window
def test_hypotheses_are_kept_dropped_and_repeated(window):
    model, (pairs, x) = made(window=window).eval(), batch()
    sources, _ = pairs.divide(x)
    first, chosen = torch.tensor([3, 4, 5, 6]), torch.tensor([2, 0, 2])
    last = torch.tensor([7, 8, 9])
    with torch.no_grad():
        _, state = model.step(model.begin(SOURCES, sources), first)
        found, after = model.step(state.select(chosen), last)
        split = sources.split(SOURCES)
        for row, source in enumerate(chosen.tolist()):
            _, own = model.step(model.begin([SOURCES[source]], split[source]), first[source][None])
            alone, _ = model.step(own, last[row][None])
            torch.testing.assert_close(found[row], alone[0], atol=1e-5, rtol=1e-4)
    assert after.length == 2 and state.length == 1


@each_window
def test_the_decoder_never_sees_the_future(window):
    model, (pairs, x) = made(window=window), batch()
    model.stem.register_forward_hook(
        lambda module, given, out: seen.append(out) or out.retain_grad()
    )
    for row, length in enumerate(TARGETS):
        for place in range(length):
            seen: list[Tensor] = []
            model.zero_grad()
            logits = model(pairs, x).logits.split(TARGETS)[row][place]
            logits.square().sum().backward()
            targets = seen[1].grad  # (B, T', D)
            future = targets[row, place + 1 :]
            assert not future.any() and targets[row, place].any()
            assert not targets[[each for each in range(len(TARGETS)) if each != row]].any()


@each_window
def test_pairs_do_not_see_each_other_or_the_padding(window):
    model, (pairs, x) = made(window=window).eval(), batch()
    sources, targets = pairs.divide(x)
    together = model(pairs, x).logits.split(TARGETS)
    for row in range(len(TARGETS)):
        own = Pairs([SOURCES[row]], [TARGETS[row]])
        alone = model(own, torch.cat([sources.split(SOURCES)[row], targets.split(TARGETS)[row]]))
        torch.testing.assert_close(alone.logits, together[row], atol=1e-5, rtol=1e-4)


def slow_local(q, k, v, there, window, causal):
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for i in range(q.shape[2]):
            seen = [
                j
                for j in range(q.shape[2])
                if there[b, j] and abs(i - j) <= window and not (causal and j > i)
            ]
            if there[b, i]:
                for h in range(q.shape[1]):
                    scores = q[b, h, i] @ k[b, h, seen].T / math.sqrt(q.shape[-1])
                    out[b, h, i] = scores.softmax(0) @ v[b, h, seen]
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 2, 5, 30])
def test_local_attention_is_that_of_its_slow_twin(window, causal):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 13, 4, requires_grad=True) for _ in range(3))
    there = torch.arange(13) < torch.tensor([13, 6])[:, None]
    kept = there[:, None, :, None]
    weights = torch.randn(2, 3, 13, 4)
    results = []
    for out in (
        local_attention(q, k, v, there, window=window, causal=causal),
        slow_local(q, k, v, there, window, causal),
    ):
        gradients = torch.autograd.grad((out * weights * kept).sum(), (q, k, v))
        results.append((out * kept, *gradients))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_memory_of_a_window_grows_with_the_length():
    """The largest tensor of a step is linear in the length, with a window."""

    def largest(length):
        sizes = []

        class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), options=None):
                out = function(*arguments, **(options or {}))
                sizes.extend(each.numel() for each in (out if isinstance(out, tuple) else (out,))
                             if isinstance(each, Tensor))  # fmt: skip
                return out

        q, k, v = (torch.randn(1, 2, length, 4, requires_grad=True) for _ in range(3))
        there = torch.ones(1, length, dtype=torch.bool)
        with Sizes():
            local_attention(q, k, v, there, window=16, causal=True).sum().backward()
        return max(sizes)

    assert largest(2048) <= 2.1 * largest(1024)


def test_it_memorises_a_small_batch():
    model, (pairs, x) = made(dim=32), batch()
    labels = torch.randint(WORDS, (sum(TARGETS),), generator=torch.Generator().manual_seed(5))
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimiser.zero_grad()
        logits = model(pairs, x).logits
        nn.functional.cross_entropy(logits, labels).backward()
        optimiser.step()
    assert (logits.argmax(1) == labels).double().mean() > 0.95


@each_window
def test_every_weight_is_trained_and_kept_once(window, tmp_path):
    model, (pairs, x) = made(window=window), batch()
    model(pairs, x).logits.square().sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in model.parameters())
    save(model, tmp_path / "weights")
    again = load(tmp_path / "weights")
    assert torch.equal(again(pairs, x).logits, model.eval()(pairs, x).logits)
    data = [each.data_ptr() for each in model.state_dict().values()]
    assert len(set(data)) == len(data)


def test_dropout_is_drawn_in_training_alone():
    model, (pairs, x) = made(dropout=0.5), batch()
    assert not torch.equal(model(pairs, x).logits, model(pairs, x).logits)
    model.eval()
    assert torch.equal(model(pairs, x).logits, model(pairs, x).logits)
    assert not [each for each in model.modules() if isinstance(each, nn.Dropout)
                and type(each) is nn.Dropout]  # fmt: skip


def test_bfloat16_stays_near():
    model, (pairs, x) = made().eval(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        found = model(pairs, x).logits.float()
    assert (found - model(pairs, x).logits).abs().max() < 0.1


def test_rows_are_those_of_the_targets():
    pairs, x = batch()
    assert made().rows(pairs, x) == sum(TARGETS) == len(made()(pairs, x).logits)


def test_what_it_cannot_be_made_with():
    with pytest.raises(ZooError, match="one vocabulary"):
        create_model("transformer-seq2seq", 30, 40)
    with pytest.raises(ZooError, match="3 heads do not divide a width of 16; write `dim: 18`"):
        made(heads=3)


def test_a_call_with_a_wrong_token_says_so():
    pairs, x = batch()
    for wrong in (x + WORDS, x.double(), x[:, None].float()):
        with pytest.raises(ZooError, match="tokens from 0 to 39, int64"):
            made()(pairs, wrong)
