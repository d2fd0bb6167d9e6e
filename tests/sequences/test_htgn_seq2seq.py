"""HTGN from sequence to sequence equals its note, written here pair by pair and token by token."""

import collections
import math

import pytest
import torch

from zoo.nn import Pairs, random_directions, seed_of
from zoo.testing.attentions import GROWTH, peak_bytes
from zoo.weights.create import create_model

WORDS = 11
PAIRS = Pairs([5, 3, 9, 1], [4, 3, 2, 6])
PLAIN = {
    "dim": 6,
    "layers": 2,
    "heads": 2,
    "rank": 4,
    "attention": "native",
    "cross": "native",
    "kernel": "elu",
    "random_features": 5,
    "window": 1,
    "global_every": 3,
    "edges": "learned",
    "cross_edges": "all",
    "cross_size": 2,
    "decoder_window": 0,
    "positions": "hrpe",
    "inject": "attention",
    "eigenvectors": 3,
    "expansion": 3,
    "drop_path": 0.0,
    "dropout": 0.0,
    "smoothness": 0.3,
    "seed": 4,
}
OPTIONS = {
    "plain": {},
    "near": {"global_every": None, "cross_edges": "near", "inject": "input", "kernel": "softmax"},
    "near, nobody else": {"cross_edges": "near", "cross_size": 1, "window": 0, "global_every": 0},
    "top": {"cross_edges": "top", "edges": "attention", "kernel": "sine"},
    "top, learned": {"cross_edges": "top", "positions": "absolute", "cross_size": 1},
    "attention": {"edges": "attention", "positions": "none", "attention": "softmax"},
    "no edges": {"edges": "none", "kernel": "softmax", "cross": "softmax", "smoothness": 0.0},
    "no edges or places": {"edges": "none", "positions": "none", "heads": 1, "rank": 3},
    "padded": {"heads": 5, "rank": 1, "layers": 1, "cross_edges": "near", "expansion": 1,
               "decoder_window": 3},
    "recent": {"decoder_window": 2, "kernel": "softmax"},
    "recent alone": {"decoder_window": 1, "edges": "none", "heads": 4},
    "odd": {"rank": 5, "kernel": "softmax", "edges": "attention", "cross_edges": "near",
            "inject": "input"},
    "random batches": {"cross": {"name": "rba", "size": 2}, "layers": 3, "eigenvectors": 8},
}  # fmt: skip

every_option = pytest.mark.parametrize("changes", OPTIONS.values(), ids=[*OPTIONS])


def build(**changes):
    torch.manual_seed(2)
    return create_model("htgn-seq2seq", WORDS, WORDS, **{**PLAIN, **changes}).double().eval()


