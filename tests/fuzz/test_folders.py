"""Mutated folders of weights and of runs, as `zoo predict`, `--resume` and `compare` meet them.

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
import torch
from faults import at
from hypothesis import strategies as st

import zoo
from zoo.errors import ZooError
from zoo.experiments.contestants import contestants
from zoo.experiments.resolve import load_recipe
from zoo.experiments.run import resume_run, run_recipe
from zoo.inference.predict import predict
from zoo.training.checkpoint import (
    read_sealed,
    sealed_json,
    sealed_line,
    unsealed_json,
    unsealed_line,
    write_sealed,
)
from zoo.weights.folder import sha256_of

DATA = {"name": "sbm", "nodes": 40, "classes": 3, "dim": 4}
RECIPE = {
    "dataset": DATA,
    "model": {"name": "mlp", "dim": 6},
    "train": {"epochs": 8, "schedule": "cosine"},
    "seeds": [3, 4],
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
    """Change a file; return whether it is what a disk might do, and not an author."""
    kind = draw.random()
    if kind < 0.5:
        path.write_bytes(draw.choice(RAW)(path.read_bytes(), draw))
        return True
    if kind < 0.6:
        other = draw.choice([each for each in path.parent.iterdir() if each.is_file()])
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
        return True
    if kind < 0.65:
        path.unlink()
        draw.choice((lambda: None, path.mkdir, lambda: os.mkfifo(path), path.touch))()
        return True
    with contextlib.suppress(
        ValueError, IndexError, OSError, struct.error
    ):  # it is damaged already
        WRITTEN.get(path.suffix, lambda path, draw, odd: None)(path, draw, odd)
    return False


def wrong_json(path, draw, odd):
    """Change what JSON says; its checksum is right, or there is none."""
    odd = [each for each in odd if plain(each)]
    try:
        data = within(unsealed_json(path.read_bytes()), draw, odd)
        path.write_text(sealed_json(data) if isinstance(data, dict) else json.dumps(data))
    except ValueError:
        path.write_text(json.dumps(within(json.loads(path.read_bytes()), draw, odd)))


def wrong_line(path, draw, odd):
    lines = path.read_bytes().splitlines(keepends=True)
    place = draw.randrange(len(lines))
    data = within(unsealed_line(lines[place]), draw, [each for each in odd if plain(each)])
    line = sealed_line(data) if isinstance(data, dict) else json.dumps(data) + "\n"
    lines[place] = line.encode()
    path.write_bytes(b"".join(lines))


def wrong_state(path, draw, odd):
    """Change what a checkpoint holds; its checksum is right."""
    content = read_sealed(path, lambda file: torch.load(file, weights_only=True))
    simple = [each for each in odd if type(each) in (int, float, str, list, tuple, type(None))]
    content = within(content, draw, [*simple, torch.ones(3), torch.ones(2, 2).byte(), {}])
    write_sealed(path, lambda file: torch.save(content, file))


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
    ".jsonl": wrong_line,
    ".pt": wrong_state,
    ".safetensors": wrong_weights,
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Folders: a finished run, one that was ended in its second seed; and the scores of both."""
    folder = tmp_path_factory.mktemp("sources")

    def stop():
        raise KeyboardInterrupt

    whole = run_recipe(load_recipe(RECIPE), runs=folder)
    ended = run_recipe(load_recipe(RECIPE), runs=folder, watch=at(4, 5, stop), checkpoint=0.0)
    Path(ended["folder"], "summary.json").unlink()
    return Path(whole["folder"]), Path(ended["folder"]), scores(whole)


def scores(summary):
    return [(row["val"], row["test"]) for row in summary["seeds"]]


@pytest.fixture
def mutated(tmp_path, odd):
    """Copy a folder, damage one of its files, or two, and return the copy and how it was done."""

    def make(source, seed):
        copy, draw = tmp_path / "copy", random.Random(seed)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        raw = [damage(path, draw, odd) for path in draw.sample(files, draw.choice((1, 1, 1, 2)))
               if path.is_file()]  # fmt: skip
        return copy, all(raw)

    return make


def load_and_predict(mutated, sources):
    graph = zoo.load_graph(DATA)

    def call(seed):
        folder, _ = mutated(sources[0] / "seed-3", seed)
        return predict(zoo.load(folder), graph)

    return call


def resume(mutated, sources):
    def call(seed):
        folder, raw = mutated(sources[1], seed)
        threads = torch.get_num_threads()
        found = resume_run(folder, tell=lambda said: None)
        assert torch.get_num_threads() == threads
        if raw and scores(found) != sources[2]:
            raise AssertionError("other scores, and nothing was said")

    return call


def read(mutated, sources):
    def call(seed):
        folder, raw = mutated(sources[0], seed)
        [first, *_] = contestants([str(folder)])
        if raw and (first.summary is None or scores(first.summary) != sources[2]):
            raise AssertionError("other scores, and nothing was said")

    return call


CALLS = {"predict": load_and_predict, "resume": resume, "compare": read}


@pytest.mark.parametrize("what", CALLS)
def test_some_mutated_folders(what, attempts, mutated, sources):
    attempts.draw(8, CALLS[what](mutated, sources), st.integers(0, 2**32))


@pytest.mark.slow
@pytest.mark.parametrize("what", CALLS)
def test_many_mutated_folders(what, attempts, mutated, sources):
    attempts.draw(attempts.many, CALLS[what](mutated, sources), st.integers(0, 2**32))


FAILED = {"predict": [1291], "resume": [26232, 29505]}
"""Seeds of mutations that were once answered with a traceback, other scores, or not at all."""


@pytest.mark.parametrize("what,seed", [(what, each) for what in FAILED for each in FAILED[what]])
def test_what_once_failed(what, seed, mutated, sources):
    try:
        CALLS[what](mutated, sources)(seed)
    except ZooError as error:
        assert "\n" not in str(error) and len(str(error)) < 2_000
