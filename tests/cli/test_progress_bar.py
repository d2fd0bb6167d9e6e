"""Progress is seen everywhere: a bar on a terminal, lines in a pipe, nothing if asked for."""

import io
import re

import pytest

import zoo
from zoo.cli import progress_bar as room
from zoo.training.trainer import Epoch


class Terminal(io.StringIO):
    def isatty(self):
        return True


def epochs(count, of, *, best=None):
    """Epochs of half a second; the best score is that of the epoch `best`, or of the last."""
    found = []
    for epoch in range(count):
        at = epoch if best is None else min(epoch, best)
        found.append(Epoch(epoch, of, 1 / (1 + epoch), 0.5, 0.1 + epoch / 100, 0.01, 0.5,
                           0.1 + at / 100, at, epoch == count - 1))  # fmt: skip
    return found


def shown(monkeypatch, runs, stream=None, **given):
    """What is printed while the epochs of some seeds come along."""
    stream = stream or io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with zoo.progress_bar(**given) as watch:
        for seed, each in runs.items():
            for epoch in each:
                watch(seed, epoch)
    return stream.getvalue()


def test_a_line_tells_epochs_loss_scores_and_time_left(monkeypatch):
    monkeypatch.setattr(room, "EVERY", 0.0)
    lines = shown(monkeypatch, {3: epochs(4, 4), 5: epochs(4, 4)}, seeds=[3, 5], title="mine")
    assert lines.splitlines() == [
        "mine",
        "seed 3  1/4 epochs  loss 1.0000  val 0.1000  best 0.1000 (epoch 1)  00:03 left",
        "seed 3  2/4 epochs  loss 0.5000  val 0.1100  best 0.1100 (epoch 2)  00:03 left",
        "seed 3  3/4 epochs  loss 0.3333  val 0.1200  best 0.1200 (epoch 3)  00:02 left",
        "seed 3  done in 2 s, best 0.1300 (epoch 4)",
        "seed 5  1/4 epochs  loss 1.0000  val 0.1000  best 0.1000 (epoch 1)  00:01 left",
        "seed 5  2/4 epochs  loss 0.5000  val 0.1100  best 0.1100 (epoch 2)  00:01 left",
        "seed 5  3/4 epochs  loss 0.3333  val 0.1200  best 0.1200 (epoch 3)  00:00 left",
        "seed 5  done in 2 s, best 0.1300 (epoch 4)",
    ]
    assert max(map(len, lines.splitlines())) <= 80


def test_a_line_comes_every_ten_seconds(monkeypatch):
    clock = iter(range(0, 1000, 4))  # each look at the clock is four seconds later
    monkeypatch.setattr(room.time, "monotonic", lambda: next(clock))
    lines = shown(monkeypatch, {0: epochs(30, 100)[:-1]}).splitlines()
    assert 5 <= len(lines) <= 10 and all("epochs" in line for line in lines)


def test_early_stopping_and_loaded_weights_are_said(monkeypatch):
    lines = shown(monkeypatch, {0: epochs(9, 40, best=3)}).splitlines()
    assert lines[-1] == "seed 0  stopped after 9 of 40 epochs: no better validation score in 5"
    loaded = [each._replace(best_epoch=-1, val=None) for each in epochs(2, 2)]
    assert "(loaded weights)" in shown(monkeypatch, {0: loaded})


def test_a_terminal_has_a_bar_that_ends_at_the_end(monkeypatch):
    runs = {0: epochs(9, 40, best=3), 1: epochs(40, 40)}
    bar = shown(monkeypatch, runs, Terminal(), seeds=[0, 1], title="mine")
    assert "mine" not in bar and "49/49" in bar.replace("\r", "\n").splitlines()[-1]
    assert "stopped after 9 of 40 epochs" in bar and re.search(r"seed 1 loss \S+ val \S+:", bar)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_quiet_is_silent(monkeypatch, stream):
    assert shown(monkeypatch, {0: epochs(3, 3)}, stream(), title="mine", quiet=True) == ""


def test_nothing_is_drawn_before_the_first_epoch(monkeypatch):
    """What a fine-tuning starts from is printed in between."""
    assert shown(monkeypatch, {}, Terminal()) == ""


def test_run_recipe_is_watched_as_the_page_says(monkeypatch, tmp_path):
    recipe = {"dataset": "karate", "model": "mlp", "train": {"epochs": 30, "patience": 2}}
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with zoo.progress_bar() as watch:
        zoo.run_recipe(recipe, watch=watch, runs=tmp_path)
    assert "seed 0  done in" in stream.getvalue() and "stopped after" in stream.getvalue()


def test_a_full_disk_behind_standard_error_ends_no_training(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(room, "EVERY", 0.0)
    shown(monkeypatch, {0: epochs(3, 3)}, Full(), title="a title")