def tokens(pairs=PAIRS):
    return torch.randint(WORDS, (sum(pairs.sources) + sum(pairs.targets),))


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def normed(state, name, x):
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def embedded(state, own, length, options):
    """First states of a sequence's tokens, and P, which attention adds to them, or zeros."""
    dim = options["dim"]
    z = torch.stack([state["stem.weight"][each] for each in own]) * math.sqrt(dim)
    added = torch.zeros_like(z)
    for p in range(len(own)):
        if options["positions"] == "absolute":
            waves = [(math.sin, math.cos)[c % 2](p / 10000 ** (c // 2 * 2 / dim))
                     for c in range(dim)]  # fmt: skip
            added[p] = torch.tensor(waves, dtype=z.dtype)
    if options["positions"] == "absolute":
        return z + added, torch.zeros_like(z)
    if options["positions"] == "none":
        return z, added
    waves = torch.tensor(
        [[math.sqrt(2) * math.cos(math.pi * m * (p + 0.5) / length) * (m < length)
          for m in range(1, options["eigenvectors"] + 1)] for p in range(len(own))],
        dtype=z.dtype,
    )  # fmt: skip
    added = waves @ state["graph_node.weight"].T
    return (z + added, 0 * added) if options["inject"] == "input" else (z, added)


def turned(x, options):
    """Rows of one head's queries or keys, each pair of columns turned by the place's angle."""
    if options["positions"] != "hrpe":
        return x
    rows = []
    for p, row in enumerate(x):
        columns = list(row)
        for f in range(len(row) // 2):
            angle = p / 10000 ** (2 * f / len(row))
            cos, sin = math.cos(angle), math.sin(angle)
            a, b = columns[2 * f], columns[2 * f + 1]
            columns[2 * f], columns[2 * f + 1] = a * cos - b * sin, a * sin + b * cos
        rows.append(torch.stack(columns))
    return torch.stack(rows)


def split(state, name, z, added, options):
    """What one side of an attention is made of, (N, columns) for each head."""
    x = affine(state, name, z + added)
    if name.endswith("value"):
        return list(x.split(math.ceil(options["dim"] / options["heads"]), 1))
    return [turned(each, options) for each in x.split(options["rank"], 1)]


def kernel_weights(kind, q, k, w):
    """The weight of each key (S,) for one query (D,)."""
    scale = len(q) ** 0.25
    if kind == "exact":
        return torch.exp(k @ q / scale**2)
    if kind == "elu":
        q, k = (torch.where(x > 0, x + 1, x.exp()) for x in (q, k))
        return k @ q
    q, k = q / scale, k / scale
    if kind == "sine":
        weights = torch.stack([torch.cos((k - q) @ each) for each in w]).mean(0)
        return weights + max(0, 1 / math.sqrt(2 * len(w)) - weights.mean())
    terms = [torch.exp(q @ each - q @ q / 2) * torch.exp(k @ each - (k * k).sum(1) / 2)
             for each in w]  # fmt: skip
    return torch.stack(terms).mean(0)


def attended(state, name, kind, w, heads, options, causal=False):
    """Return (N, D) for the queries, keys and values of each head."""
    outs = []
    for q, k, v in zip(*heads, strict=True):
        rows = []
        for i in range(len(q)):
            until = i + 1 if causal else len(k)
            weights = kernel_weights(kind, q[i], k[:until], w)
            rows.append(weights / weights.sum() @ v[:until])
        outs.append(torch.stack(rows))
    return affine(state, f"{name}.merge", torch.cat(outs, 1))


def convolved(state, name, z, memory, q, k, neighbours, options, ends):
    """What each row of z gathers from its neighbours in memory, and the divergence of each."""
    heads, dim = options["heads"], options["dim"]
    width = math.ceil(dim / heads)
    values = memory @ state[f"{name}.linear.weight"].T
    values = torch.cat([values, values.new_zeros(len(values), heads * width - dim)], 1)
    rows, found = [], []
    for node, sources in enumerate(neighbours):
        parts = []
        for h in range(heads):
            own, scores = values[:, h * width : (h + 1) * width], []
            for source in sources:
                if options["edges"] == "learned":
                    e = own[source] @ ends[0][h] + ends[1](z, values, node, h)
                    scores.append(e if e > 0 else 0.2 * e)
                else:
                    scores.append(q[h][node] @ k[h][source] / math.sqrt(options["rank"]))
            weights = torch.exp(torch.stack(scores))
            weights = weights / weights.sum()
            parts.append(weights @ own[sources])
            found.append((weights * torch.log(weights * len(sources))).sum())
        rows.append(torch.cat(parts)[:dim])
    near = torch.stack(rows)
    return near * (near > 0), found


def gat_ends(state, name, options):
    """The vector a of each head, and b W z_v of a node, of a convolution inside one sequence."""
    width = math.ceil(options["dim"] / options["heads"])

    def of_target(z, values, node, h):
        row = values[node, h * width : (h + 1) * width]
        return row @ state[f"{name}.gather.target"][h]

    return state.get(f"{name}.gather.source"), of_target


def feed_forward(state, name, z):
    wide = affine(state, f"{name}.feed_forward.widen", z)
    change = affine(state, f"{name}.feed_forward.narrow", wide * (wide > 0))
    return normed(state, f"{name}.add.feed_forward.norm", z + change)


def encoded(state, own, options, divergences):
    z, added = embedded(state, own, len(own), options)
    window, every = options["window"], options["global_every"]
    every = max(window + 1, math.ceil(math.sqrt(len(own)))) if every is None else every
    neighbours = [
        [j for j in range(len(own))
         if abs(i - j) <= window or (every and i % every == j % every == 0)]
        for i in range(len(own))
    ]  # fmt: skip
    kind = "exact" if options["attention"] == "softmax" else options["kernel"]
    for i in range(options["layers"]):
        name, drawn = f"encoder.{i}", seed_of((options["seed"], i))
        w = random_directions(options["random_features"], options["rank"], seed_of((drawn, 0)))
        q, k = (split(state, f"{name}.attending.{side}", z, added, options)
                for side in ("ask", "answer"))  # fmt: skip
        v = split(state, f"{name}.attending.value", z, 0, options)
        out = attended(state, f"{name}.attending", kind, w, (q, k, v), options)
        z = normed(state, f"{name}.add.attention.norm", z + out)
        if options["edges"] != "none":
            ends = gat_ends(state, f"{name}.convolution", options)
            near, found = convolved(
                state, f"{name}.convolution", z, z, q, k, neighbours, options, ends
            )
            z = normed(state, f"{name}.add.convolution.norm", z + near)
            divergences[name] += found
        z = feed_forward(state, name, z)
    return z, added


def heard(i, length, q, k, options):
    """The source tokens that target i has edges from."""
    every, size = list(range(length)), options["cross_size"]
    if options["cross_edges"] == "near":
        return [j for j in every if abs(j - min(i, length - 1)) <= size]
    if options["cross_edges"] == "top":
        strength = [sum((a[i] @ b[j]).item() for a, b in zip(q, k, strict=True)) for j in every]
        return sorted(sorted(every, key=lambda j: -strength[j])[:size])
    return every


def decoded(state, own, memory, from_, options, divergences):
    length = len(memory)
    z, added = embedded(state, own, length, options)
    far = {"native": options["kernel"], "softmax": "exact"}
    across = far.get(str(options["cross"]), "exact")
    for i in range(options["layers"]):
        name, drawn = f"decoder.{i}", seed_of((options["seed"], i))
        w = [
            random_directions(options["random_features"], options["rank"], seed_of((drawn, part)))
            for part in (1, 2)
        ]
        q, k = (split(state, f"{name}.attending.{side}", z, added, options)
                for side in ("ask", "answer"))  # fmt: skip
        v = split(state, f"{name}.attending.value", z, 0, options)
        parts = (q, k, v)
        out = attended(
            state, f"{name}.attending", options["kernel"], w[0], parts, options, causal=True
        )
        z = normed(state, f"{name}.add.attention.norm", z + out)
        if options["decoder_window"]:
            recent = [list(range(max(0, j - options["decoder_window"]), j + 1))
                      for j in range(len(own))]  # fmt: skip
            inner = f"{name}.recent"
            near, found = convolved(
                state, inner, z, z, None, None, recent, {**options, "edges": "learned"},
                gat_ends(state, inner, options),
            )  # fmt: skip
            z = normed(state, f"{name}.add.recent.norm", z + near)
            divergences[inner] += found
        q = split(state, f"{name}.crossing.ask", z, added, options)
        k = split(state, f"{name}.crossing.answer", memory, from_, options)
        v = split(state, f"{name}.crossing.value", memory, 0, options)
        out = attended(state, f"{name}.crossing", across, w[1], (q, k, v), options)
        z = normed(state, f"{name}.add.cross.norm", z + out)
        if options["edges"] != "none":
            neighbours = [heard(each, length, q, k, options) for each in range(len(own))]

            def of_target(z, values, node, h, name=name):
                return z[node] @ state[f"{name}.convolution.target.weight"][h]

            ends = state.get(f"{name}.convolution.source"), of_target
            near, found = convolved(
                state, f"{name}.convolution", z, memory, q, k, neighbours, options, ends
            )
            z = normed(state, f"{name}.add.convolution.norm", z + near)
            divergences[name] += found
        z = feed_forward(state, name, z)
    return z


def twin(state, pairs, x, options):
    divergences = collections.defaultdict(list)
    read, written = x.split([sum(pairs.sources), sum(pairs.targets)])
    rows = []
    for source, target in zip(read.split(pairs.sources), written.split(pairs.targets), strict=True):
        memory, from_ = encoded(state, source, options, divergences)
        z = decoded(state, target, memory, from_, options, divergences)
        rows.append(z @ state["stem.weight"].T + state["head.bias"])
    penalty = torch.zeros((), dtype=rows[0].dtype)
    if divergences:
        means = [torch.stack(each).mean() for each in divergences.values()]
        penalty = options["smoothness"] * torch.stack(means).mean()
    return torch.cat(rows), penalty


@every_option
def test_it_equals_the_note(changes):
    options, model, x = {**PLAIN, **changes}, build(**changes), tokens()
    with torch.no_grad():
        model.head.bias.normal_()
    state = dict(model.named_parameters())
    logits, penalty = model(PAIRS, x)
    slow_logits, slow_penalty = twin(state, PAIRS, x, options)
    torch.testing.assert_close(logits, slow_logits, rtol=0, atol=1e-9)
    torch.testing.assert_close(torch.as_tensor(penalty).double(), slow_penalty, rtol=0, atol=1e-9)
    weight, inputs = torch.randn_like(logits), list(state.values())
    ours = torch.autograd.grad((logits * weight).sum() + penalty, inputs)
    theirs = torch.autograd.grad((slow_logits * weight).sum() + slow_penalty, inputs)
    for name, one, other in zip(state, ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")


def states(model, source):
    """What the encoder makes of one source, (S, D)."""
    with torch.no_grad():
        return model._encode((len(source),), source)[0]


ORDER = torch.tensor([3, 0, 4, 1, 2, 6, 5])
SOURCE, TARGET = torch.tensor([1, 5, 2, 7, 3, 3, 9]), torch.tensor([0, 4, 8, 6])


def changes_by_order(**changes):
    """How much the encoder's states, and the logits, change where the source is permuted."""
    model, pairs = build(layers=2, **changes), Pairs([7], [4])
    moved = (states(model, SOURCE[ORDER]) - states(model, SOURCE)[ORDER]).abs().max().item()
    with torch.no_grad():
        given = (torch.cat([each, TARGET]) for each in (SOURCE, SOURCE[ORDER]))
        one, other = (model(pairs, each).logits for each in given)
    return moved, (one - other).abs().max().item()


@pytest.mark.parametrize("more", [{}, {"attention": "softmax", "cross": "softmax"}], ids=str)
def test_without_places_and_edges_a_source_has_no_order(more):
    assert max(changes_by_order(positions="none", edges="none", **more)) < 1e-12


@pytest.mark.parametrize(
    "changes",
    [{"positions": "hrpe"}, {"positions": "hrpe", "inject": "input"}, {"positions": "absolute"}],
    ids=str,
)
def test_places_give_a_source_an_order(changes):
    assert min(changes_by_order(edges="none", **changes)) > 1e-3


@pytest.mark.parametrize("edges", ["learned", "attention"])
def test_edges_give_a_source_an_order(edges):
    assert min(changes_by_order(positions="none", edges=edges)) > 1e-3


def test_an_edge_to_all_gives_no_order():
    """A window as long as the source: it is the edges that matter, not that there are some."""
    assert max(changes_by_order(positions="none", window=7)) < 1e-12


def test_places_alone_tell_the_decoder_of_its_own_order():
    """With no places nor edges it hears a sum over those before: two of them may change places."""
    swapped = TARGET[[1, 0, 2, 3]]
    for positions, edges in (("none", "none"), ("hrpe", "none"), ("none", "near")):
        more = {"cross_edges": "near"} if edges == "near" else {"edges": edges}
        model, pairs = build(positions=positions, layers=1, **more), Pairs([7], [4])
        with torch.no_grad():
            given = (torch.cat([SOURCE, each]) for each in (TARGET, swapped))
            one, other = (model(pairs, each).logits for each in given)
        apart = (one - other)[2:].abs().max()
        assert (apart > 1e-6) == (positions == "hrpe"), (positions, edges)


def test_penalty_of_uniform_weights_is_nothing():
    model, x = build(edges="learned"), tokens()
    assert model(PAIRS, x).penalty > 1e-4
    with torch.no_grad():
        for name, each in model.named_parameters():
            if name.endswith("source"):
                each.zero_()
    assert model(PAIRS, x).penalty.abs() < 1e-12


@pytest.mark.parametrize("changes", [{"smoothness": 0.0}, {"edges": "none"}], ids=str)
def test_no_penalty_is_computed_where_there_is_none(changes, monkeypatch):
    monkeypatch.setattr("zoo.sequences.htgn_seq2seq.smoothness", None)
    penalty = build(**changes)(PAIRS, tokens()).penalty
    assert penalty == 0.0 and isinstance(penalty, float)


def test_drop_path_grows_with_depth():
    model = build(layers=3, drop_path=0.3)
    for side in (model.encoder, model.decoder):
        rates = [{add.drop.p for add in layer.add.values()} for layer in side]
        assert [len(each) for each in rates] == [1] * 3
        assert [max(each) for each in rates] == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("rates", [{"dropout": 0.4}, {"drop_path": 0.4}], ids=str)
def test_what_is_dropped_is_drawn_anew_in_training_alone(rates):
    model, x = build(**rates), tokens()
    assert torch.equal(model(PAIRS, x).logits, model(PAIRS, x).logits)
    model.train()
    assert not torch.equal(model(PAIRS, x).logits, model(PAIRS, x).logits)


@pytest.mark.parametrize("attention", ["native", {"name": "rba", "size": 3}], ids=str)
@pytest.mark.parametrize("kernel", ["softmax", "sine"])
def test_directions_are_drawn_anew_in_training_alone(attention, kernel):
    model, x = build(kernel=kernel, attention=attention, global_every=2), tokens()
    before = torch.get_rng_state()
    first = states(model, x[:5])
    assert torch.equal(states(model, x[:5]), first)
    assert torch.equal(torch.get_rng_state(), before)
    model.train()
    assert not torch.equal(states(model, x[:5]), states(model, x[:5]))


def test_queries_and_keys_are_of_low_rank():
    attending = create_model("htgn-seq2seq", WORDS, WORDS, dim=64, heads=4, rank=2).encoder[0]
    shapes = {name: tuple(each.weight.shape) for name, each in attending.attending.named_children()}
    assert shapes == {"ask": (8, 64), "answer": (8, 64), "value": (64, 64), "merge": (64, 64)}


def test_memory_grows_with_the_length():
    """With edges near the diagonal and skip nodes that follow the length; without, it does not."""

    def held(length, **changes):
        pairs = Pairs([length], [length])
        model, x = build(layers=1, kernel="softmax", **changes).float().train(), tokens(pairs)
        return peak_bytes(lambda: model(pairs, x).logits.sum().backward())

    linear = {"cross_edges": "near", "global_every": None}
    assert held(2048, **linear) < GROWTH * held(1024, **linear)
    for changes in ({**linear, "cross_edges": "all"}, {**linear, "global_every": 2}):
        assert held(1024, **changes) > GROWTH * held(512, **changes)
