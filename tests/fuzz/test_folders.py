"""Mutated folders of weights, as `zoo predict` meets them.

`ZOO_FUZZ=5000 pytest -m slow tests/fuzz/test_folders.py -s` tries so many and prints the counts.
"""

import contextlib
import json
import os
import random
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import strategies as st

import zoo
from zoo.errors import ZooError
from zoo.inference.predict import predict
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
from zoo.weights.files import sha256_of

DATA = {"name": "sbm", "nodes": 40, "classes": 3, "dim": 4}
RECIPE = {
    "dataset": DATA,
    "model": {"name": "mlp", "dim": 6},
    "train": {"epochs": 8, "schedule": "cosine"},
    "seeds": [3],
}


def plain(value):
    """Whether JSON can hold a value."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def within(value, draw, odd):
    """Change something in nested data, anywhere: replace, remove, double, or rename it."""
    places = [(value, key) for key in keys(value)]
    while places:
        holder, key = draw.choice(places)
        deeper = [(holder[key], each) for each in keys(holder[key])]
        if deeper and draw.random() < 0.8:
            places = deeper
            continue
        kind = draw.random()
        if kind < 0.6:
            holder[key] = draw.choice(odd)
        elif kind < 0.8:
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw.choice(("", "sha256", "x" * 300, f"{key}s"))] = holder[key]
        else:
            holder.append(holder[key])
        return value
    return draw.choice(odd)


def keys(value):
    return list(range(len(value)) if isinstance(value, list) else value) if deep(value) else []


def deep(value):
    return isinstance(value, list | dict)


def flipped(content, draw):
    found = bytearray(content or b"x")
    for _ in range(draw.randint(1, 20)):
        found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def cut(content, draw):
    return content[: draw.randrange(len(content) + 1)]


def pasted(content, draw):
    start, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    at = draw.randrange(len(content) + 1)
    rest = draw.choice((content[start:end], bytes(end - start), b"\xff" * 9, b"[" * 10**5, b"\n"))
    return content[:at] + rest + content[draw.choice((at, min(len(content), at + len(rest)))) :]


RAW = (flipped, flipped, cut, pasted)
"""What disks and copies do to bytes."""


def damage(path, draw, odd):
    """Change a file as a disk might do it, or an author."""
    kind = draw.random()
    if kind < 0.5:
        path.write_bytes(draw.choice(RAW)(path.read_bytes(), draw))
    elif kind < 0.6:
        other = draw.choice([each for each in path.parent.iterdir() if each.is_file()])
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
    elif kind < 0.65:
        path.unlink()
        draw.choice((lambda: None, path.mkdir, lambda: os.mkfifo(path), path.touch))()
    else:
        with contextlib.suppress(ValueError, IndexError, OSError, struct.error):  # damaged already
            WRITTEN.get(path.suffix, lambda path, draw, odd: None)(path, draw, odd)


def wrong_json(path, draw, odd):
    odd = [each for each in odd if plain(each)]
    path.write_text(json.dumps(within(json.loads(path.read_bytes()), draw, odd)))


def wrong_weights(path, draw, odd):
    """Change the header of safetensors; the checksum is right."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    header = within(header, draw, [each for each in odd if plain(each)])
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])
    config = path.with_name("config.json")
    data = json.loads(config.read_bytes())
    config.write_text(json.dumps({**data, "sha256": sha256_of(path)}))


WRITTEN = {
    ".json": wrong_json,
    ".safetensors": wrong_weights,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The folder of the weights of a seed."""
    done = run_recipe(load_recipe(RECIPE), runs=tmp_path_factory.mktemp("source"))
    return Path(done["folder"], "seed-3")


@pytest.fixture
def call(source, tmp_path, odd):
    """Copy the folder, damage one of its files, or two, and have the weights answer."""
    graph = zoo.load_graph(DATA)

    def predicted(seed):
        copy, draw = tmp_path / "copy", random.Random(seed)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        for path in draw.sample(files, draw.choice((1, 1, 1, 2))):
            if path.is_file():
                damage(path, draw, odd)
        return predict(zoo.load(copy), graph)

    return predicted


def test_some_mutated_folders(attempts, call):
    attempts.draw(8, call, st.integers(0, 2**32))


@pytest.mark.slow
def test_many_mutated_folders(attempts, call):
    attempts.draw(attempts.many, call, st.integers(0, 2**32))


FAILED = [1291]
"""Seeds of mutations that were once answered with a traceback."""


@pytest.mark.parametrize("seed", FAILED)
def test_what_once_failed(seed, call):
    try:
        call(seed)
    except ZooError as error:
        assert "\n" not in str(error) and len(str(error)) < 2_000
