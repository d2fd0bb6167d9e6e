"""The promises of an attention: a function of q, k, v, of any number of sets of any nodes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable

import torch
from torch import Tensor

from zoo.config.options import Spec, pick
from zoo.graphs.examples import edgeless
from zoo.nn.attend import Attend
from zoo.nn.attention import ATTENTIONS, Attention, linear
from zoo.nn.sets import stands_alone
from zoo.ops.pair_attention import Bias, takes_bias
from zoo.registry import discover
from zoo.testing.promise import Broken, Promise, check_all, keep, keep_close

GROWTH = 2.3
"""What memory may grow by where the nodes are doubled, of an attention that is linear in them."""


def attention_promises(attention: Spec) -> list[Promise]:
    """Return every promise of an attention, alone and inside random batches of 7 nodes.

    Args:
        attention: a word of `ATTENTIONS`, or a word with options.

    Raises:
        ZooError: no such attention is registered, or an option of it is wrong.
    """
    discover()  # it may be of another package
    built = _build(attention)
    if stands_alone(built):  # no random batches are around it
        alone = [check for check in OF_WHOLE_SETS if check not in OF_BATCHES]
        return _bound((*EVERY, *alone), attention)
    if _word(attention) == "rba":
        return _bound(EVERY, attention)
    batched = {"name": "rba", "size": 7, "inner": attention}
    return [*_bound((*EVERY, *OF_WHOLE_SETS), attention), *_bound(EVERY, batched)]


def check_attention(attention: Spec) -> None:
    """Check every promise of an attention, see `attention_promises`.

    Raises:
        zoo.testing.Broken: some are not kept; with a paragraph for each that says what to write.
        ZooError: no such attention is registered, or an option of it is wrong.
    """
    check_all(attention_promises(attention))


def evaluating_twice_gives_the_same(spec: Spec) -> None:
    """Evaluation is the same each time."""
    q, k, v = _tensors(30, 2, 4)
    attend = _build(spec)
    keep(
        torch.equal(attend(q, k, v), attend(q, k, v)),
        "in evaluation the same q, k and v give another output each time. Write `F.dropout(x, p, "
        "self.training)` in a module, and draw from a generator with a fixed seed.",
    )


def values_of_one_give_one(spec: Spec) -> None:
    """Where all values are 1 the output is 1: the weights of a node sum to 1."""
    q, k = _tensors(30, 2, 4, count=2)
    ones = torch.ones(30, 2, 4, dtype=torch.double)
    keep_close(
        _build(spec)(q, k, ones),
        ones,
        "values that are all 1 give something else, off by {by}: the weights of a node do not sum "
        "to 1. Divide by their sum over the nodes j.",
    )


def sets_do_not_see_each_other(spec: Spec) -> None:
    """Each set, an index of the leading dimensions, gets the output that it gets alone."""
    q, k, v = _tensors(3, 2, 20, 2, 4)
    attend = _build(spec)
    together = attend(q, k, v)
    for i in range(3):
        for j in range(2):
            keep_close(
                attend(q[i, j], k[i, j], v[i, j]),
                together[i, j],
                "of q, k, v (..., N, H, D) the leading dimensions are separate sets, and with "
                "others beside it a set gives another output, off by {by}. Count dimensions from "
                "the end: nodes are -3, heads -2, features -1.",
            )


def graphs_of_a_batch_do_not_see_each_other(spec: Spec) -> None:
    """Each graph of a batch, whatever its size, gets the output that it gets alone."""
    sizes = [20, 3, 1, 20, 0, 8]
    q, k, v = _tensors(sum(sizes), 2, 4)
    attend = _build(spec)
    together = Attend(attend)(edgeless(sizes), q, k, v)
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        keep_close(
            attend(q[rows], k[rows], v[rows]),
            together[rows],
            f"a graph of {size} nodes gets another output in a batch, off by {{by}}. Nothing may "
            "depend on other sets, nor be kept from one call to the next.",
        )
        start += size


def renaming_nodes_renames_the_output(spec: Spec) -> None:
    """Nodes in another order give the same output in that order."""
    q, k, v = _tensors(30, 2, 4)
    order, attend = torch.randperm(30), _build(spec)
    keep_close(
        attend(q[order], k[order], v[order]),
        attend(q, k, v)[order],
        "with the nodes in another order each node's output changes by {by}. An attention is a "
        "function of a set: look at no number of a node and at no row above.",
    )


def one_batch_of_all_nodes_is_the_whole_graph(spec: Spec) -> None:
    """Random batches as large as the graph give exactly its own output."""
    q, k, v = _tensors(30, 2, 4)
    whole = _build({"name": "rba", "size": 30, "inner": spec})
    keep(
        torch.equal(whole(q, k, v), _build(spec)(q, k, v)),
        "in one random batch of all nodes it gives another output than alone. It has to be the "
        "same each time in evaluation: draw from a generator with a fixed seed there.",
    )


def memory_grows_with_n(spec: Spec) -> None:
    """With twice the nodes a step takes at most 2.3 times the memory."""
    attend = _build(spec)
    quadratic = "memory N^2" in (inspect.getdoc(ATTENTIONS[_word(spec)]) or "")

    def step(n: int) -> int:
        inputs = _tensors(n, 2, 8, dtype=torch.float)
        return peak_bytes(lambda: attend(*inputs).sum().backward())

    growth = step(2048) / step(1024)
    keep(
        growth < (2 * GROWTH if quadratic else GROWTH),
        f"with twice the nodes a step takes {growth:.1f} times the memory: a matrix of all pairs "
        "is stored. Sum over the nodes first, `q @ (k.T @ v)`, or use "
        "`scaled_dot_product_attention`; or say so in the docstring of its builder: `Promises: "
        "exact; time N^2 * D; memory N^2; deterministic at evaluation`.",
    )


def a_bias_counts_for_the_pairs_of_its_own_set(spec: Spec) -> None:
    """One that takes a bias of scores is told of the pairs of each set alone, and it counts."""
    attend, sizes = _build(spec), [9, 3, 9, 1]
    if takes_bias(attend) != "scores":
        return
    q, k, v = _tensors(sum(sizes), 2, 4)
    table, asked = torch.randn(2, sum(sizes), sum(sizes), dtype=torch.double), []

    def bias(rows: Tensor, columns: Tensor) -> Tensor:
        asked.append((rows.unsqueeze(-1).expand(*rows.shape, columns.shape[-1]), columns))
        return table[:, rows.unsqueeze(-1), columns.unsqueeze(-2)].transpose(0, 1)

    def of(start: int, size: int, scale: float) -> Tensor:
        nodes = torch.arange(start, start + size)
        own = (slice(start, start + size),)
        told = Bias(lambda *pairs: scale * bias(*pairs), nodes)
        return attend(q[own], k[own], v[own], bias=told)

    together = Attend(attend)(edgeless(sizes), q, k, v, bias)
    graph = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    keep(
        all((graph[rows] == graph[columns].unsqueeze(-2)).all() for rows, columns in asked),
        "its bias is asked for pairs of nodes of two sets. Ask for `bias.of(rows, columns)` of "
        "numbers `bias.nodes` (..., N) of the nodes of each set.",
    )
    alone = [of(sum(sizes[:place]), size, 1.0) for place, size in enumerate(sizes)]
    keep_close(
        together,
        torch.cat(alone),
        "with a bias, a graph gets another output in a batch than alone, off by {by}.",
    )
    keep_close(
        of(0, 9, 0.0),
        attend(q[:9], k[:9], v[:9]),
        "with a bias of 0 it gives another output than without, off by {by}: add it to the scores.",
    )
    keep(
        not torch.allclose(of(0, 9, 0.0), alone[0]),
        "its bias makes no difference. Add `bias.of(rows, columns)` to the scores.",
    )


EVERY = (
    evaluating_twice_gives_the_same,
    values_of_one_give_one,
    sets_do_not_see_each_other,
    graphs_of_a_batch_do_not_see_each_other,
    a_bias_counts_for_the_pairs_of_its_own_set,
)
"""Promises of every attention, those in random batches too."""

OF_WHOLE_SETS = (
    renaming_nodes_renames_the_output,
    one_batch_of_all_nodes_is_the_whole_graph,
    memory_grows_with_n,
)
"""Promises of an attention over whole sets, which draws none of them."""


OF_BATCHES = (one_batch_of_all_nodes_is_the_whole_graph,)
"""Those of an attention that may be inside of random batches: a function of sets, no more."""


def peak_bytes(function: Callable[[], object]) -> int:
    """Return the most memory that torch held at once while a function ran."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is silent unless it is asked
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    results = profile.profiler
    if results is None:
        raise Broken("torch's profiler measures nothing here.")
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def _build(spec: Spec) -> Attention:
    attend = pick(ATTENTIONS, spec, linear, 0)
    return attend.eval() if isinstance(attend, torch.nn.Module) else attend


def _word(spec: Spec) -> str:
    return spec if isinstance(spec, str) else spec["name"]


def _tensors(*shape: int, count: int = 3, dtype: torch.dtype = torch.double) -> list[Tensor]:
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(count)]


def _bound(checks: tuple[Callable[[Spec], None], ...], spec: Spec) -> list[Promise]:
    return [Promise(check.__name__, str(spec), functools.partial(check, spec)) for check in checks]
