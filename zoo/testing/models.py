"""The promises of a model: the contract that training, weights and recipes count on."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from zoo.config.options import options_of
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import MODELS, Model
from zoo.testing import model_checks
from zoo.testing.attentions import attention_promises
from zoo.testing.cases import Case, model_cases
from zoo.testing.encodings import encoding_promises
from zoo.testing.promise import Promise, check_all
from zoo.testing.propagations import propagation_promises

CONTRACT: tuple[Callable[[Case], None], ...] = (
    model_checks.it_can_be_made,
    model_checks.one_row_of_finite_logits_per_node,
    model_checks.evaluating_twice_gives_the_same_and_leaves_the_generator_alone,
    model_checks.the_head_reads_the_features,
    model_checks.nothing_is_left_on_the_graph,
    model_checks.small_and_broken_graphs_give_finite_logits,
    model_checks.a_batch_of_graphs_equals_one_by_one,
    model_checks.renaming_nodes_renames_logits,
    model_checks.bfloat16_stays_finite_and_near,
    model_checks.every_parameter_gets_a_gradient,
    model_checks.every_parameter_is_trained_once,
    model_checks.weights_move_to_other_sizes,
    model_checks.saved_and_loaded_it_answers_the_same,
    model_checks.it_answers_by_the_labels_it_is_given,
    model_checks.it_memorises_the_tiny_graph,
)
"""The promises of a model with one attention, those first that others stand on, then the cheap."""

OF_NODES = (
    model_checks.renaming_nodes_renames_logits,
    model_checks.any_heads_and_any_propagation_will_do,
)
"""Those that a model owes which is for the nodes of a graph, and not for sequences or images."""

OF_CONTEXT = (model_checks.it_answers_by_the_labels_it_is_given,)
"""Those that a model owes which is given labels."""

OF_OPTIONS = {
    "attention": model_checks.another_attention_gives_another_answer,
    "propagation": model_checks.another_propagation_gives_another_answer,
}
"""Those that a model owes which has such an option."""

OF_WEIGHTS = (model_checks.it_memorises_the_tiny_graph,)
"""Those that such a model does not owe: the label of a node is never asked of who knows it."""

HEADS = 1, 2, 5
"""Numbers of heads that every model has to do with; 5 divides no usual width."""


def model_promises(model: str | type[Model], **options: object) -> list[Promise]:
    """Return every promise of a model, with each attention, number of heads and propagation.

    Args:
        model: a name, or a class that is registered.
        options: that the model is made with throughout.

    Raises:
        ZooError: no such model is registered.
    """
    cases = model_cases(model, **options)
    name = cases[0].name
    spared = () if "node-classification" in MODELS[name].tasks else OF_NODES
    spared += OF_WEIGHTS if MODELS[name].context else OF_CONTEXT
    owed = [check for check in CONTRACT if check not in spared]
    promises = [_promise(check, case, str(case)) for check in owed for case in cases]
    known = options_of(MODELS[name])
    of_nodes = not set(OF_NODES) & set(spared)
    for heads, word in [] if not of_nodes else itertools.product(HEADS, PROPAGATIONS):
        more = {"heads": heads, "propagation": word}
        more = {key: value for key, value in more.items() if key in known}
        check = model_checks.any_heads_and_any_propagation_will_do
        promises.append(_promise(check, Case(name, {**more, **options}), f"{heads}-{word}-{name}"))
    alone = [check for key, check in OF_OPTIONS.items() if key in known and key not in options]
    alone += [model_checks.weights_of_edges_count_if_it_says_so] if of_nodes else []
    promises += [_promise(check, Case(name, options), name) for check in alone]
    return [*promises, _promise(model_checks.it_says_what_it_is, cases[0], name)]


def check_model(model: str | type[Model], **options: object) -> None:
    """Check every promise of a model, see `model_promises`.

    Raises:
        zoo.testing.Broken: some are not kept; with a paragraph for each that says what to write.
        ZooError: no such model is registered.
    """
    check_all(model_promises(model, **options))


FIRST = (
    "it_can_be_made",
    "one_row_of_finite_logits_per_node",
    "evaluating_twice_gives_the_same_and_leaves_the_generator_alone",
    "evaluating_twice_gives_the_same",
)
"""Promises without which every other is broken for the same reason."""

LAST = "it_says_what_it_is"


PROMISES: dict[str, Callable[[str], list[Promise]]] = {
    "model": model_promises,
    "attention": attention_promises,
    "propagation": propagation_promises,
    "encoding": encoding_promises,
}
"""What each kind of thing promises."""


def checked(kind: str, word: str) -> Iterator[dict[str, Any]]:
    """Give a row for each promise of a model, or an attention, as soon as it is known.

    Raises:
        ZooError: no such word is registered, or it is nothing by itself.
    """
    by_name: dict[str, list[Promise]] = {}
    for promise in PROMISES[kind](word):
        by_name.setdefault(promise.name, []).append(promise)
    for name, cases in by_name.items():
        start = time.perf_counter()
        said = [(each.of, each.broken()) for each in cases]
        row = row_of(word, name, said, time.perf_counter() - start)
        yield row
        if name in FIRST and len(row["broken"]) == row["cases"]:
            return


def row_of(model: str, promise: str, said: list, seconds: float) -> dict[str, Any]:
    """Return what is known of a promise; `said` has a case each, and None where it is kept."""
    broken = [{"of": of, "said": text} for of, text in said if text is not None]
    return {
        "model": model,
        "promise": promise,
        "cases": len(said),
        "broken": broken,
        "seconds": round(seconds, 1),
    }


def _promise(check: Callable[[Case], None], case: Case, of: str) -> Promise:
    return Promise(check.__name__, of, functools.partial(check, case))
