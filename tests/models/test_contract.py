"""The contract, held against every model of the registry with its own attention and with others."""

import re

import numpy as np
import pytest
import torch
from preloaded import run_preloaded

import zoo
from zoo.config.options import options_of
from zoo.config.recipe import word
from zoo.data import GraphArrays
from zoo.dgl import dgl
from zoo.nn.attention import ATTENTIONS
from zoo.registry import MODELS
from zoo.testing.cases import RBA, answer, attention_specs
from zoo.weights.create import list_models
from zoo.weights.save_and_load import save

CASES = [
    case
    for name in list_models(task="node-classification")
    for case in zoo.testing.model_cases(name)
]
PROMISES = [
    each
    for name in list_models(task="node-classification")
    for each in zoo.testing.model_promises(name)
]


ENDINGS = tuple(f"-{spec}" for spec in attention_specs() if spec not in ("native", RBA))
OTHERS = [each for each in PROMISES if str(each.of).endswith(ENDINGS)]

SHAPES = [
    each
    for each in PROMISES
    if each.name == "any_heads_and_any_propagation_will_do" and each not in OTHERS
]

SLOW_LEARNERS = (
    "'inner'|clusters|codebook|performer|linear|softmax|(nodeformer|difformer).*rba|gcnii"
)

LONG = [
    *(each for number, each in enumerate(OTHERS) if number % 5),
    *(each for number, each in enumerate(SHAPES) if number % 3),
    *(
        each
        for each in PROMISES
        if each.name == "it_memorises_the_tiny_graph" and re.search(SLOW_LEARNERS, str(each.of))
    ),
]
"""Of other attentions than a model's own and random batches every fifth promise is kept in turn,
of heads and propagations every third. Attention inside of random batches learns as those batches
and that attention alone do, that inside of clusters as that in random batches, that to a codebook
as softmax, and Performer's as the softmax that it estimates, softmax and linear attention in the
models whose own they are; the slowest models learn with their own."""


@zoo.testing.promises([each for each in PROMISES if each not in LONG])
def test_model(promise):
    promise()


@pytest.mark.slow
@zoo.testing.promises(LONG)
def test_model_at_length(promise):
    promise()


def test_every_attention_is_tried_alone_and_in_random_batches():
    words = {word(each) for each in attention_specs()}
    batches = [each for each in attention_specs() if word(each) == "rba"]
    inside = {each.get("inner", "native") for each in batches}
    assert words == set(ATTENTIONS)
    assert inside == {each for each in ATTENTIONS if each not in ("rba", "clusters", "codebook")}
    tried = {(case.name, str(case.options.get("attention"))) for case in CASES}
    for name in list_models(task="node-classification"):
        own = attention_specs(MODELS[name].pair_bias)
        takes = own if "attention" in options_of(MODELS[name]) else [None]
        assert {(name, str(each)) for each in takes} <= tried


def test_every_model_has_every_promise():
    ids = [each.id for each in PROMISES]
    assert len(set(ids)) == len(ids)
    names = {each.name for each in PROMISES}
    of_context = {"it_answers_by_the_labels_it_is_given"}
    for name in list_models(task="node-classification"):
        spared = {"it_memorises_the_tiny_graph"} if MODELS[name].context else of_context
        missing = {"attention", "propagation"} - {*options_of(MODELS[name])}
        spared = spared | {f"another_{option}_gives_another_answer" for option in missing}
        own = [each for each in PROMISES if each.of.endswith(name) or name in each.of.split("-")]
        assert {each.name for each in own} == names - spared


def test_a_graph_of_no_node_has_no_answer():
    for name in list_models(task="node-classification"):
        small = {"dim": 8} if "dim" in options_of(MODELS[name]) else {}
        model = zoo.create_model(name, in_dim=5, out_dim=3, **small).eval()
        assert answer(model, dgl.graph(([], [])), torch.zeros(0, 5)).logits.shape == (0, 3), name


def test_all_of_them_predict_the_same_in_a_new_process(tiny, tmp_path):
    graph, x, y = tiny
    edges = torch.stack(graph.edges(), 1).numpy()
    zoo.data.write_prepared(GraphArrays(edges, y.numpy(), x.numpy()), tmp_path / "graph.npz")
    data = zoo.load_graph(tmp_path / "graph.npz")
    found = {}
    for number, case in enumerate(CASES):
        model = case.build()
        save(model, tmp_path / str(number))
        found[str(number)] = zoo.predict(model, data).values.numpy()
    np.savez(tmp_path / "found.npz", **found)
    code = """
import sys, numpy, zoo
data = zoo.load_graph("graph.npz")
found = numpy.load("found.npz")
wrong = [n for n in found if (zoo.predict(zoo.load(n), data).values.numpy() != found[n]).any()]
sys.exit(f"different: {wrong}" if wrong else 0)
"""
    done = run_preloaded(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(found) > 40 and all((abs(each.sum(1) - 1) < 1e-5).all() for each in found.values())
