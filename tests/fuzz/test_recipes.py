"""Mutated recipes, and every option with odd values: an answer or one paragraph, never a traceback.

`ZOO_FUZZ=20000 pytest -m slow tests/fuzz/test_recipes.py -s` tries so many and prints the counts.
"""

import copy
import itertools

import pytest
import torch
from hypothesis import strategies as st

from zoo import run_recipe
from zoo.config.options import options_of
from zoo.config.recipe import read_recipe
from zoo.config.shipped import recipe_file, recipe_names
from zoo.data.graph_words import GRAPHS
from zoo.data.load import DATASETS
from zoo.data.splits import SPLITS
from zoo.encodings import ENCODINGS
from zoo.nn import ATTENTIONS, NORMS, PROPAGATIONS
from zoo.registry import MODELS, discover
from zoo.runs.resolve import load_recipe, resolve
from zoo.training.batches import BATCHING
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES
from zoo.training.trainer import fit
from zoo.weights.create import create_model

discover()
TEXTS = [recipe_file(name).read_text() for name in recipe_names()]
PLAIN = [read_recipe(name).plain() for name in recipe_names()]
SNIPPETS = [
    *("&a", "*a", "!!python/object:os.system", "!x", "<<: *a", "? ", "- ", ": ", "{", "}", "["),
    *("---", "...", "#", "'", '"', "\\", "|", ">", "%YAML 9.9", "\t", "\r", "\x85", "\u2028", "\0"),
    *("\ufeff", "\ud800", "1" * 400, "9" * 5000, "1e999", ".nan", ".inf", "~", "null", "]"),
    *("[" * 2000, "{a: " * 200, "a: " * 50, "- " * 500, "x" * 5000, "2024-05-01", "1_000", "yes"),
    *("name: gcn", "imports: [0]", "seeds: [0, 0]", "model: {name: rba}", "0x" + "f" * 99),
]


def of_text():
    """Shipped recipes with some of their text replaced, as bytes."""
    place = st.integers(0, 9999).map(lambda each: each / 10_000)
    new = st.sampled_from(SNIPPETS) | st.text(max_size=8) | st.just("")
    edits = st.lists(st.tuples(place, st.integers(0, 40), new), min_size=1, max_size=4)
    return st.tuples(st.sampled_from(TEXTS), edits, st.binary(max_size=2)).map(edited)


def edited(case):
    text, edits, raw = case
    for place, length, new in edits:
        at = int(place * len(text))
        text = text[:at] + new + text[at + length :]
    return text.encode("utf-8", "surrogatepass") + raw


def one_of(values):
    """One of some values, of which Hypothesis would write all."""
    return st.integers(0, len(values) - 1).map(lambda at: values[at])


def of_structure(odd):
    """Shipped recipes as data, with some values replaced, removed, renamed or moved."""
    ways = st.sampled_from(["replace", "replace", "replace", "remove", "rename", "wrap", "swap"])
    number = st.integers(0, 10_000)
    value = one_of(odd) | st.integers() | st.floats() | st.text(max_size=10)
    edits = st.lists(st.tuples(ways, number, value), min_size=1, max_size=3)
    return st.tuples(st.sampled_from(PLAIN), edits).map(changed)


def changed(case):
    data, edits = case
    data = copy.deepcopy(data)
    for way, number, new in edits:
        value = copy.deepcopy(new)
        places = list(inside(data))
        if not places:
            break
        holder, key = places[number % len(places)]
        if way == "remove":
            del holder[key]
        elif way == "rename" and isinstance(holder, dict):
            holder[value if isinstance(value, str) else f"{key}x"] = holder.pop(key)
        elif way == "wrap":
            holder[key] = [holder[key]] if number % 2 else {"name": holder[key], "size": value}
        elif way == "swap":
            other, where = places[number // 7 % len(places)]
            holder[key] = copy.deepcopy(other[where])
        else:
            holder[key] = value
    return data


def inside(data):
    """Every place of a value in nested data: what holds it, and its key."""
    keys = list(data) if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list):
            yield from inside(data[key])


def resolved(source, *overrides):
    """Read and resolve a recipe; build its model if it is one."""
    plan = resolve(load_recipe(source, overrides))
    options = {key: value for key, value in plan.model.items() if key != "name"}
    sizes = [each for each in flat(options) if type(each) is int]
    if max(sizes, default=0) <= 512:
        with torch.random.fork_rng(devices=[]):
            create_model(plan.model["name"], 7, 3, **options)
    return plan


def flat(data):
    for holder, key in inside(data):
        if not isinstance(holder[key], dict | list):
            yield holder[key]


@pytest.fixture
def read(tmp_path):
    """Read the bytes of a recipe file."""

    def call(raw):
        (tmp_path / "r.yaml").write_bytes(raw)
        return resolved(tmp_path / "r.yaml")

    return call


def overridden(odd):
    """A shipped recipe and overrides of it."""
    keys = st.sampled_from(
        ["model.dim", "model", "train.lr", "train", "seeds", "dataset", "encoding.k", "imports"]
    ) | st.text(max_size=6)
    values = st.sampled_from([*SNIPPETS, "0", "{name: rba}", "[1, 2]"]) | st.text(max_size=6)
    return st.tuples(
        st.sampled_from(recipe_names()),
        st.lists(st.builds("{}={}".format, keys, values), max_size=3),
    )


def campaign(attempts, odd, read, many):
    attempts.draw(many * 9 // 20, read, of_text())
    attempts.draw(many * 9 // 20, resolved, of_structure(odd))
    attempts.draw(many // 10, lambda case: resolved(case[0], *case[1]), overridden(odd))


def test_mutated_recipes_are_answered_or_refused(attempts, odd, read):
    campaign(attempts, odd, read, 60)


@pytest.mark.slow
def test_many_mutated_recipes_are_answered_or_refused(attempts, odd, read):
    campaign(attempts, odd, read, attempts.many)


KARATE = {"dataset": "karate", "model": "mlp", "train": {"epochs": 1}, "expect": None}
SPARE = {"model", "layers"}


def walked():
    """Recipes without one value, and the keys where it goes: every option of every table."""
    for keys, (table, host) in HOSTS.items():
        for word, builder in table.items():
            spec = {"name": word, **NEEDED.get(word, {})}
            recipe = {**KARATE, keys[0]: {**host, keys[1]: spec} if host else spec}
            own = [] if host else OWN.get(keys[0], [])
            for each in (*options_of(builder), *own):
                yield recipe, (*keys, each)
    for each in options_of(fit):
        yield KARATE, ("train", each)
    for each in ("dataset", "graph", "encoding", "model", "train", "seeds", "start_from", "expect"):
        yield KARATE, (each,)
    yield KARATE, ("imports",)
    yield KARATE, ("search",)
    yield {**KARATE, "search": {"train.lr": [0.1, 0.2]}}, ("search", "train.lr")
    for each in ("weights", "freeze", "lr_decay"):
        yield {**KARATE, "start_from": {"weights": "gcn-digits"}}, ("start_from", each)


GENERATED = {word: DATASETS[word] for word in ("karate", "digits", "sbm")}
HOSTS = {
    ("model",): (MODELS, {}),
    ("encoding",): (ENCODINGS, {}),
    ("graph",): (GRAPHS, {}),
    ("dataset",): (GENERATED, {}),
    ("model", "attention"): (ATTENTIONS, {"name": "transformer", "layers": 1}),
    ("model", "propagation"): (PROPAGATIONS, {"name": "sgformer"}),
    ("model", "norm"): (NORMS, {"name": "gcn"}),
    ("dataset", "split"): (SPLITS, {"name": "karate"}),
    ("train", "batching"): (BATCHING, {"epochs": 1}),
    ("train", "optimizer"): (OPTIMIZERS, {"epochs": 1}),
    ("train", "schedule"): (SCHEDULES, {"epochs": 1}),
}
"""Where a recipe picks from a table, and what else it has to say there."""

OWN = {"encoding": ["flip_signs"], "dataset": ["split"]}
NEEDED = {
    "file": {"path": "edges.csv"},
    "random-nodes": {"size": 8},
    "clusters": {"parts": 2},
    "neighbours": {"fanouts": [2], "size": 8},
}


def put(recipe, keys, value):
    recipe = copy.deepcopy(recipe)
    holder = recipe
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    return {key: each for key, each in recipe.items() if each is not None}


@pytest.fixture
def walk(tmp_path, odd):
    """Read a recipe with one odd value and, if it is one, train it for an epoch."""

    def call(recipe, keys, value):
        recipe = put(recipe, keys, value)
        plan = resolve(load_recipe(recipe))
        layers = [each for key, each in plan.model.items() if key.endswith("layers")]
        if (
            plan.train["epochs"] <= 3
            and len(plan.recipe.seeds) <= 3
            and max(layers, default=0) <= 100
        ):
            run_recipe(plan, runs=tmp_path / "runs", device="cpu")

    return call


def test_odd_options_are_answered_or_refused(attempts, odd, walk):
    cases = list(itertools.product(walked(), odd))
    attempts.draw(60, lambda case: walk(*case[0], case[1]), one_of(cases))


@pytest.mark.slow
def test_every_option_with_every_odd_value(attempts, odd, walk):
    for (recipe, keys), value in itertools.product(walked(), odd):
        attempts(walk, recipe, keys, value, shown=(keys, recipe.get(keys[0]), value))


def test_the_walk_goes_through_every_option_of_the_models():
    cases = [(recipe["model"]["name"], keys[1]) for recipe, keys in walked()
             if keys[0] == "model" and len(keys) == 2]  # fmt: skip
    for word, model in MODELS.items():
        assert {each for name, each in cases if name == word} == set(options_of(model))
